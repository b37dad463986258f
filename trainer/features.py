"""What a frozen backbone makes of every picture, computed once and kept: heads are then trained on numbers alone.

Kept under a key of data, transform, weights and number type. Of trainings that want the same features at the same time one
makes them, all of its ranks sharing the work, and the others wait for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import cache
import distributed
import numpy as np
import torch
import torch.distributed as dist
from data import EpochBatches, Pictures
from distributed import Ranks
from optimisation import Precision
from torch.utils.data import DataLoader

BATCH = 32
Batch = tuple[torch.Tensor, torch.Tensor]
Batches = Iterable[Batch]


class HeadBatches:
    """Batches of features and labels, by the same sampler as pictures; the rows of validation are a rank's share."""

    def __init__(
        self, features: torch.Tensor, labels: torch.Tensor, rows: EpochBatches | Sequence[Sequence[int]]
    ) -> None:
        self._features, self._labels, self._rows = features, labels, rows

    def __iter__(self) -> Iterator[Batch]:
        for keys in self._rows:
            rows = torch.tensor([key[1] if isinstance(key, tuple) else key for key in keys])
            yield self._features[rows], self._labels[rows]

    def __len__(self) -> int:
        return len(self._rows)


def of_all(
    ranks: Ranks,
    cache_folder: Path,
    backbone: torch.nn.Module,
    sets: Mapping[str, Pictures],
    precision: Precision,
    workers: int,
    say: Callable[[str], None],
) -> dict[str, torch.Tensor]:
    """The features of every picture of the sets, float32 (pictures, width), from the cache or computed now."""
    key = distributed.gathered(ranks, key_of(backbone, sets, precision) if ranks.first else "")[0]
    place = cache_folder / "features" / key
    with ExitStack() as stack:
        if ranks.first:
            stack.enter_context(cache.locked(place.with_suffix(".lock"), say, "the same features"))
        distributed.gathered(ranks, None)
        if all(distributed.gathered(ranks, place.is_dir())):
            say(f"Features of the frozen backbone: from {place}.")
        else:
            pictures = sum(len(each) for each in sets.values())
            say(f"Features of the frozen backbone: {pictures} pictures go through it once, and are kept in {place}.")
            made = {name: shared_out(ranks, backbone, each, precision, workers) for name, each in sets.items()}
            fault = keep(place, made) if ranks.leads_node else None
            distributed.agreed(ranks, fault)
    # Copy on write: the file itself is never written to.
    return {name: torch.from_numpy(np.load(place / f"{name}.npy", mmap_mode="c")) for name in sets}


def key_of(backbone: torch.nn.Module, sets: Mapping[str, Pictures], precision: Precision) -> str:
    """The name under which the features are kept: all that they depend on."""
    digest = hashlib.sha256(f"1 {torch.__version__} {precision.name}".encode())
    for name, pictures in sets.items():
        digest.update(json.dumps([name, asdict(pictures.preprocessing)]).encode())
        for sample in pictures.samples:
            status = sample.path.stat()
            relative = os.fsencode(sample.path.relative_to(pictures.root))
            digest.update(b"%s\0%d %d %d\n" % (relative, status.st_size, status.st_mtime_ns, sample.label))
    for name, value in backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:32]


def shared_out(
    ranks: Ranks, backbone: torch.nn.Module, pictures: Pictures, precision: Precision, workers: int
) -> torch.Tensor:
    """The features of all pictures on every rank, each rank having computed every `world_size`-th."""
    mine = list(range(ranks.rank, len(pictures), ranks.world_size))
    rows = [mine[i : i + BATCH] for i in range(0, len(mine), BATCH)]
    found = []
    backbone.eval()
    with torch.inference_mode(), precision.autocast():
        for done, (images, _) in enumerate(DataLoader(pictures, batch_sampler=rows, num_workers=workers)):
            ranks.at(f"features, batch {done + 1} of {len(rows)}")
            images = images.to(ranks.device, memory_format=torch.channels_last)
            found.append(torch.flatten(backbone(images), 1).float().cpu())
    widths = distributed.gathered(ranks, found[0].shape[1] if found else 0)  # also waits for the slower ranks
    part = torch.cat(found) if found else torch.zeros(0, max(widths))
    if ranks.world_size == 1:
        return part
    most = -(-len(pictures) // ranks.world_size)
    padded = torch.zeros(most, max(widths))
    padded[: len(part)] = part
    parts = [torch.zeros_like(padded, device=ranks.device) for _ in range(ranks.world_size)]
    dist.all_gather(parts, padded.to(ranks.device))
    whole = torch.zeros(len(pictures), max(widths))
    for rank, each in enumerate(parts):
        whole[rank :: ranks.world_size] = each[: len(whole[rank :: ranks.world_size])].cpu()
    return whole


def keep(place: Path, features: Mapping[str, torch.Tensor]) -> str | None:
    """Puts the files in their place, whole; a sentence where that is not possible."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as folder:
            new = Path(folder, "features")
            new.mkdir()
            for name, value in features.items():
                np.save(new / f"{name}.npy", value.numpy())
            if not place.is_dir():
                new.rename(place)
    except OSError as error:
        if place.is_dir():  # another one was quicker
            return None
        return f"Features cannot be kept in {place}: {error.strerror}. Give --cache_dir another folder."
    return None
