"""The end of a deployment's log: the scoring server's, and that of the container which fetched the model before."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from footplate.faults import unforeseen
from footplate.logs.sanitise import clean
from footplate.screens.choose import foot
from footplate.screens.dialogs import TextDialog
from footplate.workspace import Workspace, WorkspaceError

CONTAINERS = ("inference-server", "storage-initializer")
"""The scoring server's own log, and that of what fetched the model."""
_TAIL = 400


class ServerLog(TextDialog):
    """The last lines of one container's log, below the whole fault of a deployment that failed.

    tab shows the other container's, r asks again.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,shift+tab", "other", "The other container", priority=True),
        Binding("r", "again", "Ask again"),
    ]

    def __init__(self, workspace: Workspace, endpoint: str, deployment: str, error: str = "") -> None:
        super().__init__("", "Loading …")
        self._workspace, self._endpoint, self._deployment = workspace, endpoint, deployment
        self._error = error.strip()
        self._container = CONTAINERS[0]

    def on_mount(self) -> None:
        """Ask for the log."""
        keys = (("tab", "the other container"), ("r", "again"), ("j k", "scroll"), ("esc", "back"))
        self.query_one(".foot", Static).update(foot(keys))
        self.action_again()

    @work(exclusive=True, group="log")
    async def action_again(self) -> None:
        """Ask for the log's end."""
        what = "server" if self._container == CONTAINERS[0] else "fetching the model"
        title = f"{self._endpoint} / {self._deployment}: end of the log, {what} ({self._container})"
        self.query_one(".title", Static).update(Content(clean(title)))
        style = ""
        try:
            text = await self._workspace.deployment_log(self._endpoint, self._deployment, _TAIL, self._container)
        except WorkspaceError as error:
            text, style = str(error), "$text-error"
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            text, style = unforeseen(error), "$text-error"
        shown = Content.styled(_lines(text) or "No output yet.", style)
        if self._error:
            shown = Content.styled(f"{_lines(self._error)}\n\n", "$text-error") + shown
        self.query_one("#text", Static).update(shown)
        self.call_after_refresh(self.query_one(VerticalScroll).scroll_end, animate=False)

    def action_other(self) -> None:
        """Show the other container's log."""
        self._container = CONTAINERS[1 - CONTAINERS.index(self._container)]
        self.action_again()


def _lines(text: str) -> str:
    return "\n".join(clean(line) for line in text.splitlines())
