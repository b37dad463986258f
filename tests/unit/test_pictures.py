"""Any picture becomes upright RGB with its steps named, and what is no picture is refused in a sentence."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from footplate.operations.pictures import check, look, resized_request, score_module, tensor_request
from footplate.paths import asset
from footplate.workspace.errors import Invalid

pictures = score_module("pictures")
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "images"


def case(name: str) -> Path:
    if not CASES.is_dir():
        pytest.skip(f"the case pictures are not at {CASES}")
    return CASES / name


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(int)


def letter() -> Image.Image:
    """An L with a dot: different in all eight orientations."""
    image = Image.new("RGB", (48, 64), (255, 255, 255))
    image.paste((0, 0, 0), (8, 8, 16, 56))
    image.paste((0, 0, 0), (8, 48, 40, 56))
    image.paste((200, 30, 30), (28, 8, 40, 20))
    return image


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, depth: int, colour: int, data: bytes, *extra: bytes) -> bytes:
    """A PNG by hand, for what Pillow does not write."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "steps", "largest_mean_difference"),
    [
        ("i00_reference.png", (), 0),
        ("i01_cmyk.jpg", ("CMYK converted",), 1),
        ("i03_palette_transparent.png", ("put on white",), 0),
        ("i04_gray8.png", ("grey to RGB",), 0),
        ("i06_exif_orientation6.jpg", ("turned 90° right",), 1),
        ("i10_animated.gif", ("frame 1 of 3", "palette to RGB"), 0),
        ("i16_photo.webp", (), 1),
        ("i23_rgba_black_under_alpha.png", ("put on white",), 0),
        ("i28 naïve [bold] 名前 🙂.png", (), 0),
    ],
)
def test_every_case_is_the_reference_picture(name: str, steps: tuple[str, ...], largest_mean_difference: float) -> None:
    path = case(name)
    reference = pictures.open_picture(case("i00_reference.png")).image
    picture = pictures.open_picture(path)
    assert picture.image.mode == "RGB"
    assert picture.image.size == reference.size
    assert np.abs(pixels(picture.image) - pixels(reference)).mean() <= largest_mean_difference
    assert picture.steps == steps
    assert picture.bytes == path.stat().st_size
    from_bytes = pictures.open_picture(path.read_bytes(), name)
    assert from_bytes.image.tobytes() == picture.image.tobytes()
    assert (from_bytes.steps, from_bytes.format) == (picture.steps, picture.format)


def test_sixteen_bit_case_is_scaled_not_clipped() -> None:
    reference = pictures.open_picture(case("i00_reference.png")).image
    picture = pictures.open_picture(case("i02_gray16.png"))
    assert picture.steps == ("16 to 8 bit", "grey to RGB")
    assert picture.original_mode.startswith("I")
    assert sorted(set(pixels(picture.image).ravel())) == [3000 // 256, 60000 // 256]
    assert ((pixels(picture.image) > 128) == (pixels(reference) > 128)).all()


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("i11_truncated.jpg", "cut_short", "cut short"),
        ("i13_zero_byte.png", "empty", "empty file"),
        ("i14_bomb_header.png", "too_many_pixels", "60000 × 60000"),
        ("i18_text_renamed.jpg", "not_an_image", "not an image (text)"),
    ],
)
def test_bad_cases_are_refused_in_a_sentence(name: str, code: str, words: str) -> None:
    with pytest.raises(pictures.BadPicture) as refused:
        pictures.open_picture(case(name))
    assert refused.value.code == code
    assert words in str(refused.value)
    assert name in str(refused.value)
    assert str(refused.value).endswith(".")


