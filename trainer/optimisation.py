"""How the weights move: number type, optimizer, and the learning rate over the epochs."""

from __future__ import annotations

import argparse
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
from errors import BadInput


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


def make_optimizer(args: argparse.Namespace, model: torch.nn.Module) -> torch.optim.Optimizer:
    """AdamW or SGD over all weights that learn."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    decay: float | None = args.weight_decay
    if args.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=args.learning_rate, momentum=args.momentum, weight_decay=decay or 0.0)
    return torch.optim.AdamW(
        weights,
        lr=args.learning_rate,
        betas=(args.momentum, 0.999),
        weight_decay=0.01 if decay is None else decay,
        fused=True,
    )


def scaled_rate(args: argparse.Namespace, world_size: int) -> tuple[float, str]:
    """The highest learning rate, and how it and the pictures of a step come about, in words."""
    times = world_size * args.accumulate
    factor = {"none": 1.0, "linear": float(times), "sqrt": math.sqrt(times)}[args.lr_scaling]
    rate = args.learning_rate * factor
    step = f"{args.batch_size} pictures a rank"
    step += f" × {world_size} ranks" if world_size > 1 else ""
    step += f" × {args.accumulate} batches" if args.accumulate > 1 else ""
    step += f" = {args.batch_size * times} a step" if times > 1 else " and step"
    how = (
        "not scaled with them"
        if args.lr_scaling == "none"
        else f"{args.learning_rate:g} × {factor:g}, {args.lr_scaling}"
    )
    return rate, f"{step}; learning rate {rate:g}" + (f" ({how})" if times > 1 else "")


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of how far the training is, in epochs: nothing that a restart could lose."""

    kind: str  # cosine, step or constant
    highest: float
    epochs: int
    warmup_epochs: float
    step_epochs: int
    gamma: float

    @classmethod
    def of(cls, args: argparse.Namespace, highest: float) -> Schedule:
        """As the arguments say; a cosine rises over the first fifth of the epochs where they do not."""
        warmup = args.warmup_epochs
        if warmup is None:
            warmup = args.num_epochs / 5 if args.lr_schedule == "cosine" else 0.0
        return cls(args.lr_schedule, highest, args.num_epochs, warmup, args.lr_step_epochs, args.lr_gamma)

    def rate(self, begin: float, end: float) -> float:
        """The learning rate of a step that leads from one point of the training to the next."""
        if end <= self.warmup_epochs:
            return self.highest * end / self.warmup_epochs
        if self.kind == "cosine":
            way = (begin - self.warmup_epochs) / max(self.epochs - self.warmup_epochs, 1e-9)
            return self.highest * 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, way))))
        if self.kind == "step":
            return self.highest * self.gamma ** int(begin / self.step_epochs)
        return self.highest
