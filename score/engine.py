"""Running a model: onnxruntime where there is an ONNX file, else torch with the weights and torchvision's architecture."""

from __future__ import annotations

import importlib.util
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from artefact import Artefact, BadModel, tree

Array = npt.NDArray[np.float32]
Tensor = TypeVar("Tensor")


class Engine(Protocol):
    """A loaded model.

    `name` is the library that runs it. `shape` is what it takes, (batch, 3, height, width), None where any will do.
    """

    name: str
    shape: tuple[int | None, ...]

    def logits(self, batch: Array) -> Array:
        """The model's outputs, (batch, classes), for float32 (batch, 3, height, width)."""


def open_engine(artefact: Artefact) -> Engine:
    """Load the model and run it once, so that a faulty one fails before the first request.

    Raises `BadModel`: no library that can run it, a damaged file, or outputs that do not match the classes.
    """
    try:
        engine = _load(artefact)
        _try_out(engine, artefact)
    except BadModel as fault:
        raise BadModel(f"{fault}\n{tree(artefact.folder)}") from fault
    return engine


def _load(artefact: Artefact) -> Engine:
    has_onnxruntime = importlib.util.find_spec("onnxruntime") is not None
    if artefact.onnx and has_onnxruntime:
        return OnnxEngine(artefact)
    if artefact.weights is None:
        raise BadModel("The model has only an ONNX file, and onnxruntime is not installed; add it to the environment.")
    missing = [name for name in ("torch", "torchvision", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        raise BadModel(
            f"The model needs onnxruntime with model.onnx, or torch: {' and '.join(missing)} not installed; "
            "add one or the other to the environment."
        )
    return TorchEngine(artefact)


def _try_out(engine: Engine, artefact: Artefact) -> None:
    """One run on zeros of the model's own input shape."""
    outputs = engine.logits(np.zeros((1, *artefact.input_shape), dtype=np.float32))
    if outputs.shape != (1, len(artefact.classes)):
        raise BadModel(
            f"The model gives outputs of shape {outputs.shape}, and model.json has {len(artefact.classes)} classes."
        )


class OnnxEngine:
    """A model in onnxruntime on the CPU, one thread: an endpoint scales by workers, not by threads."""

    name = "onnxruntime"

    def __init__(self, artefact: Artefact) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(str(artefact.onnx), options, providers=["CPUExecutionProvider"])
        except Exception as fault:  # onnxruntime's errors have no common parent but Exception
            raise BadModel(f"onnxruntime cannot load {artefact.onnx}: {_first_line(fault)}") from fault
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            raise BadModel(f"{artefact.onnx} must take one input of four dimensions: batch, channel, height, width.")
        self._input = inputs[0].name
        self.shape: tuple[int | None, ...] = tuple(side if isinstance(side, int) else None for side in inputs[0].shape)

    def logits(self, batch: Array) -> Array:
        """The model's first output."""
        return np.asarray(self._session.run(None, {self._input: batch})[0], dtype=np.float32)


class TorchEngine:
    """A model in torch, on the GPU where there is one, else on the CPU with one thread."""

    name = "torch"

    def __init__(self, artefact: Artefact) -> None:
        import torch
        import torchvision
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        torch.set_num_threads(1)
        self._torch = torch
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        classes = len(artefact.classes)
        try:
            model = torchvision.models.get_model(artefact.architecture, weights=None, num_classes=classes)
        except ValueError as fault:
            raise BadModel(
                f"torchvision has no architecture {artefact.architecture!r}; export the model with model.onnx."
            ) from fault
        try:
            tensors = load_file(str(artefact.weights))
            model.load_state_dict(without_prefix(tensors), strict=True)
        except (SafetensorError, OSError) as fault:
            raise BadModel(f"{artefact.weights} cannot be read: {_first_line(fault)}") from fault
        except RuntimeError as fault:
            raise BadModel(f"{artefact.weights} does not fit {artefact.architecture}: {_first_line(fault)}") from fault
        self._model = model.to(self._device).eval()
        self.shape: tuple[int | None, ...] = (None, 3, None, None)

    def logits(self, batch: Array) -> Array:
        """The model's outputs, brought back to the CPU."""
        with self._torch.inference_mode():
            outputs: Array = self._model(self._torch.from_numpy(batch).to(self._device)).float().cpu().numpy()
        return outputs


def without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without the `module.` that a model saved inside DistributedDataParallel has before every name."""
    if tensors and all(name.startswith("module.") for name in tensors):
        return {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
    return tensors


def _first_line(fault: Exception) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0]
