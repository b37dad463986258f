"""The report's pictures, drawn with Pillow alone: a curve, a confusion matrix and a contact sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pictures import printable
from PIL import Image, ImageDraw, ImageFont

INK, FAINT, GRID, GROUND = (33, 37, 41), (108, 117, 125), (222, 226, 230), (255, 255, 255)
BLUE, ORANGE = (31, 98, 168), (217, 95, 2)  # told apart with every colour blindness, and by lightness

SCALE = 2
"""Curves are drawn so much larger and brought down, which smooths their lines."""

MOST_CLASSES = 24
"""A confusion matrix shows so many classes at most, those most often mistaken."""

Line = tuple[str, tuple[int, int, int], list[tuple[float, float]]]


def font(pixels: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font."""
    return ImageFont.load_default(pixels)


def curve(history: Sequence[Mapping[str, float]]) -> Image.Image | None:
    """Loss on the left, accuracy on the right, over the epochs; None where nothing was measured."""
    if not history:
        return None
    width, height = 480, 320
    image = Image.new("RGB", (2 * width * SCALE, height * SCALE), GROUND)
    losses = [line("training", BLUE, history, "train_loss"), line("validation", ORANGE, history, "val_loss")]
    accuracies = [line("training", BLUE, history, "train_acc"), line("validation", ORANGE, history, "val_acc")]
    panel(ImageDraw.Draw(image), 0, width, height, "loss", losses)
    panel(ImageDraw.Draw(image), width, width, height, "accuracy", accuracies)
    return image.resize((2 * width, height), Image.Resampling.LANCZOS)


def line(name: str, colour: tuple[int, int, int], history: Sequence[Mapping[str, float]], key: str) -> Line:
    """One metric's finite values over the epochs."""
    points = [(float(epoch.get("epoch", i)), float(epoch[key])) for i, epoch in enumerate(history, 1) if key in epoch]
    return name, colour, [point for point in points if math.isfinite(point[1])]


def panel(draw: ImageDraw.ImageDraw, left: int, width: int, height: int, title: str, lines: Sequence[Line]) -> None:
    """Axes, grid and lines in one half of the picture; measures are in the final picture's pixels."""

    def at(x: float, y: float) -> tuple[float, float]:
        return (left + x) * SCALE, y * SCALE

    small, large = font(12 * SCALE), font(15 * SCALE)
    draw.text(at(56, 12), title, INK, large)
    points = [point for _, _, line_points in lines for point in line_points]
    if not points:
        draw.text(at(56, height / 2), "nothing was measured", FAINT, small)
        return
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    ticks = round_ticks(min(y for _, y in points), max(y for _, y in points))
    low, high = ticks[0], ticks[-1]
    x0, x1, y0, y1 = 56, width - 20, height - 44, 64

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / (last - first) if last > first else 0.5
        return at(x0 + across * (x1 - x0), y0 - (y - low) / (high - low) * (y0 - y1))

    for tick in ticks:
        y = place(first, tick)[1] / SCALE
        draw.line([at(x0, y), at(x1, y)], GRID, SCALE)
        draw.text(at(x0 - 8, y), f"{tick:.10g}", FAINT, small, "rm")
    for epoch in sorted({math.ceil(first), math.floor(last), *whole_ticks(first, last)}):
        draw.text((place(epoch, low)[0], at(0, y0 + 8)[1]), str(epoch), FAINT, small, "mt")
    draw.text(at((x0 + x1) / 2, height - 10), "epoch", FAINT, small, "mb")
    beside = 56.0
    for name, colour, line_points in lines:
        if not line_points:
            continue
        placed = [place(*point) for point in line_points]
        if len(placed) > 1:
            draw.line(placed, colour, 2 * SCALE, joint="curve")
        if len(placed) <= 30:
            for x, y in placed:
                draw.ellipse((x - 3 * SCALE, y - 3 * SCALE, x + 3 * SCALE, y + 3 * SCALE), colour)
        legend = f"{name} {line_points[-1][1]:.4g}"
        draw.line([at(beside, 46), at(beside + 16, 46)], colour, 2 * SCALE)
        draw.text(at(beside + 22, 46), legend, colour, small, "lm")
        beside += 22 + draw.textlength(legend, small) / SCALE + 20


