"""Half-block pictures: their proportions, their colours and what stands in their place."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from PIL import Image
from tests.screens.conditions import drawn, until
from textual.app import App, ComposeResult

from footplate.widgets.picture import HALF, Picture, fitted_size, resized_pixels

CASES = Path(__file__).parents[3] / "shared" / "cases" / "images"


class PictureApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Picture(empty="No picture yet.\nf opens one.")

    @property
    def picture(self) -> Picture:
        return self.query_one(Picture)


async def test_without_a_picture_there_is_a_text() -> None:
    app = PictureApp()
    async with app.run_test(size=(40, 10)) as pilot:
        assert drawn(app.picture)[:2] == ["No picture yet.", "f opens one."]
        app.picture.show(Image.new("RGB", (8, 8), "red"))
        await until(pilot, lambda: app.picture.drawn_size != (0, 0))
        app.picture.show(None, empty="Not an image [/].")
        await pilot.pause()
        assert drawn(app.picture)[0] == "Not an image [/]."


async def test_two_pixels_a_cell_in_their_own_colours() -> None:
    image = Image.new("RGB", (2, 3), "red")
    image.putpixel((0, 1), (0, 0, 255))
    app = PictureApp()
    async with app.run_test(size=(2, 2)) as pilot:
        app.picture.show(image)
        await until(pilot, lambda: app.picture.drawn_size == (2, 4))
        segments = app.picture.render_line(0)._segments
        assert [segment.text for segment in segments] == [HALF, HALF]
        assert segments[0].style.color.triplet == (255, 0, 0)
        assert segments[0].style.bgcolor.triplet == (0, 0, 255)
        assert segments[1].style.bgcolor.triplet == (255, 0, 0)
        ground = app.picture.rich_style.bgcolor
        assert app.picture.render_line(1)._segments[0].style.bgcolor == ground, "an odd last row has nothing below it"


async def test_a_camera_picture_fits_keeps_its_proportions_and_follows_the_size() -> None:
    app = PictureApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.picture.show(Image.new("RGB", (4000, 3000), "white"))
        await until(pilot, lambda: app.picture.drawn_size == (64, 48))
        await pilot.resize_terminal(40, 24)
        await until(pilot, lambda: app.picture.drawn_size == (40, 30))


@pytest.mark.parametrize(
    ("picture", "cells", "drawn_at"),
    [
        ((4000, 3000), (80, 24), (64, 48)),
        ((100, 1), (10, 10), (10, 1)),
        ((1, 1), (80, 24), (4, 4)),
        ((8, 8), (80, 24), (32, 32)),
        ((30, 30), (80, 24), (30, 30)),
        ((224, 224), (120, 40), (80, 80)),
        ((10000, 1), (5, 5), (5, 1)),
    ],
)
def test_fitted_size(picture: tuple[int, int], cells: tuple[int, int], drawn_at: tuple[int, int]) -> None:
    assert fitted_size(*picture, *cells) == drawn_at


def test_small_pictures_are_enlarged_by_whole_pixels() -> None:
    image = Image.new("RGB", (2, 2), "black")
    image.putpixel((1, 0), (255, 255, 255))
    pixels = resized_pixels(image, 8, 4)
    assert [[pixel[0] for pixel in row] for row in pixels] == [[0] * 4 + [255] * 4] * 4 + [[0] * 8] * 4


def case_pixels(name: str) -> list[list[tuple[int, int, int]]]:
    if not CASES.exists():
        pytest.skip("the image cases are not here")
    with Image.open(CASES / name) as image:
        return resized_pixels(image, 20, 10)


@pytest.mark.parametrize(
    "name",
    [
        "i01_cmyk.jpg",
        "i02_gray16.png",
        "i03_palette_transparent.png",
        "i04_gray8.png",
        "i16_photo.webp",
        "i23_rgba_black_under_alpha.png",
    ],
)
def test_pictures_of_every_mode_show_the_same_letter(name: str) -> None:
    rows = zip(case_pixels(name), case_pixels("i00_reference.png"), strict=True)
    pairs = chain.from_iterable(zip(mine, reference, strict=True) for mine, reference in rows)
    assert max(abs(mine[0] - reference[0]) for mine, reference in pairs) < 64


@pytest.mark.parametrize("name", ["i10_animated.gif", "i20_one_pixel.png", "i32_camera_4000x3000.jpg"])
def test_pictures_of_any_size_are_drawn(name: str) -> None:
    pixels = case_pixels(name)
    assert len({len(row) for row in pixels}) == 1


async def test_a_picture_that_cannot_be_decoded_says_so(tmp_path: Path) -> None:
    if not CASES.exists():
        pytest.skip("the image cases are not here")
    app = PictureApp()
    async with app.run_test(size=(60, 10)) as pilot:
        with Image.open(CASES / "i11_truncated.jpg") as image:
            app.picture.show(image)
            await until(pilot, lambda: drawn(app.picture)[0].startswith("This picture cannot be shown: "))


def test_widgets_and_logs_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "import footplate.logs.search, footplate.widgets.bars, footplate.widgets.chart, footplate.widgets.log_view\n"
        "import footplate.widgets.control_filter, footplate.widgets.picture, footplate.widgets.virtual_table\n"
        "print(sorted({'PIL', 'numpy', 'pydantic', 'aiohttp', 'azure', 'torch', 'yaml'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_log_engine_knows_nothing_of_textual() -> None:
    code = "import sys, footplate.logs.search\nprint([name for name in ('textual', 'rich') if name in sys.modules])\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
