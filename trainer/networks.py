"""torchvision's networks by name, with weights from nothing, from ImageNet or from a file."""

from __future__ import annotations

import difflib
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.error import URLError

import torch
import torchvision
from errors import BadInput


def architectures() -> list[str]:
    """The names that `--architecture` takes."""
    return list(torchvision.models.list_models(module=torchvision.models))


def build(
    architecture: str, classes: int, image_size: int | None = None, dropout: float | None = None
) -> torch.nn.Module:
    """The network with its last layer for so many classes, weights from nothing; raises `BadInput` for a name unknown.

    `image_size` is for transformers, which are made for one size; `dropout` takes the place of the network's own.
    """
    if architecture not in architectures():
        near = difflib.get_close_matches(architecture, architectures(), 4) or ["resnet18", "mobilenet_v3_small"]
        raise BadInput(f"--architecture {architecture} is not one that can be trained here. Try {', '.join(near)}.")
    extra: dict[str, Any] = {}
    if architecture.startswith(("resnet", "resnext", "wide_resnet")):
        # Residual branches that start at zero learn faster from nothing (He et al., Bag of Tricks).
        extra = {"zero_init_residual": True}
    elif architecture in ("googlenet", "inception_v3"):
        # Without the branches that these two have while training: one output, as the others.
        extra = {"aux_logits": False, "init_weights": False}
    elif architecture.startswith("vit_") and image_size:
        extra = {"image_size": image_size}
    try:
        network: torch.nn.Module = torchvision.models.get_model(
            architecture, weights=None, num_classes=classes, **extra
        )
    except (ValueError, RuntimeError, AssertionError) as error:
        raise BadInput(f"--architecture {architecture} cannot be made for {image_size} pixels: {error}") from error
    if dropout is not None:
        set_dropout(network, dropout)
    return network


def set_dropout(network: torch.nn.Module, part: float) -> None:
    """Gives every dropout and every randomly skipped branch of the network this chance."""
    for module in network.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = part


def has_batch_norm(network: torch.nn.Module) -> bool:
    """Whether the network learns from the statistics of a batch, and so cannot learn from one picture."""
    return any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in network.modules())


def try_out(network: torch.nn.Module, architecture: str, image_size: int) -> None:
    """One picture through the network; raises `BadInput` where it does not take pictures of that size."""
    training = network.training
    try:
        with torch.inference_mode():
            network.eval()(torch.zeros(1, 3, image_size, image_size))
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(
            f"--architecture {architecture} does not take pictures of {image_size} pixels ({reason}). Try --image_size 224."
        ) from error
    finally:
        network.train(training)


def head_of(network: torch.nn.Module, architecture: str) -> tuple[torch.nn.Module, str, torch.nn.Linear]:
    """The network's last layer: the module it hangs on, its name there, and itself; raises `BadInput` without one."""
    last = [name for name, module in network.named_modules() if list(module.parameters(recurse=False))][-1]
    path, _, name = last.rpartition(".")
    parent = network.get_submodule(path)
    head = getattr(parent, name)
    if not isinstance(head, torch.nn.Linear):
        raise BadInput(
            f"--backbone frozen needs a network that ends in a linear layer, and {architecture} does not. "
            "Use --backbone finetune, or another architecture."
        )
    return parent, name, head


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
    for key in ("state_dict", "model"):  # where torchvision's own and others' training scripts put it
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise BadInput(f"--weights {path} does not hold a state dict. Save it with torch.save(model.state_dict(), …).")
    return {name.removeprefix("module.").removeprefix("_orig_mod."): value for name, value in state.items()}
