"""The file picker of the invoke panel: the library's own, with paths shown as data."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual_fspicker import FileOpen, Filters
from textual_fspicker.parts import CurrentDirectory

from footplate.operations.pictures import SUFFIXES


class PictureOpen(FileOpen):
    """Pick a picture, from the nearest folder of `start` that exists."""

    def __init__(self, start: Path) -> None:
        folder = next((f for f in (start, *start.parents) if f.is_dir()), Path.cwd())
        kinds = Filters(("Pictures", lambda path: path.suffix.lower() in SUFFIXES), ("All", lambda _: True))
        super().__init__(str(folder), title="Pick a picture", filters=kinds)

    def compose(self) -> ComposeResult:
        """The library's label reads the folder's path as markup, which a path may break or abuse."""
        for widget in super().compose():
            if isinstance(widget, CurrentDirectory):
                widget._render_markup = False
            yield widget
