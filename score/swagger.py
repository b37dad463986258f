"""What `/swagger.json` of the scoring server tells: the JSON body, and the answer with the model's own classes.

The server refuses a run() that has both @rawhttp, which a raw picture needs, and a schema. So the schema is written to
inference-schema's table from init(): after the server has looked at run(), and before it makes its swagger.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

SAMPLE_PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC"  # one white pixel
)


def describe(run: Callable[..., Any], classes: Sequence[str]) -> bool:
    """Tell inference-schema what `run` takes and gives; False where it is not installed."""
    try:
        kinds = importlib.import_module("inference_schema.parameter_types.standard_py_parameter_type")
        decorators = importlib.import_module("inference_schema.schema_decorators")
    except ModuleNotFoundError:
        return False

    def stand_in(image: str) -> None:
        """Has the argument that the body's JSON has, and run()'s name, by which the table is kept."""

    stand_in.__name__, stand_in.__module__ = run.__name__, run.__module__
    scores = [{"label": name, "probability": 1 / len(classes)} for name in classes[:3]]
    answer = {**scores[0], "scores": scores, "steps": ["resized to 256", "cropped to 224"]}
    decorators.input_schema("image", kinds.StandardPythonParameterType(SAMPLE_PICTURE))(stand_in)
    decorators.output_schema(kinds.StandardPythonParameterType(answer))(stand_in)
    return True
