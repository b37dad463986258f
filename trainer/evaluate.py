"""Evaluates a trained model on pictures, and against the registered one where that is given.

    python evaluate.py --model outputs/model --data DIR [--registered FOLDER] [--output_dir evaluation]

OUTPUT_DIR gets `evaluation.json`, and the report of confusions and of the most wrong pictures. Exit codes: 0 evaluated, and
no worse than the registered model; 1 worse; 2 the input is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import archives
import artefact
import cache
import report
import torch
from errors import BadInput
from imagefolder import SUFFIXES, Sample
from metrics import MetricsLog
from pictures import BadPicture, open_picture

BATCH = 32


@dataclass(frozen=True)
class Evaluation:
    """What came of one model on the pictures; `right` says for each of them whether it was."""

    tally: report.Tally
    loss: float
    right: list[bool]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Evaluate a model on DATA/SPLIT, a folder a class.")
    add = parser.add_argument
    add("--model", type=Path, required=True, help="the folder that a training wrote, with model.json in it")
    add("--data", required=True, help="folder with SPLIT/CLASS/…, or a zip or tar of one, by path or https:")
    add(
        "--split",
        default="val",
        help="which of its folders; pictures that neither trained nor chose the model say most",
    )
    add("--registered", type=Path, help="the model to compare with; one that is worse than it ends with exit code 1")
    add("--output_dir", type=Path, default=Path("evaluation"))
    return parser.parse_args()


def main() -> int:
    """Evaluates, compares, writes and logs; returns the exit code."""
    args = parse_arguments()
    try:
        return evaluate(args)
    except (BadInput, BadPicture) as fault:
        print(f"evaluate.py: {fault}", file=sys.stderr, flush=True)
        return 2


def evaluate(args: argparse.Namespace) -> int:
    """The same, with faults raised."""
    model = artefact.load(args.model)
    registered = artefact.load(folder_of(args.registered)) if args.registered else None
    if registered and set(registered.classes) != set(model.classes):
        raise BadInput(
            f"The registered model knows {', '.join(registered.classes)}, the new one {', '.join(model.classes)}: "
            "they cannot be compared. Leave --registered out, or train on the same classes."
        )
    root = archives.data_folder(args.data, cache.folder(None), None, print)
    samples = listed(root / args.split, model.classes)
    log = MetricsLog(print, {"split": args.split})
    new = measured(model, samples)
    document: dict[str, Any] = {"split": args.split, "pictures": len(samples)} | figures(new)
    values = {"accuracy": new.tally.accuracy, "loss": new.loss}
    print(f"The new model: {words(new)}.")
    if registered:
        old = measured(registered, listed(root / args.split, registered.classes))  # its classes may have another order
        pairs = list(zip(new.right, old.right, strict=True))
        document["registered"] = figures(old) | {
            "right_only_by_new": pairs.count((True, False)),
            "right_only_by_registered": pairs.count((False, True)),
        }
        values |= {"registered_accuracy": old.tally.accuracy, "registered_loss": old.loss}
        print(f"The registered model: {words(old)}.")
    worse = registered is not None and new.tally.accuracy < old.tally.accuracy
    document["worse"] = worse

    args.output_dir.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (args.output_dir / "evaluation.json").write_text(text, encoding="utf-8")
    said = report.write(
        args.output_dir,
        model.classes,
        [],
        new.tally,
        lambda index: open_picture(samples[index].path).image,
        lambda index: str(samples[index].path.relative_to(root)),
    )
    print(said)
    log.log(0, values)
    log.log_folder(args.output_dir)
    log.close()
    if worse:
        print("evaluate.py: the new model is worse than the registered one and is not to replace it.", file=sys.stderr)
    return 1 if worse else 0


def folder_of(registered: Path) -> Path:
    """Where model.json lies: in the folder, or below it, as a registered output of a job has it."""
    found = [registered] if (registered / artefact.MANIFEST).is_file() else sorted(registered.rglob(artefact.MANIFEST))
    if len(found) != 1:
        many = "several model.json" if found else "no model.json"
        raise BadInput(
            f"There is {many} in {registered}. Give --registered the folder of one model that was trained here."
        )
    return found[0] if found[0].is_dir() else found[0].parent


def listed(split: Path, classes: Sequence[str]) -> list[Sample]:
    """Every picture under the class folders, in order; raises `BadInput` where there are none, or of an unknown class."""
    if not split.is_dir():
        raise BadInput(f"There is no folder {split}. Give --data a folder that has it, or --split another one.")
    folders = sorted(entry for entry in split.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if unknown := [folder.name for folder in folders if folder.name not in classes]:
        raise BadInput(f"{split} has {', '.join(unknown)}, and the model knows {', '.join(classes)} only. Take it out.")
    samples = [
        Sample(path, classes.index(folder.name))
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    ]
    if not samples:
        raise BadInput(f"{split} has no pictures. Put those of each class in a folder of its name.")
    return samples


@torch.inference_mode()
def measured(model: artefact.Model, samples: Sequence[Sample]) -> Evaluation:
    """The model on every picture, preprocessed as in its validation."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = model.network.to(device)
    transform = model.preprocessing.validation()

    def prepared(sample: Sample) -> torch.Tensor:
        image = open_picture(sample.path, f"{sample.path.parent.name}/{sample.path.name}").image
        tensor: torch.Tensor = transform(model.preprocessing.resized(image))
        return tensor

    tally, loss, right = report.Tally(len(model.classes)), 0.0, []
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for start in range(0, len(samples), BATCH):
            batch = samples[start : start + BATCH]
            images = torch.stack(list(pool.map(prepared, batch))).to(device)
            labels = torch.tensor([sample.label for sample in batch])
            scores = network(images).float().cpu()
            tally.add(range(start, start + len(batch)), scores, labels)
            loss += float(torch.nn.functional.cross_entropy(scores, labels, reduction="sum"))
            right += (scores.argmax(1) == labels).tolist()
    return Evaluation(tally, loss / len(samples), right)


def figures(evaluation: Evaluation) -> dict[str, float]:
    """What evaluation.json says of a model."""
    return {"accuracy": evaluation.tally.accuracy, "loss": evaluation.loss}


def words(evaluation: Evaluation) -> str:
    """The same in a line of the log."""
    right = sum(evaluation.right)
    return f"{right} of {len(evaluation.right)} right ({evaluation.tally.accuracy:.4f}), loss {evaluation.loss:.4f}"


if __name__ == "__main__":
    sys.exit(main())
