"""The training script as jobs run it: real ranks, real files, and a sentence for whatever is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from footplate.operations.pictures import score_module

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="the extra local is not installed")
pytest.importorskip("onnxruntime", reason="the extra local is not installed")

TRAINER = Path(__file__).resolve().parents[2] / "trainer"
DEADLINE_SECONDS = 180.0
TINY = ("--image_size=64", "--batch_size=3", "--precision=fp32", "--num_epochs=2")
RANK_VARIABLES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    code: int
    out: str
    err: str


def environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
    kept = {name: value for name, value in kept.items() if not name.startswith("MLFLOW_")}
    return {**kept, "PYTHONWARNINGS": "default", **more}


def start(command: Sequence[str], more: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=TRAINER, env=environment(more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process: subprocess.Popen[str]) -> Ended:
    try:
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
    return Ended(process.returncode, out, err)


def azure_ranks(world_size: int = 2) -> Iterator[dict[str, str]]:
    """The variables that Azure gives each process of one node."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    for rank in map(str, range(world_size)):
        yield {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "NODE_RANK": "0",
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }


def train_py(*arguments: str) -> list[str]:
    return [sys.executable, "train.py", *arguments]


def on_two_ranks(*arguments: str) -> list[Ended]:
    return [end(process) for process in [start(train_py(*arguments), rank) for rank in azure_ranks()]]


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve birds to train on, seven to validate on: seven do not share out evenly between two ranks."""
    folder = tmp_path_factory.mktemp("data") / "birds"
    command = [sys.executable, str(TRAINER / "birds.py"), str(folder), "--train=12", "--val=7", "--test=0"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return folder


@dataclass(frozen=True)
class Trained:
    """A finished run of two ranks."""

    ranks: list[Ended]
    data: Path
    output: Path

    @property
    def manifest(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.output / "model" / "model.json").read_text(encoding="utf-8"))
        return document


@pytest.fixture(scope="module")
def trained(birds: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    output = tmp_path_factory.mktemp("two-ranks") / "outputs"
    ranks = on_two_ranks(f"--data={birds}", f"--output_dir={output}", *TINY)
    assert [rank.code for rank in ranks] == [0, 0], ranks
    return Trained(ranks, birds, output)


def test_the_log_shows_every_rank_and_a_line_an_epoch(trained: Trained) -> None:
    first, second = (rank.out.splitlines() for rank in trained.ranks)
    assert first[0].startswith("Rank 0 of 2 on cpu")
    assert second[0].startswith("Rank 1 of 2 on cpu")
    assert "Back end: gloo (CPU)" in first
    table = first.index("Back end: gloo (CPU)")
    assert first[table + 1].split() == ["rank", "node", "local", "host", "pid", "device"]
    assert [first[table + line].split()[:3] for line in (2, 3)] == [["0", "0", "0"], ["1", "0", "1"]]
    epochs = [line for line in first if line.startswith("Epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/2", "2/2"]
    assert all("val_acc" in line and "images/s" in line for line in epochs)
    assert second[1:] == ["Epoch 1/2 done on rank 1", "Epoch 2/2 done on rank 1"]
    assert first.count("Metrics stay in this log: MLFLOW_TRACKING_URI is not set.") == 1
    assert any(line.startswith("The ONNX file gives the same scores as torch") for line in first)
    assert [rank.err for rank in trained.ranks] == ["", ""]


def test_validation_counts_every_picture_once(trained: Trained) -> None:
    """One process with the scoring code gets what two ranks added up."""
    import onnxruntime

    pictures, preprocessing = score_module("pictures"), score_module("preprocessing")
    manifest = trained.manifest
    session = onnxruntime.InferenceSession(
        str(trained.output / "model" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    losses, right = [], []
    for label, name in enumerate(manifest["classes"]):
        for path in sorted((trained.data / "val" / name).iterdir()):
            prepared = preprocessing.preprocess(pictures.open_picture(path), manifest["preprocessing"])
            scores = session.run(None, {"images": prepared.array})[0][0].astype(np.float64)
            losses.append(np.log(np.exp(scores - scores.max()).sum()) + scores.max() - scores[label])
            right.append(int(scores.argmax()) == label)
    assert len(right) == 7
    assert manifest["metrics"]["best_val_acc"] == sum(right) / 7
    assert manifest["metrics"]["val_loss"] == pytest.approx(float(np.mean(losses)), abs=1e-4)


def test_the_artefact_is_whole_and_says_what_it_is(trained: Trained) -> None:
    from safetensors.numpy import load_file

    model, manifest = trained.output / "model", trained.manifest
    assert sorted(path.name for path in trained.output.iterdir()) == ["model"]
    assert sorted(path.name for path in model.iterdir()) == ["model.json", "model.onnx", "model.safetensors"]
    for part, file in (("weights", "model.safetensors"), ("onnx", "model.onnx")):
        digest = hashlib.sha256((model / file).read_bytes()).hexdigest()
        assert manifest[part] == {"file": file, "sha256": digest}
    expected = "format architecture classes preprocessing input_shape weights onnx metrics versions arguments git_commit created"
    assert " ".join(manifest) == expected
    assert manifest["format"] == 1
    assert (manifest["architecture"], manifest["classes"]) == ("resnet18", ["chicken", "turkey"])
    assert manifest["preprocessing"] == {
        "resize": 73,
        "crop": 64,
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "interpolation": "bilinear",
    }
    assert manifest["input_shape"] == [3, 64, 64]
    assert set(manifest["metrics"]) == {"best_val_acc", "val_loss", "epoch"}
    assert set(manifest["versions"]) == {"python", "torch", "torchvision"}
    assert manifest["arguments"]["num_epochs"] == 2
    assert manifest["git_commit"] is None or re.fullmatch(r"[0-9a-f]{40}", manifest["git_commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", manifest["created"])
    assert load_file(model / "model.safetensors")["fc.weight"].shape == (2, 512)


def test_the_exported_model_takes_any_batch_and_size(trained: Trained) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(trained.output / "model" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    for shape in ((1, 3, 64, 64), (5, 3, 64, 64), (2, 3, 96, 80)):
        assert session.run(None, {"images": np.zeros(shape, dtype=np.float32)})[0].shape == (shape[0], 2)


@pytest.mark.long
def test_torchrun_starts_it_and_metrics_reach_the_given_mlflow_run(trained: Trained, tmp_path: Path) -> None:
    """The weights of a former run are the start of this one; the run's status is left to whoever made the run."""
    pytest.importorskip("mlflow", reason="the extra local is not installed")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    script = "from mlflow import MlflowClient; print(MlflowClient().create_run('0').info.run_id)"
    made = end(start([sys.executable, "-W", "ignore", "-c", script], {"MLFLOW_TRACKING_URI": uri}))
    run_id = made.out.split()[-1]

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "train.py"]
    weights = trained.output / "model" / "model.safetensors"
    arguments = [f"--data={trained.data}", f"--output_dir={tmp_path / 'outputs'}", f"--weights={weights}", *TINY]
    done = end(start([*torchrun, *arguments], {"MLFLOW_TRACKING_URI": uri, "MLFLOW_RUN_ID": run_id}))
    assert done.code == 0, done.err
    assert "Rank 1 of 2" in done.out
    assert re.search(r"resnet18 from \S+model.safetensors, (\d+) of \1 tensors", done.out)
    assert (tmp_path / "outputs" / "model" / "model.json").is_file()

    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        rows = store.execute("select key, step, value from metrics where run_uuid = ?", (run_id,)).fetchall()
        params = dict(store.execute("select key, value from params where run_uuid = ?", (run_id,)).fetchall())
        runs = store.execute("select run_uuid, status from runs").fetchall()
    names = {"train_loss", "val_loss", "val_acc", "best_val_acc", "lr", "images_per_second"}
    assert {(key, step) for key, step, _ in rows} == {(name, step) for name in names for step in (1, 2)}
    assert len(rows) == 12
    assert params["num_epochs"] == "2"
    assert params["world_size"] == "2"
    assert runs == [(run_id, "RUNNING")]


