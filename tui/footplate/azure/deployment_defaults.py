"""What a deployment gets that is made of a model alone: all of it in one place, with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIZE = "Standard_DS3_v2"
"""The smallest size that Microsoft recommends for managed endpoints (documented: the SDK warns of smaller ones)."""
IMAGE = "mcr.microsoft.com/azureml/minimal-py312-inference:latest"
"""Microsoft's base image for scoring (documented: concept-prebuilt-docker-images-inference); that the tag exists: assumed."""
PACKAGES: Mapping[str, Any] = {
    "name": "footplate-score",
    "channels": ["conda-forge"],
    "dependencies": [
        "python=3.12",
        "pip",
        {"pip": ["azureml-inference-server-http>=1.5", "numpy>=2.0", "onnxruntime>=1.23", "pillow>=11.0"]},
    ],
}
"""What `score/` needs to run an exported model: its own requirements, and the scoring server."""
