"""The data folder, the check of its pictures, and the batches of them or of their features."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import archives
import distributed
import features
import networks
import torch
from data import CHECK_ALL_BELOW, EpochBatches, Pictures
from distributed import Ranks
from errors import BadInput
from features import Batches, HeadBatches
from imagefolder import ImageFolder, find_pictures
from optimisation import Precision
from torch.utils.data import DataLoader

LISTED = 20
"""How many unreadable pictures are named."""


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
