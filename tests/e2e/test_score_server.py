"""The scoring script in the real scoring server, with a real model: every body, every refusal."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import re
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
from random import Random
from typing import Any

import numpy as np
import psutil
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

    def get(self, path: str) -> Reply:
        return self.ask(None, None, "GET", path)

    def ask(
        self, body: Any, content_type: str | None = "application/json", method: str = "POST", path: str = "/score"
    ) -> Reply:
        """One request; an iterator as body is sent in chunks without a length."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": content_type} if content_type else {}
        connection.request(method, path, body, headers, encode_chunked=isinstance(body, Iterator))
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


# What shared/cases/README.md says of each picture: the steps named, and how far its scores may lie from the reference's.
SCORED = {
    "i00_reference.png": ((), 0.0),
    "i01_cmyk.jpg": (("CMYK converted",), 0.02),
    "i02_gray16.png": (("16 to 8 bit", "grey to RGB"), 0.1),  # its ink is not black and its paper not white
    "i03_palette_transparent.png": (("put on white",), 1e-6),
    "i04_gray8.png": (("grey to RGB",), 1e-6),
    "i06_exif_orientation6.jpg": (("turned 90° right",), 0.02),
    "i10_animated.gif": (("frame 1 of 3", "palette to RGB"), 1e-6),
    "i16_photo.webp": ((), 0.02),
    "i20_one_pixel.png": (("very small (1 × 1 pixels)",), None),
    "i23_rgba_black_under_alpha.png": (("put on white",), 1e-6),
    "i28 naïve [bold] 名前 🙂.png": ((), 0.0),
    "i32_camera_4000x3000.jpg": ((), None),
}
REFUSED = {
    "i11_truncated.jpg": ("cut_short", "cut short"),
    "i13_zero_byte.png": ("empty_body", "empty"),
    "i14_bomb_header.png": ("too_many_pixels", "60000 × 60000"),
    "i18_text_renamed.jpg": ("not_an_image", "not an image (text)"),
}


def test_each_case_picture_gives_what_it_should(server: Server, model: Model) -> None:
    if not CASES.is_dir():
        pytest.skip(f"the case pictures are not at {CASES}")
    reference = server.ask((CASES / "i00_reference.png").read_bytes(), "image/png").document
    expected = {score["label"]: score["probability"] for score in reference["scores"]}
    for path in sorted(CASES.iterdir()):
        body = path.read_bytes()
        reply = server.ask(body, "application/octet-stream")
        if path.name in REFUSED:
            code, words = REFUSED[path.name]
            assert (reply.status, reply.error[0]) == (400, code), path.name
            assert words in reply.error[1]
            continue
        check_prediction(reply, model.scores(prepared(body))[0])
        if path.name in SCORED:  # there may be more pictures than these
            steps, tolerance = SCORED[path.name]
            assert tuple(reply.document["steps"][: len(steps)]) == steps, path.name
            if tolerance is not None:
                got = {score["label"]: score["probability"] for score in reply.document["scores"]}
                assert got == pytest.approx(expected, abs=max(tolerance, 1e-9)), path.name


