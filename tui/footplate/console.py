"""Open the console on a terminal, and end it in a sentence when it cannot be."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from footplate.workspace.errors import WorkspaceError

if TYPE_CHECKING:
    from footplate.cli.frame import Frame


def open_console(frame: Frame | None = None, view: str | None = None) -> int:
    """Run the console until it is left. Returns the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") in ("", "dumb"):
        print(
            "footplate: the console needs a terminal on its input and output.\n"
            "footplate demo runs the whole line without one; footplate --help lists the commands.",
            file=sys.stderr,
        )
        return 2
    from footplate.app import FootplateApp

    try:
        app = FootplateApp(
            workspace=frame.workspace if frame else None, read_only=frame.read_only if frame else False, view=view
        )
    except WorkspaceError as error:
        print(f"footplate: {error}", file=sys.stderr)
        return error.exit_code
    app.run()
    return app.return_code or 0
