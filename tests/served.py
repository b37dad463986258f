"""A small real model, and endpoints that serve it, for the tests of serving."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from footplate.local import layout
from footplate.local.endpoints import Endpoints
from footplate.local.store import Store, now
from footplate.settings import Settings

CLASSES = ("red", "green", "blue")
READY_SECONDS = 60


def picture(colour: str) -> bytes:
    """A PNG of one colour."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (40, 40), colour).save(file, "PNG")
    return file.getvalue()


def write_model(folder: Path) -> None:
    """A model artefact that names the strongest colour: the mean of each channel is its class's logit, times ten."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder.mkdir(parents=True)
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["pixels"], ["means"]),
            helper.make_node("Flatten", ["means"], ["flat"]),
            helper.make_node("Mul", ["flat", "ten"], ["logits"]),
        ],
        "strongest_colour",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 3, 32, 32])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(np.array(10, dtype=np.float32), "ten")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    document = {
        "format": 1,
        "architecture": "strongest_colour",
        "classes": list(CLASSES),
        "preprocessing": {"resize": 32, "crop": 32, "mean": [0, 0, 0], "std": [1, 1, 1]},
        "input_shape": [3, 32, 32],
        "onnx": {"file": "model.onnx", "sha256": digest},
    }
    (folder / "model.json").write_text(json.dumps(document))


def add_model(store: Store, name: str, version: int = 1) -> Path:
    """A registered model with no files yet; its folder."""
    with store.write() as db:
        db.execute(
            "INSERT INTO model (name, version, type, created) VALUES (?, ?, 'custom_model', ?)", (name, version, now())
        )
    return layout.model_folder(store.home, name, version)


@contextmanager
def workspace(home: Path) -> Iterator[tuple[Store, Endpoints]]:
    """A store with the models colours:1 and colours:2, and its endpoints; every endpoint is deleted at the end."""
    store = Store(home)
    store.prepare()
    for version in (1, 2):
        write_model(add_model(store, "colours", version))
    endpoints = Endpoints(store, Settings())
    try:
        yield store, endpoints
    finally:
        for endpoint in endpoints.list():
            endpoints.delete(endpoint.name)


def wait_for(condition: Callable[[], object], what: str, seconds: float = READY_SECONDS) -> None:
    """Wait until the condition is true; fails with `what` after the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def deployment_state(endpoints: Endpoints, endpoint: str, name: str) -> str:
    """A deployment's state as a reader sees it."""
    return next(one.state for one in endpoints.endpoint(endpoint).deployments if one.name == name)


def wait_ready(endpoints: Endpoints, endpoint: str, name: str) -> None:
    """Wait until a deployment has Succeeded."""

    def ready() -> bool:
        state = deployment_state(endpoints, endpoint, name)
        assert state != "Failed", endpoints.log(endpoint, name, 40)
        return state == "Succeeded"

    wait_for(ready, f"{endpoint}/{name} ready")


def processes_of(home: Path) -> list[psutil.Process]:
    """Every process that belongs to this home: gateways by their arguments, scoring servers by their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            arguments, environment = process.cmdline(), process.environ()
            zombie = process.status() == psutil.STATUS_ZOMBIE
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        gateway = "footplate.local.gateway" in arguments and str(home) in arguments
        if not zombie and (gateway or environment.get("AML_APP_ROOT", "").startswith(f"{home}/")):
            found.append(process)
    return found


def server_pid(store: Store, endpoint: str, name: str) -> int | None:
    """The pid of a deployment's guard, from the store; None while it is not ready."""
    with store.read() as db:
        row = db.execute(
            "SELECT server_pid FROM deployment WHERE endpoint = ? AND name = ?", (endpoint, name)
        ).fetchone()
    return None if row[0] is None else int(row[0])


def gateway_pid(store: Store, endpoint: str) -> int:
    """The pid of an endpoint's gateway, from the store."""
    with store.read() as db:
        pid = db.execute("SELECT gateway_pid FROM endpoint WHERE name = ?", (endpoint,)).fetchone()[0]
    return int(pid)
