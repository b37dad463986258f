"""The whole of one long log line, wrapped, in a window above the log."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from footplate.logs.pieces import Pieces
from footplate.logs.sanitise import clean
from footplate.screens.choose import foot
from footplate.widgets.log_panel import LogPanel
from footplate.widgets.log_state import SourceState

_ROWS = 50


class LineDialog(ModalScreen[None]):
    """A text of any length to read, search and copy; every character of it is data."""

    AUTO_FOCUS = "LogView"
    DEFAULT_CSS = """
    LineDialog { align: center middle; background: $background 60%; }
    LineDialog > Vertical { width: 90%; height: 90%; background: $surface; padding: 1 2; }
    LineDialog .title { text-style: bold; height: 1; }
    LineDialog .foot { height: 1; color: $text-muted; margin: 1 0 0 0; }
    LineDialog LogPanel { margin: 1 0 0 0; }
    LineDialog LogPanel > LogView { padding: 0; }
    LineDialog LogPanel > #log-state { padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "Close")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """Title, the text, how to leave."""
        with Vertical():
            yield Static(Content(clean(f"{self._title}: {len(self._text):,} characters")), classes="title")
            yield LogPanel()
            yield Static(
                foot((("/", "search"), ("y", "copy what is on screen"), ("Y", "all"), ("esc", "back"))),
                classes="foot",
                markup=False,
            )

    def on_mount(self) -> None:
        """Cut it so that the rows are full: pieces end where rows do, in letters that are one cell wide."""
        panel = self.query_one(LogPanel)
        self.call_after_refresh(self._show, panel)

    def _show(self, panel: LogPanel) -> None:
        room = panel.view.scrollable_content_region.width
        panel.view.wrap = True
        panel.state = SourceState(active=False)
        panel.show(Pieces(self._text, max(1, room * _ROWS)))
        panel.view.action_top()

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)