def round_ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers that span the values."""
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(start, max(end, start + 1) + 1)]


def whole_ticks(first: float, last: float) -> list[int]:
    """Round epochs between the two, six or fewer, none next to an end."""
    step = max(1, round((last - first) / 5))
    return [tick for tick in range(step, int(last) + 1, step) if first + step / 2 < tick < last - step / 2]


def confusion(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> Image.Image:
    """A row for what is there, a column for what was said, shaded by the part of the row."""
    shown = most_mistaken(counts) if len(classes) > MOST_CLASSES else list(range(len(classes)))
    names = [shortened(classes[i]) for i in shown]
    small, large = font(13), font(15)
    side = 56 if len(shown) <= 12 else 34
    probe = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    label_width = math.ceil(max(probe.textlength(name, small) for name in names))
    left, top = label_width + 24, 64 + label_width
    image = Image.new("RGB", (max(left + side * len(shown) + 24, 300), top + side * len(shown) + 24), GROUND)
    draw = ImageDraw.Draw(image)
    draw.text((12, 12), "rows: what is there; columns: what was said", INK, large)
    if len(shown) < len(classes):
        draw.text((12, 34), f"{len(shown)} of {len(classes)} classes, those most often mistaken", FAINT, small)
    for row, i in enumerate(shown):
        y = top + row * side
        draw.text((left - 8, y + side / 2), names[row], INK, small, "rm")
        upright(image, names[row], small, (left + row * side + side // 2, top - 8))
        total = max(1, sum(counts[i]))
        for column, j in enumerate(shown):
            x, part = left + column * side, counts[i][j] / total
            base = BLUE if i == j else ORANGE
            shade = tuple(round(255 + (channel - 255) * part) for channel in base)
            draw.rectangle((x, y, x + side - 2, y + side - 2), shade, GRID)
            if counts[i][j]:
                ink = GROUND if part > 0.6 else INK
                text = str(counts[i][j])
                draw.text((x + side / 2 - 1, y + side / 2 - 1), text, ink, font(13 if len(text) < 5 else 10), "mm")
    return image


def most_mistaken(counts: Sequence[Sequence[int]]) -> list[int]:
    """The classes with the most mistakes in their row and column, in the model's order."""
    columns = [sum(column) for column in zip(*counts, strict=True)]
    wrong = [sum(row) + columns[i] - 2 * row[i] for i, row in enumerate(counts)]
    worst = sorted(range(len(counts)), key=lambda i: (-wrong[i], i))[:MOST_CLASSES]
    return sorted(worst)


def upright(
    image: Image.Image, text: str, face: ImageFont.FreeTypeFont | ImageFont.ImageFont, foot: tuple[int, int]
) -> None:
    """Text that reads upwards, its start at `foot`."""
    length = math.ceil(ImageDraw.Draw(image).textlength(text, face)) + 2
    strip = Image.new("RGB", (length, 18), GROUND)
    ImageDraw.Draw(strip).text((0, 9), text, INK, face, "lm")
    image.paste(strip.rotate(90, expand=True), (foot[0] - 9, foot[1] - length))


def contact_sheet(pictures: Sequence[tuple[Image.Image, tuple[str, str]]]) -> Image.Image | None:
    """The pictures in rows of five with two lines below each; None of none."""
    if not pictures:
        return None
    columns, cell, gap, lines = min(5, len(pictures)), 176, 12, 40
    rows = math.ceil(len(pictures) / columns)
    sheet = Image.new("RGB", (gap + columns * (cell + gap), gap + rows * (cell + lines + gap)), GROUND)
    draw = ImageDraw.Draw(sheet)
    for i, (picture, (said, truth)) in enumerate(pictures):
        x, y = gap + i % columns * (cell + gap), gap + i // columns * (cell + lines + gap)
        small = picture.copy()
        small.thumbnail((cell, cell))
        draw.rectangle((x - 1, y - 1, x + cell, y + cell), (248, 249, 250), GRID)
        sheet.paste(small, (x + (cell - small.width) // 2, y + (cell - small.height) // 2))
        for text, ink, below in ((said, ORANGE, 5), (truth, INK, 22)):
            draw.text((x, y + cell + below), fitted(draw, text, cell, font(13)), ink, font(13))
    return sheet


def fitted(draw: ImageDraw.ImageDraw, text: str, width: int, face: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """The text, cut where it is longer than the width."""
    if draw.textlength(text, face) <= width:
        return text
    while text and draw.textlength(text + "…", face) > width:
        text = text[:-1]
    return text + "…"


def shortened(name: str) -> str:
    """A class name in twenty characters."""
    name = printable(name)
    return name if len(name) <= 20 else name[:19] + "…"
