"""A picture in half-block characters: two pixels a cell, on any terminal that has colours."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import groupby, repeat
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from footplate.logs.sanitise import clean

if TYPE_CHECKING:
    from PIL.Image import Image

HALF = "▀"
MOST_ENLARGED = 4
"""Small pictures are enlarged by whole pixels, at most this often: what the model sees stays recognisable as pixels."""

Pixel = tuple[int, int, int]


class _Job(NamedTuple):
    """One picture to be resized for one size of the widget."""

    number: int
    image: Image
    columns: int
    rows: int


class Picture(Widget):
    """Shows a picture as large as fits, in its own proportions (a cell counts as one by two); resizing is not done here
    but in a thread, and Pillow is imported there.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"picture--empty"}

    DEFAULT_CSS = """
    Picture {
        width: 1fr;
        height: 1fr;
        & > .picture--empty { color: $text-muted; }
    }
    """

    class _Resized(Message):
        """From the thread: the rows of pixels of job `number`, or why there are none."""

        def __init__(self, number: int, pixels: list[list[Pixel]], error: str) -> None:
            super().__init__()
            self.number = number
            self.pixels = pixels
            self.error = error

    def __init__(
        self,
        *,
        empty: str = "No picture",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._empty = empty
        self._error = ""
        self._image: Image | None = None
        self._number = 0
        self._strips: list[Strip] = []

    @property
    def drawn_size(self) -> tuple[int, int]:
        """The picture's size on screen, in pixels (a cell is one wide and two high); (0, 0) until it is drawn."""
        return (self._strips[0].cell_length if self._strips else 0), 2 * len(self._strips)

    def show(self, image: Image | None, *, empty: str | None = None) -> None:
        """Show a picture of any mode, or the text `empty` where there is none; the picture must not change any more."""
        if empty is not None:
            self._empty = empty
        self._image, self._error, self._strips = image, "", []
        self._resize()
        self.refresh()

    def on_resize(self) -> None:
        """Fit the picture into the new size."""
        self._resize()

    def render_line(self, y: int) -> Strip:
        """Draw one line: two rows of pixels, or the text there is in place of a picture."""
        width, base = self.size.width, self.rich_style
        if y < len(self._strips):
            return self._strips[y].crop_extend(0, width, base)
        note = self._error or ("" if self._image is not None else self._empty)
        lines = note.split("\n")
        text = clean(lines[y]) if not self._strips and y < len(lines) else ""
        return Strip([Segment(text, self.get_component_rich_style("picture--empty"))]).crop_extend(0, width, base)

    def _resize(self) -> None:
        self._number += 1
        if self._image is None or not self.size:
            return
        job = _Job(self._number, self._image, self.size.width, self.size.height)
        threading.Thread(target=self._work, args=(job,), name="footplate-picture", daemon=True).start()

    def _work(self, job: _Job) -> None:
        try:
            message = self._Resized(job.number, resized_pixels(job.image, job.columns, job.rows), "")
        except (OSError, ValueError, MemoryError) as fault:
            message = self._Resized(job.number, [], f"This picture cannot be shown: {fault}.")
        try:
            self.post_message(message)
        except RuntimeError:  # the console has ended
            return

    def _on_picture__resized(self, message: _Resized) -> None:
        message.stop()
        if message.number != self._number:
            return
        self._error = message.error
        pixels = message.pixels
        bottom = self.rich_style.bgcolor
        self._strips = [
            half_block_line(pixels[row], pixels[row + 1] if row + 1 < len(pixels) else None, bottom)
            for row in range(0, len(pixels), 2)
        ]
        self.refresh()


def fitted_size(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """Return the size in pixels at which a picture is drawn in so many cells: whole multiples when it is small."""
    wide, high = columns, rows * 2
    scale = min(wide / width, high / height)
    if scale >= 1:
        scale = min(int(scale), MOST_ENLARGED)
    return max(1, round(width * scale)), max(1, round(height * scale))


def resized_pixels(image: Image, columns: int, rows: int) -> list[list[Pixel]]:
    """Return the picture as rows of RGB pixels that fit into so many cells, two rows a cell."""
    from PIL import Image as images

    width, height = fitted_size(image.width, image.height, columns, rows)
    enlarge = width >= image.width and height >= image.height
    if not enlarge and image.mode in ("RGB", "L"):
        image = image.reduce(max(1, min(image.width // (width * 3), image.height // (height * 3))))
    rgb = _on_white(image)
    small = rgb.resize((width, height), images.Resampling.NEAREST if enlarge else images.Resampling.LANCZOS)
    data = small.tobytes()
    flat = list(zip(data[0::3], data[1::3], data[2::3], strict=True))
    return [flat[row * width : (row + 1) * width] for row in range(height)]


def half_block_line(upper: list[Pixel], lower: list[Pixel] | None, ground: Color | None) -> Strip:
    """Return one line of cells, the upper pixel as the foreground and the lower as the background."""
    lower_pixels: Iterable[Pixel | None] = lower if lower is not None else repeat(None, len(upper))
    pairs = zip(upper, lower_pixels, strict=True)
    segments = []
    for (top, bottom), run in groupby(pairs):
        style = Style(color=Color.from_rgb(*top), bgcolor=Color.from_rgb(*bottom) if bottom else ground)
        segments.append(Segment(HALF * len(list(run)), style))
    return Strip(segments, len(upper))


def _on_white(image: Image) -> Image:
    """Return the picture as RGB; what is transparent shows white, as it does for the model."""
    from PIL import Image as images

    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16") or image.mode == "I":
        return image.point(lambda value: value / 256).convert("L").convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = images.new("RGBA", rgba.size, "white")
        return images.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")