def test_a_killed_rank_ends_the_others_with_a_sentence(birds: Path, tmp_path: Path) -> None:
    arguments = [f"--data={birds}", f"--output_dir={tmp_path}", "--image_size=64", "--num_epochs=10000"]
    first, second = (start(train_py(*arguments), rank) for rank in azure_ranks())
    try:
        assert second.stdout is not None
        while line := second.stdout.readline():
            if line.startswith("Epoch 1/"):
                break
        second.send_signal(signal.SIGKILL)
        ended = end(first)
    finally:
        first.kill()
        end(second)
    assert ended.code == 1
    assert ended.err.startswith("train.py: Rank 0 lost the connection to another rank, so it stops.")
    assert "Traceback" not in ended.err


def test_a_broken_picture_ends_every_rank_with_the_same_sentence(birds: Path, tmp_path: Path) -> None:
    data = tmp_path / "birds"
    shutil.copytree(birds, data)
    broken = data / "train" / "turkey" / "003.jpg"
    broken.write_bytes(broken.read_bytes()[:2000])
    ranks = on_two_ranks(f"--data={data}", f"--output_dir={tmp_path / 'outputs'}", *TINY)
    assert [rank.code for rank in ranks] == [2, 2]
    assert ranks[0].err == ranks[1].err
    assert ranks[0].err.startswith("train.py: train/turkey/003.jpg ")
    assert "Traceback" not in ranks[0].err
    assert not (tmp_path / "outputs" / "model").exists()


