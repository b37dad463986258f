"""Ranks: who this process is, how it meets the others, and what they add up together.

Azure ML sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK for each node, RANK and LOCAL_RANK for each process;
torchrun sets the same but GROUP_RANK instead of NODE_RANK; Open MPI has OMPI_COMM_WORLD_*, and Azure's own
AZ_BATCH_MASTER_NODE beside it. Without any of them a process is alone.
"""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from errors import BadInput, LostRanks, Preempted
from heartbeat import QUIET_SECONDS, Pulse
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed.rendezvous import rendezvous

T = TypeVar("T")

POLL_SECONDS = 0.02
MISSING_SECONDS = 15.0


@dataclass(frozen=True)
class Ranks:
    """This process among the others."""

    rank: int
    world_size: int
    local_rank: int
    node: int
    device: torch.device
    backend: str  # nccl, gloo, or "none" for a process alone
    launcher: str = "no launcher"
    address: tuple[str, int] = ("", 0)
    timeout_seconds: float = 120.0
    store: Store | None = None
    pulse: Pulse | None = None
    turns: Iterator[int] = field(default_factory=count)
    """Numbers what goes through the store: all ranks ask for the same things in the same order."""

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which alone writes files, metrics and the common lines."""
        return self.rank == 0

    @property
    def leads_node(self) -> bool:
        """Whether this rank does what is done once a node."""
        return self.local_rank == 0

    def at(self, place: str) -> None:
        """Tells the others where this rank's training has come to."""
        if self.pulse:
            self.pulse.place = place


def read_environment(timeout_seconds: float = 120.0) -> Ranks:
    """Reads the variables; raises `BadInput` where they contradict each other or this node's GPUs."""
    rank_name, size_name, local_name, launcher = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "RANK and WORLD_SIZE as Azure sets them",
    )
    if "TORCHELASTIC_RUN_ID" in os.environ:
        launcher = "torchrun"
    if "RANK" not in os.environ and "OMPI_COMM_WORLD_RANK" in os.environ:
        rank_name, size_name, local_name = (f"OMPI_COMM_WORLD_{what}" for what in ("RANK", "SIZE", "LOCAL_RANK"))
        launcher = "MPI"
    alone = rank_name not in os.environ
    rank, world_size = (0, 1) if alone else (number(rank_name), number(size_name, 1))
    local_rank = number(local_name, 0)
    if not 0 <= rank < world_size:
        raise BadInput(
            f"{rank_name}={rank} does not fit {size_name}={world_size}: ranks count from 0. Correct the environment."
        )
    address = meeting_point(size_name, world_size) if world_size > 1 else ("", 0)
    found = Ranks(
        rank,
        world_size,
        local_rank,
        node_of(rank, local_rank),
        torch.device("cpu"),
        "gloo" if world_size > 1 else "none",
        "no launcher" if alone else launcher,
        address,
        timeout_seconds,
    )
    if not torch.cuda.is_available():
        return found
    gpus = torch.cuda.device_count()
    if local_rank >= gpus:
        raise BadInput(
            f"{local_name}={local_rank}, but this node has {gpus} GPU(s). Start at most {gpus} processes a node."
        )
    return replace(found, device=torch.device("cuda", local_rank), backend="nccl" if world_size > 1 else "none")


def node_of(rank: int, local_rank: int) -> int:
    """The number of this rank's node, by whichever variable tells it."""
    for name in ("NODE_RANK", "GROUP_RANK", "AZUREML_CR_NODE_RANK"):
        if name in os.environ:
            return number(name)
    if "OMPI_COMM_WORLD_LOCAL_SIZE" in os.environ:
        return (rank - local_rank) // max(1, number("OMPI_COMM_WORLD_LOCAL_SIZE"))
    return 0


