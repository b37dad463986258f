"""A request's body becomes the bytes of a picture or a block of numbers, within bounds."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_BODY = 32 * 1024 * 1024
"""The largest body, in bytes."""

MAX_DRAINED = 4 * MAX_BODY
"""How much of a body that is too large is read and dropped, so that the client gets the answer, not a broken pipe."""

MAX_BATCH = 64
MIN_SIDE = 32
MAX_SIDE = 1024
"""Bounds of the numbers in a `data` body: pictures in one request, height and width."""

_CHUNK = 256 * 1024


class BadRequest(ValueError):
    """A request that cannot be answered; its text is a plain sentence, `status` the HTTP status, `code` a short name."""

    def __init__(self, code: str, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.code = code
        self.status = status


@dataclass(frozen=True)
class Numbers:
    """The `data` of Microsoft's JSON, parsed and not yet checked."""

    values: object

    def array(self, takes: tuple[int | None, ...]) -> npt.NDArray[np.float32]:
        """The numbers as float32 (batch, 3, height, width); `takes` is the shape that the model demands.

        Raises `BadRequest` for anything else.
        """
        if not isinstance(self.values, list):
            raise BadRequest("bad_data", "data must be a list of pictures: N × 3 × height × width numbers.")
        try:
            array = np.asarray(self.values)
        except (ValueError, OverflowError) as fault:
            raise BadRequest("bad_data", "data is ragged: its inner lists are not equally long.") from fault
        if array.dtype.kind not in "iuf":
            raise BadRequest("bad_data", "data must hold numbers only: N × 3 × height × width of them.")
        shape = " × ".join(str(side) for side in array.shape)
        if array.ndim != 4 or array.shape[1] != 3:
            raise BadRequest("bad_data", f"data is {shape}; the model takes N × 3 × height × width numbers.")
        count, _, height, width = array.shape
        if not 1 <= count <= MAX_BATCH:
            raise BadRequest("bad_data", f"data has {count} pictures; one request takes 1 to {MAX_BATCH}.")
        if not (MIN_SIDE <= height <= MAX_SIDE and MIN_SIDE <= width <= MAX_SIDE):
            raise BadRequest("bad_data", f"data is {shape}; height and width must be {MIN_SIDE} to {MAX_SIDE}.")
        if any(wanted is not None and wanted != given for wanted, given in zip(takes, array.shape, strict=True)):
            wanted_shape = " × ".join("N" if side is None else str(side) for side in takes)
            raise BadRequest("bad_data", f"data is {shape}; this model takes {wanted_shape}.")
        with np.errstate(over="ignore"):
            numbers = array.astype(np.float32)
        if not np.isfinite(numbers).all():
            raise BadRequest("bad_data", "data holds a number that is not finite in 32 bits (NaN or infinity).")
        return numbers


def read_body(request: Any) -> bytes:
    """The whole body of a POST, at most `MAX_BODY` bytes, whether or not its length was announced."""
    if request.method != "POST":
        raise BadRequest("use_post", "Send a picture with POST; there is nothing to get here.", 405)
    body = bytearray()
    size = 0
    while size <= MAX_DRAINED and (chunk := request.stream.read(_CHUNK)):
        size += len(chunk)
        if size <= MAX_BODY:
            body += chunk
    if size > MAX_BODY:
        limit = f"{MAX_BODY // (1024 * 1024)} MB"
        raise BadRequest("too_large", f"The request is larger than the limit of {limit}; send a smaller picture.", 413)
    if not body:
        raise BadRequest("empty_body", "The request is empty; send a picture.")
    return bytes(body)


def read_content(content_type: str, body: bytes) -> bytes | Numbers:
    """The picture's bytes, or numbers, by the request's content type (without its parameters)."""
    kind = content_type.lower()
    if kind.startswith("image/") or kind == "application/octet-stream":
        return body
    if kind == "application/json":
        return _from_json(body)
    raise BadRequest(
        "content_type",
        "The Content-Type must be image/jpeg (or another image type), application/octet-stream or application/json.",
    )


def _from_json(body: bytes) -> bytes | Numbers:
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise BadRequest("bad_json", "The body is not JSON: it is not UTF-8 text.") from fault
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}"
        raise BadRequest("bad_json", f"The body is not JSON: {fault.msg}, {place}.") from fault
    except (RecursionError, ValueError) as fault:
        raise BadRequest("bad_json", "The body's JSON is nested too deep or holds too long a number.") from fault
    given = [key for key in ("image", "data") if isinstance(document, dict) and key in document]
    if len(given) != 1:
        raise BadRequest("bad_json", 'The JSON must be {"image": "<base64>"} or {"data": [N × 3 × height × width]}.')
    if given == ["data"]:
        return Numbers(document["data"])
    return _from_base64(document["image"])


def _from_base64(text: object) -> bytes:
    """The bytes behind base64, which may be wrapped in lines or be a data: URL."""
    if not isinstance(text, str):
        raise BadRequest("bad_base64", "image must be a text: the picture's bytes in base64.")
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        picture = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as fault:
        raise BadRequest("bad_base64", "image is not valid base64.") from fault
    return picture
