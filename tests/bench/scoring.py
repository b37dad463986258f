"""Our scoring script against that of Microsoft's tutorial, both in the same server: request, throughput, memory, start."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from PIL import Image
from tests.bench.figures import Figure

from footplate.operations.pictures import score_module, tensor_request
from footplate.paths import asset

STARTS, REQUESTS, ROUNDS, CLIENTS, EACH = 3, 15, 3, 8, 6

# The same random resnet18 twice: as our artefact, and pickled whole.
MODELS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import artefact, export, networks, torch
from data import Preprocessing
torch.manual_seed(0)
folder, seed = Path(sys.argv[2]), Path(sys.argv[3])
network = networks.build("resnet18", 2).eval()
recipe = artefact.Recipe("resnet18", ("chicken", "turkey"), Preprocessing.for_size(224), {})
artefact.save(folder, recipe, network, {})
print(export.to_onnx(folder, torch.randn(2, 3, 224, 224)))
seed.mkdir()
torch.save(network, seed / "model.pt")
"""


@dataclass(frozen=True)
class Server:
    """A scoring server with one worker, and how long it took until it answered."""

    port: int
    pid: int
    ready_seconds: float

    def ask(self, body: bytes, content_type: str, connection: http.client.HTTPConnection | None = None) -> None:
        """One scored request; raises RuntimeError for any other answer."""
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/score", body, {"Content-Type": content_type})
        answer = connection.getresponse()
        document = json.loads(answer.read())
        if answer.status != 200 or document["label"] not in ("chicken", "turkey"):
            raise RuntimeError(f"{answer.status}: {document}")

    def bytes_held(self) -> int:
        """The memory of its processes, shared pages counted once."""
        tree = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        return sum(process.memory_full_info().pss for process in tree)


def measure() -> list[Figure]:
    """Both servers' figures, taken in turns."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        home = Path(name)
        ours, seed = (
            (asset("score") / "score.py", home / "ours"),
            (Path(__file__).with_name("seed_score.py"), home / "seed"),
        )
        made = [sys.executable, "-W", "ignore", "-c", MODELS, str(asset("trainer")), str(ours[1]), str(seed[1])]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        picture = home / "picture.jpg"
        picture.write_bytes(photo())
        starts: list[tuple[float, float]] = []
        for _ in range(STARTS):
            with serving(*ours, home) as first:
                pass
            with serving(*seed, home) as second:
                starts.append((first.ready_seconds, second.ready_seconds))
        us, them = stack.enter_context(serving(*ours, home)), stack.enter_context(serving(*seed, home))
        spec = dict(score_module("preprocessing").IMAGENET)

        def raw() -> None:
            us.ask(picture.read_bytes(), "image/jpeg")

        def numbers() -> None:
            them.ask(tensor_request(picture, spec)[0], "application/json")

        for warm in (raw, numbers):
            warm()
        single = in_turns(raw, numbers, REQUESTS)
        bodies = picture.read_bytes(), tensor_request(picture, spec)[0]
        crowd = in_turns(
            lambda: clients(us, bodies[0], "image/jpeg"), lambda: clients(them, bodies[1], "application/json"), ROUNDS
        )
        held = us.bytes_held() / 2**20, them.bytes_held() / 2**20
    ready = statistics.median(one for one, _ in starts), statistics.median(other for _, other in starts)
    return [
        Figure(
            "request of a raw picture, one client, its work counted", single[0] * 1000, "ms", single[1] * 1000, 1 / 6
        ),
        Figure(
            "time a request, 8 clients, one worker",
            crowd[0] * 1000 / (CLIENTS * EACH),
            "ms",
            crowd[1] * 1000 / (CLIENTS * EACH),
            1 / 3,
        ),
        Figure("memory after it", held[0], "MiB", held[1], 0.4),
        Figure("server ready", ready[0], "s", ready[1], 0.4),
        Figure("body of a request", len(bodies[0]) / 1000, "kB", len(bodies[1]) / 1000),
    ]


def in_turns(one: Callable[[], None], other: Callable[[], None], times: int) -> tuple[float, float]:
    """The median seconds of each."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for act, seconds in zip((one, other), taken, strict=True):
            began = time.perf_counter()
            act()
            seconds.append(time.perf_counter() - began)
    return statistics.median(taken[0]), statistics.median(taken[1])


def clients(server: Server, body: bytes, content_type: str) -> None:
    """Eight clients at once, each with its requests one after the other."""

    def client(_: int) -> None:
        for _ in range(EACH):
            server.ask(body, content_type)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))


@contextmanager
def serving(script: Path, model: Path, home: Path) -> Iterator[Server]:
    """The server of Azure's images, one worker with one thread, until the end of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [
        str(Path(sys.executable).with_name("azmlinfsrv")),
        "--entry_script",
        str(script),
        "--model_dir",
        str(model),
    ]
    command += ["--port", str(port), "--health_port", str(port), "--worker_count", "1"]
    with (home / f"{port}.log").open("wb") as log:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=home,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "AZUREML_LOG_LEVEL": "WARNING"},
        )
    try:
        while not answers(port):
            if process.poll() is not None or time.perf_counter() - began > 120:
                raise RuntimeError((home / f"{port}.log").read_text())
            time.sleep(0.02)
        yield Server(port, process.pid, time.perf_counter() - began)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def answers(port: int) -> bool:
    """Whether the server's probe answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def photo() -> bytes:
    """A JPEG of 500 × 375 pixels with large and small detail, some 40 kB."""
    random = np.random.default_rng(0)
    coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(
        (500, 375), Image.Resampling.BICUBIC
    )
    fine = random.normal(0, 9, (375, 500, 1))
    buffer = io.BytesIO()
    pixels = np.clip(np.asarray(coarse) + fine, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
