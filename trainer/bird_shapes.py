"""The two birds as outlines: a chicken with comb, wattle and sickle plume; a turkey with snood, bare neck, beard and fan.

Unit coordinates: a body is about one long, centred on (0, 0), facing right, y down. Nothing here knows of colours or pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Rng = np.random.Generator
Role = Literal["leg", "tail", "band", "body", "wing", "skin", "beak", "eye", "beard"]


@dataclass(frozen=True)
class Part:
    """One filled outline; parts are painted in the order of their list. `outline` has the shape (n, 2)."""

    role: Role
    outline: Points


@dataclass(frozen=True)
class Pose:
    """How far a bird may leave the standard side view."""

    bend: float  # 0 stands as in a field guide, 1 stretches, pecks and leans as it likes
    folded: float  # the share of turkeys with a folded tail and of chickens with a short one


def smooth(corners: Points, per_side: int = 8) -> Points:
    """A closed Catmull-Rom curve through the corners."""
    p1 = corners
    p0, p2, p3 = np.roll(p1, 1, 0), np.roll(p1, -1, 0), np.roll(p1, -2, 0)
    t = np.linspace(0, 1, per_side, endpoint=False)[:, None, None]
    curve = 0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2 + (3 * p1 - p0 - 3 * p2 + p3) * t**3)
    return curve.transpose(1, 0, 2).reshape(-1, 2)


def ellipse(middle: Points | tuple[float, float], rx: float, ry: float) -> Points:
    """An upright ellipse."""
    t = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    return np.stack([rx * np.cos(t), ry * np.sin(t)], 1) + middle


def rotation(turn: float) -> Points:
    """The 2 x 2 matrix that turns by `turn` radians."""
    return np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])


def ribbon(line: Points, widths: Points) -> Points:
    """The outline of a line (n, 2) drawn with a width (n,) at each of its points."""
    ahead = np.gradient(line, axis=0)
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True) + 1e-9
    side = np.stack([-ahead[:, 1], ahead[:, 0]], 1) * widths[:, None] / 2
    return np.concatenate([line + side, (line - side)[::-1]])


def bezier(a: Points, b: Points, c: Points, n: int = 12) -> Points:
    """A quadratic Bézier curve from a towards b, ending in c."""
    t = np.linspace(0, 1, n)[:, None]
    return (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t**2 * c


def heading(degrees: float, length: float = 1.0) -> Points:
    """The vector of a compass for birds: 0 ahead (right), 90 up, 180 behind."""
    turn = np.radians(degrees)
    return length * np.array([np.cos(turn), -np.sin(turn)])


def legs(rng: Rng, hip_y: float, length: float, bend: float) -> list[Part]:
    """Two legs with three toes each."""
    parts = []
    for hip_x in (-0.06, 0.12):
        foot = np.array([hip_x + rng.uniform(-0.1, 0.12) * (0.3 + bend), hip_y + length])
        hip = np.array([hip_x, hip_y])
        parts.append(Part("leg", ribbon(np.linspace(hip, foot, 4), np.linspace(0.07, 0.05, 4))))
        for toe in (-15.0, -65.0, 190.0):
            parts.append(Part("leg", ribbon(np.linspace(foot, foot + heading(toe, 0.11), 3), np.full(3, 0.04))))
    return parts


def neck_and_head(
    rng: Rng, base: Points, lean: float, length: float, widths: tuple[float, float]
) -> tuple[Points, Points]:
    """The outline of a neck that leaves `base` at `lean` degrees, and the middle of the head at its end."""
    head = base + heading(lean, length)
    middle = (base + head) / 2 + heading(lean + 90, rng.uniform(-0.05, 0.08))
    line = bezier(base, middle, head)
    return ribbon(line, np.linspace(*widths, len(line))), head


# Bodies without neck, legs and tail, and wings, as corners of smooth curves.
CHICKEN_BODY = np.array(
    [[0.34, 0.52, 0.32, -0.14, -0.46, -0.5, -0.16, 0.1], [-0.3, 0, 0.32, 0.33, 0.1, -0.2, -0.1, -0.26]]
).T
CHICKEN_WING = np.array([[0.22, 0.12, -0.18, -0.42, -0.14], [-0.08, 0.16, 0.2, 0.02, -0.04]]).T
TURKEY_BODY = np.array(
    [[0.32, 0.5, 0.34, -0.08, -0.42, -0.46, -0.2, 0.1], [-0.22, 0.08, 0.4, 0.44, 0.22, -0.08, -0.3, -0.34]]
).T
TURKEY_WING = np.array([[0.2, 0.16, -0.1, -0.38, -0.16], [-0.12, 0.18, 0.28, 0.14, -0.08]]).T


def chicken(rng: Rng, pose: Pose) -> list[Part]:
    """A chicken: saddle-backed, a serrated comb, one wattle, a plume of curved sickle feathers."""
    parts = plume(rng, short=rng.random() < pose.folded)
    parts += legs(rng, 0.26, rng.uniform(0.3, 0.4), pose.bend)
    parts.append(Part("body", smooth(CHICKEN_BODY * (1, rng.uniform(0.95, 1.1)))))
    lean = 68 + rng.uniform(-35, 18) * pose.bend + rng.uniform(-6, 6)
    neck, head = neck_and_head(rng, np.array([0.27, -0.16]), lean, rng.uniform(0.46, 0.58), (0.38, 0.16))
    look = rotation(np.radians(rng.uniform(-20, 20) * (0.3 + pose.bend))).T
    parts += [
        Part("body", neck),
        Part("skin", comb(rng) @ look + head),
        Part("skin", ellipse((0.1, 0.18), 0.065, rng.uniform(0.1, 0.15)) @ look + head),
        Part("body", ellipse(head, 0.13, 0.12)),
        Part("beak", np.array([(0.09, -0.05), (0.27, 0.03), (0.09, 0.07)]) @ look + head),
        Part("eye", ellipse((0.04, -0.03), 0.025, 0.025) @ look + head),
        Part("wing", smooth(CHICKEN_WING)),
    ]
    return parts


def plume(rng: Rng, short: bool) -> list[Part]:
    """A chicken's tail: pointed feathers that rise and bend over backwards."""
    parts = []
    root = np.array([-0.40, -0.06])
    widths = np.interp(np.linspace(0, 1, 12), [0, 0.6, 1], [0.08, 0.12, 0.02])
    for i in range(feathers := int(rng.integers(5, 9))):
        start = 165 - 75 * i / (feathers - 1) + rng.uniform(-6, 6)
        length = rng.uniform(0.55, 0.8) * (0.55 if short else 1.0)
        end = root + heading(start + rng.uniform(42, 62), length)
        parts.append(Part("tail", ribbon(bezier(root, root + heading(start - 6, 0.95 * length), end), widths)))
    return parts