def test_huge_header_is_refused_with_flat_memory() -> None:
    script = (
        "import resource, sys; sys.path.insert(0, sys.argv[1]); import pictures; from pathlib import Path\n"
        "pictures.open_picture(Path(sys.argv[2]))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: pictures.open_picture(Path(sys.argv[3]))\n"
        "except pictures.BadPicture as fault: print(fault.code)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    arguments = [str(asset("score")), str(case("i00_reference.png")), str(case("i14_bomb_header.png"))]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    code, kilobytes = done.stdout.split()
    assert code == "too_many_pixels"
    assert int(kilobytes) < 4096


def test_one_pixel_is_opened_with_a_note() -> None:
    picture = pictures.open_picture(case("i20_one_pixel.png"))
    assert picture.image.size == (1, 1)
    assert picture.steps == ("very small (1 × 1 pixels)",)


def test_camera_picture_keeps_its_figures() -> None:
    path = case("i32_camera_4000x3000.jpg")
    seen = look(path, {"resize": 146, "crop": 128, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear"})
    assert (seen.size, seen.format, seen.bytes) == ((4000, 3000), "JPEG", path.stat().st_size)
    assert seen.original.size == (4000, 3000)
    assert seen.seen.size == (128, 128)
    assert seen.steps == ("resized to 146", "cropped to 128")


def test_look_without_a_model_uses_imagenet_and_refuses_in_the_console_error() -> None:
    assert look(case("i00_reference.png")).seen.size == (224, 224)
    with pytest.raises(Invalid, match="cut short"):
        look(case("i11_truncated.jpg"))
    with pytest.raises(Invalid, match="std"):
        look(case("i00_reference.png"), {"resize": 4, "crop": 4, "mean": [0, 0, 0], "std": [0, 1, 1]})


def test_requests_made_from_a_picture_score_like_the_file(tmp_path: Path) -> None:
    preprocessing = score_module("preprocessing")
    spec = {"resize": 36, "crop": 32, "mean": [0.5] * 3, "std": [0.25] * 3, "interpolation": "bilinear"}
    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 6
    random = np.random.default_rng(3).integers(0, 256, (90, 151, 3), dtype=np.uint8)
    path.write_bytes(encoded(Image.fromarray(random), "PNG", exif=exif))
    expected = preprocessing.preprocess(pictures.open_picture(path), spec).array
    body, steps = tensor_request(path, spec)
    assert np.array_equal(np.asarray(json.loads(body)["data"], dtype=np.float32), expected)
    assert steps == ("turned 90° right", "resized to 36", "cropped to 32")
    small, first_steps = resized_request(path, spec)
    again = pictures.open_picture(small)
    assert min(again.image.size) == 36
    assert np.array_equal(preprocessing.preprocess(again, spec).array, expected)
    assert first_steps == ("turned 90° right", "resized to 36")
    assert len(small) < path.stat().st_size


def test_check_gives_the_content_type_by_content(tmp_path: Path) -> None:
    path = tmp_path / "named.txt"
    for kind, content_type in (("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")):
        path.write_bytes(encoded(letter(), kind))
        assert check(path) == content_type
    path.write_bytes(b"text")
    for refuse in (
        check,
        tensor_request,
        lambda file: resized_request(file, dict(score_module("preprocessing").IMAGENET)),
    ):
        with pytest.raises(Invalid, match="not an image"):
            refuse(path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_comes_out_upright(kind: str, orientation: int) -> None:
    upright = letter()
    # What a camera held that way writes: the inverse of the turn that makes it upright.
    inverse = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(inverse[orientation]) if orientation in inverse else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, object] = {"quality": 95} if kind == "JPEG" else {"lossless": True} if kind == "WEBP" else {}
    picture = pictures.open_picture(encoded(stored, kind, exif=exif, **options))
    assert picture.image.size == upright.size
    assert np.abs(pixels(picture.image) - pixels(upright)).mean() < (4 if kind == "JPEG" else 0.01)
    assert picture.original_size == stored.size
    assert len(picture.steps) == (0 if orientation == 1 else 1)


@pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0"])
def test_broken_exif_is_ignored(exif: bytes) -> None:
    picture = pictures.open_picture(encoded(letter(), "PNG", exif=exif))
    assert picture.image.tobytes() == letter().tobytes()
    assert picture.steps == ()


def test_exif_orientation_of_no_meaning_is_ignored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 99
    assert pictures.open_picture(encoded(letter(), "PNG", exif=exif)).steps == ()


def test_grey_with_alpha_goes_on_white() -> None:
    grey = Image.new("LA", (20, 20), (0, 0))
    grey.paste((0, 255), (0, 0, 10, 20))
    picture = pictures.open_picture(encoded(grey, "PNG"))
    assert picture.steps == ("grey to RGB", "put on white")
    assert picture.image.getpixel((5, 5)) == (0, 0, 0)
    assert picture.image.getpixel((15, 5)) == (255, 255, 255)


def test_half_transparency_is_mixed_with_white() -> None:
    picture = pictures.open_picture(encoded(Image.new("RGBA", (20, 20), (255, 0, 0, 128)), "WEBP", lossless=True))
    assert picture.steps == ("put on white",)
    red, green, blue = picture.image.getpixel((3, 3))
    assert (red, green, blue) == (255, 127, 127)


def test_alpha_that_hides_nothing_is_dropped() -> None:
    opaque = letter().convert("RGBA")
    picture = pictures.open_picture(encoded(opaque, "PNG"))
    assert picture.steps == ("opaque alpha dropped",)
    assert picture.image.tobytes() == letter().tobytes()


def test_palette_with_alpha_goes_on_white() -> None:
    palette = Image.new("PA", (20, 20))
    palette.putpalette([0, 0, 0, 9, 200, 9])
    palette.paste((1, 255), (0, 0, 10, 20))
    image = pictures._to_rgb(palette, False, steps := [])
    assert steps == ["put on white"]
    assert image.getpixel((5, 5)) == (9, 200, 9)
    assert image.getpixel((15, 5)) == (255, 255, 255)


def test_plain_palette_keeps_its_colours() -> None:
    picture = pictures.open_picture(encoded(letter().quantize(8), "PNG"))
    assert picture.steps == ("palette to RGB",)
    assert np.abs(pixels(picture.image) - pixels(letter())).mean() < 1


def test_palette_with_an_alpha_a_colour_goes_on_white() -> None:
    palette = Image.new("P", (20, 20), 1)
    palette.putpalette([10, 20, 30, 200, 0, 0])
    picture = pictures.open_picture(encoded(palette, "PNG", transparency=bytes([255, 0])))
    assert picture.image.getpixel((3, 3)) == (255, 255, 255)


def test_one_bit_becomes_black_and_white() -> None:
    picture = pictures.open_picture(encoded(letter().convert("1"), "PNG"))
    assert picture.steps == ("black and white to RGB",)
    assert set(pixels(picture.image).ravel()) == {0, 255}


def test_transparent_colour_of_a_16_bit_grey_goes_on_white() -> None:
    row = b"\0" + struct.pack(">20H", *([3000] * 10 + [60000] * 10))
    data = png(20, 20, 16, 0, row * 20, chunk(b"tRNS", struct.pack(">H", 3000)))
    picture = pictures.open_picture(data)
    assert picture.steps == ("16 to 8 bit", "grey to RGB", "put on white")
    assert picture.image.getpixel((2, 2)) == (255, 255, 255)
    assert picture.image.getpixel((15, 2)) == (234, 234, 234)


def test_16_bit_colour_is_noted_and_keeps_the_high_byte() -> None:
    row = b"\0" + struct.pack(">60H", *([0x1234, 0x80FF, 0xFF00] * 20))
    picture = pictures.open_picture(png(20, 20, 16, 2, row * 20))
    assert picture.steps == ("16 to 8 bit",)
    assert picture.image.getpixel((2, 2)) == (0x12, 0x80, 0xFF)


@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_16_bit_tiff_is_scaled_by_256(order: str) -> None:
    values = np.full((20, 20), 0xABCD, dtype=order)
    mode = "I;16" if order == "<u2" else "I;16B"
    image = Image.frombytes(mode, (20, 20), values.tobytes())
    picture = pictures.open_picture(encoded(image, "TIFF"))
    assert picture.steps == ("16 to 8 bit", "grey to RGB")
    assert picture.image.getpixel((0, 0)) == (0xAB, 0xAB, 0xAB)


@pytest.mark.parametrize(
    ("values", "step", "first", "last"),
    [
        (np.linspace(0, 1, 400), "0..1 to 8 bit", 0, 255),
        (np.linspace(0, 200, 400), "float to 8 bit", 0, 200),
        (np.linspace(-5, 5, 400), "-5..5 stretched to 8 bit", 0, 255),
        (np.full(400, 1e9), "1e+09..1e+09 stretched to 8 bit", 0, 0),
    ],
)
def test_floats_become_8_bit_by_their_range(values: np.ndarray, step: str, first: int, last: int) -> None:
    image = Image.fromarray(values.astype(np.float32).reshape(20, 20))
    picture = pictures.open_picture(encoded(image, "TIFF"))
    assert picture.steps == (step, "grey to RGB")
    assert picture.image.getpixel((0, 0))[0] == first
    assert picture.image.getpixel((19, 19))[0] == last


def test_not_a_number_becomes_black() -> None:
    values = np.full((20, 20), 0.5, dtype=np.float32)
    values[0, 0] = np.nan
    picture = pictures.open_picture(encoded(Image.fromarray(values), "TIFF"))
    assert picture.steps == ("not-a-number to black", "0..1 to 8 bit", "grey to RGB")
    assert picture.image.getpixel((0, 0)) == (0, 0, 0)
    assert picture.image.getpixel((1, 0)) == (128, 128, 128)


def test_32_bit_whole_numbers_are_stretched() -> None:
    values = np.full((20, 20), -100, dtype=np.int32)
    values[5, 5] = 100_000
    picture = pictures.open_picture(encoded(Image.fromarray(values), "TIFF"))
    assert picture.steps == ("-100..100000 stretched to 8 bit", "grey to RGB")
    assert picture.image.getpixel((5, 5)) == (255, 255, 255)


def test_interlaced_png_is_the_same_picture() -> None:
    # Adam7 by hand for one grey 8 × 8 picture: the pixels of each pass, row by row.
    values = np.arange(64, dtype=np.uint8).reshape(8, 8) * 3
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b"".join(
        b"\0" + row.tobytes() for top, left, down, across in passes for row in values[top::down, left::across]
    )
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 1))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    picture = pictures.open_picture(data)
    assert (pixels(picture.image)[:, :, 0] == values).all()


def test_animated_webp_and_png_give_their_first_frame() -> None:
    second = Image.new("RGB", letter().size, (0, 0, 255))
    for kind, options in (("WEBP", {"lossless": True}), ("PNG", {})):
        data = encoded(letter(), kind, save_all=True, append_images=[second], **options)
        picture = pictures.open_picture(data)
        assert picture.steps[0] == "frame 1 of 2"
        assert picture.image.tobytes() == letter().tobytes()


def test_every_other_format_that_is_named_is_opened() -> None:
    for kind in ("BMP", "PPM", "JPEG2000", "AVIF", "TIFF", "GIF"):
        picture = pictures.open_picture(encoded(letter(), kind))
        assert picture.format == kind
        assert np.abs(pixels(picture.image) - pixels(letter())).mean() < 6, kind


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "PDF"),
        (b"<!DOCTYPE html><html><body>", "HTML"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "video"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "PostScript"),
        (b"PK\x03\x04\x14\0", "zip"),
        (b"\x93NUMPY\x01\0", "NumPy"),
        (bytes(range(256)), "unknown binary data"),
        (("日本語の文書" * 50).encode(), "text"),
    ],
)
def test_what_is_no_picture_is_named_by_its_content(head: bytes, words: str) -> None:
    with pytest.raises(pictures.BadPicture, match=words) as refused:
        pictures.open_picture(head, "upload.png")
    assert refused.value.code == "not_an_image"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF"])
