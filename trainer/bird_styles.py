"""From outlines to one picture: where the bird stands, its colours, the drawing style, the ground and the light."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import Literal

import numpy as np
from bird_shapes import BIRDS, Part, Points, Pose, Rng, Role, rotation
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

Colour = tuple[int, int, int]
SUPERSAMPLE = 2
# Birds and grounds share their hues: else "redder than its ground" would give the outline away, dark bird or light.
HUES = (0.02, 0.06, 0.09, 0.12, 0.22, 0.33, 0.45, 0.55, 0.62)
SKIN_HUES = (0.0, 0.03, 0.97, 0.6)  # combs and bare necks: reds, a blue


@dataclass(frozen=True)
class Variation:
    """How far pictures differ from a field guide's plate; lengths are shares of the picture's short side."""

    pose: Pose
    turn_degrees: float  # the whole bird leans by up to this
    shift: float
    area: tuple[float, float]  # the bird's painted area, drawn alike for both classes
    foreshortening: float  # the least width of a bird that turns away from the side view
    inverted: float  # the share of light birds on dark ground
    contrast: tuple[float, float]  # between bird and ground, in luma of 255
    light: float  # strength of the gradient and of the exposure
    occluded: float  # the share of pictures with something in front of the bird
    clutter: int  # most things that lie on the ground
    noise: float  # sensor noise, in luma of 255


DIFFICULTIES: dict[str, Variation] = {
    "easy": Variation(Pose(0.3, 0.0), 7, 0.08, (0.2, 0.3), 0.9, 0.38, (105, 155), 0.15, 0.3, 0, 3),
    "medium": Variation(Pose(0.7, 0.2), 15, 0.1, (0.13, 0.28), 0.75, 0.4, (65, 130), 0.3, 0.5, 6, 5),
    "hard": Variation(Pose(1.0, 0.5), 40, 0.14, (0.06, 0.3), 0.45, 0.5, (25, 120), 0.6, 0.7, 30, 9),
}


@dataclass(frozen=True)
class Style:
    """A way of drawing; widths in pixels of a picture 224 high."""

    outline: float = 0.0  # width of a dark (or light) line round each part
    shades: float = 0.0  # how much the parts of one bird differ, in luma of 255
    texture: Literal["none", "dabs", "hatch", "grain", "dots"] = "none"
    soft: float = 0.0  # radius of the blur of the bird's edges


STYLES: dict[str, Style] = {
    "flat": Style(shades=8),
    "inked": Style(outline=2.0, shades=8),
    "feathered": Style(shades=12, texture="dabs"),
    "hatched": Style(outline=1.2, texture="hatch"),
    "pastel": Style(shades=14, texture="grain", soft=0.8),
}
KEPT_OUT_STYLES: dict[str, Style] = {
    "watercolour": Style(shades=24, texture="grain", soft=1.8),
    "stippled": Style(outline=1.0, shades=6, texture="dots"),
}


def draw_bird(rng: Rng, bird: str, style: Style, variation: Variation) -> Image.Image:
    """One picture of one bird, about 224 pixels on its short side."""
    width, height = int(rng.integers(224, 257)), int(rng.integers(224, 257))
    short = min(width, height) * SUPERSAMPLE
    size = (width * SUPERSAMPLE, height * SUPERSAMPLE)
    parts = place(rng, BIRDS[bird](rng, variation.pose), variation, size)
    bird_luma, ground_luma = lumas(rng, variation)
    ground = paint_ground(rng, size, ground_luma, bird_luma, variation)
    line = short / 224
    picture = paint_bird(rng, ground, parts, style, colours(rng, bird_luma, ground_luma), line)
    if rng.random() < variation.occluded:
        paint_grass(rng, picture, ground_luma, variation)
    return light(rng, picture.reduce(SUPERSAMPLE), variation)


def place(rng: Rng, parts: list[Part], variation: Variation, size: tuple[int, int]) -> list[Part]:
    """The parts in pixels: mirrored, turned, scaled to an area that tells nothing of the class, shifted, inside the picture."""
    squeeze = rng.uniform(variation.foreshortening, 1.0) * (1 if rng.random() < 0.5 else -1)
    turn = rotation(np.radians(rng.uniform(-1, 1) * variation.turn_degrees)).T
    outlines = [part.outline * (squeeze, 1.0) @ turn for part in parts]
    everything = np.concatenate(outlines)
    low, high = everything.min(0), everything.max(0)
    short = min(size)
    scale = np.sqrt(rng.uniform(*variation.area) * short**2 / painted_area(outlines, low, high))
    scale = min(scale, 0.86 * short / float((high - low).max()))
    middle = np.array(size) / 2 + rng.uniform(-1, 1, 2) * variation.shift * short
    half = (high - low) / 2 * scale
    margin = 0.04 * short
    middle = np.clip(middle, half + margin, np.array(size) - half - margin)
    return [
        Part(part.role, (outline - (low + high) / 2) * scale + middle)
        for part, outline in zip(parts, outlines, strict=True)
    ]


def painted_area(outlines: list[Points], low: Points, high: Points) -> float:
    """The area that the outlines cover together, in their own units."""
    grid = 128 / float((high - low).max())
    mask = Image.new("1", (130, 130))
    draw = ImageDraw.Draw(mask)
    for outline in outlines:
        draw.polygon(flat((outline - low) * grid), fill=1)
    return float(np.asarray(mask).sum()) / grid**2


def flat(outline: Points) -> list[float]:
    """The outline as ImageDraw takes it."""
    return [float(value) for value in outline.ravel()]


def lumas(rng: Rng, variation: Variation) -> tuple[float, float]:
    """The lightness of the bird and of the ground: a dark bird on light ground, or inverted."""
    contrast = rng.uniform(*variation.contrast)
    dark = rng.uniform(25, 235 - contrast)
    pair = (dark, dark + contrast)
    return (pair[1], pair[0]) if rng.random() < variation.inverted else pair


def tint(rng: Rng, luma: float, saturation: float, hue: float) -> Colour:
    """A colour of that luma (0 to 255), that hue and about that saturation."""
    rgb = np.array(colorsys.hsv_to_rgb(hue % 1, saturation * rng.uniform(0.5, 1.0), 1.0))
    rgb = rgb * luma / float(rgb @ (0.299, 0.587, 0.114))
    red, green, blue = np.clip(rgb, 0, 255).astype(int).tolist()
    return red, green, blue


def some_hue(rng: Rng) -> float:
    """A hue of earth, straw, grass, water or sky; of feathers as well."""
    return float(rng.choice(HUES)) + rng.uniform(-0.02, 0.02)


def colours(rng: Rng, bird: float, ground: float) -> dict[Role, Colour]:
    """A palette; every colour is drawn alike for both classes, so that no mean colour tells them apart."""
    hue = some_hue(rng)
    away = 1 if bird > ground else -1
    return {
        "body": tint(rng, bird, 0.45, hue),
        "leg": tint(rng, bird, 0.6, 0.1),
        "tail": tint(rng, bird + rng.uniform(-12, 12), 0.45, hue),
        "band": tint(rng, bird - away * abs(bird - ground) * rng.uniform(0.4, 0.7), 0.45, hue),
        "wing": tint(rng, bird - away * rng.uniform(14, 30), 0.45, hue),
        "skin": tint(rng, bird + rng.uniform(-10, 30), 0.75, float(rng.choice(SKIN_HUES))),
        "beak": tint(rng, bird + rng.uniform(-10, 20), 0.6, 0.12),
        "eye": tint(rng, ground, 0.1, hue),
        "beard": tint(rng, bird + away * 15, 0.3, hue),
    }


def paint_bird(
    rng: Rng, ground: Image.Image, parts: list[Part], style: Style, palette: dict[Role, Colour], line: float
) -> Image.Image:
    """The bird on its ground in one style; `line` is the number of pixels that one of the style's pixels takes."""
    painted, mask = ground.copy(), Image.new("L", ground.size)
    draw, cover = ImageDraw.Draw(painted), ImageDraw.Draw(mask)
    dark = tuple(max(0, channel - 60) for channel in palette["body"])
    for part in parts:
        points = flat(part.outline)
        shade = rng.uniform(-1, 1) * style.shades
        fill = tuple(int(np.clip(channel + shade, 0, 255)) for channel in palette[part.role])
        draw.polygon(points, fill=fill)
        cover.polygon(points, fill=255)
        if style.outline and part.role not in ("leg", "eye", "band"):
            draw.line(points + points[:2], fill=dark, width=round(style.outline * line), joint="curve")
    painted = textured(rng, painted, parts, style, line)
    if style.soft:
        painted = painted.filter(ImageFilter.GaussianBlur(style.soft * line / 2))
        mask = mask.filter(ImageFilter.GaussianBlur(style.soft * line))
    return Image.composite(painted, ground, mask)


