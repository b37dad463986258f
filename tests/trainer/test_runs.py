"""What a run prints and leaves, and a sentence for whatever is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.starts import DEADLINE_SECONDS, TINY, TRAINER, Ended, Ranks, azure_places, environment

pytestmark = pytest.mark.slow


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
def trained(ranks: Ranks, birds: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    output = tmp_path_factory.mktemp("two-ranks") / "outputs"
    ended = ranks.together(f"--data={birds}", f"--output_dir={output}", *TINY, "--architecture=resnet18")
    assert [each.code for each in ended] == [0, 0], ended
    return Trained(ended, birds, output)


def test_the_log_shows_every_rank_and_a_line_an_epoch(trained: Trained) -> None:
    first, second = (rank.out.splitlines() for rank in trained.ranks)
    assert first[0].startswith("Rank 0 of 2 on cpu")
    assert second[0].startswith("Rank 1 of 2 on cpu")
    table = first.index("Back end: gloo (CPU)")
    assert first[table + 1].split() == ["rank", "node", "local", "host", "pid", "device"]
    assert [first[table + line].split()[:3] for line in (2, 3)] == [["0", "0", "0"], ["1", "0", "1"]]
    assert "Batch: 3 pictures a rank × 2 ranks = 6 a step; learning rate 0.001 (not scaled with them)." in first
    epochs = [line for line in first if line.startswith("Epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/2", "2/2"]
    assert all("val_acc" in line and "images/s" in line for line in epochs)
    assert second[1:] == ["Epoch 1/2 done on rank 1", "Epoch 2/2 done on rank 1"]
    assert first.count("Metrics stay in this log: MLFLOW_TRACKING_URI is not set.") == 1
    assert any(line.startswith("The ONNX file gives the same scores as torch") for line in first)
    assert [rank.err for rank in trained.ranks] == ["", ""]


def test_the_artefact_is_whole_and_says_what_it_is(trained: Trained) -> None:
    from safetensors.numpy import load_file

    model, manifest = trained.output / "model", trained.manifest
    assert sorted(path.name for path in trained.output.iterdir()) == ["model", "report"]
    assert sorted(path.name for path in model.iterdir()) == ["model.json", "model.onnx", "model.safetensors"]
    for part, file in (("weights", "model.safetensors"), ("onnx", "model.onnx")):
        digest = hashlib.sha256((model / file).read_bytes()).hexdigest()
        assert manifest[part] == {"file": file, "sha256": digest}
    assert manifest["format"] == 1
    assert (manifest["architecture"], manifest["classes"]) == ("resnet18", ["chicken", "turkey"])
    assert manifest["preprocessing"] == {
        "resize": 37,
        "crop": 32,
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "interpolation": "bilinear",
    }
    assert manifest["input_shape"] == [3, 32, 32]
    assert set(manifest["metrics"]) == {"best_val_acc", "val_loss", "epoch"}
    assert manifest["arguments"]["num_epochs"] == 2
    assert manifest["git_commit"] is None or re.fullmatch(r"[0-9a-f]{40}", manifest["git_commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", manifest["created"])
    assert load_file(model / "model.safetensors")["fc.weight"].shape == (2, 512)


def test_the_exported_model_takes_any_batch_and_size(trained: Trained) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(trained.output / "model" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    for shape in ((1, 3, 32, 32), (5, 3, 32, 32), (2, 3, 96, 80)):
        assert session.run(None, {"images": np.zeros(shape, dtype=np.float32)})[0].shape == (shape[0], 2)


@pytest.mark.long
def test_torchrun_starts_it_and_metrics_reach_the_given_mlflow_run(trained: Trained, tmp_path: Path) -> None:
    """The weights of a former run are the start of this one; the run's status is left to whoever made the run."""
    pytest.importorskip("mlflow", reason="the extra local is not installed")

    def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=TRAINER,
            env={**environment(), **variables},
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    script = "from mlflow import MlflowClient; print(MlflowClient().create_run('0').info.run_id)"
    run_id = run(["-W", "ignore", "-c", script], MLFLOW_TRACKING_URI=uri).stdout.split()[-1]

    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "train.py"]
    weights = trained.output / "model" / "model.safetensors"
    arguments = [f"--data={trained.data}", f"--output_dir={tmp_path / 'outputs'}", f"--weights={weights}", *TINY]
    done = run([*torchrun, *arguments, "--architecture=resnet18"], MLFLOW_TRACKING_URI=uri, MLFLOW_RUN_ID=run_id)
    assert done.returncode == 0, done.stderr
    assert "Rank 1 of 2" in done.stdout
    assert re.search(r"resnet18 from \S+model.safetensors, (\d+) of \1 tensors", done.stdout)
    assert (tmp_path / "outputs" / "model" / "model.json").is_file()

    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        rows = store.execute("select key, step, value from metrics where run_uuid = ?", (run_id,)).fetchall()
        params = dict(store.execute("select key, value from params where run_uuid = ?", (run_id,)).fetchall())
        runs = store.execute("select run_uuid, status from runs").fetchall()
    names = {
        "train_loss",
        "val_loss",
        "val_acc",
        "best_val_acc",
        "lr",
        "images_per_second",
        "data_wait",
        "step_seconds",
    }
    assert {(key, step) for key, step, _ in rows} == {(name, step) for name in names for step in (1, 2)}
    assert len(rows) == 2 * len(names)
    assert params["num_epochs"] == "2"
    assert params["world_size"] == "2"
    assert runs == [(run_id, "RUNNING")]