def test_more_ranks_than_training_pictures_are_refused_on_every_rank(birds: Path, tmp_path: Path) -> None:
    data = tmp_path / "birds"
    shutil.copytree(birds, data)
    for bird in ("chicken", "turkey"):
        for path in sorted((data / "train" / bird).iterdir())[1:]:
            path.unlink()
    ranks = on_two_ranks(f"--data={data}", f"--output_dir={tmp_path / 'outputs'}", *TINY)
    assert [rank.code for rank in ranks] == [2, 2]
    assert all("2 ranks cannot share 2 training pictures" in rank.err for rank in ranks)


@pytest.mark.long
def test_a_broken_picture_among_thousands_is_told_when_a_loading_process_comes_to_it(
    birds: Path, tmp_path: Path
) -> None:
    data = tmp_path / "birds"
    shutil.copytree(birds, data)
    broken = data / "train" / "turkey" / "broken.jpg"
    broken.write_bytes((data / "train" / "turkey" / "003.jpg").read_bytes()[:2000])
    for i in range(5_000):
        broken.with_name(f"broken-{i}.jpg").hardlink_to(broken)
    done = end(start(train_py(f"--data={data}", f"--output_dir={tmp_path / 'outputs'}", "--workers=1", *TINY), {}))
    assert done.code == 2
    assert re.fullmatch(r"train\.py: train/turkey/broken(-\d+)?\.jpg [^\n]+\n", done.err)


def test_a_loss_that_is_no_number_ends_the_run_with_a_sentence(birds: Path, tmp_path: Path) -> None:
    arguments = [f"--data={birds}", f"--output_dir={tmp_path / 'outputs'}", "--optimizer=sgd", "--learning_rate=1e30"]
    done = end(start(train_py(*arguments, *TINY), {}))
    assert done.code == 1
    assert done.err.startswith("train.py: The loss is no number any more in epoch 1. Lower --learning_rate")
    assert done.err.count("\n") == 1


