"""Running a model: onnxruntime where there is an ONNX file, else torch with the weights and torchvision's architecture."""

from __future__ import annotations

import importlib.util
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from artefact import Artefact, BadModel, tree
from threads import threads

Array = npt.NDArray[np.float32]
Tensor = TypeVar("Tensor")


PIXELS_A_RUN = 800_000
"""A batch runs in parts of so many pixels, 16 pictures of 224 × 224: what lies between the layers would fill the memory."""


class Engine(Protocol):
    """A loaded model.

    `name` is the library that runs it, `threads` how many it uses. `shape` is what it takes, (batch, 3, height, width),
    None where any will do.
    """

    name: str
    threads: int
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


def run(engine: Engine, batch: Array) -> Array:
    """The model's outputs for a batch of any length, computed in parts of bounded size."""
    step = max(1, PIXELS_A_RUN // (batch.shape[2] * batch.shape[3])) if engine.shape[0] is None else engine.shape[0]
    parts = [engine.logits(batch[start : start + step]) for start in range(0, len(batch), step)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
    try:
        outputs = engine.logits(np.zeros((1, *artefact.input_shape), dtype=np.float32))
    except Exception as fault:  # neither library's errors have a common parent but Exception
        raise BadModel(
            f"The model cannot run on one picture of {artefact.input_shape}: {_first_line(fault)}"
        ) from fault
    if outputs.shape != (1, len(artefact.classes)):
        raise BadModel(
            f"The model gives outputs of shape {outputs.shape}, and model.json has {len(artefact.classes)} classes."
        )


class OnnxEngine:
    """A model in onnxruntime on the CPU."""

    name = "onnxruntime"

    def __init__(self, artefact: Artefact) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        self.threads = threads()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        # Threads that spin while they wait take the other workers' cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = False  # it would keep what the largest request took, and is no faster here
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


def _as_trained(artefact: Artefact) -> dict[str, Any]:
    """How the trainer makes the networks that are not made like all others."""
    if artefact.architecture in ("googlenet", "inception_v3"):
        return {"aux_logits": False, "init_weights": False}
    return {"image_size": artefact.input_shape[1]} if artefact.architecture.startswith("vit_") else {}


class TorchEngine:
    """A model in torch, on the GPU where there is one, else on the CPU."""

    name = "torch"

    def __init__(self, artefact: Artefact) -> None:
        import torch
        import torchvision
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        self.threads = threads()
        torch.set_num_threads(self.threads)
        self._torch = torch
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        classes = len(artefact.classes)
        try:
            model = torchvision.models.get_model(
                artefact.architecture, weights=None, num_classes=classes, **_as_trained(artefact)
            )
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
