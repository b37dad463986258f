"""From picture files to batches: reading, transforms, and which rank takes which picture."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from errors import BadInput
from imagefolder import ImageFolder, Samples
from numpy.typing import NDArray
from pictures import BadPicture, open_picture
from PIL import Image, ImageOps
from torch.utils.data import Dataset, Sampler
from torchvision import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, which torchvision's weights expect
CACHE_BYTES = 256 * 2**20
"""Memory a rank spends on decoded pictures; beyond it, pictures are decoded again each epoch."""

CHECK_ALL_BELOW = 5_000
"""Up to so many pictures all are decoded before the first epoch; of more, a broken one is found when its turn comes."""

AREA, RATIO, LIGHT = (0.8, 1.0), (0.87, 1.15), 0.2
"""What a training picture may differ by: the part of it that is shown, that part's shape, brightness and contrast."""

GREY = np.array((0.299, 0.587, 0.114), dtype=np.float32)
"""How bright red, green and blue are to the eye."""

Key = int | tuple[int, int]
"""A picture's number, or an epoch and a picture's number."""


@dataclass(frozen=True)
class Preprocessing:
    """What turns a picture into the network's input: the shorter side to `resize`, then the middle `crop` × `crop`."""

    resize: int
    crop: int
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD
    interpolation: str = "bilinear"

    @classmethod
    def for_size(cls, image_size: int) -> Preprocessing:
        """The usual margin round the crop, 256 to 224."""
        return cls(resize=round(image_size * 256 / 224), crop=image_size)

    def resized(self, image: Image.Image) -> Image.Image:
        """The first step, which training and validation share."""
        picture: Image.Image = transforms.functional.resize(image, self.resize, transforms.InterpolationMode.BILINEAR)
        return picture

    def validation(self) -> Any:
        """From a resized picture to a tensor of the shape (3, crop, crop)."""
        to_tensor = [transforms.ToTensor(), transforms.Normalize(self.mean, self.std)]
        return transforms.Compose([transforms.CenterCrop(self.crop), *to_tensor])

    def varied(self, image: Image.Image, chance: random.Random) -> torch.Tensor:
        """A resized picture with chance in it: part of it, mirrored or not, in another light; (3, crop, crop)."""
        size = (self.crop, self.crop)
        picture = image.resize(size, Image.Resampling.BILINEAR, box=some_part(image.width, image.height, chance))
        if chance.random() < 0.5:
            picture = ImageOps.mirror(picture)
        brightness, contrast = (chance.uniform(1 - LIGHT, 1 + LIGHT) for _ in range(2))
        pixels: NDArray[np.float32] = np.array(picture, dtype=np.float32)
        grey = float(pixels.mean(axis=(0, 1)) @ GREY) * brightness
        pixels *= brightness * contrast
        pixels += grey * (1 - contrast)
        np.clip(pixels, 0, 255, out=pixels)
        mean, std = (np.array(values, dtype=np.float32) for values in (self.mean, self.std))
        pixels -= 255 * mean
        pixels /= 255 * std
        return torch.from_numpy(pixels).permute(2, 0, 1)


def some_part(width: int, height: int, chance: random.Random) -> tuple[float, float, float, float]:
    """The box of a random part of a picture, as torchvision's RandomResizedCrop draws it."""
    for _ in range(10):
        area = width * height * chance.uniform(*AREA)
        ratio = math.exp(chance.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        wide, high = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if wide <= width and high <= height:
            left, top = chance.uniform(0, width - wide), chance.uniform(0, height - high)
            return left, top, left + wide, top + high
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


class Pictures(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The samples as tensors with their labels; resized pictures are kept while memory lasts.

    A training picture varies by seed, epoch and its own number alone: the same on whichever rank it falls.
    """

    def __init__(
        self,
        folder: ImageFolder,
        samples: Samples,
        preprocessing: Preprocessing,
        training: bool,
        seed: int = 0,
    ) -> None:
        self.root, self.samples, self.preprocessing = folder.root, samples, preprocessing
        self.training, self.seed = training, seed
        self.transform = preprocessing.validation()
        self._kept: dict[int, Image.Image] = {}
        self._room = CACHE_BYTES

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        label = torch.tensor(self.samples[index].label)
        if self.training:
            chance = random.Random(f"{self.seed} {epoch} {index}")
            return self.preprocessing.varied(self.picture(index), chance), label
        return self.transform(self.picture(index)), label

    def picture(self, index: int) -> Image.Image:
        """The resized picture; raises `BadPicture` with a sentence that names the file."""
        if (kept := self._kept.get(index)) is not None:
            return kept
        image = self.preprocessing.resized(self.upright(index))
        self._room -= image.width * image.height * 3
        if self._room > 0:
            self._kept[index] = image
        return image

    def upright(self, index: int) -> Image.Image:
        """The whole picture, upright and RGB; raises `BadPicture`."""
        path = self.samples[index].path
        return open_picture(path, str(path.relative_to(self.root))).image

    def faults(self, indices: Sequence[int]) -> dict[int, str]:
        """What is wrong with those of these pictures that cannot be read; a sweep that also fills the memory."""
        found = {}
        for index in indices:
            try:
                self.picture(index)
            except BadPicture as fault:
                found[index] = str(fault)
        return found

    def leave_out(self, indices: Collection[int]) -> None:
        """Forgets these pictures, and renumbers the others."""
        kept = [index for index in range(len(self.samples)) if index not in indices]
        self._kept = {new: self._kept[old] for new, old in enumerate(kept) if old in self._kept}
        self.samples = self.samples.without(indices)

    def share_memory_with(self, workers: int) -> None:
        """Divides the memory for decoded pictures between loading processes, each of which has its own."""
        self._room //= max(1, workers)


class EpochBatches(Sampler[list[tuple[int, int]]]):
    """The batches of one rank: each epoch shuffled anew from the seed, every picture once, on one rank.

    All ranks together take `batch_size × world_size` pictures of the order at a time, each rank every `world_size`-th of
    them, so that the pictures of a step are the same ones however many ranks share them. A rest of less than a quarter
    of that, or of less than `least` a rank, joins the batch before it: batch normalisation cannot learn from one picture.
    """

    def __init__(self, count: int, batch_size: int, rank: int, world_size: int, seed: int, least: int = 2) -> None:
        if count < least * world_size:
            needs = {1: "one"}.get(least, "two")
            raise BadInput(
                f"{world_size} ranks cannot share {count} training pictures: each needs {needs} at the least. "
                f"Start {max(1, count // least)} or fewer, or add pictures."
            )
        self.count, self.rank, self.world_size, self.seed = count, rank, world_size, seed
        self.together, self.fewest = max(least, batch_size) * world_size, least * world_size
        self.epoch, self.consumed = 1, 0

    def bounds(self) -> list[tuple[int, int]]:
        """Where each batch of all ranks together begins and ends in the epoch's order, from what is consumed on."""
        starts = list(range(self.consumed, self.count, self.together))
        if len(starts) > 1 and self.count - starts[-1] < max(self.together / 4, self.fewest):
            starts.pop()
        return list(zip(starts, [*starts[1:], self.count], strict=True)) if starts else []

    def __len__(self) -> int:
        return len(self.bounds())

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(self.count, generator=generator).tolist()
        for start, end in self.bounds():
            yield [(self.epoch, index) for index in order[start + self.rank : end : self.world_size]]
