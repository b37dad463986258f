"""Transfer learning for image classification on an ImageFolder, alone or on many ranks.

    python train.py --data DIR --output_dir ./outputs --num_epochs 30 --learning_rate 0.001 --momentum 0.9

The arguments are named as in Microsoft's article on PyTorch in Azure ML. Exit codes: 0 trained, 1 failed, 2 the input is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

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

import artefact
import distributed
import networks
from data import CHECK_ALL_BELOW, EpochBatches, Pictures, Preprocessing
from distributed import Ranks
from errors import BadInput, Diverged, LostRanks
from imagefolder import ImageFolder, find_pictures
from metrics import MetricsLog
from pictures import BadPicture
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

Batches = DataLoader[tuple[torch.Tensor, torch.Tensor]]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Train an image classifier on DATA/train and DATA/val, a folder a class."
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder with train/CLASS/… and val/CLASS/…")
    add("--output_dir", type=Path, default=Path("outputs"), help="the model is written to OUTPUT_DIR/model")
    add("--num_epochs", type=int, default=30)
    add("--learning_rate", type=float, default=0.001, help="the highest; it rises at first and then falls to nothing")
    add("--momentum", type=float, default=0.9, help="of SGD; AdamW's first beta")
    add("--batch_size", type=int, default=10, help="pictures a rank takes at a time")
    add("--image_size", type=int, default=128, help="pixels a side of what the network sees")
    add("--architecture", default="resnet18", help="any classification network of torchvision")
    add("--weights", default="none", help="none, imagenet, or a file with a state dict")
    add("--optimizer", choices=["adamw", "sgd"], default="adamw")
    add("--seed", type=int, default=0)
    add("--workers", type=int, help="processes that load pictures, a rank; none on a CPU, up to 4 on a GPU")
    add("--precision", choices=["auto", "fp32", "bf16", "fp16"], default="auto")
    args = parser.parse_args()
    for name, least in (("num_epochs", 1), ("batch_size", 1), ("image_size", 32), ("seed", 0), ("workers", 0)):
        if (value := getattr(args, name)) is not None and value < least:
            parser.error(f"--{name} {value} is too small: it starts at {least}.")
    if not 0 < args.learning_rate < math.inf:
        parser.error(f"--learning_rate {args.learning_rate} is not above 0.")
    if not 0 <= args.momentum < 1:
        parser.error(f"--momentum {args.momentum} is not from 0 up to 1.")
    return args


def main() -> int:
    """Checks the input, meets the other ranks and trains; returns the exit code."""
    args = parse_arguments()
    try:
        folder = find_pictures(args.data)
        ranks = distributed.read_environment()
        with distributed.joined(ranks):
            train(args, folder, ranks)
    except (BadInput, BadPicture) as fault:
        # A loading process hands its error over with its traceback; the sentence is the last line of that.
        sentence = str(fault).strip().splitlines()[-1].removeprefix("pictures.BadPicture: ")
        print(f"train.py: {sentence}", file=sys.stderr, flush=True)
        return 2
    except (LostRanks, Diverged) as fault:
        print(f"train.py: {fault}", file=sys.stderr, flush=True)
        return 1
    return 0


def train(args: argparse.Namespace, folder: ImageFolder, ranks: Ranks) -> None:
    """All epochs on this rank; rank 0 also writes the model and the metrics."""
    threads = distributed.share_cores(ranks)
    precision = Precision.choose(args.precision, ranks.device)
    introduce(ranks, threads, precision)

    preprocessing = Preprocessing.for_size(args.image_size)
    train_set = Pictures(folder, folder.train, preprocessing, training=True)
    val_set = Pictures(folder, folder.val, preprocessing, training=False)
    batches = EpochBatches(len(train_set), args.batch_size, ranks.rank, ranks.world_size, args.seed)
    val_share = range(ranks.rank, len(val_set), ranks.world_size)  # no padding: every picture is counted once
    fault = cannot_write(args.output_dir) if ranks.first else None
    if len(train_set) + len(val_set) <= CHECK_ALL_BELOW:
        fault = fault or train_set.first_fault(range(ranks.rank, len(train_set), ranks.world_size))
        fault = fault or val_set.first_fault(val_share)
    distributed.agreed(ranks, fault)
    train_loader, val_loader = loaders(args, train_set, batches, val_set, val_share, ranks)

    torch.manual_seed(args.seed)  # the same first weights on every rank
    network = networks.build(args.architecture, len(folder.classes))
    origin = networks.load_weights(network, args.architecture, args.weights)
    network = network.to(ranks.device).to(memory_format=torch.channels_last)
    model: torch.nn.Module = network
    if ranks.world_size > 1:
        devices = [ranks.device] if ranks.device.type == "cuda" else None
        model = wrapped(network, devices)
    torch.manual_seed(args.seed + 7919 * (ranks.rank + 1))  # different crops on every rank

    arguments = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    recipe = artefact.Recipe(args.architecture, folder.classes, preprocessing, arguments)
    say = print_line if ranks.first else silence
    log = MetricsLog(say, {**arguments, "world_size": ranks.world_size}) if ranks.first else None
    say(f"Classes: {', '.join(folder.classes)}; {len(train_set)} pictures to train on, {len(val_set)} to validate.")
    say(f"Network: {args.architecture} {origin}, {args.image_size} px, {args.batch_size} a rank, {args.optimizer}.")

    optimizer = make_optimizer(args, model)
    scaler = torch.amp.GradScaler(ranks.device.type, enabled=precision.dtype == torch.float16)
    steps = args.num_epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_up_then_cosine(step, steps))
    model_folder = args.output_dir / "model"
    best_val_acc, best_val_loss = -1.0, math.inf

    for epoch in range(1, args.num_epochs + 1):
        began = time.perf_counter()
        batches.epoch = epoch
        lr = float(schedule.get_last_lr()[0])
        train_loss, seen = train_epoch(model, train_loader, optimizer, schedule, scaler, precision, ranks)
        seconds = time.perf_counter() - began
        distributed.average_buffers(ranks, network)
        val_loss, val_acc = validate(network, val_loader, precision, ranks)
        if not math.isfinite(train_loss + val_loss):
            raise Diverged(
                f"The loss is no number any more in epoch {epoch}. Lower --learning_rate, {args.learning_rate}."
            )
        if val_acc > best_val_acc or (val_acc == best_val_acc and val_loss < best_val_loss):
            best_val_acc, best_val_loss = val_acc, val_loss
            if ranks.first:
                found: dict[str, float | int] = {"best_val_acc": val_acc, "val_loss": val_loss, "epoch": epoch}
                artefact.write(model_folder, recipe, network, found)
        values: dict[str, float] = {
            "train_loss": train_loss,
            "val_loss": val_loss,
            "val_acc": val_acc,
            "best_val_acc": best_val_acc,
            "lr": lr,
            "images_per_second": seen / seconds,
        }
        if log:
            log.log(epoch, values)
        report(ranks, epoch, args.num_epochs, values)

    if ranks.first:
        images = torch.stack([val_set[i][0] for i in range(min(8, len(val_set)))])
        print_line(artefact.add_onnx(model_folder, images))
        print_line(f"Best validation accuracy {best_val_acc:.4f}; the model is in {model_folder}.")
    if log:
        log.close()


@dataclass(frozen=True)
class Precision:
    """The number type of the forward pass; weights and sums stay in fp32."""

    device: torch.device
    dtype: torch.dtype
    name: str

    @classmethod
    def choose(cls, wanted: str, device: torch.device) -> Precision:
        """`auto` is bf16 where the hardware multiplies it, else fp32."""
        on_gpu = device.type == "cuda"
        if wanted == "fp16" and not on_gpu:
            raise BadInput("--precision fp16 needs a GPU, and there is none here. Use auto, bf16 or fp32.")
        if wanted == "auto":
            able = torch.cuda.is_bf16_supported(including_emulation=False) if on_gpu else cpu_has_bf16()
            wanted = "bf16" if able else "fp32"
        return cls(device, {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted], wanted)

    def autocast(self) -> AbstractContextManager[object]:
        """The context of a forward pass."""
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)


def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bf16 itself; without that, autocast is slower than fp32."""
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False
    return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(words))


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
    who = (
        "nccl (GPU)"
        if ranks.backend == "nccl"
        else "gloo (CPU)"
        if ranks.backend == "gloo"
        else "none, one process alone"
    )
    print_line(
        f"Rank {ranks.rank} of {ranks.world_size} on {ranks.device}, torch {torch.__version__}, {precision.name}."
    )
    rows = distributed.table(ranks, threads)
    if ranks.first:
        print_line(f"Back end: {who}\n{rows}")


