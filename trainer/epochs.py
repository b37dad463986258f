"""One pass over the training pictures, and one over those of the validation."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import distributed
import features
import torch
from checkpoint import Progress
from data import EpochBatches
from distributed import Ranks
from features import Batches
from interruption import Decision, Interruption
from optimisation import Precision, Schedule
from report import Tally
from torch.nn.parallel import DistributedDataParallel

BEAT_SECONDS = 30.0
"""The longest time without a line of each rank within an epoch."""


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
            print(f"Rank {ranks.rank}: epoch {epoch}, batch {number + 1} of {len(bounds)}", flush=True)
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