def meeting_point(size_name: str, world_size: int) -> tuple[str, int]:
    """Host and port where rank 0 keeps the store; raises `BadInput` where no variable tells them."""
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    master = os.environ.get("AZ_BATCH_MASTER_NODE", "")
    if size_name != "WORLD_SIZE" and master and not (host and port):
        host, _, port = master.rpartition(":")
        return host, whole("AZ_BATCH_MASTER_NODE's port", port)
    for name, value in (("MASTER_ADDR", host), ("MASTER_PORT", port)):
        if not value:
            raise BadInput(
                f"{size_name}={world_size}, but {name} is not set. Start with torchrun, or set it to rank 0's."
            )
    return host, whole("MASTER_PORT", port)


def number(name: str, default: int | None = None) -> int:
    """A whole number from the environment."""
    return whole(name, os.environ.get(name, "" if default is None else str(default)))


def whole(name: str, text: str) -> int:
    """The text as a whole number; raises `BadInput`."""
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"{name}={text!r} in the environment is not a whole number. Correct or unset it.") from None


@contextmanager
def joined(ranks: Ranks, say: Callable[[str], None]) -> Iterator[Ranks]:
    """Meets the other ranks, and takes leave of them; raises `LostRanks` when they do not come or go away."""
    if ranks.device.type == "cuda":
        torch.cuda.set_device(ranks.device)
    if ranks.world_size == 1:
        yield ranks
        return
    store = meet(ranks, say)
    pulse = Pulse(store, ranks.rank, ranks.world_size, say)
    try:
        dist.init_process_group(
            ranks.backend,
            store=PrefixStore("group", store),
            rank=ranks.rank,
            world_size=ranks.world_size,
            timeout=timedelta(seconds=ranks.timeout_seconds),
            device_id=ranks.device if ranks.backend == "nccl" else None,
        )
        yield replace(ranks, store=store, pulse=pulse)
        dist.barrier()  # else the first rank to leave can take the connection from under the last one's feet
    except Preempted:
        raise
    except RuntimeError as error:
        if not tells_of_lost_rank(error):
            pulse.leave_word(f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        raise LostRanks(
            f"Rank {ranks.rank} lost the connection to another rank, so it stops. "
            f"The cause is {pulse.culprits()}; the log of that rank says why."
        ) from error
    except Exception as error:
        pulse.leave_word(str(error) or type(error).__name__)
        raise
    finally:
        pulse.stop()
        if dist.is_initialized():
            dist.destroy_process_group()


def meet(ranks: Ranks, say: Callable[[str], None]) -> Store:
    """The store of all ranks, once all have come to it; raises `LostRanks` with the names of those that did not."""
    host, port = ranks.address
    place, limit = f"{host}:{port}", timedelta(seconds=ranks.timeout_seconds)
    deadline = time.monotonic() + ranks.timeout_seconds
    try:
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            store: Store = next(iter(rendezvous("env://", timeout=limit)))[0]
        else:
            store = TCPStore(
                host, port, ranks.world_size, ranks.first, limit, wait_for_workers=False, multi_tenant=True
            )
        store.set(f"arrived/{ranks.rank}", "")
        missing, told = set(range(ranks.world_size)), time.monotonic()
        while missing := {rank for rank in missing if not store.check([f"arrived/{rank}"])}:
            if time.monotonic() > deadline:
                names = ", ".join(map(str, sorted(missing)))
                raise LostRanks(
                    f"Rank {ranks.rank} waited {ranks.timeout_seconds:.0f} s at {place} for {len(missing)} of "
                    f"{ranks.world_size} ranks: {names} did not come. Look into their logs."
                )
            if ranks.first and time.monotonic() - told > MISSING_SECONDS:
                told = time.monotonic()
                say(f"Waiting at {place} for rank {', '.join(map(str, sorted(missing)))}.")
            time.sleep(POLL_SECONDS)
    except dist.DistError as error:
        reason = str(error).splitlines()[0]
        raise LostRanks(
            f"Rank {ranks.rank} did not meet rank 0 at {place} within {ranks.timeout_seconds:.0f} s ({reason}). "
            "Look into its log, and whether that address can be reached."
        ) from error
    return store


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
    """Every rank's value, in the order of the ranks, on every rank.

    It goes through the store, and waits as long as the others live: one that unpacks data for an hour is waited for.
    Raises `LostRanks` with the name of a rank that gives no sign any more.
    """
    if ranks.store is None or ranks.pulse is None:
        return [mine]
    turn, patience = next(ranks.turns), min(QUIET_SECONDS, ranks.timeout_seconds)
    ranks.store.set(f"gathered/{turn}/{ranks.rank}", cast(str, pickle.dumps(mine)))  # bytes, which its stub leaves out
    everyone: list[T] = []
    for rank in range(ranks.world_size):
        key = f"gathered/{turn}/{rank}"
        while not ranks.store.check([key]):
            if ranks.store.check([f"ended/{rank}"]):
                raise LostRanks(f"Rank {ranks.rank} stops, as rank {rank} has ended: {word_of(ranks.store, rank)}")
            if ranks.pulse.silent_seconds(rank) > patience:
                raise LostRanks(
                    f"Rank {ranks.rank} has not heard of rank {rank} for {patience:.0f} s, so it stops. "
                    f"Rank {rank} was at {ranks.pulse.beats[rank].place or 'the start'}; its log says why."
                )
            time.sleep(POLL_SECONDS)
        # What comes from the other processes of one's own job may be unpickled: it is their code that runs here.
        everyone.append(pickle.loads(ranks.store.get(key)))
    return everyone


def word_of(store: Store, rank: int) -> str:
    """What a rank said before it ended."""
    word: bytes = store.get(f"ended/{rank}")
    return word.decode(errors="replace")


def agreed(ranks: Ranks, fault: str | None) -> None:
    """Raises `BadInput` on every rank when any of them has found a fault."""
    for found in gathered(ranks, fault or ""):
        if found:
            raise BadInput(found)


def once_a_node(ranks: Ranks, act: Callable[[], T]) -> T:
    """Runs `act` on one rank of each node, then on the others, which find its work done; raises every rank's `BadInput`."""
    result: T | None = None
    fault: str | None = None
    for turn in (True, False):
        if ranks.leads_node == turn:
            try:
                result = act()
            except BadInput as found:
                fault = str(found)
        agreed(ranks, fault)
    assert result is not None
    return result


def summed(ranks: Ranks, values: list[float]) -> list[float]:
    """The sums over all ranks; counts stay exact, as they are added in double precision."""
    if ranks.world_size == 1:
        return values
    precise = torch.float64 if ranks.device.type != "mps" else torch.float32
    total = torch.tensor(values, dtype=precise, device=ranks.device)
    dist.all_reduce(total)
    return [float(value) for value in total.tolist()]


def handed_out(ranks: Ranks, content: bytes | None) -> bytes:
    """Rank 0's bytes, on every rank."""
    if ranks.world_size == 1:
        return content or b""
    length = int(summed(ranks, [float(len(content or b""))])[0])
    block = torch.zeros(length, dtype=torch.uint8)
    if content:
        block = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    block = block.to(ranks.device)
    dist.broadcast(block, 0)
    return block.cpu().numpy().tobytes()


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


def advise(ranks: Ranks, say: Callable[[str], None]) -> None:
    """Says who started the ranks, and what torchrun lacks for restarts that work at the first try."""
    say(f"Started by: {ranks.launcher}")
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    if restarts != "0" and os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1":
        say(
            "torchrun may restart the ranks, and after a killed one the first restart can fail at old addresses: "
            "set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for it."
        )


def table(ranks: Ranks, threads: int) -> str:
    """Every rank on a line; the same text on every rank."""
    device = torch.cuda.get_device_name(ranks.device) if ranks.device.type == "cuda" else f"CPU, {threads} thread(s)"
    mine = (str(ranks.rank), str(ranks.node), str(ranks.local_rank), socket.gethostname(), str(os.getpid()), device)
    rows = [("rank", "node", "local", "host", "pid", "device"), *gathered(ranks, mine)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(mine))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
