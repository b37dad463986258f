"""Ranks: who this process is, how it meets the others, and what they add up together.

Azure ML sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK for each node, RANK and LOCAL_RANK for each process;
torchrun sets the same but GROUP_RANK instead of NODE_RANK. Without RANK a process is alone.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from errors import BadInput, LostRanks

T = TypeVar("T")

TIMEOUT = timedelta(seconds=120)


@dataclass(frozen=True)
class Ranks:
    """This process among the others."""

    rank: int
    world_size: int
    local_rank: int
    node: int
    device: torch.device
    backend: str  # nccl, gloo, or "none" for a process alone

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which alone writes files, metrics and the common lines."""
        return self.rank == 0


def read_environment() -> Ranks:
    """Reads the variables; raises `BadInput` where they contradict each other or this node's GPUs."""
    alone = "RANK" not in os.environ
    rank, world_size = (0, 1) if alone else (number("RANK"), number("WORLD_SIZE", 1))
    local_rank = number("LOCAL_RANK", 0)
    node = number("NODE_RANK" if "NODE_RANK" in os.environ else "GROUP_RANK", 0)
    if not 0 <= rank < world_size:
        raise BadInput(
            f"RANK={rank} does not fit WORLD_SIZE={world_size}: ranks count from 0. Correct the environment."
        )
    if world_size > 1:
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if not os.environ.get(name):
                raise BadInput(
                    f"WORLD_SIZE={world_size}, but {name} is not set. Start with torchrun, or set it to rank 0's."
                )
    if not torch.cuda.is_available():
        return Ranks(rank, world_size, local_rank, node, torch.device("cpu"), "gloo" if world_size > 1 else "none")
    gpus = torch.cuda.device_count()
    if local_rank >= gpus:
        raise BadInput(
            f"LOCAL_RANK={local_rank}, but this node has {gpus} GPU(s). Start at most {gpus} processes a node."
        )
    return Ranks(
        rank, world_size, local_rank, node, torch.device("cuda", local_rank), "nccl" if world_size > 1 else "none"
    )


def number(name: str, default: int | None = None) -> int:
    """A whole number from the environment."""
    text = os.environ.get(name, "" if default is None else str(default))
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"{name}={text!r} in the environment is not a whole number. Correct or unset it.") from None


@contextmanager
def joined(ranks: Ranks) -> Iterator[None]:
    """Meets the other ranks, and takes leave of them; raises `LostRanks` when they do not come or go away."""
    if ranks.device.type == "cuda":
        torch.cuda.set_device(ranks.device)
    if ranks.world_size == 1:
        yield
        return
    device = ranks.device if ranks.backend == "nccl" else None
    try:
        dist.init_process_group(
            ranks.backend, rank=ranks.rank, world_size=ranks.world_size, timeout=TIMEOUT, device_id=device
        )
    except dist.DistError as error:
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise LostRanks(
            f"Rank {ranks.rank} did not meet the other {ranks.world_size - 1} at {place} within "
            f"{TIMEOUT.seconds} s. Look into their logs, and whether that address can be reached."
        ) from error
    try:
        yield
        dist.barrier()  # else the first rank to leave can take the connection from under the last one's feet
    except RuntimeError as error:
        if not tells_of_lost_rank(error):
            raise
        raise LostRanks(
            f"Rank {ranks.rank} lost the connection to another rank, so it stops. The log of the rank that ended first says why."
        ) from error
    finally:
        dist.destroy_process_group()


def tells_of_lost_rank(error: RuntimeError) -> bool:
    """Whether an error is the back end's way of saying that a peer has gone."""
    return (
        isinstance(error, dist.DistError) or "gloo" in str(error).lower() or "Connection closed by peer" in str(error)
    )


def share_cores(ranks: Ranks) -> int:
    """Gives each rank of a machine its part of the cores, at least one, and returns how many threads that is.

    One thread a rank is what shared CPUs bear; an OMP_NUM_THREADS that somebody set is left alone.
    """
    neighbours = Counter(gathered(ranks, socket.gethostname()))[socket.gethostname()]
    if "OMP_NUM_THREADS" not in os.environ and ranks.world_size > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // neighbours))
    return torch.get_num_threads()


def gathered(ranks: Ranks, mine: T) -> list[T]:
    """Every rank's value, in the order of the ranks, on every rank."""
    if ranks.world_size == 1:
        return [mine]
    everyone: list[T | None] = [None] * ranks.world_size
    dist.all_gather_object(everyone, mine)
    return [value for value in everyone if value is not None]


def agreed(ranks: Ranks, fault: str | None) -> None:
    """Raises `BadInput` on every rank when any of them has found a fault."""
    for found in gathered(ranks, fault or ""):
        if found:
            raise BadInput(found)


def summed(ranks: Ranks, values: list[float]) -> list[float]:
    """The sums over all ranks; counts stay exact, as they are added in double precision."""
    if ranks.world_size == 1:
        return values
    precise = torch.float64 if ranks.device.type != "mps" else torch.float32
    total = torch.tensor(values, dtype=precise, device=ranks.device)
    dist.all_reduce(total)
    return [float(value) for value in total.tolist()]


def average_buffers(ranks: Ranks, model: torch.nn.Module) -> None:
    """Gives every rank the mean of all ranks' batch statistics, so that all validate one and the same network."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    if ranks.world_size == 1 or not buffers:
        return
    flat = torch.cat([buffer.detach().reshape(-1).float() for buffer in buffers])
    dist.all_reduce(flat)
    means = torch.split(flat / ranks.world_size, [buffer.numel() for buffer in buffers])
    for buffer, mean in zip(buffers, means, strict=True):
        buffer.copy_(mean.view_as(buffer))


def table(ranks: Ranks, threads: int) -> str:
    """Every rank on a line; the same text on every rank."""
    device = torch.cuda.get_device_name(ranks.device) if ranks.device.type == "cuda" else f"CPU, {threads} thread(s)"
    mine = (str(ranks.rank), str(ranks.node), str(ranks.local_rank), socket.gethostname(), str(os.getpid()), device)
    rows = [("rank", "node", "local", "host", "pid", "device"), *gathered(ranks, mine)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(mine))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
