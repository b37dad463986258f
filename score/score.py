"""The scoring script of a deployment: `init()` loads the model, `run()` answers one request.

It runs in azureml-inference-server-http, on Azure and on this machine. These bodies are understood: a picture as it is
(image/… or application/octet-stream), several as multipart/form-data, JSON with base64 (`{"image": "…"}`, `{"images":
[…]}`), and the JSON of Microsoft's tutorial (`{"data": [[…]]}`, N × 3 × H × W numbers, already normalised), which may
call its data input_data. A GET says what is loaded.
"""

from __future__ import annotations

import base64
import ctypes
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

# The server loads this file by its path and does not always put its folder on the path.
_HERE = str(Path(__file__).resolve().parent)
if sys.path[:1] != [_HERE]:
    sys.path.insert(0, _HERE)

from artefact import Artefact, BadModel, open_artefact  # noqa: E402
from bodies import BadRequest, Numbers, Pictures, read_body, read_content, shape_text  # noqa: E402
from engine import Array, Engine, open_engine  # noqa: E402
from engine import run as run_model  # noqa: E402
from pictures import BadPicture, open_picture  # noqa: E402
from predictions import ModelFailed, predictions  # noqa: E402
from preprocessing import PictureDoesNotFit, preprocess  # noqa: E402
from swagger import SAMPLE_PICTURE, describe  # noqa: E402

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
    """Load the model that AZUREML_MODEL_DIR holds, and try it on a picture.

    Raises `BadModel` with a sentence and the folder's tree.
    """
    global _loaded
    folder = os.environ.get("AZUREML_MODEL_DIR")
    if not folder:
        raise BadModel("AZUREML_MODEL_DIR is not set: the deployment has no model; give it one.")
    artefact = open_artefact(Path(folder))
    engine = open_engine(artefact)
    # The first picture would otherwise pay for Pillow's decoders and the libraries' first use.
    _scored(artefact, engine, Pictures((base64.b64decode(SAMPLE_PICTURE),), listed=False))
    _loaded = artefact, engine
    _give_back_memory()
    describe(run, artefact.classes)
    print(
        f"Serving {artefact.architecture} with {len(artefact.classes)} classes from {artefact.folder} ({engine.name}), "
        f"threads: {engine.threads}."
    )


def _give_back_memory() -> None:
    """Hand what loading has freed back to the system: glibc would keep it, as much again as the model takes."""
    with suppress(OSError, AttributeError, TypeError):  # another C library has no such function
        ctypes.CDLL(None).malloc_trim(0)


@rawhttp
def run(request: Any) -> Any:
    """Answer a request: 200 with the prediction, or 400, 405, 413 or 415 with `{"error": {"code", "message"}}`."""
    if request.method == "OPTIONS":  # a browser asks first; the server adds the CORS headers where they are allowed
        return AMLResponse("", 200)
    if _loaded is None:
        raise BadModel("run() was called before init().")
    artefact, engine = _loaded
    try:
        if request.method == "GET":
            return AMLResponse(_health(artefact, engine), 200, json_str=True)
        content_type = request.headers.get("Content-Type", "")
        content = read_content(content_type, read_body(request, artefact.limits), artefact.limits)
        return AMLResponse(_scored(artefact, engine, content), 200, json_str=True)
    except BadRequest as fault:
        return _error(fault.status, fault.code, str(fault))
    except BadPicture as fault:
        return _error(400, fault.code, str(fault))
    except PictureDoesNotFit as fault:
        return _error(400, "does_not_fit", str(fault))
    except ModelFailed as fault:
        return _error(500, "model_failed", str(fault))


def _health(artefact: Artefact, engine: Engine) -> dict[str, Any]:
    """What is loaded, and what a request may be; nothing of the machine."""
    return {
        "status": "ready",
        "model": {
            "architecture": artefact.architecture,
            "classes": list(artefact.classes),
            "preprocessing": asdict(artefact.preprocessing),
            "input_shape": list(artefact.input_shape),
            **artefact.told,
        },
        "engine": {"name": engine.name, "threads": engine.threads},
        "limits": asdict(artefact.limits),
    }


def _scored(artefact: Artefact, engine: Engine, content: Pictures | Numbers) -> dict[str, Any]:
    """The predictions for pictures or numbers, all in one run of the model."""
    started = time.perf_counter()
    if isinstance(content, Numbers):
        batch: Array = content.array((None, *engine.shape[1:]))
        steps: list[tuple[str, ...]] = [("numbers taken as given",)]
    else:
        many = len(content.files) > 1
        prepared = []
        for i, file in enumerate(content.files, 1):
            name = f"Picture {i} of {len(content.files)}" if many else None
            try:
                prepared.append(preprocess(open_picture(file, name, artefact.limits.pixels), artefact.preprocessing))
            except PictureDoesNotFit as fault:
                raise PictureDoesNotFit(f"{name}: {fault}" if name else str(fault)) from fault
        batch, steps = np.concatenate([one.array for one in prepared]), [one.steps for one in prepared]
    ready = time.perf_counter()
    logits = _outputs(artefact, engine, batch)
    done = time.perf_counter()
    found = predictions(logits, artefact.classes)
    if isinstance(content, Pictures) and content.listed:
        answer: dict[str, Any] = {
            "predictions": [{**one, "steps": list(taken)} for one, taken in zip(found, steps, strict=True)]
        }
    else:
        answer = {**(found[0] if len(found) == 1 else {"predictions": found}), "steps": list(steps[0])}
    return {
        **answer,
        "timings": {
            "preprocess_ms": round((ready - started) * 1000, 3),
            "model_ms": round((done - ready) * 1000, 3),
        },
        "model": {"architecture": artefact.architecture, "input_shape": list(artefact.input_shape)},
    }


def _outputs(artefact: Artefact, engine: Engine, batch: Array) -> Array:
    """The model's outputs; a failure in the library that runs it is told without its text, which goes to the log."""
    try:
        return run_model(engine, batch)
    except TimeoutError:  # the server's own time limit
        raise
    except Exception as fault:  # neither library's errors have a common parent but Exception
        if batch.shape[1:] != artefact.input_shape:
            takes = shape_text((None, *artefact.input_shape))
            given = shape_text(tuple(batch.shape))
            raise BadRequest("bad_data", f"data is {given}, which this model does not take; send {takes}.") from fault
        traceback.print_exc()
        raise ModelFailed("The model failed on this request; the deployment's log says why.") from fault


def _error(status: int, code: str, message: str) -> Any:
    return AMLResponse({"error": {"code": code, "message": message}}, status, json_str=True)