def pictures_in(many: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """The same list of pictures in each body that holds a list: content type and body."""
    texts = [base64.b64encode(picture).decode() for picture in many]
    for document in (
        {"images": texts},
        {"data": texts},
        {"input_data": texts},
        {"input_data": {"columns": ["image"], "index": [0], "data": [[text] for text in texts]}},
    ):
        yield "application/json", json.dumps(document).encode()
    parts = [b'--b 1\r\nContent-Disposition: form-data; name="p"; filename="p"\r\n\r\n' + one + b"\r\n" for one in many]
    yield 'multipart/form-data; boundary="b 1"', b"preamble\r\n" + b"".join(parts) + b"--b 1--\r\n"


def test_a_list_of_pictures_is_answered_in_order(server: Server, model: Model) -> None:
    random = np.random.default_rng(8)
    # Two runs of the model: 49 pictures of 128 × 128 are over a run's 800,000 pixels.
    many = [encoded(random.integers(0, 256, (60, 90, 3), dtype=np.uint8)) for _ in range(50)]
    array = np.concatenate([prepared(picture) for picture in many])
    expected = model.scores(array)
    for count, (content_type, body) in enumerate([*pictures_in(many[:2]), next(pictures_in(many))], 1):
        reply = server.ask(body, content_type)
        assert reply.status == 200, reply.text
        assert len(reply.document["predictions"]) == (2 if count <= 5 else 50)
        for prediction, wanted in zip(reply.document["predictions"], expected, strict=False):
            assert {s["label"]: s["probability"] for s in prediction["scores"]} == pytest.approx(wanted, abs=1e-4)
            assert prediction["steps"] == ["resized to 146", "cropped to 128"]
    for content_type, body in pictures_in(many[:1]):  # a list of one is a list all the same
        assert len(server.ask(body, content_type).document["predictions"]) == 1
    check_prediction(server.json({"input_data": array[:1].tolist()}), expected[0])
    check_prediction(server.json({"input_data": {"data": array[:1].tolist()}}), expected[0])


def test_no_body_at_all_is_answered_with_500_or_with_internals(server: Server) -> None:
    """Noise, and JSON of the right keys with anything in it; the seed is fixed, so that a finding can be looked at."""
    random = Random(11)
    picture, types = (
        photo(),
        ["image/png", "application/json", "application/octet-stream", "multipart/mixed; boundary=b"],
    )
    for attempt in range(300):
        kind = random.choice(types)
        if attempt % 3 == 0:
            body = random.randbytes(random.randrange(1, 3000))
        elif attempt % 3 == 1:
            torn = bytearray(picture)
            for _ in range(random.randrange(1, 40)):
                torn[random.randrange(len(torn))] = random.randrange(256)
            body = bytes(torn[: random.randrange(20, len(torn))] if attempt % 2 else torn)
        else:
            key = random.choice(["image", "images", "data", "input_data", "other"])
            kind, body = "application/json", json.dumps({key: anything(random, 5)}).encode()
        reply = server.ask(body, kind)
        assert reply.status in (200, 400, 415), (attempt, kind, body[:200], reply.text)
        if reply.status != 200:
            assert set(reply.document) == {"error"}
            assert not re.search(r"Traceback|0x[0-9a-f]{6}|\.py|/tmp|site-packages|numpy|PIL|onnx", reply.text), (
                reply.text
            )


def anything(random: Random, depth: int) -> Any:
    """A JSON value without a plan."""
    leaves = [None, True, -1, 1e308, 10**400, 0.5, "", "aGVsbG8=", "data:,x", "\ud800", float("nan")]
    if depth == 0 or random.random() < 0.2:
        return random.choice(leaves)
    if random.random() < 0.7:
        return [anything(random, depth - 1) for _ in range(random.choice([0, 1, 1, 2, 3, 32]))]
    return {random.choice(["data", "columns", "image"]): anything(random, depth - 1) for _ in range(2)}


def memory(process: psutil.Process, line: str) -> int:
    """A line of /proc/PID/status in bytes: VmRSS now, VmHWM at the highest."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"{line}:\s+(\d+) kB", text)[1]) * 1024  # type: ignore[index]


def test_memory_stays_flat_on_bombs(server: Server) -> None:
    (worker,) = psutil.Process(server.process.pid).children()
    assert server.ask(photo(), "image/png").status == 200
    Path(f"/proc/{worker.pid}/clear_refs").write_text("5")  # VmHWM begins anew
    before = memory(worker, "VmRSS")
    long_text = json.dumps({"data": [[["x" * 200_000, *["y"] * 20_000]]]}).encode()  # 16 GB as an array of texts
    comment = zlib.compress(b"\0" * 200_000_000)  # 200 MB in a chunk of a small picture
    bombs: list[tuple[bytes, str]] = [
        (png_of_size(60_000, 60_000), "image/png"),
        (png_of_size(2**31 - 1, 2**31 - 1), "image/png"),
        (encoded(np.zeros((10, 10, 3), dtype=np.uint8), 60_000), "image/png"),
        (png_of_size(10, 10, (b"zTXt", b"Comment\0\0" + comment), (b"iCCP", b"x\0\0" + comment)), "image/png"),
        (b"GIF89a\xff\xff\xff\xff\0\0\0", "image/gif"),
        (long_text, "application/json"),
        (b'{"data": [' + b"[" * 900 + b"]" * 900 + b"]}", "application/json"),
        (
            json.dumps({"images": [base64.b64encode(png_of_size(50_000, 40_000)).decode()] * 64}).encode(),
            "application/json",
        ),
        (b"--b\r\n\r\n\r\n" * 200_000 + b"--b--", "multipart/mixed; boundary=b"),
    ]
    for body, kind in bombs:
        reply = server.ask(body, kind)
        assert reply.status == 400, reply.text
    assert memory(worker, "VmHWM") - before < 64 * 2**20
    # The largest picture that is let in, 100 megapixels in a file of 300 kB, is decoded once and given back.
    largest = io.BytesIO()
    Image.new("RGB", (10_000, 10_000)).save(largest, "PNG")
    assert server.ask(largest.getvalue(), "image/png").status == 200
    assert memory(worker, "VmHWM") - before < 450 * 2**20
    assert memory(worker, "VmRSS") - before < 64 * 2**20


def encoded(values: np.ndarray, wide: int | None = None) -> bytes:
    """A PNG of these pixels, or of the first of them a row of so many."""
    image = Image.fromarray(values)
    buffer = io.BytesIO()
    (image.resize((wide, 2)) if wide else image).save(buffer, "PNG")
    return buffer.getvalue()


def png_of_size(width: int, height: int, *extra: tuple[bytes, bytes]) -> bytes:
    """A PNG that claims a size and holds nothing, with further chunks."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), *extra, (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
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
        (b'{"images": "aGVsbG8="}', "application/json", "bad_base64", "list of texts"),
        (b'{"images": []}', "application/json", "bad_batch", "0 pictures"),
        (json.dumps({"images": ["aGVsbG8="] * 65}).encode(), "application/json", "bad_batch", "65 pictures"),
        (json.dumps({"images": [base64.b64encode(photo()).decode(), "*"]}).encode(), "application/json", "bad_base64",
         "images[1]"),
        (json.dumps({"images": [base64.b64encode(photo()).decode(), "aGVsbG8="]}).encode(), "application/json",
         "not_an_image", "Picture 2 of 2"),
        (b"x", "multipart/form-data", "bad_multipart", "no boundary"),
        (b"--cut\r\n\r\nhalf", "multipart/mixed; boundary=cut", "bad_multipart", "closing boundary"),
        (b"--cut\r\n\r\n\r\n--cut--", "multipart/mixed; boundary=cut", "empty", "empty file"),
        (b'{"input_data": {"columns": ["image"]}}', "application/json", "bad_data", "list of pictures"),
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
        "text cut noise nothing nothing-json plain form untyped words utf16 deep list object both number no-list "
        "empty-list long-list bad-in-list text-in-list no-boundary half-multipart empty-part empty-table stars blank "
        "base64-text text-data no-data ragged text-number null no-batch grey small many nan overflow bomb"
    ),
)  # fmt: skip
def test_bad_input_is_refused_with_a_sentence(
    server: Server, body: bytes, content_type: str | None, code: str, words: str
) -> None:
    reply = server.ask(body, content_type)
    assert reply.status == (415 if code == "content_type" else 400), reply.text
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