def loaders(
    args: argparse.Namespace,
    train_set: Pictures,
    batches: EpochBatches,
    val_set: Pictures,
    val_share: range,
    ranks: Ranks,
) -> tuple[Batches, Batches]:
    """Training batches by the sampler, validation batches of this rank's share."""
    on_gpu = ranks.device.type == "cuda"
    workers = args.workers
    if workers is None:
        workers = min(4, max(1, (os.cpu_count() or 1) // torch.cuda.device_count())) if on_gpu else 0
    keep = workers > 0
    val_batches = [list(val_share[i : i + 32]) for i in range(0, len(val_share), 32)]
    return (
        DataLoader(train_set, batch_sampler=batches, num_workers=workers, persistent_workers=keep, pin_memory=on_gpu),
        DataLoader(val_set, batch_sampler=val_batches, num_workers=workers, persistent_workers=keep, pin_memory=on_gpu),
    )


def wrapped(network: torch.nn.Module, devices: list[torch.device] | None) -> torch.nn.Module:
    """The network with its gradients averaged over the ranks; batch statistics are averaged before validation only."""
    with warnings.catch_warnings():
        # torch 2.14 has another name for broadcast_buffers, which the versions before it do not know.
        warnings.simplefilter("ignore", FutureWarning)
        return DistributedDataParallel(network, devices, broadcast_buffers=False, gradient_as_bucket_view=True)


def make_optimizer(args: argparse.Namespace, model: torch.nn.Module) -> torch.optim.Optimizer:
    """AdamW or SGD over all weights."""
    if args.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=args.learning_rate, momentum=args.momentum)
    return torch.optim.AdamW(
        model.parameters(), lr=args.learning_rate, betas=(args.momentum, 0.999), weight_decay=0.01, fused=True
    )


def warm_up_then_cosine(step: int, steps: int) -> float:
    """The learning rate's factor: up over the first fifth of the steps, then down a cosine to nothing."""
    rise = max(1, steps // 5)
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def train_epoch(
    model: torch.nn.Module,
    loader: Batches,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LambdaLR,
    scaler: torch.amp.GradScaler,
    precision: Precision,
    ranks: Ranks,
) -> tuple[float, int]:
    """One pass over the training pictures; returns the mean loss and the number of pictures of all ranks."""
    model.train()
    total, seen = torch.zeros((), device=ranks.device), 0
    for images, labels in on_device(loader, ranks.device):
        with precision.autocast():
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        total += loss.detach() * len(labels)
        seen += len(labels)
    total_loss, count = distributed.summed(ranks, [float(total), float(seen)])
    return total_loss / count, int(count)


@torch.inference_mode()
def validate(network: torch.nn.Module, loader: Batches, precision: Precision, ranks: Ranks) -> tuple[float, float]:
    """The mean loss and the accuracy over all validation pictures, each of them counted once over all ranks."""
    network.eval()
    loss, right, seen = 0.0, 0, 0
    for images, labels in on_device(loader, ranks.device):
        with precision.autocast():
            scores = network(images).float()
        loss += float(torch.nn.functional.cross_entropy(scores, labels, reduction="sum"))
        right += int((scores.argmax(1) == labels).sum())
        seen += len(labels)
    loss, all_right, all_seen = distributed.summed(ranks, [loss, float(right), float(seen)])
    return loss / all_seen, all_right / all_seen


def on_device(loader: Batches, device: torch.device) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The batches where the network is, in the memory layout that convolutions like."""
    for images, labels in loader:
        moved = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        yield moved, labels.to(device, non_blocking=True)


def report(ranks: Ranks, epoch: int, epochs: int, values: dict[str, float]) -> None:
    """One line an epoch: all figures from rank 0, a sign of life from the others."""
    line = f"Epoch {epoch}/{epochs}"
    if not ranks.first:
        print_line(f"{line} done on rank {ranks.rank}")
        return
    print_line(
        f"{line}  train_loss {values['train_loss']:.4f}  val_loss {values['val_loss']:.4f}  val_acc {values['val_acc']:.4f}  "
        f"best {values['best_val_acc']:.4f}  lr {values['lr']:.2g}  {values['images_per_second']:.0f} images/s"
    )


def print_line(text: str) -> None:
    """A line that is in the log at once."""
    print(text, flush=True)


def silence(_: str) -> None:
    """What ranks other than the first say of what concerns all."""


if __name__ == "__main__":
    sys.exit(main())
