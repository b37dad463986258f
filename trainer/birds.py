"""Draws the demo's pictures: chickens and turkeys in an ImageFolder, the same ones for the same seed.

    python birds.py FOLDER [--seed 0] [--difficulty easy|medium|hard] [--train 240] [--val 200] [--test 100]

`train/` and `val/` share their drawing styles but no bird; `test/` has birds in styles that the other two never show.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bird_shapes import BIRDS
from bird_styles import DIFFICULTIES, KEPT_OUT_STYLES, STYLES, Style, draw_bird

SPLITS: dict[str, Mapping[str, Style]] = {"train": STYLES, "val": STYLES, "test": KEPT_OUT_STYLES}


@dataclass(frozen=True)
class Plan:
    """Which pictures to draw: pictures a split, both classes together."""

    seed: int
    difficulty: str
    train: int
    val: int
    test: int

    def pictures(self) -> Iterator[tuple[Path, str, Style, np.random.Generator]]:
        """Every picture's place, bird, style and generator, each one independent of the others."""
        kinds = list(BIRDS)
        for split_code, (split, styles) in enumerate(SPLITS.items()):
            for i in range(getattr(self, split)):
                bird_code, index = i % len(kinds), i // len(kinds)
                rng = np.random.default_rng([self.seed, split_code, bird_code, index])
                bird, style = kinds[bird_code], list(styles.values())[index % len(styles)]
                yield Path(split, bird, f"{index:03d}.jpg"), bird, style, rng


def draw_birds(
    folder: Path, seed: int = 0, difficulty: str = "easy", train: int = 240, val: int = 200, test: int = 100
) -> Path:
    """Draws all pictures with a process a core and returns the folder, which must not hold anything before.

    The pictures are drawn in a folder beside it, which takes its name when it is whole. Raises `FileExistsError`, and
    `RuntimeError` when a drawing process fails.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there already. Name a folder that is not, or remove it first.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    drawing = folder.with_name(f".{folder.name}.{os.getpid()}.drawing")
    plan = Plan(seed, difficulty, train, val, test)
    try:
        draw_in_parallel(plan, drawing)
        if folder.exists():
            folder.rmdir()
        drawing.rename(folder)
    finally:
        shutil.rmtree(drawing, ignore_errors=True)
    return folder


def draw_in_parallel(plan: Plan, folder: Path) -> None:
    """Starts this file once a core, each process on its share of the plan, and waits for all of them."""
    for path, *_ in plan.pictures():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    arguments = [f"--{name}={value}" for name, value in vars(plan).items()]
    command = [sys.executable, str(Path(__file__).resolve()), str(folder), *arguments]
    running = [subprocess.Popen([*command, f"--part={i}/{cores}"]) for i in range(cores)]
    try:
        failed = [process for process in running if process.wait() != 0]
    finally:
        for process in running:
            process.kill()
    if failed:
        raise RuntimeError(f"{len(failed)} of {cores} drawing processes failed; their messages are above.")


def draw_part(plan: Plan, folder: Path, part: int, parts: int) -> None:
    """Draws every picture of the plan whose number leaves `part` when divided by `parts`."""
    variation = DIFFICULTIES[plan.difficulty]
    for i, (path, bird, style, rng) in enumerate(plan.pictures()):
        if i % parts == part:
            draw_bird(rng, bird, style, variation).save(folder / path, quality=90)


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Draw chickens and turkeys to train on: FOLDER/{train,val,test}/{chicken,turkey}/NNN.jpg"
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--difficulty", choices=list(DIFFICULTIES), default="easy")
    parser.add_argument("--train", type=int, default=240, help="pictures, both classes together")
    parser.add_argument("--val", type=int, default=200)
    parser.add_argument("--test", type=int, default=100, help="pictures in styles that train and val never show")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    args = parser.parse_args()
    plan = Plan(args.seed, args.difficulty, args.train, args.val, args.test)
    if args.part:
        part, parts = args.part.split("/")
        draw_part(plan, args.folder, int(part), int(parts))
        return 0
    began = time.monotonic()
    try:
        folder = draw_birds(args.folder, **vars(plan))
    except (OSError, RuntimeError) as error:
        print(f"birds.py: {error}", file=sys.stderr)
        return 2 if isinstance(error, FileExistsError) else 1
    print(f"Drew {plan.train + plan.val + plan.test} pictures into {folder} in {time.monotonic() - began:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
