"""The scoring script in the real scoring server, with a real model: every body, every refusal."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from footplate.operations.pictures import score_module
from footplate.paths import asset

torch = pytest.importorskip("torch", reason="the extra local is not installed")
pytest.importorskip("azureml_inference_server_http", reason="the extra local is not installed")
pytest.importorskip("onnxruntime", reason="the extra local is not installed")

CLASSES = ["chicken", "turkey", "goose"]
PREPROCESSING = {
    "resize": 146,
    "crop": 128,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "interpolation": "bilinear",
}
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "images"


@dataclass(frozen=True)
class Model:
    """The artefact's folder, and the very network it was written from."""

    folder: Path
    network: Any

    def scores(self, array: np.ndarray) -> list[dict[str, float]]:
        """Torch's own softmax for (batch, 3, height, width)."""
        with torch.inference_mode():
            rows = torch.softmax(self.network(torch.from_numpy(array)), dim=1).numpy()
        return [dict(zip(CLASSES, map(float, row), strict=True)) for row in rows]


@dataclass(frozen=True)
class Reply:
    status: int
    document: Any
    text: str

    @property
    def error(self) -> tuple[str, str]:
        return self.document["error"]["code"], self.document["error"]["message"]


@dataclass(frozen=True)
class Server:
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, body: Any, content_type: str | None = "application/json", method: str = "POST") -> Reply:
        """One request; an iterator as body is sent in chunks without a length."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": content_type} if content_type else {}
        connection.request(method, "/score", body, headers, encode_chunked=isinstance(body, Iterator))
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return Reply(response.status, json.loads(text) if text else None, text)

    def json(self, document: Any) -> Reply:
        return self.ask(json.dumps(document).encode())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(model_folder: Path, script: Path, home: Path) -> Server:
    port = free_port()
    log = home / f"server-{port}.log"
    command = [Path(sys.executable).with_name("azmlinfsrv"), "--entry_script", script, "--model_dir", model_folder]
    command += ["--port", str(port), "--health_port", str(port), "--worker_count", "1"]
    with log.open("wb") as output:
        # Started in a folder of its own, as Azure does: the script must find its siblings by itself.
        process = subprocess.Popen(command, cwd=home, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    return Server(port, process, log)


def wait_until_ready(server: Server) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.process.poll() is None, server.log.read_text()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        try:
            connection.request("GET", "/")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    pytest.fail(f"the server did not answer in time\n{server.log.read_text()}")


def stop(server: Server) -> None:
    if server.process.poll() is None:
        os.killpg(server.process.pid, signal.SIGTERM)
    server.process.wait(30)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A small artefact as the trainer writes it: resnet18 with random weights, exported for any batch and size."""
    import torchvision
    from safetensors.torch import save_file

    torch.manual_seed(3)
    network = torchvision.models.resnet18(weights=None, num_classes=len(CLASSES)).eval()
    folder = tmp_path_factory.mktemp("artefact")
    save_file(network.state_dict(), str(folder / "model.safetensors"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(1, 3, 128, 128),),
            str(folder / "model.onnx"),
            dynamo=False,
            input_names=["input"],
            output_names=["logits"],
            dynamic_axes={"input": {0: "batch", 2: "height", 3: "width"}, "logits": {0: "batch"}},
        )
    document = {
        "format": 1,
        "architecture": "resnet18",
        "classes": CLASSES,
        "preprocessing": PREPROCESSING,
        "input_shape": [3, 128, 128],
        "weights": entry(folder / "model.safetensors"),
        "onnx": entry(folder / "model.onnx"),
        "metrics": {"best_val_acc": 0.5},
        "versions": {"torch": str(torch.__version__)},
        "arguments": {},
        "git_commit": None,
        "created": "2026-01-01T00:00:00Z",
    }
    (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")
    return Model(folder, network)


def entry(path: Path) -> dict[str, str]:
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


@pytest.fixture(scope="module")
def server(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The ONNX model, mounted a few folders down as Azure mounts a registered folder."""
    home = tmp_path_factory.mktemp("server")
    mounted = home / "azureml-models" / "birds" / "1" / "model"
    shutil.copytree(model.folder, mounted)
    started = start(mounted.parents[2], asset("score") / "score.py", home)
    try:
        wait_until_ready(started)
        yield started
    finally:
        stop(started)


def photo() -> bytes:
    """A PNG with something in it."""
    values = np.random.default_rng(2).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(values).resize((300, 200)).save(buffer, "PNG")
    return buffer.getvalue()


def prepared(picture: bytes, spec: dict[str, Any] = PREPROCESSING) -> np.ndarray:
    """Torchvision's own transforms of the picture: the scoring code is checked against what training used."""
    from torchvision import transforms

    upright = score_module("pictures").open_picture(picture).image
    steps = [
        transforms.Resize(spec["resize"]),
        transforms.CenterCrop(spec["crop"]),
        transforms.ToTensor(),
        transforms.Normalize(spec["mean"], spec["std"]),
    ]
    return transforms.Compose(steps)(upright).unsqueeze(0).numpy()


def check_prediction(reply: Reply, expected: dict[str, float]) -> None:
    assert reply.status == 200, reply.text
    answer = reply.document
    got = {score["label"]: score["probability"] for score in answer["scores"]}
    assert got == pytest.approx(expected, abs=1e-4)
    order = [score["probability"] for score in answer["scores"]]
    assert order == sorted(order, reverse=True)
    assert (answer["label"], answer["probability"]) == (answer["scores"][0]["label"], order[0])


def check_all_bodies(server: Server, model: Model) -> None:
    picture = photo()
    array = prepared(picture)
    expected = model.scores(array)[0]
    for content_type in ("image/png", "IMAGE/JPEG; charset=binary", "application/octet-stream"):
        reply = server.ask(picture, content_type)
        check_prediction(reply, expected)
        assert reply.document["steps"] == ["resized to 146", "cropped to 128"]
        assert reply.document["model"] == {"architecture": "resnet18", "input_shape": [3, 128, 128]}
        assert set(reply.document["timings"]) == {"preprocess_ms", "model_ms"}
        assert min(reply.document["timings"].values()) > 0
    encoded = base64.b64encode(picture).decode()
    check_prediction(server.json({"image": encoded}), expected)
    check_prediction(server.json({"image": "data:image/png;base64," + encoded}), expected)
    check_prediction(server.json({"image": base64.encodebytes(picture).decode()}), expected)
    check_prediction(server.json({"data": array.tolist()}), expected)
    larger = prepared(picture, dict(score_module("preprocessing").IMAGENET))
    assert larger.shape == (1, 3, 224, 224)
    check_prediction(server.json({"data": larger.tolist()}), model.scores(larger)[0])


def test_three_bodies_agree_with_torch(server: Server, model: Model) -> None:
    assert "(onnxruntime)" in server.log.read_text()
    check_all_bodies(server, model)


def test_a_model_without_onnx_is_served_by_torch_alike(model: Model, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(model.folder / "model.safetensors", folder)
    document = json.loads((model.folder / "model.json").read_text()) | {"onnx": None}
    (folder / "model.json").write_text(json.dumps(document))
    started = start(folder, asset("score") / "score.py", tmp_path)
    try:
        wait_until_ready(started)
        assert "(torch)" in started.log.read_text()
        check_all_bodies(started, model)
    finally:
        stop(started)


def test_several_pictures_in_one_request_come_back_in_order(server: Server, model: Model) -> None:
    batch = np.random.default_rng(4).normal(size=(3, 3, 64, 96)).astype(np.float32)
    reply = server.json({"data": batch.tolist()})
    assert reply.status == 200
    assert len(reply.document["predictions"]) == 3
    for prediction, expected in zip(reply.document["predictions"], model.scores(batch), strict=True):
        got = {score["label"]: score["probability"] for score in prediction["scores"]}
        assert got == pytest.approx(expected, abs=1e-4)


def test_whole_numbers_are_numbers_too(server: Server, model: Model) -> None:
    array = np.arange(3 * 32 * 32, dtype=np.int64).reshape(1, 3, 32, 32) % 3
    check_prediction(server.json({"data": array.tolist()}), model.scores(array.astype(np.float32))[0])


def test_odd_pictures_say_what_was_done(server: Server) -> None:
    if not CASES.is_dir():
        pytest.skip(f"the case pictures are not at {CASES}")
    reference = server.ask((CASES / "i00_reference.png").read_bytes(), "image/png").document
    for name, step in (
        ("i03_palette_transparent.png", "put on white"),
        ("i06_exif_orientation6.jpg", "turned 90° right"),
        ("i10_animated.gif", "frame 1 of 3"),
    ):
        answer = server.ask((CASES / name).read_bytes(), "image/png").document
        assert answer["steps"][0] == step
        assert answer["label"] == reference["label"]
        assert answer["probability"] == pytest.approx(reference["probability"], abs=0.02)


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds nothing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    packed = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def numbers(*shape: int) -> list[Any]:
    zeros: list[Any] = np.zeros(shape).tolist()
    return zeros


@pytest.mark.parametrize(
    ("body", "content_type", "code", "words"),
    [
        (b"hello", "image/png", "not_an_image", "not an image (text)"),
        (photo()[:3000], "image/png", "cut_short", "cut short"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 500, "image/png", "unreadable", "damaged"),
        (b"", "image/png", "empty_body", "empty"),
        (b"", "application/json", "empty_body", "empty"),
        (photo(), "text/plain", "content_type", "Content-Type"),
        (photo(), "application/x-www-form-urlencoded", "content_type", "Content-Type"),
        (photo(), None, "content_type", "Content-Type"),
        (b"not json", "application/json", "bad_json", "line 1, column 1"),
        (b"\xff\xfe\xff", "application/json", "bad_json", "UTF-8"),
        (b"[" * 100_000, "application/json", "bad_json", "nested too deep"),
        (b"[]", "application/json", "bad_json", "image"),
        (b"{}", "application/json", "bad_json", "data"),
        (b'{"image": "", "data": []}', "application/json", "bad_json", "must be"),
        (b'{"image": 5}', "application/json", "bad_base64", "base64"),
        (b'{"image": "****"}', "application/json", "bad_base64", "base64"),
        (b'{"image": ""}', "application/json", "empty", "empty file"),
        (json.dumps({"image": base64.b64encode(b"text").decode()}).encode(), "application/json", "not_an_image", "text"),
        (b'{"data": "x"}', "application/json", "bad_data", "list of pictures"),
        (b'{"data": []}', "application/json", "bad_data", "3 × height × width"),
        (b'{"data": [[1, 2], [3]]}', "application/json", "bad_data", "ragged"),
        (b'{"data": [[[["1"]]]]}', "application/json", "bad_data", "numbers only"),
        (b'{"data": [[[[null]]]]}', "application/json", "bad_data", "numbers only"),
        (json.dumps({"data": numbers(3, 128, 128)}).encode(), "application/json", "bad_data", "3 × 128 × 128"),
        (json.dumps({"data": numbers(1, 1, 64, 64)}).encode(), "application/json", "bad_data", "1 × 1 × 64 × 64"),
        (json.dumps({"data": numbers(1, 3, 8, 8)}).encode(), "application/json", "bad_data", "32 to 1024"),
        (json.dumps({"data": numbers(65, 3, 32, 32)}).encode(), "application/json", "bad_data", "1 to 64"),
        (json.dumps({"data": np.full((1, 3, 32, 32), np.nan).tolist()}).encode(), "application/json", "bad_data", "NaN"),
        (json.dumps({"data": np.full((1, 3, 32, 32), 1e300).tolist()}).encode(), "application/json", "bad_data", "32 bits"),
        (png_of_size(60_000, 60_000), "image/png", "too_many_pixels", "60000 × 60000"),
    ],
    ids=str.split(
        "text cut noise nothing nothing-json plain form untyped words utf16 deep list object both number stars blank "
        "base64-text text-data no-data ragged text-number null no-batch grey small many nan overflow bomb"
    ),
)  # fmt: skip
def test_bad_input_is_refused_with_400_and_a_sentence(
    server: Server, body: bytes, content_type: str | None, code: str, words: str
) -> None:
    reply = server.ask(body, content_type)
    assert reply.status == 400, reply.text
    assert reply.error[0] == code
    assert words in reply.error[1]
    assert reply.error[1].endswith((".", "}."))
    assert "Traceback" not in reply.text
    assert " object at 0x" not in reply.text


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_32_mb_is_refused_with_413_and_the_server_lives(server: Server, announced: bool) -> None:
    size = 33 * 1024 * 1024
    body = b"x" * size if announced else iter([b"x" * 1024 * 1024] * 33)
    reply = server.ask(body, "image/jpeg")
    assert reply.status == 413
    assert reply.error[0] == "too_large"
    assert "32 MB" in reply.error[1]
    assert server.ask(photo(), "image/png").status == 200


def test_a_picture_sent_in_chunks_is_scored(server: Server, model: Model) -> None:
    picture = photo()
    pieces = iter([picture[at : at + 1000] for at in range(0, len(picture), 1000)])
    check_prediction(server.ask(pieces, "image/png"), model.scores(prepared(picture))[0])


def test_get_gives_nothing_but_the_way_to_ask(server: Server) -> None:
    reply = server.ask(None, None, "GET")
    assert reply.status == 405
    assert reply.error[0] == "use_post"
    assert server.ask(None, None, "OPTIONS").status == 200


def test_a_model_that_overflows_says_so_without_a_traceback(server: Server) -> None:
    huge = np.full((1, 3, 32, 32), 3e38)
    reply = server.json({"data": huge.tolist()})
    assert reply.status == 500
    assert reply.error[0] == "model_failed"
    assert "Traceback" not in reply.text


@pytest.mark.parametrize("damage", ["changed weights", "wrong depth"])
def test_a_faulty_model_folder_ends_the_server_with_a_sentence_and_the_tree(
    model: Model, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "models"
    shutil.copytree(model.folder, folder / "birds")
    if damage == "changed weights":
        with (folder / "birds" / "model.safetensors").open("r+b") as file:
            file.seek(1000)
            file.write(b"changed")
        words = "is not the file that was trained"
    else:
        (folder / "birds" / "model.json").rename(folder / "birds" / "model.jsn")
        words = "There is no model.json"
    started = start(folder, asset("score") / "score.py", tmp_path)
    try:
        assert started.process.wait(120) != 0
    finally:
        stop(started)
    log = started.log.read_text()
    assert words in log
    assert f"The model folder {folder} holds:" in log
    assert "  birds/" in log
    assert "model.safetensors  " in log


def test_the_script_answers_in_a_copy_of_its_folder(model: Model, tmp_path: Path) -> None:
    """A deployment uploads the folder alone: nothing beside it may be needed."""
    code = tmp_path / "code" / "sub folder"
    shutil.copytree(asset("score"), code, ignore=shutil.ignore_patterns("__pycache__"))
    started = start(model.folder, code / "score.py", tmp_path)
    try:
        wait_until_ready(started)
        assert started.ask(photo(), "image/png").status == 200
    finally:
        stop(started)
