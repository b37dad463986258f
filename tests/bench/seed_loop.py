"""The training loop of Microsoft's tutorial, written anew from its description: the baseline of the trainer's bench.

    python seed_loop.py DATA EPOCHS

resnet18 with two outputs, 224 pixels, batches of four from four loading processes, SGD at 0.001 with momentum 0.9, a tenth of
it every seven epochs, fp32; each epoch a pass over train/ and one over val/, and a copy of the weights that were best.
"""

from __future__ import annotations

import copy
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def loaders(data: Path) -> dict[str, DataLoader[tuple[torch.Tensor, int]]]:
    """A loader for each of the two folders."""
    end = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    steps = {
        "train": [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), *end],
        "val": [transforms.Resize(256), transforms.CenterCrop(224), *end],
    }
    return {
        phase: DataLoader(
            datasets.ImageFolder(str(data / phase), transforms.Compose(steps[phase])),
            batch_size=4,
            shuffle=True,
            num_workers=4,
        )
        for phase in ("train", "val")
    }


def main() -> None:
    """Trains and prints, an epoch a line: its number, the seconds since the start, the accuracy in validation."""
    data, epochs = Path(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    network = models.resnet18(weights=None)
    network.fc = torch.nn.Linear(network.fc.in_features, 2)
    batches = loaders(data)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    best, kept = 0.0, copy.deepcopy(network.state_dict())
    began = time.monotonic()
    print("epoch 0", 0.0, 0.0, flush=True)
    for epoch in range(1, epochs + 1):
        for phase, loader in batches.items():
            network.train(phase == "train")
            right = count = 0
            for images, labels in loader:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    scores = network(images)
                    loss = criterion(scores, labels)
                    if phase == "train":
                        torch.autograd.backward(loss)
                        optimizer.step()
                right += int((scores.argmax(1) == labels).sum())
                count += len(labels)
            if phase == "train":
                schedule.step()
            elif right / count > best:
                best, kept = right / count, copy.deepcopy(network.state_dict())
        print("epoch", epoch, time.monotonic() - began, best, flush=True)
    network.load_state_dict(kept)


if __name__ == "__main__":
    main()
