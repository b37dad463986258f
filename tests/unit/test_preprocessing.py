"""The scoring code's preprocessing equals torchvision's PIL transforms to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from footplate.operations.pictures import score_module
from footplate.paths import asset

pictures, preprocessing = score_module("pictures"), score_module("preprocessing")
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "images"

SPECS: dict[str, dict[str, Any]] = {
    "imagenet": dict(preprocessing.IMAGENET),
    "ours": {
        "resize": 146,
        "crop": 128,
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "interpolation": "bilinear",
    },
    "bicubic": {"resize": 97, "crop": 96, "mean": [0.5, 0.4, 0.3], "std": [0.5, 0.25, 0.3], "interpolation": "bicubic"},
    "odd": {"resize": 61, "crop": 32, "mean": [0.1, 0.2, 0.3], "std": [1, 0.7, 0.9], "interpolation": "bilinear"},
    "padded": {"resize": 40, "crop": 57, "mean": [0, 0, 0], "std": [1, 1, 1], "interpolation": "bicubic"},
    "no crop": {"resize": 64, "crop": 64, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear"},
}


def torchvision_says(image: Image.Image, spec: dict[str, Any]) -> np.ndarray:
    from torchvision import transforms

    return (
        transforms.Compose(
            [
                transforms.Resize(spec["resize"], transforms.InterpolationMode(spec["interpolation"])),
                transforms.CenterCrop(spec["crop"]),
                transforms.ToTensor(),
                transforms.Normalize(spec["mean"], spec["std"]),
            ]
        )(image)
        .unsqueeze(0)
        .numpy()
    )


def picture_of(image: Image.Image) -> Any:
    return pictures.Picture(image, (), image.size, "RGB", "PNG", 0)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_case_pictures_are_bit_equal_to_torchvision(spec: dict[str, Any]) -> None:
    if not CASES.is_dir():
        pytest.skip(f"the case pictures are not at {CASES}")
    compared = 0
    for path in sorted(CASES.iterdir()):
        try:
            picture = pictures.open_picture(path)
        except pictures.BadPicture:
            continue
        prepared = preprocessing.preprocess(picture, spec)
        expected = torchvision_says(picture.image, spec)
        assert prepared.array.dtype == np.float32
        assert prepared.array.shape == (1, 3, spec["crop"], spec["crop"])
        assert np.array_equal(prepared.array, expected), path.name
        compared += 1
    assert compared >= 12


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_random_sizes_are_bit_equal_to_torchvision(spec: dict[str, Any]) -> None:
    random = np.random.default_rng(5)
    sizes = [(int(width), int(height)) for width, height in random.integers(20, 300, (40, 2))]
    sizes += [(spec["resize"], 300), (300, spec["resize"]), (spec["crop"], spec["crop"]), (1, 1), (3, 200)]
    for width, height in sizes:
        image = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        prepared = preprocessing.preprocess(picture_of(image), spec)
        assert np.array_equal(prepared.array, torchvision_says(image, spec)), (width, height)


def test_what_is_seen_is_what_the_numbers_say() -> None:
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (99, 77, 3), dtype=np.uint8))
    spec = SPECS["ours"]
    prepared = preprocessing.preprocess(picture_of(image), spec)
    assert (prepared.seen.mode, prepared.seen.size) == ("RGB", (128, 128))
    back = prepared.array[0].transpose(1, 2, 0) * np.array(spec["std"]) + np.array(spec["mean"])
    assert np.abs(back * 255 - np.asarray(prepared.seen)).max() < 0.01


def test_every_step_is_named_after_the_pictures_own() -> None:
    image = Image.new("RGB", (200, 100))
    picture = pictures.Picture(image, ("put on white",), image.size, "RGBA", "PNG", 0)
    assert preprocessing.preprocess(picture, SPECS["ours"]).steps == (
        "put on white",
        "resized to 146",
        "cropped to 128",
    )
    assert preprocessing.preprocess(picture, SPECS["padded"]).steps[1:] == (
        "resized to 40",
        "padded to 57",
        "cropped to 57",
    )
    exact = picture_of(Image.new("RGB", (64, 64)))
    assert preprocessing.preprocess(exact, SPECS["no crop"]).steps == ()


def test_a_thread_of_a_picture_is_refused_before_it_grows() -> None:
    with pytest.raises(preprocessing.PictureDoesNotFit, match="1 × 60000"):
        preprocessing.preprocess(picture_of(Image.new("RGB", (1, 60_000))), SPECS["imagenet"] | {"resize": 146})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resize": 0}, "resize"),
        ({"resize": True}, "resize"),
        ({"crop": 128.0}, "crop"),
        ({"crop": 100_000}, "crop"),
        ({"mean": [0.5, 0.5]}, "mean"),
        ({"mean": "grey"}, "mean"),
        ({"std": [0.5, 0, 0.5]}, "std"),
        ({"std": [0.5, float("nan"), 0.5]}, "std"),
        ({"interpolation": "nearest"}, "interpolation"),
        ({"resise": 3}, "resise"),
    ],
)
def test_a_faulty_block_is_refused_naming_the_key(change: dict[str, Any], words: str) -> None:
    with pytest.raises(preprocessing.BadPreprocessing, match=words):
        preprocessing.read_spec(SPECS["ours"] | change)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(preprocessing.BadPreprocessing, match="lacks mean"):
        preprocessing.read_spec({key: value for key, value in SPECS["ours"].items() if key != "mean"})


def test_it_needs_no_torch() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import preprocessing, pictures\n"
        "print([name for name in ('torch', 'torchvision', 'footplate') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(asset("score"))], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