def comb(rng: Rng) -> Points:
    """The comb's saw teeth, round the head's own middle."""
    teeth = int(rng.integers(4, 6))
    height = rng.uniform(0.17, 0.24)
    turns = np.linspace(150, 35, 2 * teeth + 1)
    saw = [heading(turn, 0.12 + (height if i % 2 else 0.03)) for i, turn in enumerate(turns)]
    return np.array([*saw, (0.1, -0.02), (-0.1, -0.02)])


def turkey(rng: Rng, pose: Pose) -> list[Part]:
    """A turkey: hump-backed, a bare thin neck, a snood over the beak, a beard, a banded fan of rounded feathers."""
    parts = fan(rng, folded=rng.random() < pose.folded)
    parts += legs(rng, 0.34, rng.uniform(0.28, 0.36), pose.bend)
    parts.append(Part("body", smooth(TURKEY_BODY * (1, rng.uniform(0.92, 1.08)))))
    parts.append(Part("beard", np.array([(0.44, 0.08), (0.53, 0.05), (0.6, rng.uniform(0.34, 0.44))])))
    lean = 62 + rng.uniform(-35, 18) * pose.bend + rng.uniform(-6, 6)
    neck, head = neck_and_head(rng, np.array([0.3, -0.12]), lean, rng.uniform(0.52, 0.64), (0.22, 0.09))
    feathered = np.linspace((0.26, -0.14), head * 0.5 + (0.15, -0.06), 5)
    look = rotation(np.radians(rng.uniform(-20, 20) * (0.3 + pose.bend))).T
    snood = bezier(np.array([0.07, -0.06]), np.array([0.2, -0.06]), np.array([0.17, rng.uniform(0.16, 0.24)]), 8)
    wattle = [head + np.array([0.05 - 0.04 * i, 0.12 + 0.08 * i]) for i in range(3)]
    parts += [
        Part("body", ellipse((0.31, -0.16), 0.17, 0.14)),
        Part("skin", neck),
        Part("body", ribbon(feathered, np.linspace(0.3, 0.2, 5))),
        *(Part("skin", ellipse(middle, 0.055, 0.055)) for middle in wattle),
        Part("skin", ellipse(head, 0.1, 0.085)),
        Part("beak", np.array([(0.07, -0.04), (0.23, 0.03), (0.07, 0.06)]) @ look + head),
        Part("skin", ribbon(snood, np.linspace(0.05, 0.07, 8)) @ look + head),
        Part("eye", ellipse((0.03, -0.02), 0.022, 0.022) @ look + head),
        Part("wing", smooth(TURKEY_WING)),
    ]
    return parts


def fan(rng: Rng, folded: bool) -> list[Part]:
    """A turkey's tail: round-tipped feathers side by side, a band across each, spread out or folded behind."""
    parts = []
    spread = rng.uniform(18, 30) if folded else rng.uniform(125, 190)
    middle = rng.uniform(185, 200) if folded else rng.uniform(112, 135)
    oblique = rng.uniform(0.72, 1.0)
    reach = rng.uniform(0.68, 0.86)
    feathers = int(rng.integers(9, 14))
    width = max(0.13, 1.15 * reach * np.radians(spread) / feathers)
    for i in range(feathers):
        along_feather = heading(middle + spread * (i / (feathers - 1) - 0.5), reach)
        parts.append(Part("tail", feather(along_feather, width, 0.1, 1.0, oblique)))
        parts.append(Part("band", feather(along_feather, 0.96 * width, 0.7, 0.83, oblique)))
    return parts


def feather(tip: Points, width: float, begin: float, end: float, oblique: float) -> Points:
    """The piece of a fan's feather from `begin` to `end` of its length, widest at 0.78; the fan is seen obliquely."""
    along = np.linspace(begin, end, 8)
    rounded = np.sqrt(np.clip(1 - ((along - 0.78) / 0.222) ** 2, 0, 1))
    widths = width * np.where(along < 0.78, 0.25 + 0.75 * along / 0.78, rounded)
    return ribbon(along[:, None] * tip, widths) * (oblique, 1.0) + (-0.22, 0.0)


BIRDS: dict[str, Callable[[Rng, Pose], list[Part]]] = {"chicken": chicken, "turkey": turkey}
