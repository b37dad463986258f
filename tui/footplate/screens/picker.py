"""The path picker: one list of a folder, narrowed as one types; a path can be typed or pasted whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.operations import folders
from footplate.screens.choose import foot
from footplate.widgets.path_list import HERE, UP, PathList, Pick, rows_of
from footplate.widgets.virtual_table import Row, VirtualTable
from footplate.workspace import WorkspaceError


class PathLine(Input):
    """The line one types in; a step back from its beginning leaves the folder."""

    class Left(Message):
        """Backspace was pressed where there was nothing to delete."""

    def on_paste(self, event: events.Paste) -> None:
        """Take a path as terminals give one that was dropped on them: quoted for a shell. The field itself then inserts it."""
        event.text = folders.unquoted(event.text)

    def action_delete_left(self) -> None:
        """Delete a character, or leave the folder where there is none."""
        if self.value:
            super().action_delete_left()
        else:
            self.post_message(self.Left())


class PathPicker(ModalScreen[Path | None]):
    """Pick a path of this machine; gives it absolute, as it was reached (links are kept), or None when it was left.

    `start` is where it opens: a folder, or a file on which the cursor starts; what is not there is replaced by the nearest
    folder above it. Without one it opens where the last pick was made. `pick` is what may be picked: `file`, `folder` (its
    first row is the folder itself, f5 picks the one under the cursor) or `any`. `suffixes` are the endings of the files that
    are shown (lower case, with the dot); none shows every file. ^t shows hidden files and other kinds as well.

        chosen = await self.app.push_screen_wait(PathPicker(job_file.base, "Code folder", pick="folder"))
    """

    DEFAULT_CSS = """
    PathPicker { align: center middle; background: $background 60%; }
    PathPicker > Vertical { width: 96%; max-width: 120; height: 92%; background: $surface; padding: 0 2; }
    PathPicker .title { text-style: bold; height: 1; margin: 1 0 0 0; }
    PathPicker Horizontal { height: 1; margin: 1 0; background: $panel; }
    PathPicker.low .title { margin: 0; }
    PathPicker.low Horizontal { margin: 0; }
    PathPicker #folder { width: auto; height: 1; padding: 0 0 0 1; color: $text-accent; }
    PathPicker PathLine { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    PathPicker PathList { padding: 0; }
    PathPicker #said { height: auto; max-height: 2; color: $text-muted; }
    PathPicker .foot { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("tab", "complete", "Complete the name", show=False, priority=True),
        Binding("f5", "pick_folder", "Pick the folder under the cursor", show=False),
        Binding("ctrl+t", "everything", "Hidden files and other kinds", show=False),
        Binding("escape", "leave", "Clear the line, then leave", show=False),
    ]

    last_folder: ClassVar[Path | None] = None
    """Where the last pick was made, in any picker of this console."""

    def __init__(
        self,
        start: Path | None = None,
        title: str = "Pick a file",
        *,
        pick: Pick = "file",
        suffixes: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self._title = title
        self._pick: Pick = pick
        self._start = start or PathPicker.last_folder
        self._list = PathList(pick, suffixes)
        self._line = PathLine(placeholder="  type to narrow the list, or a path", compact=True)
        self._where = Static("", id="folder", markup=False)
        self._said = Static("", id="said", markup=False)
        self._reading: object | None = None
        self._enter_after = False  # enter came while a folder was being read: it means what that folder shows

    def compose(self) -> ComposeResult:
        """Title, the folder and the line, the list, what is to be said, the keys."""
        keys = [("enter", "open/pick"), ("tab", "complete"), ("⌫", "up"), ("^t", "all"), ("esc", "back")]
        if self._pick != "file":
            keys.insert(3, ("f5", "pick folder"))
        with Vertical():
            yield Static(Content(clean(self._title)), classes="title")
            with Horizontal():
                yield self._where
                yield self._line
            yield self._list
            yield self._said
            yield Static(foot(keys), classes="foot", markup=False)

    def on_mount(self) -> None:
        """Read the first folder."""
        self._line.cursor_blink = False
        self._line.focus()
        self._open_start()

    @property
    def folder(self) -> Path | None:
        """The folder that is shown."""
        return self._list.listing.folder if self._list.listing else None

    # Folders

    @work(exclusive=True, group="read")
    async def _open_start(self) -> None:
        folder = await asyncio.to_thread(folders.nearest_folder, self._start)
        on = self._start.name if self._start is not None and self._start.parent == folder else None
        await self._read(folder, "", on)
        if self.folder is None:  # it may not be read: there is a way up all the same
            self._show(folders.Listing(folder, ()), [], "", None, keep_said=True)

    @work(exclusive=True, group="read")
    async def go(self, folder: Path, typed: str = "", cursor_on: str | None = None) -> None:
        """Show another folder; `typed` is the beginning of the line that named it, which goes."""
        await self._read(folder, typed, cursor_on)

    async def _read(self, folder: Path, typed: str, cursor_on: str | None) -> None:
        reading = self._reading = object()
        self._say(f"Reading {words.path(folder)} …")
        try:
            listing, rows = await asyncio.to_thread(_listed, folder, self._pick)
        except WorkspaceError as error:
            self._enter_after = False
            if typed:  # what the line names is not there, so nothing under the cursor is meant by it
                self._list.narrow(self._line.value)
            self._say(str(error), "$text-error")
        else:
            self._show(listing, rows, typed, cursor_on)
        finally:
            if self._reading is reading:
                self._reading = None
        if self._enter_after:
            self._enter_after = False
            self.action_enter()

    def _show(
        self, listing: folders.Listing, rows: list[Row], typed: str, cursor_on: str | None, keep_said: bool = False
    ) -> None:
        line = self._line
        with line.prevent(Input.Changed):
            line.value = line.value.removeprefix(typed) if typed else ""
            line.cursor_position = len(line.value)
        self._list.open(listing, rows, line.value, cursor_on)
        self._show_folder()
        if not keep_said:
            self._say_count()

    def _show_folder(self) -> None:
        if self.folder is None:
            return
        text = clean(words.path(self.folder).rstrip("/")) + "/"
        room = max(12, self.size.width * 6 // 10)
        cut = text
        while cell_len(cut) > room:
            cut = cut[1:]
        self._where.update(Content(text if cut == text else f"…{cut[1:]}"))

    def on_resize(self) -> None:
        """A long path is cut at its beginning; in a low window nothing stands apart."""
        self.set_class(self.size.height < 30, "low")
        self._show_folder()

    def _say_count(self) -> None:
        total, kept = len(self._list.listing.entries) if self._list.listing else 0, len(self._list.kept)
        hidden = f", {total - kept:,} not shown" if total != kept else ""
        self._say(f"{kept:,} of {total:,}{hidden}" if hidden else f"{total:,} entr{'y' if total == 1 else 'ies'}")

    def _say(self, text: str, style: str = "$text-muted") -> None:
        self._said.update(Content.styled(clean(text), style))

    # The line

    @on(Input.Changed)
    def _typed(self) -> None:
        typed = (
            self._line.value
        )  # as it is now: what stood there when it changed may be a folder that was entered since
        head, slash, _ = typed.rpartition("/")
        if slash and self.folder is not None:
            self.go(folders.target(self.folder, f"{head}/"), f"{head}/")
            return
        self._list.narrow(typed)
        self._say_count()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_enter()

    @on(VirtualTable.Selected)
    def _double_click(self) -> None:
        self.action_enter()

    @on(PathLine.Left)
    def _up(self) -> None:
        if self.folder is not None:
            self.go(self.folder.parent, cursor_on=self.folder.name)

    def action_complete(self) -> None:
        """Make the typed name longer, as a shell does; a folder that is meant alone is opened."""
        line = self._line
        if not (line.value or self._list.kept):
            return
        longer = "~/" if line.value == "~" else folders.complete(self._list.kept, line.value)
        if longer != line.value:
            line.value = longer
            line.cursor_position = len(longer)
        elif len(self._list.kept) > 1:
            self._say(f"{len(self._list.kept):,} names fit; type on, or move with ↑ ↓.")

    # What is under the cursor

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        self._list.action_move(step)

    def action_page(self, step: int) -> None:
        """Move the cursor by a page."""
        self._list.action_page(step)

    def action_everything(self) -> None:
        """Show hidden files and those of other kinds too, or no longer."""
        self._list.everything = not self._list.everything
        on = self._list.cursor_key
        self._list.narrow(self._line.value)
        if on is not None:
            self._list.move_to(on)
        self._say_count()

    def action_enter(self) -> None:
        """Open the folder under the cursor, or pick the file."""
        if self._reading is not None:
            self._enter_after = True
            return
        key, folder = self._list.cursor_key, self.folder
        if key is None or folder is None:
            return
        entry = self._list.entry
        if key == HERE:
            self._done(folder)
        elif key == UP:
            self.go(folder.parent, cursor_on=folder.name)
        elif entry is None:
            return
        elif entry.kind == "folder":
            self.go(folder / key)
        elif entry.kind == "broken":
            self._say(f"{key} is a link to {entry.leads_to}, which is not there.", "$text-warning")
        elif entry.kind == "other":
            self._say(f"{key} is a device, a pipe or a socket, not a file.", "$text-warning")
        elif self._pick == "folder":
            self._say(f"{key} is a file. Wanted is a folder: ./ at the top is this one.", "$text-warning")
        else:
            self._done(folder / key)

    def action_pick_folder(self) -> None:
        """Pick the folder under the cursor, without going in."""
        key, folder, entry = self._list.cursor_key, self.folder, self._list.entry
        if key is None or folder is None or self._reading is not None:
            return
        if self._pick == "file":
            self._say("Wanted is a file; enter opens a folder.", "$text-warning")
        elif entry is None:
            self._done(folder if key == HERE else folder.parent)
        elif entry.kind == "folder":
            self._done(folder / key)
        else:
            self._say(f"{key} is no folder. ./ at the top is this one.", "$text-warning")

    def _done(self, path: Path) -> None:
        PathPicker.last_folder = self.folder
        self.dismiss(path)

    def action_leave(self) -> None:
        """Clear what was typed; without anything, leave without an answer."""
        if self._line.value:
            self._line.value = ""
        else:
            self.dismiss(None)


def _listed(folder: Path, pick: Pick) -> tuple[folders.Listing, list[Row]]:
    listing = folders.read_folder(folder)
    return listing, rows_of(listing, pick)