def test_a_killed_rank_ends_the_others_with_a_sentence_that_names_it(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    started = ranks.start_together(f"--data={birds}", f"--output_dir={tmp_path}", *TINY, "--num_epochs=10000")
    started[1].until("Epoch 1/")
    started[1].send(signal.SIGKILL)
    first, second = (each.end() for each in started)
    assert second.code == -signal.SIGKILL
    assert first.code == 1
    assert re.match(
        r"train.py: Rank 0 lost the connection to another rank, so it stops. The cause is rank 1 \(", first.err
    )
    assert first.err.count("\n") == 1


def test_a_rank_that_stands_still_is_named_after_the_time_out(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    arguments = [f"--data={birds}", f"--output_dir={tmp_path}", *TINY, "--num_epochs=10000", "--timeout_seconds=6"]
    started = ranks.start_together(*arguments)
    started[1].until("Epoch 1/")
    started[1].send(signal.SIGSTOP)
    first = started[0].end()
    started[1].send(signal.SIGKILL)
    started[1].end()
    assert first.code == 1
    assert "The cause is rank 1 (last heard of at " in first.err
    assert first.err.count("\n") == 1


def test_a_rank_that_does_not_come_is_named(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    places = list(azure_places(3))
    arguments = [f"--data={birds}", f"--output_dir={tmp_path}", *TINY, "--timeout_seconds=3"]
    started = [ranks.start(*arguments, **place) for place in (places[0], places[2])]
    ended = [each.end() for each in started]
    assert [each.code for each in ended] == [1, 1]
    assert re.match(
        r"train.py: Rank 0 waited 3 s at \S+ for 1 of 3 ranks: 1 did not come. Look into their logs.\n", ended[0].err
    )


def test_a_rank_that_fails_alone_tells_the_others_why(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    """A fault that the ranks did not look for together: rank 0 says what rank 1 has ended with."""
    script = """
import sys, train
if train.os.environ["RANK"] == "1":
    def fails(*_): raise train.BadInput("The wren has flown.")
    train.shared = fails
sys.exit(train.main())
"""
    arguments = [f"--data={birds}", f"--output_dir={tmp_path}", *TINY]
    started = [ranks.start(*arguments, script=script, **place) for place in azure_places(2)]
    first, second = (each.end() for each in started)
    assert (second.code, second.err) == (2, "train.py: The wren has flown.\n")
    assert first.code == 1
    assert "rank 1" in first.err
    assert "The wren has flown." in first.err


def test_more_ranks_than_training_pictures_are_refused_on_every_rank(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    data = tmp_path / "birds"
    shutil.copytree(birds, data)
    for bird in ("chicken", "turkey"):
        for path in sorted((data / "train" / bird).iterdir())[1:]:
            path.unlink()
    arguments = [f"--data={data}", f"--output_dir={tmp_path / 'outputs'}", *TINY, "--architecture=resnet18"]
    ended = ranks.together(*arguments)
    assert [each.code for each in ended] == [2, 2]
    assert all("2 ranks cannot share 2 training pictures: each needs two" in each.err for each in ended)


def test_a_loss_that_is_no_number_ends_the_run_with_a_sentence(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    arguments = [f"--data={birds}", f"--output_dir={tmp_path / 'outputs'}", "--optimizer=sgd", "--learning_rate=1e30"]
    done = ranks.alone(*arguments, *TINY)
    assert done.code == 1
    assert done.err.startswith("train.py: The loss is no number any more in epoch 1. Lower --learning_rate")
    assert done.err.count("\n") == 1


def test_an_output_folder_that_cannot_be_made_is_told_before_training(
    ranks: Ranks, birds: Path, tmp_path: Path
) -> None:
    (tmp_path / "outputs").write_text("a file")
    ended = ranks.together(f"--data={birds}", f"--output_dir={tmp_path / 'outputs'}", *TINY)
    assert [each.code for each in ended] == [2, 2]
    assert all("cannot be made: File exists. Give --output_dir another one." in each.err for each in ended)
    assert not any("Epoch" in each.out for each in ended)


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


def test_bad_input_is_told_in_a_sentence_with_exit_code_2(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    import torch

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
        ([f"--data={file}"], {}, "file.txt is a file, and neither a zip nor a tar."),
        (["--data=http://127.0.0.1/birds.zip"], {}, "only https: addresses are fetched, not http:."),
        ([good, "--data_sha256=wren"], {}, "--data_sha256 wren is not 64 hexadecimal digits."),
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
        ([good, "--architecture=vit_b_16", "--image_size=100"], {}, "vit_b_16 cannot be made for 100 pixels"),
        (
            [good, "--architecture=squeezenet1_1", "--backbone=frozen"],
            {},
            "needs a network that ends in a linear layer",
        ),
        ([good, "--precision=fp16"], {}, "--precision fp16 needs a GPU"),
        ([good, "--num_epochs=0"], {}, "--num_epochs 0 is too small"),
        ([good, "--learning_rate=-1"], {}, "--learning_rate -1.0 is not above 0."),
        ([good, "--momentum=1.5"], {}, "--momentum 1.5 is not from 0 up to 1."),
        ([good, "--warmup_epochs=31"], {}, "--warmup_epochs 31.0 is more than --num_epochs 30."),
        ([good, "--resume=nowhere.pt"], {}, "--resume nowhere.pt cannot be read: No such file"),
        ([good], {"RANK": "two"}, "RANK='two' in the environment is not a whole number."),
        ([good], {"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 does not fit WORLD_SIZE=2"),
        ([good], {"RANK": "0", "WORLD_SIZE": "2"}, "WORLD_SIZE=2, but MASTER_ADDR is not set."),
    ]
    given = [[[*arguments, f"--output_dir={tmp_path / 'outputs'}"], variables] for arguments, variables, _ in cases]
    if torch.cuda.is_available():
        pytest.skip("the sentences about precision are those of a machine without GPU")
    done = ranks.start(json.dumps(given), script=BAD_INPUT).end()
    assert done.code == 0, done.err
    for (code, said), (arguments, _, sentence) in zip(json.loads(done.out.splitlines()[-1]), cases, strict=True):
        assert code == 2, (arguments, said)
        assert re.search(sentence, said), (arguments, said)
        assert "Traceback" not in said


def test_a_process_alone_ends_with_2_and_one_line_for_a_missing_folder(ranks: Ranks, tmp_path: Path) -> None:
    done = ranks.alone(f"--data={tmp_path / 'none'}")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_without_torch_it_names_the_python_and_the_extra() -> None:
    # -S leaves site-packages out, so this Python is one without torch.
    done = subprocess.run(
        [sys.executable, "-S", "train.py", "--data=birds"],
        cwd=TRAINER,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"train.py: torch is not installed in {sys.executable}; install footplate's extra: "
        "pip install 'footplate[local]'\n"
    )


def test_the_scoring_code_and_the_trainer_open_pictures_alike() -> None:
    assert (TRAINER / "pictures.py").read_bytes() == (TRAINER.parent / "score" / "pictures.py").read_bytes()
