"""What a training leaves: the artefact and its ONNX file, the report, and the evaluation against a registered model."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from footplate.operations.pictures import score_module
from footplate.paths import asset

pytest.importorskip("torch", reason="the extra local is not installed")
pytest.importorskip("onnxruntime", reason="the extra local is not installed")

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "images"

# One process for all of it, as importing torch takes most of the time. Prints what the tests look at as JSON.
SCRIPT = """
import json, sys
from pathlib import Path
trainer, home, cases = map(Path, sys.argv[1:4])
sys.path.insert(0, str(trainer))
import artefact, evaluate, export, networks, numpy, report, torch
from data import Preprocessing
from PIL import Image
from pictures import BadPicture, open_picture

found = {}
torch.manual_seed(1)
preprocessing = Preprocessing.for_size(64)
classes = ("chicken", "turkey")

def saved(name, says, classes=classes):
    network = networks.build("squeezenet1_1", 2)
    if says is not None:  # a network that says one class, whatever it sees
        network.classifier[1].weight.data.zero_()
        network.classifier[1].bias.data = torch.tensor([4.0 if label == says else 0.0 for label in classes])
    artefact.save(home / name, artefact.Recipe("squeezenet1_1", classes, preprocessing, {"seed": 1}), network, {"acc": 0.5})
    return network

# The artefact and ONNX
network = saved("random", None).eval()
found["before"] = json.loads((home / "random" / "model.json").read_text())
found["said"] = export.to_onnx(home / "random", torch.randn(4, 3, 64, 64))
images = torch.randn(3, 3, 64, 96)
numpy.save(home / "images.npy", images.numpy())
numpy.save(home / "scores.npy", network(images).detach().numpy())
saved("refused", None)
sys.modules["onnx"], kept = None, sys.modules.get("onnx")  # as where the package is not installed
found["without_onnx"] = export.to_onnx(home / "refused", torch.full((2, 3, 64, 64), float("nan")))
sys.modules["onnx"] = kept

class Pooled(torch.nn.Module):
    def forward(self, images):
        return torch.nn.functional.adaptive_avg_pool2d(images, (5, 5)).flatten(1)

class Branching(torch.nn.Module):  # what it does with the first picture is not what it does with all of them
    def forward(self, images):
        return images.mean((2, 3)) * (2 if len(images) == 1 else 1)

found["not_exported"] = []
for odd in (Pooled(), Branching()):
    try:
        export.write(odd, torch.rand(2, 3, 32, 32), home / "odd.onnx")
    except export.NotExported as reason:
        found["not_exported"].append(str(reason))

# The report
labels, scores = torch.randint(0, 3, (100,)), torch.randn(100, 3)
whole, ranks = report.Tally(3), [report.Tally(3), report.Tally(3)]
whole.add(range(100), scores, labels)
for rank, tally in enumerate(ranks):
    for start in range(rank, 100, 20):  # each rank's batches of ten
        rows = list(range(start, min(start + 20, 100), 2))
        tally.add(rows, scores[rows], labels[rows])
ranks[1].merge(ranks[0])
found["merged_alike"] = bool((ranks[1].confusion == whole.confusion).all()) and ranks[1].mistakes == whole.mistakes
found["counts"] = numpy.zeros((3, 3), dtype=int).tolist()
for label, row in zip(labels.tolist(), scores.argmax(1).tolist()):
    found["counts"][label][row] += 1
losses = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
wrong = [i for i in losses.argsort(descending=True).tolist() if scores[i].argmax() != labels[i]][:20]
found["worst"] = wrong
names = ("a", "b [x]", "c\\n")
history = [
    {"epoch": 1, "train_loss": 1.5, "val_loss": float("nan"), "val_acc": 0.25},
    {"epoch": 2, "train_loss": 1.0, "val_loss": 1.2, "val_acc": 0.5},
]
picture = lambda index: Image.new("RGB", (40 + index, 30), (index, 0, 0))
found["report"] = report.write(home / "report", names, history, whole, picture, lambda index: f"val/{index}.jpg")
perfect = report.Tally(3)
perfect.add(range(3), torch.eye(3), torch.arange(3))
found["perfect"] = report.write(home / "report", names, history[:1], perfect, picture, str)
found["perfect_files"] = sorted(path.name for path in (home / "report").iterdir())

