"""A request's body becomes the bytes of pictures or a block of numbers, within bounds."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from email.message import Message
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from artefact import Limits

DRAINED = 4
"""How many times the limit of a body is read and dropped, so that the client gets the answer, not a broken pipe."""

MIN_SIDE = 32
MAX_SIDE = 1024
"""Bounds of height and width of numbers."""

_CHUNK = 256 * 1024
_FORMS = (
    'The JSON must be {"image": "<base64>"}, {"images": ["<base64>", …]} or {"data": [N × 3 × height × width]}, '
    "where data may be called input_data."
)


class BadRequest(ValueError):
    """A request that cannot be answered; its text is a plain sentence, `status` the HTTP status, `code` a short name."""

    def __init__(self, code: str, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.code = code
        self.status = status


@dataclass(frozen=True)
class Pictures:
    """Files, not yet opened; `listed` says whether the client sent a list, so that it gets one back."""

    files: tuple[bytes, ...]
    listed: bool


@dataclass(frozen=True)
class Numbers:
    """The `data` of Microsoft's JSON, parsed and not yet checked."""

    values: object
    batch: int

    def array(self, takes: tuple[int | None, ...]) -> npt.NDArray[np.float32]:
        """The numbers as float32 (batch, 3, height, width); `takes` is the shape that the model demands.

        Raises `BadRequest` for anything else.
        """
        shape, flat = _flat(self.values)
        text = " × ".join(str(side) for side in shape)
        if len(shape) != 4 or shape[1] != 3:
            raise BadRequest("bad_data", f"data is {text}; the model takes N × 3 × height × width numbers.")
        count, _, height, width = shape
        if count > self.batch:
            raise BadRequest("bad_data", f"data has {count} pictures; one request takes 1 to {self.batch}.")
        if not (MIN_SIDE <= height <= MAX_SIDE and MIN_SIDE <= width <= MAX_SIDE):
            raise BadRequest("bad_data", f"data is {text}; height and width must be {MIN_SIDE} to {MAX_SIDE}.")
        if any(wanted is not None and wanted != given for wanted, given in zip(takes, shape, strict=True)):
            raise BadRequest("bad_data", f"data is {text}; this model takes {shape_text(takes)}.")
        try:
            with np.errstate(over="ignore"):
                numbers = np.array(flat, dtype=np.float64).astype(np.float32).reshape(shape)
        except OverflowError:  # a whole number beyond what even 64 bits of a float hold
            numbers = np.array([np.inf], dtype=np.float32)
        if not np.isfinite(numbers).all():
            raise BadRequest("bad_data", "data holds a number that is not finite in 32 bits (NaN or infinity).")
        return numbers


def shape_text(shape: tuple[int | None, ...]) -> str:
    """A model's input shape in words, the free batch as N."""
    return " × ".join("N" if side is None else str(side) for side in shape)


def _flat(values: object) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of lists in lists, and their numbers in order.

    NumPy is not asked: it would make an array of texts, as wide as the longest, of a small body.
    """
    if not isinstance(values, list):
        raise BadRequest("bad_data", "data must be a list of pictures: N × 3 × height × width numbers.")
    level, shape = values, [len(values)]
    while level and isinstance(level[0], list) and len(shape) <= 4:
        width = len(level[0])
        if not all(isinstance(inner, list) and len(inner) == width for inner in level):
            raise BadRequest("bad_data", "data is ragged: its inner lists are not equally long.")
        level = list(chain.from_iterable(level))
        shape.append(width)
    kinds = set(map(type, level))
    if list in kinds:
        raise BadRequest("bad_data", "data is ragged or nested too deep; it must be N × 3 × height × width numbers.")
    if not kinds <= {int, float}:
        raise BadRequest("bad_data", "data must hold numbers only: N × 3 × height × width of them.")
    return tuple(shape), level


def read_body(request: Any, limits: Limits) -> bytes:
    """The whole body of a POST, at most the limit's bytes, whether or not its length was announced."""
    if request.method != "POST":
        raise BadRequest("use_post", "Send a picture with POST.", 405)
    body = bytearray()
    size = 0
    while size <= DRAINED * limits.body_bytes and (chunk := request.stream.read(_CHUNK)):
        size += len(chunk)
        if size <= limits.body_bytes:
            body += chunk
    if size > limits.body_bytes:
        limit = f"{limits.body_bytes / (1024 * 1024):g} MB"
        raise BadRequest("too_large", f"The request is larger than the limit of {limit}; send a smaller picture.", 413)
    if not body:
        raise BadRequest("empty_body", "The request is empty; send a picture.")
    return bytes(body)


