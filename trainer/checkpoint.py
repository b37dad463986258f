"""Checkpoints: what a training needs to go on to the same weights, bit for bit, as if nothing had stopped it.

The schedule, the order of the pictures and every random choice follow from the seed and from how far the training is, so
that a checkpoint holds numbers and tensors only. Each is a file of a new name, then a small JSON file with its size and
SHA-256: on storage where a rename or an overwrite can be seen half done, a reader still takes the newest whole one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import distributed
import torch
from distributed import Ranks
from errors import BadInput

FORMAT = 1
KEPT = 2
State = dict[str, Any]


@dataclass
class Progress:
    """How far a training is."""

    epoch: int = 1
    consumed: int = 0  # pictures of this epoch's order that all ranks together have learned from
    steps: int = 0
    loss_sum: float = 0.0
    best_val_acc: float = -1.0
    best_val_loss: float = float("inf")
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


@dataclass
class Restored:
    """A checkpoint that was read."""

    file: str
    progress: Progress
    model: State
    best: State
    optimizer: State
    scaler: State


def save(
    folder: Path,
    ranks: Ranks,
    progress: Progress,
    made_of: Mapping[str, str],
    model: torch.nn.Module,
    best: State,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
) -> Path:
    """Writes a checkpoint from rank 0, all ranks taking part, and returns its file; raises `BadInput` where it cannot.

    `made_of` names what must be the same again for the checkpoint to be of any use, in words.
    """
    buffers = {name: buffer.detach().cpu().clone() for name, buffer in model.named_buffers()}
    everyone = distributed.gathered(ranks, buffers)  # batch statistics are a rank's own until validation
    file = folder / f"checkpoint-{progress.steps:09d}.pt"
    fault = None
    if ranks.first:
        content = {
            "format": FORMAT,
            "progress": asdict(progress),
            "made_of": dict(made_of),
            "model": model.state_dict(),
            "buffers": everyone,
            "best": best,
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
        }
        try:
            write(file, content, progress)
        except OSError as error:
            fault = f"The checkpoint {file} cannot be written: {error.strerror}. Give --checkpoint_dir another folder."
    distributed.agreed(ranks, fault)
    return file


def write(file: Path, content: State, progress: Progress) -> None:
    """Writes the tensors, then the small file that says they are whole, then removes what is older than the last two."""
    file.parent.mkdir(parents=True, exist_ok=True)
    note = file.with_suffix(".json")
    note.unlink(missing_ok=True)
    with file.open("wb") as out:
        torch.save(content, out)
        out.flush()
        os.fsync(out.fileno())
    said = {
        "file": file.name,
        "bytes": file.stat().st_size,
        "sha256": digest(file.read_bytes()),
        "epoch": progress.epoch,
    }
    with note.open("w") as out_note:
        json.dump(said, out_note)
        out_note.flush()
        os.fsync(out_note.fileno())
    for old in sorted(file.parent.glob("checkpoint-*.json"), reverse=True)[KEPT:]:
        with suppress(OSError):  # what cannot be removed now is removed after the next one
            old.unlink()
    notes = {old.stem for old in file.parent.glob("checkpoint-*.json")}
    for tensors in file.parent.glob("checkpoint-*.pt"):
        if tensors.stem not in notes:
            with suppress(OSError):
                tensors.unlink()


def remove_all(folder: Path) -> None:
    """Removes the checkpoints of a training that is done, and their folder where nothing else lies in it."""
    for file in folder.glob("checkpoint-*"):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # not there, or not empty
        folder.rmdir()


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def newest(folder: Path) -> tuple[Path, bytes, list[str]] | None:
    """The newest whole checkpoint with its content, and the names of newer ones that are torn; None without any."""
    torn: list[str] = []
    for note in sorted(folder.glob("checkpoint-*.json"), reverse=True):
        try:
            said = json.loads(note.read_text())
            content = note.with_suffix(".pt").read_bytes()
            if len(content) == said["bytes"] and digest(content) == said["sha256"]:
                return note.with_suffix(".pt"), content, torn
        except (OSError, ValueError, KeyError, TypeError):
            pass
        torn.append(note.with_suffix(".pt").name)
    return None


def restore(folder: Path, resume: str, ranks: Ranks, made_of: Mapping[str, str]) -> tuple[Restored | None, str]:
    """What rank 0 finds, on every rank, and a sentence about it; raises `BadInput` for a checkpoint of another training.

    `resume` is none, auto (the newest whole one in the folder, if any) or a checkpoint's path.
    """
    if resume == "none":
        return None, ""
    content, said, fault = b"", f"No checkpoint in {folder} yet: starting from the beginning.", None
    if ranks.first:
        if resume == "auto":
            found = newest(folder)
            if found:
                torn = f" ({', '.join(found[2])} is not whole and was passed over)" if found[2] else ""
                content, said = found[1], f"Going on from {found[0]}{torn}"
        else:
            try:
                content, said = Path(resume).read_bytes(), f"Going on from {resume}"
            except OSError as error:
                fault = f"--resume {resume} cannot be read: {error.strerror}. Give auto, none or a checkpoint's path."
    distributed.agreed(ranks, fault)
    said = distributed.gathered(ranks, said)[0]
    content = distributed.handed_out(ranks, content)
    if not content:
        return None, said
    restored = parse(content, said.removeprefix("Going on from "), ranks, made_of)
    done = f"epoch {restored.progress.epoch}, {restored.progress.consumed} pictures into it"
    return restored, f"{said}: {done}."


def parse(content: bytes, name: str, ranks: Ranks, made_of: Mapping[str, str]) -> Restored:
    """A checkpoint's content, for this rank; no pickled object is ever run."""
    try:
        read: State = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        known = {each.name for each in fields(Progress)}
        progress = Progress(**{key: value for key, value in read["progress"].items() if key in known})
        was = read["made_of"]
        if read["format"] != FORMAT:
            raise BadInput(f"{name} has format {read['format']}, and this trainer reads {FORMAT}. Use --resume none.")
    except (UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{name} is no checkpoint of this trainer. Use --resume none, or another folder.") from error
    other = [f"{key} was {was.get(key)} and is {value}" for key, value in made_of.items() if was.get(key) != value]
    if other:
        raise BadInput(
            f"{name} is of another training: {'; '.join(other)}. Use --resume none, or another --checkpoint_dir."
        )
    buffers = read["buffers"]
    if len(buffers) == ranks.world_size:
        read["model"].update(buffers[ranks.rank])
    else:  # another number of ranks than before: all go on from the mean of their statistics
        for key, value in buffers[0].items():
            if value.is_floating_point():
                read["model"][key] = torch.stack([each[key] for each in buffers]).mean(0)
    return Restored(name, progress, read["model"], read["best"], read["optimizer"], read["scaler"])
