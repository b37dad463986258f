"""Any picture file becomes an upright 8-bit RGB picture, and each step taken is named.

This file stands in `score/` and in `trainer/`, equal byte for byte: a model is trained on and scores the same pixels.
"""

from __future__ import annotations

import io
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile

MAX_PIXELS = 100_000_000
"""Width × height above which a picture is refused from its header, before anything is decoded."""

VERY_SMALL = 16
"""A side below this many pixels is noted: the model sees little more than a colour."""

# Only these are opened: Pillow also knows formats that start other programs (EPS) or that have no signature (TGA).
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG2000"),
    (b"\xff\x4f\xff\x51", "JPEG2000"),
)
_OTHER_TYPES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", "PDF"),
    (b"%!PS", "PostScript"),
    (b"8BPS", "Photoshop"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x7fELF", "a program"),
)
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")

_ORIENTATION = 0x0112
_TURNS = {
    2: (Image.Transpose.FLIP_LEFT_RIGHT, "mirrored"),
    3: (Image.Transpose.ROTATE_180, "turned 180°"),
    4: (Image.Transpose.FLIP_TOP_BOTTOM, "flipped"),
    5: (Image.Transpose.TRANSPOSE, "flipped and turned 90° right"),
    6: (Image.Transpose.ROTATE_270, "turned 90° right"),
    7: (Image.Transpose.TRANSVERSE, "flipped and turned 90° left"),
    8: (Image.Transpose.ROTATE_90, "turned 90° left"),
}

# Python's warning filters belong to the whole process: one thread at a time may change them and put them back.
_warnings_lock = threading.Lock()


class BadPicture(ValueError):
    """A file that cannot be used as a picture; its text is a plain sentence.

    `code` is one of `missing`, `empty`, `not_an_image`, `cut_short`, `too_many_pixels`, `unreadable`.
    """

    def __init__(self, sentence: str, code: str = "unreadable") -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Picture:
    """An upright RGB picture, with what the file held and what was done to it."""

    image: Image.Image
    steps: tuple[str, ...]
    original_size: tuple[int, int]
    original_mode: str
    format: str
    bytes: int


def open_picture(source: Path | bytes, name: str | None = None, max_pixels: int = MAX_PIXELS) -> Picture:
    """Open a file, or the bytes of one, as upright RGB; `name` stands in error sentences.

    Raises `BadPicture`: no such file, empty, not a picture, cut short, over `max_pixels`, or damaged.
    """
    if isinstance(source, bytes):
        return _open(io.BytesIO(source), len(source), printable(name or "The picture"), max_pixels)
    called = printable(name or source.name or str(source))
    try:
        status = source.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not an ordinary file"
            raise BadPicture(f"{called} is {kind}; give a picture file.", "missing")
        with source.open("rb") as file:
            return _open(file, status.st_size, called, max_pixels)
    except FileNotFoundError as fault:
        raise BadPicture(f"{called} does not exist.", "missing") from fault
    except (OSError, ValueError) as fault:
        if isinstance(fault, BadPicture):
            raise
        reason = (fault.strerror if isinstance(fault, OSError) else None) or "its path is not valid"
        raise BadPicture(f"{called} cannot be read: {reason}.", "missing") from fault


