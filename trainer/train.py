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
import warnings
from collections.abc import Sequence
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
import epochs
import export
import loading
import networks
import report
from checkpoint import Progress
from data import EpochBatches, Pictures, Preprocessing
from distributed import Ranks
from errors import BadInput, Diverged, LostRanks, Preempted
from imagefolder import ImageFolder
from interruption import Decision, Interruption
from metrics import MetricsLog
from optimisation import Precision, Schedule, make_optimizer, scaled_rate
from pictures import BadPicture
from report import Tally
from torch.nn.parallel import DistributedDataParallel

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
    folder = loading.find_data(args, ranks, cache_folder, say_on_node)
    precision = Precision.choose(args.precision, ranks.device)
    introduce(ranks, threads, precision)

    preprocessing = Preprocessing.for_size(args.image_size)
    train_set = Pictures(folder, folder.train, preprocessing, training=True, seed=args.seed)
    val_set = Pictures(folder, folder.val, preprocessing, training=False)
    fault = cannot_write(args.output_dir) if ranks.first else None
    distributed.agreed(ranks, fault)
    left_out = loading.check_pictures(args, ranks, folder, train_set, val_set, say)

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
        train_batches, val_batches = loading.head_batches(
            args, ranks, cache_folder, network, train_set, val_set, batches, val_rows, precision, say
        )
        example = torch.zeros(1, head.in_features, device=ranks.device)
    else:
        train_batches, val_batches = loading.picture_batches(args, ranks, train_set, val_set, batches, val_rows)
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
        epoch_batches = epochs.Epoch(model, train_batches, batches, optimizer, scaler, schedule, precision, args)
        values = epochs.train_epoch(epoch_batches, progress, ranks, interruption, keep)
        distributed.average_buffers(ranks, learns)
        ranks.at(f"the validation of epoch {epoch}")
        val_loss, val_acc, tally = epochs.validate(learns, val_batches, val_rows, len(folder.classes), precision, ranks)
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
        best_tally = epochs.validate(learns, val_batches, val_rows, len(folder.classes), precision, ranks)[2]
    tallies = distributed.gathered(ranks, best_tally)
    if ranks.first:
        finish(args, folder, val_set, progress, tallies, log)
        if not args.checkpoint_dir:
            checkpoint.remove_all(checkpoint_folder)
    if log:
        log.close()
    distributed.gathered(ranks, None)  # an export may take longer than a collective waits


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
