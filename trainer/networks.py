"""torchvision's networks by name, with weights from nothing, from ImageNet or from a file."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.error import URLError

import torch
import torchvision
from errors import BadInput

ODD = {"googlenet", "inception_v3"}  # they give several outputs while training


def architectures() -> list[str]:
    """The names that `--architecture` takes."""
    return [name for name in torchvision.models.list_models(module=torchvision.models) if name not in ODD]


def build(architecture: str, classes: int) -> torch.nn.Module:
    """The network with its last layer for so many classes, weights from nothing; raises `BadInput` for a name unknown."""
    if architecture not in architectures():
        near = [name for name in architectures() if name[:4] == architecture[:4]] or ["resnet18", "mobilenet_v3_small"]
        raise BadInput(f"--architecture {architecture} is not one that can be trained here. Try {', '.join(near[:4])}.")
    # Residual branches that start at zero learn faster from nothing (He et al., Bag of Tricks).
    extra: dict[str, Any] = (
        {"zero_init_residual": True} if architecture.startswith(("resnet", "resnext", "wide_resnet")) else {}
    )
    network: torch.nn.Module = torchvision.models.get_model(architecture, weights=None, num_classes=classes, **extra)
    return network


def load_weights(network: torch.nn.Module, architecture: str, weights: str) -> str:
    """Fills the network and returns what was done, in words; `weights` is none, imagenet or a file.

    Tensors of another shape (the last layer, when the classes differ) stay as they are. Raises `BadInput`.
    """
    if weights == "none":
        return "from nothing"
    state = imagenet(architecture) if weights == "imagenet" else read(Path(weights))
    own = network.state_dict()
    fitting = {name: value for name, value in state.items() if name in own and own[name].shape == value.shape}
    if len(fitting) < len(own) / 2:
        raise BadInput(
            f"--weights {weights} fits {len(fitting)} of {architecture}'s {len(own)} tensors. Is it another network's?"
        )
    network.load_state_dict(fitting, strict=False)
    return f"from {weights}, {len(fitting)} of {len(own)} tensors"


def imagenet(architecture: str) -> dict[str, torch.Tensor]:
    """torchvision's default weights, from its cache or over the network."""
    choice = torchvision.models.get_model_weights(architecture).DEFAULT
    try:
        state: dict[str, torch.Tensor] = choice.get_state_dict(progress=False, check_hash=True)
    except (URLError, OSError, RuntimeError) as error:
        reason = getattr(error, "reason", None) or error
        raise BadInput(
            f"ImageNet weights of {architecture} could not be fetched from {choice.url} ({reason}). "
            "Use --weights none, or fetch that file elsewhere and give its path."
        ) from error
    return state


def read(path: Path) -> dict[str, torch.Tensor]:
    """A state dict from a safetensors file or from one that `torch.save` wrote; no pickled object is ever run."""
    if not path.is_file():
        raise BadInput(f"--weights {path} is neither none, nor imagenet, nor a file that exists. Correct the path.")
    try:
        if path.suffix == ".safetensors":
            from safetensors import SafetensorError
            from safetensors.torch import load_file

            try:
                return dict(load_file(path))
            except SafetensorError as error:
                raise BadInput(f"--weights {path} is not a safetensors file ({error}). Export it again.") from error
        state = torch.load(path, map_location="cpu", weights_only=True)
    except ModuleNotFoundError as error:
        raise BadInput(
            f"--weights {path} needs the package safetensors. Install it: pip install safetensors"
        ) from error
    except (UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise BadInput(
            f"--weights {path} does not hold plain tensors. Save it with torch.save(model.state_dict(), …)."
        ) from error
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise BadInput(f"--weights {path} does not hold a state dict. Save it with torch.save(model.state_dict(), …).")
    return {name.removeprefix("module."): value for name, value in state.items()}