def printable(text: str) -> str:
    """The text with every character that is not printable shown as a replacement mark."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _open(file: BinaryIO, size: int, name: str, max_pixels: int) -> Picture:
    """Identify by content, refuse from the header, decode the first frame, then convert."""
    head = file.read(512)
    if not head:
        raise BadPicture(f"{name} is an empty file.", "empty")
    kind = _kind(head)
    if kind is None:
        raise BadPicture(f"{name} is not an image ({_other_type(head)}).", "not_an_image")
    file.seek(0)
    try:
        with _no_warnings():
            image = _header(file, kind, name)
            if image.width * image.height > max_pixels:
                raise BadPicture(_too_many(name, max_pixels, image.size), "too_many_pixels")
            frames = _frames(image)
            sixteen_bit = _is_sixteen_bit(image)
            before = _orientation(image) if kind == "TIFF" else 1  # asking a PNG would decode it
        original_size, original_mode = image.size, image.mode
        # Only a TIFF warns while it is decoded; the others are decoded outside the lock, many at a time.
        with _no_warnings() if kind == "TIFF" else nullcontext():
            image.load()
        with _no_warnings():
            to_turn = _orientation(image)
        turned_by_pillow = before != 1 and to_turn == 1  # Pillow turns a TIFF itself, and gives the turned size
        if turned_by_pillow and 5 <= before <= 8:
            original_size = original_size[::-1]
        steps: list[str] = []
        if frames > 1:
            steps.append(f"frame 1 of {frames}")
        rgb = _to_rgb(image, sixteen_bit, steps)
        if to_turn in _TURNS:
            rgb = rgb.transpose(_TURNS[to_turn][0])
        orientation = before if turned_by_pillow else to_turn
        if orientation in _TURNS:
            steps.append(_TURNS[orientation][1])
    except (BadPicture, TimeoutError):  # a server's time limit is no fault of the picture
        raise
    except Image.DecompressionBombError as fault:
        raise BadPicture(_too_many(name, max_pixels, None), "too_many_pixels") from fault
    except MemoryError as fault:
        raise BadPicture(f"{name} needs more memory than there is; make it smaller.", "too_many_pixels") from fault
    except Exception as fault:  # decoders let anything out on damaged data: struct.error, IndexError, SyntaxError
        raise _damaged(fault, kind, size, name) from fault
    if min(rgb.size) < VERY_SMALL:
        steps.append(f"very small ({rgb.width} × {rgb.height} pixels)")
    return Picture(rgb, tuple(steps), original_size, original_mode, image.format or kind, size)


def _kind(head: bytes) -> str | None:
    """Pillow's name of the format by its first bytes, None for what is not a picture that we open."""
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis"):
        return "AVIF"
    if head[:1] == b"P" and head[1:2] in b"123456" and head[2:3] in b" \t\r\n#" and len(head) > 2:
        return "PPM"
    return None


def _other_type(head: bytes) -> str:
    """What a file that is no picture seems to be, in a word or two."""
    for signature, kind in _OTHER_TYPES:
        if head.startswith(signature):
            return kind
    if head[4:8] == b"ftyp":
        return "HEIC, save it as JPEG" if head[8:12] in _HEIF_BRANDS else "a video"
    text = head.decode("utf-8", errors="replace")
    # The last character may be cut by the 512 bytes, so one replacement mark at the end is no fault.
    if "\0" in text or "\ufffd" in text[:-1]:
        return "unknown binary data"
    start = text.lstrip("\ufeff \t\r\n").lower()
    if "<svg" in start:
        return "SVG, save it as PNG"
    if start.startswith(("<!doctype html", "<html")):
        return "an HTML page"
    return "text"


def _header(file: BinaryIO, kind: str, name: str) -> ImageFile.ImageFile:
    """The picture with its header read and nothing decoded.

    The format's own reader is called, as `Image.open` would answer a huge picture with a warning or an error that does
    not tell its size.
    """
    Image.preinit()
    if kind not in Image.OPEN:
        Image.init()
    if kind not in Image.OPEN:
        raise BadPicture(f"{name} is a {kind} picture, which this installation of Pillow cannot read; save it as PNG.")
    return Image.OPEN[kind][0](file, "")


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Keep Pillow's warnings (corrupt EXIF, odd TIFF tags) from the caller: our own sentences stand instead."""
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _too_many(name: str, max_pixels: int, size: tuple[int, int] | None) -> str:
    there = f"has {size[0]} × {size[1]} pixels, over" if size else "has more pixels than"
    return f"{name} {there} the limit of {max_pixels / 1_000_000:g} megapixels; make it smaller."


def _frames(image: Image.Image) -> int:
    """How many frames the file holds; 1 where they cannot be counted, as only the first is used."""
    try:
        count = int(getattr(image, "n_frames", 1))
        image.seek(0)
    except (EOFError, OSError, ValueError, SyntaxError, IndexError):
        return 1
    return count