def read_content(content_type: str, body: bytes, limits: Limits) -> Pictures | Numbers:
    """Pictures, or numbers, by the request's Content-Type header."""
    header = Message()
    header["Content-Type"] = content_type
    kind = header.get_content_type()
    if content_type and (kind.startswith("image/") or kind == "application/octet-stream"):
        return Pictures((body,), listed=False)
    if kind == "application/json":
        return _from_json(body, limits)
    if kind in ("multipart/form-data", "multipart/mixed"):
        return _few(_parts(body, header.get_boundary("")), limits)
    raise BadRequest(
        "content_type",
        "The Content-Type must be image/jpeg (or another image type), application/octet-stream, application/json, or "
        "multipart/form-data for several pictures.",
        415,
    )


def _few(files: list[bytes], limits: Limits) -> Pictures:
    if not 1 <= len(files) <= limits.batch:
        raise BadRequest("bad_batch", f"There are {len(files)} pictures; one request takes 1 to {limits.batch}.")
    return Pictures(tuple(files), listed=True)


def _parts(body: bytes, boundary: str) -> list[bytes]:
    """The contents of a multipart body, whatever their names."""
    if not boundary:
        raise BadRequest("bad_multipart", "The Content-Type of the multipart body names no boundary.")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1", "replace"))
    if not parts or not parts[-1].startswith(b"--"):
        raise BadRequest("bad_multipart", "The multipart body is cut short: its closing boundary is missing.")
    contents = []
    for part in parts[:-1]:
        # A part without headers begins with the empty line itself, right after its boundary's line.
        _, found, content = part.partition(b"\r\n\r\n")
        if not found:
            raise BadRequest("bad_multipart", "A part of the multipart body has no empty line after its headers.")
        contents.append(content)
    return contents


def _from_json(body: bytes, limits: Limits) -> Pictures | Numbers:
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise BadRequest("bad_json", "The body is not JSON: it is not UTF-8 text.") from fault
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}"
        raise BadRequest("bad_json", f"The body is not JSON: {fault.msg}, {place}.") from fault
    except (RecursionError, ValueError) as fault:
        raise BadRequest("bad_json", "The body's JSON is nested too deep or holds too long a number.") from fault
    keys = ("image", "images", "data", "input_data")
    given = [key for key in keys if isinstance(document, dict) and key in document]
    if len(given) != 1:
        raise BadRequest("bad_json", _FORMS)
    key, value = given[0], document[given[0]]
    if (
        isinstance(value, dict) and key == "input_data"
    ):  # a table with columns, as MLflow's and AutoML's clients send it
        value = value.get("data")
    if key == "image" and not isinstance(value, list):
        return Pictures((_from_base64(value, key),), listed=False)
    texts = _texts(value, key)
    if texts is None:
        return Numbers(value, limits.batch)
    return _few([_from_base64(text, f"{key}[{i}]") for i, text in enumerate(texts)], limits)


def _texts(value: object, key: str) -> list[object] | None:
    """The pictures of a list in base64, also of a table's only column; None where there are numbers."""
    if not isinstance(value, list):
        if key == "images":
            raise BadRequest("bad_base64", "images must be a list of texts: each picture's bytes in base64.")
        return None
    if value and all(isinstance(row, list) and len(row) == 1 and isinstance(row[0], str) for row in value):
        return [row[0] for row in value]
    return value if key in ("image", "images") or (value and isinstance(value[0], str)) else None


def _from_base64(text: object, called: str) -> bytes:
    """The bytes behind base64, which may be wrapped in lines or be a data: URL."""
    if not isinstance(text, str):
        raise BadRequest("bad_base64", f"{called} must be a text: the picture's bytes in base64.")
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as fault:
        raise BadRequest("bad_base64", f"{called} is not valid base64.") from fault
