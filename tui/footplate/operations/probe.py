"""Try an endpoint out: a drawn picture, or a request of one's own, is sent to a deployment whatever its traffic."""

from __future__ import annotations

import io
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from footplate import words
from footplate.operations.invoke import Prediction, Request, answering, send
from footplate.workspace import Deployment, Endpoint, Invalid, NotFound, Workspace

_SIDE = 224
"""Pixels: the usual size of a picture model's input."""


@dataclass(frozen=True)
class Probed:
    """What one deployment answered. `error` is set where it did not serve; what the picture was taken for does not count."""

    deployment: str
    status: int
    seconds: float
    said: str
    error: str
    exit_code: int
    prediction: Prediction

    def document(self) -> dict[str, Any]:
        """What `endpoint test --json` prints for a deployment: `invoke`'s fields, and an error only where it did not serve."""
        document = {key: value for key, value in self.prediction.document().items() if key != "error"}
        return {**document, "deployment": self.deployment, **({"error": self.error} if self.error else {})}


def asked(endpoint: Endpoint, deployment: str | None) -> Sequence[Deployment]:
    """The deployments to try: the named one, else all. Raises NotFound for a wrong name, and where there is none."""
    if deployment is not None and (named := answering(endpoint, deployment)) is not None:
        return (named,)
    if not endpoint.deployments:
        raise NotFound(
            f"Endpoint {endpoint.name!r} has no deployment.", f"footplate deploy --endpoint {endpoint.name} makes one."
        )
    return endpoint.deployments


def request(file: Path | None = None) -> Request:
    """The request to send: a file as it is, else a drawn picture. Reads or draws: call it in a thread. Raises Invalid."""
    if file is None:
        return Request(_picture(), "image/png", (), 0.0)
    try:
        body = file.read_bytes()
    except OSError as error:
        raise Invalid(f"The request {file} cannot be read: {error.strerror or error}.", "Give another file.") from error
    return Request(body, mimetypes.guess_type(file.name)[0] or "application/json", (), 0.0)


async def probe(workspace: Workspace, endpoint: str, deployment: Deployment, sent: Request) -> Probed:
    """Send the request to a deployment. Raises Unreachable when nobody answers."""
    found = await send(workspace, endpoint, sent, deployment.name)
    served = found.status < 400
    said = f"{found.label}, {words.percent(found.probability or 0)}" if found.label is not None else found.error or ""
    return Probed(
        deployment.name,
        found.status,
        found.request_seconds,
        said,
        "" if served else (found.error or f"The endpoint answered {found.status}."),
        0 if served else found.exit_code,
        found,
    )


def _picture() -> bytes:
    """A small PNG with an edge and every colour, drawn here: no file is needed, and nothing of anybody's is sent."""
    from PIL import Image, ImageDraw  # not for `endpoint show` to wait for

    bands = [Image.linear_gradient("L").rotate(90 * turn).resize((_SIDE, _SIDE)) for turn in range(3)]
    picture = Image.merge("RGB", bands)
    ImageDraw.Draw(picture).ellipse((_SIDE // 4, _SIDE // 4, _SIDE * 3 // 4, _SIDE * 3 // 4), fill=(230, 180, 40))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