def test_an_output_folder_that_cannot_be_made_is_told_before_training(birds: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file")
    ranks = on_two_ranks(f"--data={birds}", f"--output_dir={tmp_path / 'outputs'}", *TINY)
    assert [rank.code for rank in ranks] == [2, 2]
    assert all("cannot be made: File exists. Give --output_dir another one." in rank.err for rank in ranks)
    assert not any("Epoch" in rank.out for rank in ranks)


BAD_INPUT = """
import contextlib, io, json, os, sys
import train
answers = []
for arguments, variables in json.loads(sys.argv[1]):
    sys.argv = ["train.py", *arguments]
    os.environ.update(variables)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = train.main()
        except SystemExit as end:
            code = end.code
    answers.append([code, said.getvalue()])
    for name in variables:
        del os.environ[name]
print(json.dumps(answers))
"""


def test_bad_input_is_told_in_a_sentence_with_exit_code_2(birds: Path, tmp_path: Path) -> None:
    def altered(name: str, *remove: str, add: Sequence[str] = ()) -> str:
        shutil.copytree(birds, tmp_path / name)
        for path in remove:
            shutil.rmtree(tmp_path / name / path)
        for path in add:
            (tmp_path / name / path).mkdir(parents=True)
        return f"--data={tmp_path / name}"

    good = f"--data={birds}"
    file = tmp_path / "file.txt"
    file.write_text("not weights")
    unreachable = {"https_proxy": "http://127.0.0.1:9", "TORCH_HOME": str(tmp_path / "torch")}
    cases: list[tuple[list[str], dict[str, str], str]] = [
        ([f"--data={tmp_path / 'none'}"], {}, "The data folder .*none does not exist."),
        ([f"--data={file}"], {}, "file.txt is a file."),
        ([altered("no-val", "val")], {}, "has no folder val/."),
        ([altered("no-train", "train")], {}, "has no folder train/."),
        ([altered("no-class", "train/chicken", "train/turkey")], {}, "has no class folders."),
        ([altered("one-class", "train/chicken")], {}, "has a single class, turkey."),
        ([altered("odd-class", add=["val/goose"])], {}, "differ in their classes: goose is in one only."),
        ([altered("empty-class", add=["train/goose", "val/goose"])], {}, "goose has no pictures."),
        ([altered("no-pictures", "val", add=["val/chicken", "val/turkey"])], {}, "val has no pictures."),
        ([good, "--weights=nowhere.pt"], {}, "--weights nowhere.pt is neither none, nor imagenet, nor a file"),
        ([good, f"--weights={file}"], {}, "does not hold plain tensors."),
        ([good, "--weights=imagenet"], unreachable, "Use --weights none, or fetch that file"),
        ([good, "--architecture=resnet19"], {}, "resnet19 is not one that can be trained here. Try resnet"),
        ([good, "--precision=fp16"], {}, "--precision fp16 needs a GPU"),
        ([good, "--num_epochs=0"], {}, "--num_epochs 0 is too small"),
        ([good, "--learning_rate=-1"], {}, "--learning_rate -1.0 is not above 0."),
        ([good, "--momentum=1.5"], {}, "--momentum 1.5 is not from 0 up to 1."),
        ([good], {"RANK": "two"}, "RANK='two' in the environment is not a whole number."),
        ([good], {"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 does not fit WORLD_SIZE=2"),
        ([good], {"RANK": "0", "WORLD_SIZE": "2"}, "WORLD_SIZE=2, but MASTER_ADDR is not set."),
    ]
    given = [[[*arguments, f"--output_dir={tmp_path / 'outputs'}"], variables] for arguments, variables, _ in cases]
    if torch.cuda.is_available():
        pytest.skip("the sentences about precision are those of a machine without GPU")
    done = end(start([sys.executable, "-c", BAD_INPUT, json.dumps(given)], {"PYTHONPATH": str(TRAINER)}))
    assert done.code == 0, done.err
    for (code, said), (arguments, _, sentence) in zip(json.loads(done.out.splitlines()[-1]), cases, strict=True):
        assert code == 2, (arguments, said)
        assert re.search(sentence, said), (arguments, said)
        assert "Traceback" not in said


def test_a_process_alone_ends_with_2_and_one_line_for_a_missing_folder(tmp_path: Path) -> None:
    done = end(start(train_py(f"--data={tmp_path / 'none'}"), {}))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_without_torch_it_names_the_python_and_the_extra() -> None:
    # -S leaves site-packages out, so this Python is one without torch.
    done = end(start([sys.executable, "-S", "train.py", "--data=birds"], {"PYTHONPATH": ""}))
    assert done.code == 2
    assert done.err == (
        f"train.py: torch is not installed in {sys.executable}; install footplate's extra: "
        "pip install 'footplate[local]'\n"
    )


BATCHES = """
import json
from data import EpochBatches
from errors import BadInput
for count in range(2, 24):
    for size in range(1, 6):
        for world in range(1, 5):
            try:
                ranks = [EpochBatches(count, size, rank, world, 0) for rank in range(world)]
            except BadInput:
                assert count < 2 * world, (count, world)
                continue
            epochs = []
            for epoch in (1, 2):
                for rank in ranks:
                    rank.epoch = epoch
                batches = [list(rank) for rank in ranks]
                assert all(len(b) == len(ranks[0]) for b in batches)
                sizes = [[len(batch) for batch in b] for b in batches]
                assert all(s == sizes[0] for s in sizes) and min(sizes[0]) > 1, (count, size, world, sizes)
                seen = [index for b in batches for batch in b for index in batch]
                assert len(set(seen)) == len(seen) == count - count % world
                epochs.append(seen)
            assert count < 8 or epochs[0] != epochs[1]
print("held")
"""


def test_every_rank_has_as_many_batches_of_the_same_sizes_and_none_of_one() -> None:
    done = end(start([sys.executable, "-c", BATCHES], {"PYTHONPATH": str(TRAINER)}))
    assert done.out == "held\n", done.err


def test_the_scoring_code_and_the_trainer_open_pictures_alike() -> None:
    assert (TRAINER / "pictures.py").read_bytes() == (TRAINER.parent / "score" / "pictures.py").read_bytes()


def test_a_run_that_is_cut_off_leaves_a_whole_model(birds: Path, tmp_path: Path) -> None:
    """What stands in the output folder is whole at any moment, as it takes its place by a rename."""
    arguments = [f"--data={birds}", f"--output_dir={tmp_path}", "--image_size=64", "--num_epochs=10000"]
    process = start(train_py(*arguments), {})
    manifest_file = tmp_path / "model" / "model.json"
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        while not manifest_file.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no model came"
            time.sleep(0.01)
    finally:
        process.kill()
        end(process)
    manifest = json.loads(manifest_file.read_text(encoding="utf-8"))
    weights = (tmp_path / "model" / manifest["weights"]["file"]).read_bytes()
    assert hashlib.sha256(weights).hexdigest() == manifest["weights"]["sha256"]
    assert manifest["onnx"] is None
