"""The scoring script of a deployment: `init()` loads the model, `run()` answers one request.

It runs in azureml-inference-server-http, on Azure and on this machine. Three bodies are understood: a picture as it
is (image/… or application/octet-stream), JSON with the picture in base64 (`{"image": "…"}`), and the JSON of
Microsoft's tutorial (`{"data": [[…]]}`, N × 3 × H × W numbers, already normalised).
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The server loads this file by its path and does not always put its folder on the path.
_HERE = str(Path(__file__).resolve().parent)
if sys.path[:1] != [_HERE]:
    sys.path.insert(0, _HERE)

from artefact import Artefact, BadModel, open_artefact  # noqa: E402
from bodies import BadRequest, Numbers, read_body, read_content  # noqa: E402
from engine import Engine, open_engine  # noqa: E402
from pictures import BadPicture, open_picture  # noqa: E402
from predictions import ModelFailed, predictions  # noqa: E402
from preprocessing import PictureDoesNotFit, preprocess  # noqa: E402

Handler = Callable[[Any], Any]

# The first place is the server's own package, the second the one that Azure's older images have.
_SERVER_PACKAGES = ("azureml_inference_server_http.api", "azureml.contrib.services")


def _server_module(name: str) -> Any:
    """The server's `aml_request` or `aml_response`."""
    for package in _SERVER_PACKAGES:
        try:
            return importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError("azureml-inference-server-http is not installed; add it to the environment.")


rawhttp: Callable[[Handler], Handler] = _server_module("aml_request").rawhttp
AMLResponse: Callable[..., Any] = _server_module("aml_response").AMLResponse

_loaded: tuple[Artefact, Engine] | None = None


def init() -> None:
    """Load the model that AZUREML_MODEL_DIR holds; raises `BadModel` with a sentence and the folder's tree."""
    global _loaded
    folder = os.environ.get("AZUREML_MODEL_DIR")
    if not folder:
        raise BadModel("AZUREML_MODEL_DIR is not set: the deployment has no model; give it one.")
    artefact = open_artefact(Path(folder))
    engine = open_engine(artefact)
    _loaded = artefact, engine
    print(
        f"Serving {artefact.architecture} with {len(artefact.classes)} classes from {artefact.folder} ({engine.name})."
    )


@rawhttp
def run(request: Any) -> Any:
    """Answer a request: 200 with the prediction, or 400, 405 or 413 with `{"error": {"code", "message"}}`."""
    if request.method == "OPTIONS":  # a browser asks first; the server adds the CORS headers where they are allowed
        return AMLResponse("", 200)
    try:
        return AMLResponse(_answer(request), 200, json_str=True)
    except BadRequest as fault:
        return _error(fault.status, fault.code, str(fault))
    except BadPicture as fault:
        return _error(400, fault.code, str(fault))
    except PictureDoesNotFit as fault:
        return _error(400, "does_not_fit", str(fault))
    except ModelFailed as fault:
        return _error(500, "model_failed", str(fault))


def _answer(request: Any) -> dict[str, Any]:
    """The prediction for the request's picture or numbers."""
    if _loaded is None:
        raise BadModel("run() was called before init().")
    artefact, engine = _loaded
    body = read_body(request)
    started = time.perf_counter()
    content = read_content(request.mimetype or "", body)
    steps: tuple[str, ...]
    if isinstance(content, Numbers):
        batch, steps = content.array(engine.shape), ("numbers taken as given",)
    else:
        prepared = preprocess(open_picture(content), artefact.preprocessing)
        batch, steps = prepared.array, prepared.steps
    ready = time.perf_counter()
    logits = engine.logits(batch)
    done = time.perf_counter()
    found = predictions(logits, artefact.classes)
    return {
        **(found[0] if len(found) == 1 else {"predictions": found}),
        "steps": list(steps),
        "timings": {
            "preprocess_ms": round((ready - started) * 1000, 3),
            "model_ms": round((done - ready) * 1000, 3),
        },
        "model": {"architecture": artefact.architecture, "input_shape": list(artefact.input_shape)},
    }


def _error(status: int, code: str, message: str) -> Any:
    return AMLResponse({"error": {"code": code, "message": message}}, status, json_str=True)
