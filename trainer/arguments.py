"""The command line of the training script; the names of Microsoft's article on PyTorch in Azure ML where it has them."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path

Add = Callable[..., argparse.Action]

LEAST = (
    ("num_epochs", 1),
    ("batch_size", 1),
    ("accumulate", 1),
    ("image_size", 32),
    ("seed", 0),
    ("workers", 0),
    ("patience", 0),
    ("weight_decay", 0),
    ("warmup_epochs", 0),
    ("lr_step_epochs", 1),
    ("checkpoint_minutes", 0),
    ("timeout_seconds", 1),
)


def parse() -> argparse.Namespace:
    """The command line, checked; ends the process with 2 and a sentence where it is wrong."""
    parser = argparse.ArgumentParser(
        description="Train an image classifier on DATA/train and DATA/val, a folder a class.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=110),
    )
    add_data(parser.add_argument_group("data").add_argument)
    add_network(parser.add_argument_group("network").add_argument)
    add_learning(parser.add_argument_group("learning").add_argument)
    add_run(parser.add_argument_group("run").add_argument)
    args = parser.parse_args()
    check(parser, args)
    return args


def add_data(add: Add) -> None:
    """Where the pictures come from."""
    add(
        "--data",
        required=True,
        help="folder with train/CLASS/… and val/CLASS/…, or a zip or tar of one, by path or https:",
    )
    add("--data_sha256", help="the archive's checksum; another one ends the training")
    add("--bad_pictures", choices=["stop", "skip"], default="stop", help="what to do when pictures cannot be read")
    add("--image_size", type=int, default=128, help="pixels a side of what the network sees")
    add("--workers", type=int, help="processes that load pictures, a rank; none on a CPU, up to 4 on a GPU")
    add("--cache_dir", type=Path, help="for unpacked data, listings and features; a folder of this user's cache")


def add_network(add: Add) -> None:
    """What is trained."""
    add("--architecture", default="resnet18", help="any classification network of torchvision")
    add("--weights", default="none", help="none, imagenet, or a file with a state dict")
    add(
        "--backbone",
        choices=["finetune", "frozen"],
        default="finetune",
        help="frozen: only the last layer learns, from features that are computed once and without variation",
    )
    add("--dropout", type=float, help="in place of the network's own")


def add_learning(add: Add) -> None:
    """How it is trained."""
    add("--num_epochs", type=int, default=30)
    add("--batch_size", type=int, default=10, help="pictures a rank takes at a time")
    add("--accumulate", type=int, default=1, help="batches a step of the optimizer takes together")
    add("--optimizer", choices=["adamw", "sgd"], default="adamw")
    add("--learning_rate", type=float, default=0.001, help="the highest")
    add("--lr_scaling", choices=["none", "linear", "sqrt"], default="none", help="with ranks × accumulated batches")
    add("--lr_schedule", choices=["cosine", "step", "constant"], default="cosine")
    add("--warmup_epochs", type=float, help="until the highest rate; a fifth of all for cosine, else none")
    add("--lr_step_epochs", type=int, default=7, help="of the schedule step: epochs until the rate falls")
    add("--lr_gamma", type=float, default=0.1, help="of the schedule step: what it falls by")
    add("--momentum", type=float, default=0.9, help="of SGD; AdamW's first beta")
    add("--weight_decay", type=float, help="0.01 for AdamW, 0 for SGD")
    add("--label_smoothing", type=float, default=0.0)
    add("--patience", type=int, default=0, help="stop after so many epochs without a better one; 0 never does")
    add("--precision", choices=["auto", "fp32", "bf16", "fp16"], default="auto")
    add("--seed", type=int, default=0)


def add_run(add: Add) -> None:
    """Where it is written, and how it goes on."""
    add("--output_dir", type=Path, default=Path("outputs"), help="the model is written to OUTPUT_DIR/model")
    add("--checkpoint_dir", type=Path, help="OUTPUT_DIR/checkpoints, which goes when the training is done")
    add("--checkpoint_minutes", type=float, default=10.0, help="time between two checkpoints; 0 for one an epoch")
    add("--resume", default="none", help="none, auto (the newest whole checkpoint, if any) or a checkpoint's path")
    add("--timeout_seconds", type=float, default=120.0, help="how long ranks wait for one of them")


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Ends the process where a value is out of its range."""
    for name, least in LEAST:
        value = getattr(args, name)
        if value is not None and not least <= value < math.inf:
            parser.error(f"--{name} {value} is too small: it starts at {least}.")
    if not 0 < args.learning_rate < math.inf:
        parser.error(f"--learning_rate {args.learning_rate} is not above 0.")
    if not 0 < args.lr_gamma <= 1:
        parser.error(f"--lr_gamma {args.lr_gamma} is not above 0 and up to 1.")
    for name in ("momentum", "label_smoothing", "dropout"):
        value = getattr(args, name)
        if value is not None and not 0 <= value < 1:
            parser.error(f"--{name} {value} is not from 0 up to 1.")
    if args.warmup_epochs is not None and args.warmup_epochs > args.num_epochs:
        parser.error(f"--warmup_epochs {args.warmup_epochs} is more than --num_epochs {args.num_epochs}.")
    if args.data_sha256 and not re.fullmatch(r"[0-9a-fA-F]{64}", args.data_sha256):
        parser.error(f"--data_sha256 {args.data_sha256} is not 64 hexadecimal digits.")