def test_cut_and_flipped_files_are_refused_or_opened_but_never_crash(kind: str) -> None:
    noise = np.random.default_rng(7).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    whole = encoded(Image.fromarray(noise), kind)
    random = np.random.default_rng(8)
    refusals = []
    for attempt in range(60):
        data = bytearray(whole)
        if attempt % 2:
            data = data[: int(random.integers(12, len(data) - 8))]
        else:
            for position in random.integers(12, len(data), 8):
                data[position] = int(random.integers(0, 256))
        try:
            assert pictures.open_picture(bytes(data)).image.mode == "RGB"
        except pictures.BadPicture as fault:
            refusals.append(str(fault))
    assert refusals
    assert all(text.endswith(".") and "<" not in text and "object at" not in text for text in refusals)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP"])
def test_half_a_file_is_cut_short(kind: str) -> None:
    noise = np.random.default_rng(7).integers(0, 255, (60, 60, 3), dtype=np.uint8)
    whole = encoded(Image.fromarray(noise), kind)
    with pytest.raises(pictures.BadPicture):
        pictures.open_picture(whole[: len(whole) // 2])


def test_ninety_five_megapixels_pass_the_header_without_a_warning() -> None:
    data = png(10_000, 9_500, 1, 0, b"\0" * 100)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(pictures.BadPicture) as refused:
            pictures.open_picture(data)
    assert refused.value.code == "cut_short"
    assert seen == []


def test_nothing_global_is_changed_even_from_many_threads() -> None:
    files = [encoded(letter(), "PNG", exif=b"Exif\0\0garbage"), encoded(letter(), "TIFF"), encoded(letter(), "GIF")]
    before = (list(warnings.filters), Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(pictures.open_picture, files * 30))
    assert len(opened) == 90
    assert (list(warnings.filters), Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES) == before


def test_paths_that_are_no_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "none.png", "does not exist"),
        (tmp_path / "pipe", "not an ordinary file"),
        (Path("a\0b.png"), "cannot be read"),
        (tmp_path / ("long" * 200), "cannot be read"),
    ):
        with pytest.raises(pictures.BadPicture, match=words) as refused:
            pictures.open_picture(path)
        assert refused.value.code == "missing"


def test_control_characters_of_a_name_do_not_reach_the_sentence() -> None:
    with pytest.raises(pictures.BadPicture) as refused:
        pictures.open_picture(b"hello", "a\x1b[31m\nb.png")
    assert str(refused.value).isprintable()


def test_refusal_survives_being_sent_between_processes() -> None:
    import pickle

    again = pickle.loads(pickle.dumps(pictures.BadPicture("It is empty.", "empty")))
    assert (str(again), again.code) == ("It is empty.", "empty")