def test_get_says_what_is_loaded_and_nothing_of_the_machine(server: Server, model: Model) -> None:
    reply = server.ask(None, None, "GET")
    assert reply.status == 200
    loaded = reply.document["model"]
    assert (loaded["classes"], loaded["input_shape"]) == (CLASSES, [3, 128, 128])
    assert loaded["preprocessing"] == PREPROCESSING
    assert loaded["metrics"] == {"best_val_acc": 0.5}
    assert reply.document["engine"]["name"] == "onnxruntime"
    assert reply.document["engine"]["threads"] >= 1
    assert reply.document["limits"] == {"body_bytes": 32 * 2**20, "pixels": 100_000_000, "batch": 64}
    assert str(model.folder) not in reply.text
    assert "/" not in reply.text
    assert server.ask(None, None, "OPTIONS").status == 200


@pytest.mark.parametrize("version", ["2", "3"])
def test_swagger_tells_the_body_and_the_answer(server: Server, version: str) -> None:
    document = server.get(f"/swagger.json?version={version}").document
    schemas = document["definitions"] if version == "2" else document["components"]["schemas"]
    assert schemas["ServiceInput"]["properties"] == {"image": {"type": "string"}}
    example = schemas["ServiceOutput"]["example"]
    assert [score["label"] for score in example["scores"]] == CLASSES
    # The example is a body that the server answers as the schema says.
    answer = server.json(schemas["ServiceInput"]["example"])
    assert answer.status == 200
    assert set(schemas["ServiceOutput"]["required"]) <= set(answer.document)


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