def missing(index):
    raise BadPicture("val/7.jpg is gone.")

found["broken"] = report.write(home / "broken", names, history, whole, missing, str)
found["blocked"] = report.write(home / "images.npy" / "report", names, history, whole, picture, str)

# Evaluation
for name, says in (("hen", "chicken"), ("cock", "turkey")):
    saved(name, says)
saved("registered/outputs/other-order", "chicken", ("turkey", "chicken"))
for i, label in enumerate(["chicken", "chicken", "chicken", "turkey"]):
    (home / "data" / "val" / label).mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (80, 70), (60 * i, 9, 9)).save(home / "data" / "val" / label / f"{i}.png")
(home / "data" / "odd" / "goose").mkdir(parents=True)

def run(output, *arguments):
    sys.argv = ["evaluate.py", "--data", str(home / "data"), "--output_dir", str(home / output), *map(str, arguments)]
    return evaluate.main()

found["alone"] = run("alone", "--model", home / "hen")
found["worse"] = run("worse", "--model", home / "cock", "--registered", home / "registered")
found["better"] = run("better", "--model", home / "hen", "--registered", home / "cock")
found["same"] = run("same", "--model", home / "hen", "--registered", home / "registered")
found["bad"] = [run("bad", "--model", home / "data"), run("bad", "--model", home / "hen", "--split", "odd"),
                run("bad", "--model", home / "hen", "--split", "none"), run("bad", "--model", home / "hen", "--registered", home)]
(home / "hen" / "model.safetensors").write_bytes(b"changed")
found["bad"].append(run("bad", "--model", home / "hen"))

# What validation makes of the case pictures
found["cases"] = []
for path in sorted(cases.iterdir()) if cases.is_dir() else []:
    try:
        image = preprocessing.resized(open_picture(path).image)
    except BadPicture:
        continue
    numpy.save(home / f"case{len(found['cases'])}.npy", preprocessing.validation()(image).numpy())
    found["cases"].append(path.name)