def textured(rng: Rng, painted: Image.Image, parts: list[Part], style: Style, line: float) -> Image.Image:
    """The painted bird with the style's marks on it; marks are lighter and darker alike."""
    if style.texture == "none":
        return painted
    if style.texture == "grain":
        small = rng.normal(128, 26, (painted.height // 4, painted.width // 4)).clip(0, 255).astype(np.uint8)
        grain = Image.fromarray(small).resize(painted.size, Image.Resampling.BILINEAR)
        return ImageChops.overlay(painted, Image.merge("RGB", [grain] * 3))
    marks = Image.new("L", painted.size, 128)
    draw = ImageDraw.Draw(marks)
    everything = np.concatenate([part.outline for part in parts])
    low, high = everything.min(0), everything.max(0)
    if style.texture == "hatch":
        step, slope = rng.uniform(5, 8) * line, rng.uniform(-1, 1) * (high[1] - low[1])
        for y in np.arange(low[1] - abs(slope), high[1] + abs(slope), step):
            draw.line([low[0], y, high[0], y + slope], fill=int(rng.choice([88, 168])), width=round(1.5 * line))
    else:
        spots = rng.uniform(low, high, (420, 2))
        for (x, y), tone in zip(spots.tolist(), rng.choice([84, 104, 152, 172], len(spots)).tolist(), strict=True):
            long = (3.0 if style.texture == "dabs" else 1.4) * line
            draw.ellipse([x - long, y - 1.4 * line, x + long, y + 1.4 * line], fill=tone)
    return ImageChops.overlay(painted, Image.merge("RGB", [marks] * 3))


def paint_ground(rng: Rng, size: tuple[int, int], luma: float, bird_luma: float, variation: Variation) -> Image.Image:
    """Plain ground with, where the variation has clutter, things lying about in any tone."""
    hue = some_hue(rng)
    ground = Image.new("RGB", size, tint(rng, luma, 0.45, hue))
    draw = ImageDraw.Draw(ground)
    if variation.clutter and rng.random() < 0.7:
        horizon = rng.uniform(0.3, 0.8) * size[1]
        draw.rectangle([0, horizon, *size], fill=tint(rng, luma + rng.uniform(-25, 25), 0.45, hue))
    for _ in range(int(rng.integers(0, variation.clutter + 1))):
        x, y = rng.uniform(0, 1, 2) * size
        long, thick = rng.uniform(0.03, 0.25) * size[0], rng.uniform(0.02, 0.12) * size[0]
        tone = luma + (bird_luma - luma) * rng.uniform(-0.4, 0.8)
        corners = np.array([(-1, -1), (1, -0.8), (1.2, 0.9), (-0.9, 1)]) * (long / 2, thick / 2)
        outline = corners @ rotation(rng.uniform(0, np.pi)).T + (x, y)
        draw.polygon(flat(outline), fill=tint(rng, float(np.clip(tone, 5, 250)), 0.5, some_hue(rng)))
    return ground


def paint_grass(rng: Rng, picture: Image.Image, luma: float, variation: Variation) -> None:
    """Blades of grass in front of the bird, from the lower edge up."""
    draw = ImageDraw.Draw(picture)
    width, height = picture.size
    middle = rng.uniform(0.15, 0.85) * width
    for _ in range(int(rng.integers(4, 10 + 2 * variation.clutter))):
        x = middle + rng.normal(0, 0.12) * width
        tip = (x + rng.uniform(-0.08, 0.08) * width, height * (1 - rng.uniform(0.15, 0.4 + variation.light)))
        thick = rng.uniform(0.006, 0.014) * width
        green = tint(rng, float(np.clip(luma + rng.uniform(-45, 45), 5, 250)), 0.6, rng.uniform(0.22, 0.36))
        draw.polygon([(x - thick, height), (x + thick, height), tip], fill=green)


def light(rng: Rng, picture: Image.Image, variation: Variation) -> Image.Image:
    """The picture under a light from one side, with its exposure, its cast and the sensor's noise."""
    pixels: NDArray[np.float32] = np.asarray(picture, dtype=np.float32)
    height, width = pixels.shape[:2]
    turn, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0, variation.light)
    across = np.linspace(-1, 1, width, dtype=np.float32) * np.cos(turn)
    down = np.linspace(-1, 1, height, dtype=np.float32) * np.sin(turn)
    gain = (1 + strength * (across[None, :] + down[:, None]))[..., None] * (
        1 + rng.uniform(-1, 1) * variation.light / 2
    )
    cast = 1 + rng.uniform(-0.3, 0.3, 3) * variation.light
    lit = pixels * (gain * cast).astype(np.float32)
    lit += variation.noise * rng.standard_normal((height, width, 1), dtype=np.float32)
    return Image.fromarray(lit.clip(0, 255).astype(np.uint8))
