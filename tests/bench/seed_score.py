"""The scoring script that the bench compares with: what Microsoft's tutorial on PyTorch deploys, written anew.

It loads a whole pickled module, takes the picture as numbers in JSON, and knows two classes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

CLASSES = ("chicken", "turkey")
network: torch.nn.Module


def init() -> None:
    """Load the pickled network."""
    global network
    path = Path(os.environ["AZUREML_MODEL_DIR"]) / "model.pt"
    network = torch.load(path, map_location="cpu", weights_only=False)
    network.eval()


def run(raw: str) -> dict[str, Any]:
    """The better class of one preprocessed picture, with its probability as text."""
    batch = torch.tensor(json.loads(raw)["data"], dtype=torch.float32)
    with torch.no_grad():
        probabilities = torch.softmax(network(batch), dim=1)[0]
    best = int(probabilities.argmax())
    return {"label": CLASSES[best], "probability": str(float(probabilities[best]))}
