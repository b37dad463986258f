"""The demo's drawn birds: the same for the same seed, whole or not there at all, and not to be told apart by colour."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.bench.birds import linear_accuracy

BIRDS = Path(__file__).resolve().parents[2] / "trainer" / "birds.py"


def draw(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BIRDS), str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.jpg"))
    }


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's own pictures, but without the kept-out styles."""
    folder = tmp_path_factory.mktemp("birds") / "birds"
    assert draw(folder, "--seed=5", "--test=0").returncode == 0
    return folder


def test_folders_are_those_of_an_image_classifier(tmp_path: Path) -> None:
    done = draw(tmp_path / "birds", "--train=6", "--val=4", "--test=3")
    assert done.returncode == 0, done.stderr
    assert "Drew 13 pictures" in done.stdout
    assert {(*Path(name).parts[:2],): 0 for name in digests(tmp_path / "birds")}.keys() == {
        (split, bird) for split in ("train", "val", "test") for bird in ("chicken", "turkey")
    }
    assert len(digests(tmp_path / "birds")) == 13
    for path in (tmp_path / "birds").rglob("*.jpg"):
        with Image.open(path) as picture:
            assert picture.mode == "RGB"
            assert min(picture.size) >= 224
    assert [entry.name for entry in tmp_path.iterdir()] == ["birds"]


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_the_same_seed_draws_the_same_bytes_on_any_number_of_cores(tmp_path: Path, difficulty: str) -> None:
    plan = ["--train=10", "--val=4", "--test=4", f"--difficulty={difficulty}"]
    draw(tmp_path / "many", *plan)
    one_core = {0} if hasattr(os, "sched_setaffinity") else None
    command = [sys.executable, str(BIRDS), str(tmp_path / "one"), *plan]
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: one_core and os.sched_setaffinity(0, one_core),
    )
    draw(tmp_path / "other", *plan, "--seed=1")
    assert digests(tmp_path / "many") == digests(tmp_path / "one")
    assert len(set(digests(tmp_path / "many").values()) | set(digests(tmp_path / "other").values())) == 36


def test_a_picture_stays_the_same_when_more_are_drawn(tmp_path: Path) -> None:
    draw(tmp_path / "few", "--train=4", "--val=2", "--test=0")
    draw(tmp_path / "more", "--train=8", "--val=2", "--test=2")
    assert digests(tmp_path / "few").items() <= digests(tmp_path / "more").items()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    done = draw(folder, "--train=2", "--val=2", "--test=0")
    assert done.returncode == 2
    assert done.stderr == f"birds.py: {folder} is there already. Name a folder that is not, or remove it first.\n"
    assert [entry.name for entry in folder.iterdir()] == ["mine.txt"]


def test_drawing_that_is_killed_leaves_no_folder_that_looks_whole(tmp_path: Path) -> None:
    command = [sys.executable, str(BIRDS), str(tmp_path / "birds"), "--train=4000"]
    drawing = subprocess.Popen(command, start_new_session=True)
    end = time.monotonic() + 60
    try:
        while not any(path.stat().st_size for path in tmp_path.rglob("*.jpg")):
            assert time.monotonic() < end, "no picture came"
            assert drawing.poll() is None, "drawing ended too early"
            time.sleep(0.01)
    finally:
        os.killpg(drawing.pid, signal.SIGKILL)
        drawing.wait()
    assert not (tmp_path / "birds").exists()
    assert draw(tmp_path / "birds", "--train=2", "--val=2", "--test=0").returncode == 0
    assert len(digests(tmp_path / "birds")) == 4


def test_mean_colour_does_not_tell_the_birds_apart(birds: Path) -> None:
    def means(split: str, bird: str) -> np.ndarray:
        paths = sorted((birds / split / bird).iterdir())
        return np.array([np.asarray(Image.open(path)).mean((0, 1)) for path in paths])

    middles = [means("train", bird).mean(0) for bird in ("chicken", "turkey")]
    right = []
    for label, bird in enumerate(("chicken", "turkey")):
        away = np.stack([np.linalg.norm(means("val", bird) - middle, axis=1) for middle in middles], 1)
        right.append(away.argmin(1) == label)
    assert np.concatenate(right).mean() < 0.65


def test_pixels_alone_do_not_tell_the_birds_apart(birds: Path) -> None:
    assert 0.45 < linear_accuracy(birds, sides=(32,)) < 0.75


def test_drawing_needs_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import birds; from pathlib import Path\n"
        "birds.draw_birds(Path(sys.argv[2]), train=2, val=2, test=2)\n"
        "print(sorted({'torch', 'torchvision', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(BIRDS.parent), str(tmp_path / "birds")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