def _orientation(image: Image.Image) -> int:
    """EXIF's orientation, 1 (upright) where it is missing or broken."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - broken EXIF raises nearly anything, and the pixels are still good
        return 1
    return value if isinstance(value, int) else 1


def _is_sixteen_bit(image: Image.Image) -> bool:
    """Whether the file holds 16 bits a channel, by the raw mode of the not yet decoded data."""
    for tile in getattr(image, "tile", ()):
        arguments = tile[3] if isinstance(tile[3], tuple) else (tile[3],)
        if any(isinstance(word, str) and word.endswith((";16B", ";16L", ";16N")) for word in arguments):
            return True
    return image.mode.startswith("I;16")


def _to_rgb(image: Image.Image, sixteen_bit: bool, steps: list[str]) -> Image.Image:
    """8-bit RGB on white, adding the steps taken."""
    transparency = image.info.get("transparency")
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        image = _deep_grey(image, transparency, steps)
    elif sixteen_bit:  # Pillow has already kept the high byte of each channel, which is the same division by 256
        steps.append("16 to 8 bit")
        if isinstance(transparency, tuple):
            image.info["transparency"] = tuple(value >> 8 for value in transparency)
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return _on_white(image, steps)
    names = {"CMYK": "CMYK converted", "P": "palette to RGB", "L": "grey to RGB", "1": "black and white to RGB"}
    steps.append(names.get(image.mode, f"{image.mode} converted"))
    return image.convert("RGB")


def _on_white(image: Image.Image, steps: list[str]) -> Image.Image:
    """Alpha or a transparent colour composed on white."""
    if image.mode in ("La", "RGBa"):
        image = image.convert("LA" if image.mode == "La" else "RGBA")
    if image.mode in ("L", "LA", "1"):
        steps.append("grey to RGB")
    rgba = image.convert("RGBA")
    alpha = rgba.getchannel("A")
    lowest = alpha.getextrema()[0]
    if lowest == 255:
        steps.append("opaque alpha dropped")
        return rgba.convert("RGB")
    white = Image.new("RGB", rgba.size, (255, 255, 255))
    white.paste(rgba.convert("RGB"), mask=alpha)
    steps.append("put on white")
    return white


def _deep_grey(image: Image.Image, transparency: object, steps: list[str]) -> Image.Image:
    """A grey picture of 16 or 32 bits or of floats as 8-bit grey.

    16-bit values are divided by 256. Whole numbers beyond 16 bits, and floats outside 0..1 and 0..255, are stretched
    from their lowest to their highest.
    """
    values = np.asarray(image)
    if image.mode == "F":
        grey = _float_grey(values.astype(np.float64), steps)
    else:
        low, high = int(values.min()), int(values.max())
        if low >= 0 and high <= 65535:
            steps.append("16 to 8 bit")
            grey = (values.astype(np.uint32) >> 8).astype(np.uint8)
        else:
            grey = _stretched(values.astype(np.float64), low, high, steps)
    result = Image.fromarray(grey)
    if isinstance(transparency, int):
        alpha = np.where(values == transparency, 0, 255).astype(np.uint8)
        result.putalpha(Image.fromarray(alpha))
    return result


def _float_grey(values: npt.NDArray[np.float64], steps: list[str]) -> npt.NDArray[np.uint8]:
    finite = np.isfinite(values)
    if not finite.all():
        steps.append("not-a-number to black")
        values = np.where(finite, values, 0.0)
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        steps.append("0..1 to 8 bit")
        return np.round(values * 255).astype(np.uint8)
    if low >= 0 and high <= 255:
        steps.append("float to 8 bit")
        return np.round(values).astype(np.uint8)
    return _stretched(values, low, high, steps)


def _stretched(values: npt.NDArray[np.float64], low: float, high: float, steps: list[str]) -> npt.NDArray[np.uint8]:
    steps.append(f"{low:g}..{high:g} stretched to 8 bit")
    if high == low:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.round((values - low) * (255 / (high - low))).astype(np.uint8)


def _damaged(fault: Exception, kind: str, size: int, name: str) -> BadPicture:
    """The sentence for a file whose signature is a picture's but which does not decode."""
    words = str(fault).lower()
    if "truncated" in words or "not enough" in words or isinstance(fault, EOFError) or size < 64:
        return BadPicture(f"{name} is cut short: the file ends before the picture does; copy it again.", "cut_short")
    return BadPicture(f"{name} is a damaged {kind} picture and cannot be decoded; save it anew or copy it again.")