(home / "found.json").write_text(json.dumps(found))
"""


@dataclass(frozen=True)
class Outcome:
    home: Path
    found: dict[str, Any]
    err: str
    out: str

    def json(self, *place: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.home.joinpath(*place).read_text(encoding="utf-8"))
        return document


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    home = tmp_path_factory.mktemp("artefact")
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(asset("trainer")), str(home), str(CASES)]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "OMP_NUM_THREADS": "1"}  # without MLflow's variables
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return Outcome(home, json.loads((home / "found.json").read_text()), done.stderr, done.stdout)


def test_onnx_gives_the_scores_of_torch_for_any_batch_and_size(outcome: Outcome) -> None:
    import onnxruntime

    assert "same scores as torch on 4 pictures" in outcome.found["said"]
    manifest = outcome.json("random", "model.json")
    digest = hashlib.sha256((outcome.home / "random" / "model.onnx").read_bytes()).hexdigest()
    assert manifest == outcome.found["before"] | {"onnx": {"file": "model.onnx", "sha256": digest}}
    session = onnxruntime.InferenceSession(outcome.home / "random" / "model.onnx", providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"images": np.load(outcome.home / "images.npy")})
    assert np.abs(scores - np.load(outcome.home / "scores.npy")).max() < 1e-4


def test_a_failed_export_is_told_and_leaves_the_model(outcome: Outcome) -> None:
    assert outcome.found["without_onnx"].startswith("No ONNX file: ")
    assert "served by torch all the same" in outcome.found["without_onnx"]
    assert sorted(path.name for path in (outcome.home / "refused").iterdir()) == ["model.json", "model.safetensors"]
    manifest = outcome.json("refused", "model.json")
    assert manifest["onnx"] is None
    assert (
        manifest["weights"]["sha256"]
        == hashlib.sha256((outcome.home / "refused" / "model.safetensors").read_bytes()).hexdigest()
    )
    failed, differs = outcome.found["not_exported"]
    assert failed.startswith("the export failed (")
    assert differs.startswith("its scores differ from torch's by ")
    assert "graph(" not in outcome.out  # the exporter's own print of the whole graph


def test_ranks_that_merge_their_tallies_count_as_one_does(outcome: Outcome) -> None:
    assert outcome.found["merged_alike"]


def test_the_report_holds_the_counts_the_worst_pictures_and_the_curve(outcome: Outcome) -> None:
    assert "the 20 most wrong of 100 pictures" in outcome.found["report"]
    assert "none wrong of 3 pictures" in outcome.found["perfect"]
    assert outcome.found["perfect_files"] == ["confusion.png", "curve.png", "report.json"]  # no sheet of an earlier one
    numbers = outcome.json("broken", "report.json")
    assert numbers["confusion"] == outcome.found["counts"]
    assert [wrong["index"] for wrong in numbers["most_wrong"]] == outcome.found["worst"]
    right = sum(numbers["confusion"][i][i] for i in range(3))
    assert numbers["accuracy"] == right / 100
    assert [entry["label"] for entry in numbers["classes"]] == ["a", "b [x]", "c\n"]
    for i, entry in enumerate(numbers["classes"]):
        assert entry["pictures"] == sum(numbers["confusion"][i])
        assert entry["recall"] == numbers["confusion"][i][i] / entry["pictures"]
        assert entry["precision"] == numbers["confusion"][i][i] / sum(row[i] for row in numbers["confusion"])
    assert numbers["history"][0]["val_loss"] is None  # JSON has no NaN
    assert numbers["history"][1]["val_acc"] == 0.5
    for name in ("curve.png", "confusion.png"):
        with Image.open(outcome.home / "report" / name) as image:
            assert len(image.convert("RGB").getcolors(1 << 20) or ()) > 20


def test_a_report_that_cannot_be_drawn_or_written_is_told_not_raised(outcome: Outcome) -> None:
    assert outcome.found["broken"].endswith("is not whole: val/7.jpg is gone.")
    assert "is not whole: " in outcome.found["blocked"]


def test_an_evaluation_compares_with_the_registered_model_whatever_its_class_order(outcome: Outcome) -> None:
    found = outcome.found
    assert (found["alone"], found["better"], found["same"], found["worse"]) == (0, 0, 0, 1)
    assert outcome.json("alone", "evaluation.json") == {
        "split": "val",
        "pictures": 4,
        "accuracy": 0.75,
        "loss": pytest.approx(np.log1p(np.exp(-4)) + 1),  # three right and one wrong by four
        "worse": False,
    }
    worse = outcome.json("worse", "evaluation.json")
    assert (worse["accuracy"], worse["registered"]["accuracy"], worse["worse"]) == (0.25, 0.75, True)
    assert (worse["registered"]["right_only_by_new"], worse["registered"]["right_only_by_registered"]) == (1, 3)
    assert "worse than the registered one" in outcome.err
    report = outcome.json("worse", "report.json")
    assert report["confusion"] == [[0, 3], [0, 1]]
    assert {wrong["file"] for wrong in report["most_wrong"]} == {f"val/chicken/{i}.png" for i in range(3)}
    with Image.open(outcome.home / "worse" / "most_wrong.png") as sheet:
        assert sheet.getpixel((12 + 88, 12 + 88))[1:] == (9, 9)  # the middle of the first picture


def test_an_evaluation_of_bad_input_ends_with_2_and_a_sentence(outcome: Outcome) -> None:
    assert outcome.found["bad"] == [2] * 5
    for words in ("There is no", "goose", "no folder", "several model.json", "was changed since"):
        assert words in outcome.err


def test_validation_and_score_preprocess_to_the_same_bits(outcome: Outcome) -> None:
    if not CASES.is_dir():
        pytest.skip(f"the case pictures are not at {CASES}")
    pictures, preprocessing = score_module("pictures"), score_module("preprocessing")
    spec = outcome.found["before"]["preprocessing"]
    assert len(outcome.found["cases"]) >= 12
    for i, name in enumerate(outcome.found["cases"]):
        prepared = preprocessing.preprocess(pictures.open_picture(CASES / name), spec)
        assert np.array_equal(prepared.array[0], np.load(outcome.home / f"case{i}.npy")), name
