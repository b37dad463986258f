"""Open the console on a terminal, and end it in a sentence when it cannot be."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from footplate.base_app import BaseApp
    from footplate.cli.frame import Frame
    from footplate.workspace.errors import WorkspaceError


def open_console(frame: Frame | None = None, view: str | None = None) -> int:
    """Run the console until it is left. Returns the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") in ("", "dumb"):
        print(
            "footplate: the console needs a terminal on its input and output.\n"
            "footplate demo runs the whole line without one; footplate --help lists the commands.",
            file=sys.stderr,
        )
        return 2
    # What is imported from here on lives as long as the console: looking through it for garbage again and again while it
    # is being loaded costs a tenth of the time to the first frame.
    gc.disable()
    from footplate import last_workspace
    from footplate.app import FootplateApp
    from footplate.faults import unforeseen
    from footplate.logs.sanitise import clean
    from footplate.workspace.errors import Unnamed, WorkspaceError

    gc.freeze()
    gc.enable()
    name, read_only = (frame.workspace, frame.read_only) if frame else (None, False)
    last, notice = None, ""
    while True:
        try:
            if name is None and not notice and (last := last_workspace.remembered()):
                name, notice = last, f"This is workspace {last}, as last time; --workspace opens another."
            app = FootplateApp(workspace=name, read_only=read_only, view=view, notice=notice)
        except Unnamed as error:
            from footplate.screens.connect import ConnectApp

            choosing = ConnectApp(error.workspace)
            if (name := choosing.run()) is not None:
                continue
            return _ended(choosing) or _told(error)
        except WorkspaceError as error:
            if name is None or name != last:
                return _told(error)
            name, last, notice = None, None, f"Workspace {last}, of last time, cannot be opened: {error}"
            continue
        except Exception as error:  # noqa: BLE001  nothing is drawn yet: a sentence, the traceback in the log
            print(clean(f"footplate: {unforeseen(error)}"), file=sys.stderr)
            return 1
        threading.Thread(target=last_workspace.remember, args=(app.workspace_name,), daemon=True).start()
        app.run()
        if app.next_workspace is None:
            return _ended(app)
        name, view, notice = app.next_workspace, None, ""


def _told(error: WorkspaceError) -> int:
    from footplate.logs.sanitise import clean

    print(clean(f"footplate: {error}"), file=sys.stderr)
    return error.exit_code


def _ended(app: BaseApp[Any]) -> int:
    """The exit code of a program that was left; a fault that ended it is told."""
    if app.unforeseen is not None:
        fault, file = app.unforeseen
        print(
            f"footplate: the console met a fault it did not foresee and ended: {fault!r}.\n"
            f"Jobs and endpoints go on. The traceback is in {file}.",
            file=sys.stderr,
        )
    return app.return_code or 0
