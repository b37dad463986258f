"""Transfer learning for image classification on an ImageFolder, alone or on many ranks.

    python train.py --data DIR --output_dir ./outputs --num_epochs 30 --learning_rate 0.001 --momentum 0.9

Exit codes: 0 trained, 1 failed, 2 the input is wrong, 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

# torch's own notes on a lost connection are stack traces of dozens of lines; what is to be said of it is said below.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

try:
    # What no standard library has, first, so that its absence is told in a sentence and not from inside a helper.
    import safetensors  # noqa: F401
    import torch
    import torchvision  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("safetensors", "torch", "torchvision"):
        raise
    missing = error.name if importlib.util.find_spec("torch") else "torch"
    print(
        f"train.py: {missing} is not installed in {sys.executable}; install footplate's extra: "
        "pip install 'footplate[local]'",
        file=sys.stderr,
    )
    sys.exit(2)

import archives
import arguments
import artefact
import cache
import checkpoint
import distributed
import export
import features
import networks
import report
from checkpoint import Progress
from data import CHECK_ALL_BELOW, EpochBatches, Pictures, Preprocessing
from distributed import Ranks
from errors import BadInput, Diverged, LostRanks, Preempted
from features import Batches, HeadBatches
from imagefolder import ImageFolder, find_pictures
from interruption import Decision, Interruption
from metrics import MetricsLog
from optimisation import Precision, Schedule, make_optimizer, scaled_rate
from pictures import BadPicture
from report import Tally
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

BEAT_SECONDS = 30.0
"""The longest time without a line of each rank within an epoch."""

LISTED = 20
"""How many unreadable pictures are named."""

NOT_COMPARED = {"data", "output_dir", "checkpoint_dir", "checkpoint_minutes", "resume", "cache_dir", "workers"} | {
    "timeout_seconds",
    "data_sha256",
}
"""Arguments that a resumed training may have otherwise than the one it goes on with."""


def main() -> int:
    """Checks the input, meets the other ranks and trains; returns the exit code."""
    args = arguments.parse()
    try:
        alone = distributed.read_environment(args.timeout_seconds)
        interruption = Interruption(alone, args.checkpoint_minutes)
        with interruption.listening(), distributed.joined(alone, print_line) as ranks:
            interruption.ranks = ranks
            train(args, ranks, interruption)
    except (BadInput, BadPicture) as fault:
        sentence = str(fault).strip()
        if isinstance(fault, BadPicture):
            # A loading process hands its error over with its traceback; the sentence is the last line of that.
            sentence = sentence.splitlines()[-1].removeprefix("pictures.BadPicture: ")
        print(f"train.py: {sentence}", file=sys.stderr, flush=True)
        return 2
    except (LostRanks, Diverged) as fault:
        print(f"train.py: {fault}", file=sys.stderr, flush=True)
        return 1
    except Preempted as fault:
        print(f"train.py: {fault}", file=sys.stderr, flush=True)
        return 143
    return 0


def train(args: argparse.Namespace, ranks: Ranks, interruption: Interruption) -> None:
    """All epochs on this rank; rank 0 also writes the model, the checkpoints and the metrics."""
    say = print_line if ranks.first else silence
    say_on_node = print_line if ranks.leads_node else silence
    threads = distributed.share_cores(ranks)
    cache_folder = cache.folder(args.cache_dir)
    folder = find_data(args, ranks, cache_folder, say_on_node)
    precision = Precision.choose(args.precision, ranks.device)
    introduce(ranks, threads, precision)

    preprocessing = Preprocessing.for_size(args.image_size)
    train_set = Pictures(folder, folder.train, preprocessing, training=True, seed=args.seed)
    val_set = Pictures(folder, folder.val, preprocessing, training=False)
    fault = cannot_write(args.output_dir) if ranks.first else None
    distributed.agreed(ranks, fault)
    left_out = check_pictures(args, ranks, folder, train_set, val_set, say)

    torch.manual_seed(args.seed)  # the same first weights on every rank
    network = networks.build(args.architecture, len(folder.classes), args.image_size, args.dropout)
    origin = distributed.once_a_node(ranks, lambda: networks.load_weights(network, args.architecture, args.weights))
    networks.try_out(network, args.architecture, args.image_size)
    network = network.to(ranks.device).to(memory_format=torch.channels_last)

    head = networks.head_of(network, args.architecture)[2] if args.backbone == "frozen" else None
    learns = head or network
    least = 2 if networks.has_batch_norm(learns) else 1
    if args.batch_size < least:
        say(f"Batches of {least} instead of {args.batch_size}: batch normalisation cannot learn from one picture.")
        args.batch_size = least
    batches = EpochBatches(len(train_set), args.batch_size, ranks.rank, ranks.world_size, args.seed, least)
    val_share = range(ranks.rank, len(val_set), ranks.world_size)  # no padding: every picture is counted once
    val_rows = [list(val_share[i : i + 32]) for i in range(0, len(val_share), 32)]

    given = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    given = {name: value for name, value in given.items() if value is not None}
    given["data"] = archives.shown(args.data)  # an address may carry a signature
    recipe = artefact.Recipe(args.architecture, folder.classes, preprocessing, given)
    log = MetricsLog(say, {**given, "world_size": ranks.world_size}) if ranks.first else None
    rate, step_in_words = scaled_rate(args, ranks.world_size)
    say(f"Classes: {in_words(folder.classes)}; {len(train_set)} pictures to train on, {len(val_set)} to validate.")
    say(f"Network: {args.architecture} {origin}, {args.image_size} px, {args.optimizer}, backbone {args.backbone}.")
    say(f"Batch: {step_in_words}.")

    if head:
        train_batches, val_batches = head_batches(
            args, ranks, cache_folder, network, train_set, val_set, batches, val_rows, precision, say
        )
        example = torch.zeros(1, head.in_features, device=ranks.device)
    else:
        train_batches, val_batches = picture_batches(args, ranks, train_set, val_set, batches, val_rows)
        example = torch.zeros(2, 3, args.image_size, args.image_size, device=ranks.device)
    model = shared(learns, ranks, example, precision)

    optimizer = make_optimizer(args, learns)
    scaler = torch.amp.GradScaler(ranks.device.type, enabled=precision.dtype == torch.float16)
    schedule = Schedule.of(args, rate)
    made_of = {name: str(value) for name, value in given.items() if name not in NOT_COMPARED}
    made_of |= {"data": folder.digest[:12], "pictures left out": str(left_out), "precision": precision.name}
    checkpoint_folder = args.checkpoint_dir or args.output_dir / "checkpoints"
    model_folder = args.output_dir / "model"

    progress, best = Progress(), dict[str, torch.Tensor]()
    restored, said = checkpoint.restore(checkpoint_folder, args.resume, ranks, made_of)
    if said:
        say(said)
    if restored:
        progress, best = restored.progress, restored.best
        if ranks.first and best:
            learns.load_state_dict(best)
            artefact.save(model_folder, recipe, network, metrics_of(progress))
        learns.load_state_dict(restored.model)
        optimizer.load_state_dict(restored.optimizer)
        scaler.load_state_dict(restored.scaler)
    best_tally: Tally | None = None

    def keep(decision: Decision) -> None:
        if decision == "go on":
            return
        ranks.at("a checkpoint")
        file = checkpoint.save(checkpoint_folder, ranks, progress, made_of, learns, best, optimizer, scaler)
        interruption.saved()
        where = f"epoch {progress.epoch}, {progress.consumed} of {len(train_set)} pictures into it"
        if decision == "stop":
            raise Preempted(f"SIGTERM: the training is kept in {file} ({where}). Start it again with --resume auto.")
        say(f"Checkpoint {file.name}: {where}.")

    interruption.training = True
    for epoch in range(progress.epoch, args.num_epochs + 1):
        if args.patience and progress.best_epoch and epoch - progress.best_epoch > args.patience:
            say(f"Stopped early: no better epoch than {progress.best_epoch} in {args.patience} epochs.")
            break
        epoch_batches = Epoch(model, train_batches, batches, optimizer, scaler, schedule, precision, args)
        values = train_epoch(epoch_batches, progress, ranks, interruption, keep)
        distributed.average_buffers(ranks, learns)
        ranks.at(f"the validation of epoch {epoch}")
        val_loss, val_acc, tally = validate(learns, val_batches, val_rows, len(folder.classes), precision, ranks)
        if not math.isfinite(values["train_loss"]) or not math.isfinite(val_loss):
            raise Diverged(
                f"The loss is no number any more in epoch {epoch}. Lower --learning_rate, {args.learning_rate}."
            )
        if (val_acc, -val_loss) > (progress.best_val_acc, -progress.best_val_loss):
            progress.best_val_acc, progress.best_val_loss, progress.best_epoch = val_acc, val_loss, epoch
            best = {name: value.detach().cpu().clone() for name, value in learns.state_dict().items()}
            best_tally = tally
            if ranks.first:
                artefact.save(model_folder, recipe, network, metrics_of(progress))
        values |= {"val_loss": val_loss, "val_acc": val_acc, "best_val_acc": progress.best_val_acc}
        progress.history.append({"epoch": epoch, **values})
        progress.epoch, progress.consumed, progress.loss_sum = epoch + 1, 0, 0.0
        if log:
            log.log(epoch, values)
        tell(ranks, epoch, args.num_epochs, values)
        keep(interruption.after_epoch())
    interruption.training = False

    if best_tally is None:  # the best epoch lies before the restart
        learns.load_state_dict(best)
        best_tally = validate(learns, val_batches, val_rows, len(folder.classes), precision, ranks)[2]
    tallies = distributed.gathered(ranks, best_tally)
    if ranks.first:
        finish(args, folder, val_set, progress, tallies, log)
        if not args.checkpoint_dir:
            checkpoint.remove_all(checkpoint_folder)
    if log:
        log.close()
    distributed.gathered(ranks, None)  # an export may take longer than a collective waits


def find_data(args: argparse.Namespace, ranks: Ranks, cache_folder: Path, say: Callable[[str], None]) -> ImageFolder:
    """The listed data folder; one rank of each node fetches, unpacks and lists what is not there from before."""

    def look() -> ImageFolder:
        return find_pictures(archives.data_folder(args.data, cache_folder, args.data_sha256, say), cache_folder)

    ranks.at("the data")
    folder = distributed.once_a_node(ranks, look)
    for rank, digest in enumerate(distributed.gathered(ranks, folder.digest)):
        if digest != folder.digest:
            raise BadInput(
                f"Rank {rank} sees other pictures in {args.data} than rank {ranks.rank}. Give all the same data."
            )
    return folder


def check_pictures(
    args: argparse.Namespace,
    ranks: Ranks,
    folder: ImageFolder,
    train_set: Pictures,
    val_set: Pictures,
    say: Callable[[str], None],
) -> int:
    """Reads all pictures where they are few or bad ones are to be skipped; returns how many were left out.

    Each rank reads its share. Raises `BadInput` with a list of those that cannot be read, unless they are to be skipped.
    """
    count = len(train_set) + len(val_set)
    if count > CHECK_ALL_BELOW and args.bad_pictures == "stop":
        say(
            f"{count} pictures are not all read beforehand: one that cannot be read ends the training when its turn comes."
        )
        return 0
    ranks.at("the check of all pictures")
    left_out = []
    for pictures in (train_set, val_set):
        faults = dict[int, str]()
        for found in distributed.gathered(ranks, pictures.faults(range(ranks.rank, len(pictures), ranks.world_size))):
            faults |= found
        left_out += [faults[index] for index in sorted(faults)]
        if faults and args.bad_pictures == "skip":
            pictures.leave_out(faults)
    listed = "".join(f"\n  {fault}" for fault in left_out[:LISTED])
    listed += f"\n  … and {len(left_out) - LISTED} more" if len(left_out) > LISTED else ""
    if left_out and args.bad_pictures == "stop":
        advice = "Replace or remove what cannot be read, or give --bad_pictures skip."
        if len(left_out) == 1:
            raise BadInput(f"{left_out[0]} It lies in {folder.root}. {advice}")
        raise BadInput(f"{len(left_out)} pictures in {folder.root} cannot be read. {advice}{listed}")
    if left_out:
        say(f"{len(left_out)} of {count} pictures cannot be read and are left out:{listed}")
    for split, pictures in (("train", train_set), ("val", val_set)):
        if not len(pictures):
            raise BadInput(f"No picture in {folder.root / split} can be read. Look at the list above.")
    return len(left_out)


def picture_batches(
    args: argparse.Namespace,
    ranks: Ranks,
    train_set: Pictures,
    val_set: Pictures,
    batches: EpochBatches,
    val_rows: Sequence[list[int]],
) -> tuple[Batches, Batches]:
    """Training batches by the sampler, validation batches of this rank's share, read by the rank's own workers."""
    on_gpu, workers = ranks.device.type == "cuda", workers_of(args, ranks)
    for pictures in (train_set, val_set):
        pictures.share_memory_with(workers)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")  # how many is the caller's business
        return (
            DataLoader(
                train_set, batch_sampler=batches, num_workers=workers, persistent_workers=workers > 0, pin_memory=on_gpu
            ),
            DataLoader(
                val_set, batch_sampler=val_rows, num_workers=workers, persistent_workers=workers > 0, pin_memory=on_gpu
            ),
        )


def head_batches(
    args: argparse.Namespace,
    ranks: Ranks,
    cache_folder: Path,
    network: torch.nn.Module,
    train_set: Pictures,
    val_set: Pictures,
    batches: EpochBatches,
    val_rows: Sequence[list[int]],
    precision: Precision,
    say: Callable[[str], None],
) -> tuple[Batches, Batches]:
    """The same batches as features of the frozen backbone: what it makes of each picture before the last layer."""
    parent, name, head = networks.head_of(network, args.architecture)
    train_set.training = False  # features are of pictures as they are
    setattr(parent, name, torch.nn.Identity())
    sets = {"train": train_set, "val": val_set}
    try:
        found = features.of_all(ranks, cache_folder, network, sets, precision, workers_of(args, ranks), say)
    finally:
        setattr(parent, name, head)
    network.requires_grad_(False).eval()
    head.requires_grad_(True)
    labels = {split: torch.tensor(pictures.samples.labels()) for split, pictures in sets.items()}
    return (
        HeadBatches(found["train"], labels["train"], batches),
        HeadBatches(found["val"], labels["val"], val_rows),
    )


def workers_of(args: argparse.Namespace, ranks: Ranks) -> int:
    """How many processes load this rank's pictures: on a CPU, which trains itself, none."""
    if args.workers is not None:
        return int(args.workers)
    if ranks.device.type != "cuda":
        return 0
    return min(4, max(1, (os.cpu_count() or 1) // torch.cuda.device_count()))


def shared(learns: torch.nn.Module, ranks: Ranks, example: torch.Tensor, precision: Precision) -> torch.nn.Module:
    """The module with its gradients averaged over the ranks; batch statistics are averaged before validation only."""
    if ranks.world_size == 1:
        return learns
    with warnings.catch_warnings():
        # torch 2.14 has another name for broadcast_buffers, which the versions before it do not know.
        warnings.simplefilter("ignore", FutureWarning)
        devices = [ranks.device] if ranks.device.type == "cuda" else None
        model = DistributedDataParallel(learns, devices, broadcast_buffers=False, gradient_as_bucket_view=True)
    # Gradients are grouped anew after the first step. One step for nothing puts that before the training, so that a
    # resumed one adds them up in the same order.
    model.eval()
    with precision.autocast():
        nothing = model(example).float().sum() * 0
    torch.autograd.backward(nothing)
    model.zero_grad(set_to_none=True)
    return model


@dataclass(frozen=True)
class Epoch:
    """What a pass over the training pictures works with."""

    model: torch.nn.Module
    loader: Batches
    batches: EpochBatches
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    schedule: Schedule
    precision: Precision
    args: argparse.Namespace


def train_epoch(
    work: Epoch, progress: Progress, ranks: Ranks, interruption: Interruption, keep: Callable[[Decision], None]
) -> dict[str, float]:
    """One pass over the training pictures, or the rest of one; returns the epoch's metrics so far."""
    args, count, epoch = work.args, work.batches.count, progress.epoch
    work.batches.epoch, work.batches.consumed = epoch, progress.consumed
    bounds = work.batches.bounds()
    at_start, began, told = progress.consumed, time.perf_counter(), time.monotonic()
    loss_sum = torch.zeros((), dtype=torch.float64, device=ranks.device)
    before = progress.loss_sum
    loader = Waited(on_device(work.loader, ranks.device))
    work.model.train()
    rate = work.schedule.highest
    for number, ((images, labels), (_, end)) in enumerate(zip(loader, bounds, strict=True)):
        group = number - number % args.accumulate
        group_start, group_end = bounds[group][0], bounds[min(group + args.accumulate, len(bounds)) - 1][1]
        last_of_group = end == group_end
        ranks.at(f"epoch {epoch}, batch {number + 1} of {len(bounds)}")
        if number == group:
            work.optimizer.zero_grad(set_to_none=True)
        seed_step(args.seed, progress.steps, number - group, ranks)
        with nullcontext() if last_of_group else without_averaging(work.model):
            with work.precision.autocast():
                scores = work.model(images)
                loss = torch.nn.functional.cross_entropy(
                    scores, labels, reduction="sum", label_smoothing=args.label_smoothing
                )
            # The mean over all pictures of the step, whoever has how many: the ranks' gradients are averaged after this.
            part = loss * (ranks.world_size / (group_end - group_start))
            torch.autograd.backward(work.scaler.scale(part))
        loss_sum += loss.detach()
        if time.monotonic() - told > BEAT_SECONDS:
            told = time.monotonic()
            print_line(f"Rank {ranks.rank}: epoch {epoch}, batch {number + 1} of {len(bounds)}")
        if not last_of_group:
            continue
        rate = work.schedule.rate(epoch - 1 + group_start / count, epoch - 1 + end / count)
        for weights in work.optimizer.param_groups:
            weights["lr"] = rate
        work.scaler.step(work.optimizer)
        work.scaler.update()
        progress.steps += 1
        progress.consumed = end
        decision = interruption.after_step(number // args.accumulate + 1) if end < count else "go on"
        if decision != "go on":
            progress.loss_sum = before + distributed.summed(ranks, [float(loss_sum)])[0]
            keep(decision)
            work.model.train()
    progress.loss_sum = before + distributed.summed(ranks, [float(loss_sum)])[0]
    seconds = time.perf_counter() - began
    return {
        "train_loss": progress.loss_sum / count,
        "lr": rate,
        "images_per_second": (count - at_start) / seconds,
        "data_wait": loader.seconds,
        "step_seconds": (seconds - loader.seconds) / max(1, len(bounds)),
    }


def without_averaging(model: torch.nn.Module) -> AbstractContextManager[object]:
    """Gradients stay on their rank within: only the last batch of a step shares the sum of all."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()


def seed_step(seed: int, step: int, part: int, ranks: Ranks) -> None:
    """What is random within the network, such as dropout, follows from the step and the rank: a restart draws the same."""
    number = (((seed * 1_000_003 + step) * 4_099 + part) * 65_537 + ranks.rank) % 2**63
    torch.default_generator.manual_seed(number)
    if ranks.device.type == "cuda":
        torch.cuda.manual_seed(number)


@torch.inference_mode()
def validate(
    network: torch.nn.Module,
    loader: Batches,
    rows: Sequence[Sequence[int]],
    classes: int,
    precision: Precision,
    ranks: Ranks,
) -> tuple[float, float, Tally]:
    """The mean loss and the accuracy over all validation pictures, each counted once over all ranks; this rank's tally."""
    network.eval()
    loss, right, seen, tally = 0.0, 0, 0, Tally(classes)
    for (images, labels), indices in zip(on_device(loader, ranks.device), rows, strict=True):
        with precision.autocast():
            scores = network(images).float()
        loss += float(torch.nn.functional.cross_entropy(scores, labels, reduction="sum"))
        right += int((scores.argmax(1) == labels).sum())
        seen += len(labels)
        tally.add(indices, scores, labels)
    loss, all_right, all_seen = distributed.summed(ranks, [loss, float(right), float(seen)])
    return loss / all_seen, all_right / all_seen, tally


def finish(
    args: argparse.Namespace,
    folder: ImageFolder,
    val_set: Pictures,
    progress: Progress,
    tallies: Sequence[Tally],
    log: MetricsLog | None,
) -> None:
    """Adds ONNX to the model and writes the report beside it."""
    model_folder, report_folder = args.output_dir / "model", args.output_dir / "report"
    images = torch.stack([val_set[i][0] for i in range(min(8, len(val_set)))])
    print_line(export.to_onnx(model_folder, images))
    tally = tallies[0]
    for other in tallies[1:]:
        tally.merge(other)
    print_line(
        report.write(report_folder, folder.classes, progress.history, tally, val_set.upright, val_set.samples.name)
    )
    if log:
        log.log_folder(report_folder)
    print_line(f"Best validation accuracy {progress.best_val_acc:.4f}; the model is in {model_folder}.")


def metrics_of(progress: Progress) -> dict[str, float | int]:
    """What the artefact says of the best epoch."""
    return {
        "best_val_acc": progress.best_val_acc,
        "val_loss": progress.best_val_loss,
        "epoch": progress.best_epoch,
    }


class Waited:
    """Passes batches on and adds up how long they were waited for."""

    def __init__(self, batches: Iterable[features.Batch]) -> None:
        self._batches, self.seconds = batches, 0.0

    def __iter__(self) -> Iterator[features.Batch]:
        batches = iter(self._batches)
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            self.seconds += time.perf_counter() - began
            if batch is None:
                return
            yield batch


def on_device(loader: Batches, device: torch.device) -> Iterator[features.Batch]:
    """The batches where the network is, pictures in the memory layout that convolutions like."""
    for inputs, labels in loader:
        layout = torch.channels_last if inputs.dim() == 4 else torch.contiguous_format
        yield inputs.to(device, non_blocking=True, memory_format=layout), labels.to(device, non_blocking=True)


def cannot_write(folder: Path) -> str | None:
    """Makes the output folder; a sentence where that, or writing in it, is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"The output folder {folder} cannot be made: {error.strerror}. Give --output_dir another one."
    if not os.access(folder, os.W_OK):
        return f"The output folder {folder} cannot be written to. Give --output_dir another one."
    return None


def introduce(ranks: Ranks, threads: int, precision: Precision) -> None:
    """One line from each rank, and the table of all of them from rank 0."""
    who = {"nccl": "nccl (GPU)", "gloo": "gloo (CPU)"}.get(ranks.backend, "none, one process alone")
    print_line(
        f"Rank {ranks.rank} of {ranks.world_size} on {ranks.device}, torch {torch.__version__}, {precision.name}."
    )
    rows = distributed.table(ranks, threads)
    if ranks.first:
        print_line(f"Back end: {who}\n{rows}")
        distributed.advise(ranks, print_line)


def tell(ranks: Ranks, epoch: int, epochs: int, values: dict[str, float]) -> None:
    """One line an epoch: all figures from rank 0, a sign of life from the others."""
    line = f"Epoch {epoch}/{epochs}"
    if not ranks.first:
        print_line(f"{line} done on rank {ranks.rank}")
        return
    print_line(
        f"{line}  train_loss {values['train_loss']:.4f}  val_loss {values['val_loss']:.4f}  val_acc {values['val_acc']:.4f}  "
        f"best {values['best_val_acc']:.4f}  lr {values['lr']:.2g}  {values['images_per_second']:.0f} images/s"
    )


def in_words(classes: Sequence[str]) -> str:
    """The class names; of many the first ones and their number."""
    return ", ".join(classes) if len(classes) <= 20 else f"{', '.join(classes[:20])} … ({len(classes)})"


def print_line(text: str) -> None:
    """A line that is in the log at once."""
    print(text, flush=True)


def silence(_: str) -> None:
    """What ranks other than the first say of what concerns all."""


if __name__ == "__main__":
    sys.exit(main())
