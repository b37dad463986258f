"""The end of a deployment's log: the scoring server's, and that of the container which fetched the model before."""

from __future__ import annotations

from time import monotonic
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from footplate.faults import unforeseen
from footplate.logs.pieces import Pieces
from footplate.logs.sanitise import DISPLAY_LIMIT, clean
from footplate.screens.choose import foot
from footplate.widgets.log_panel import LogPanel
from footplate.widgets.log_state import SourceState
from footplate.workspace import Workspace, WorkspaceError

CONTAINERS = ("inference-server", "storage-initializer")
"""The scoring server's own log, and that of what fetched the model."""
_TAIL = 400


class ServerLog(ModalScreen[None]):
    """The last lines of one container's log, below the whole fault of a deployment that failed.

    tab shows the other container's, r asks again.
    """

    AUTO_FOCUS = "LogView"
    DEFAULT_CSS = """
    ServerLog { align: center middle; background: $background 60%; }
    ServerLog > Vertical { width: 90%; height: 90%; background: $surface; padding: 1 2; }
    ServerLog .title { text-style: bold; height: 1; }
    ServerLog #error { height: auto; max-height: 40%; margin: 1 0 0 0; color: $text-error; overflow-y: auto; }
    ServerLog LogPanel { margin: 1 0; }
    ServerLog LogPanel > LogView, ServerLog LogPanel > #log-state { padding: 0; }
    ServerLog .foot { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,shift+tab", "other", "The other container", priority=True),
        Binding("r", "again", "Ask again"),
        Binding("escape,q", "leave", "Close"),
    ]

    def __init__(self, workspace: Workspace, endpoint: str, deployment: str, error: str = "") -> None:
        super().__init__()
        self._workspace, self._endpoint, self._deployment = workspace, endpoint, deployment
        self._error = error.strip()
        self._container = CONTAINERS[0]

    def compose(self) -> ComposeResult:
        """Which log, why the deployment failed, the log, how to leave."""
        with Vertical():
            yield Static("", classes="title", markup=False)
            if self._error:
                yield Static(Content("\n".join(clean(line) for line in self._error.splitlines())), id="error")
            yield LogPanel()
            keys = (("tab", "the other container"), ("r", "again"), ("/", "search"), ("y", "copy"), ("esc", "back"))
            yield Static(foot(keys), classes="foot", markup=False)

    def on_mount(self) -> None:
        """Ask for the log."""
        self.action_again()

    @work(exclusive=True, group="log")
    async def action_again(self) -> None:
        """Ask for the log's end."""
        what = "server" if self._container == CONTAINERS[0] else "fetching the model"
        title = f"{self._endpoint} / {self._deployment}: end of the log, {what} ({self._container})"
        self.query_one(".title", Static).update(Content(clean(title)))
        panel = self.query_one(LogPanel)
        panel.state = SourceState(note="Loading …")
        try:
            text = await self._workspace.deployment_log(self._endpoint, self._deployment, _TAIL, self._container)
        except WorkspaceError as error:
            panel.state = SourceState(fault=str(error), active=False)
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            panel.state = SourceState(fault=unforeseen(error), active=False)
        else:
            panel.show(Pieces(text.removesuffix("\n"), DISPLAY_LIMIT // 4))
            panel.state = SourceState(checked=monotonic(), active=False, note="No output yet.")

    def action_other(self) -> None:
        """Show the other container's log."""
        self._container = CONTAINERS[1 - CONTAINERS.index(self._container)]
        self.query_one(LogPanel).close()
        self.action_again()

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)
