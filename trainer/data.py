"""From picture files to batches: reading, transforms, and which rank takes which picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from errors import BadInput
from imagefolder import ImageFolder, Sample
from pictures import BadPicture, open_picture
from PIL import Image
from torch.utils.data import Dataset, Sampler
from torchvision import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, which torchvision's weights expect
CACHE_BYTES = 256 * 2**20
"""Memory a rank spends on decoded pictures; beyond it, pictures are decoded again each epoch."""

CHECK_ALL_BELOW = 5_000
"""Up to so many pictures all are decoded before the first epoch; of more, a broken one is found when its turn comes."""


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
        return transforms.Compose([transforms.CenterCrop(self.crop), *self._to_tensor()])

    def training(self) -> Any:
        """The same with chance in it: part of the picture, mirrored, in another light."""
        chance = [
            transforms.RandomResizedCrop(self.crop, scale=(0.8, 1.0), ratio=(0.87, 1.15)),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(brightness=0.2, contrast=0.2),
        ]
        return transforms.Compose([*chance, *self._to_tensor()])

    def _to_tensor(self) -> list[Any]:
        return [transforms.ToTensor(), transforms.Normalize(self.mean, self.std)]


class Pictures(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The samples as tensors with their labels; resized pictures are kept while memory lasts."""

    def __init__(
        self, folder: ImageFolder, samples: Sequence[Sample], preprocessing: Preprocessing, training: bool
    ) -> None:
        self.root, self.samples, self.preprocessing = folder.root, samples, preprocessing
        self.transform = preprocessing.training() if training else preprocessing.validation()
        self._kept: dict[int, Image.Image] = {}
        self._room = CACHE_BYTES

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.picture(index)), torch.tensor(self.samples[index].label)

    def picture(self, index: int) -> Image.Image:
        """The resized picture; raises `BadPicture` with a sentence that names the file."""
        if (kept := self._kept.get(index)) is not None:
            return kept
        path = self.samples[index].path
        image = self.preprocessing.resized(open_picture(path, str(path.relative_to(self.root))).image)
        self._room -= image.width * image.height * 3
        if self._room > 0:
            self._kept[index] = image
        return image

    def first_fault(self, indices: Sequence[int]) -> str | None:
        """The sentence about the first of these pictures that cannot be read; a sweep that also fills the memory."""
        for index in indices:
            try:
                self.picture(index)
            except BadPicture as fault:
                return f"{fault} It lies in {self.root}."
        return None


class EpochBatches(Sampler[list[int]]):
    """The batches of one rank: each epoch shuffled anew from the seed, all ranks with equally many batches of equal size.

    The up to `world_size - 1` pictures that do not share out evenly sit out the epoch, others each time. A last batch of
    one joins the batch before it, as batch normalisation cannot learn from one picture.
    """

    def __init__(self, count: int, batch_size: int, rank: int, world_size: int, seed: int) -> None:
        if count < 2 * world_size:
            raise BadInput(
                f"{world_size} ranks cannot share {count} training pictures: each needs two at the least. "
                f"Start {max(1, count // 2)} or fewer, or add pictures."
            )
        self.count, self.batch_size = count, max(2, batch_size)
        self.rank, self.world_size, self.seed = rank, world_size, seed
        self.epoch = 0

    def __len__(self) -> int:
        share = self.count // self.world_size
        full, rest = divmod(share, self.batch_size)
        return max(1, full + (rest > 1))

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(self.count, generator=generator).tolist()
        mine = order[: self.count - self.count % self.world_size][self.rank :: self.world_size]
        starts = [i * self.batch_size for i in range(len(self))]
        for start, end in zip(starts, [*starts[1:], len(mine)], strict=True):
            yield mine[start:end]
