"""Parallel, Spark and AutoML steps: the keys that such a step has of its own. Source: azure-ai-ml's schemas.

Other keys pass unread: what belongs to one task of AutoML only, as the settings of its training, is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.faults import Report
from footplate.jobfile.schema import common, environments
from footplate.jobfile.shapes import (
    Anything,
    Either,
    Flag,
    Items,
    Keys,
    Number,
    Scalar,
    Shape,
    Table,
    Text,
    Whole,
    is_bound,
    shortened,
)

PARALLEL: dict[str, Shape] = {
    "task": Keys(
        "a parallel step's task",
        {
            "type": Text("a type of task", ("run_function", "function", "model")),
            "code": environments.CODE,
            "entry_script": Text("a script"),
            "program_arguments": Text("the script's arguments as one text"),
            "model": Text("a model"),
            "append_row_to": Text("an output"),
            "environment": environments.ENVIRONMENT,
        },
        required=("type", "environment"),
        unknown="warning",
    ),
    "logging_level": Text("a logging level", ("WARNING", "INFO", "DEBUG"), exact=True),
    "mini_batch_size": Text("a number of files or a size, in quotes, as '10' or 10kb"),
    "partition_keys": Items(Text("a key's name")),
    "input_data": Text("${{inputs.NAME}}"),
    "resources": common.RESOURCES,
    "retry_settings": Keys("retry settings", {"timeout": Whole(), "max_retries": Whole()}, unknown="warning"),
    "max_concurrency_per_instance": Whole(),
    "error_threshold": Whole(),
    "mini_batch_error_threshold": Whole(),
    "environment_variables": Table(Text("text (quote numbers and booleans)")),
}
"""What a parallel step has of its own, inline or with a component."""


@dataclass(frozen=True)
class SparkEntry(Shape):
    """Where a Spark step begins: a script, or a class."""

    wanted: str = "`file` with a script, or `class_name`"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if isinstance(value, Mapping):
            key = "class_name" if "class_name" in value else "file"
            Keys(
                "a Spark step's entry", {key: Text("a script" if key == "file" else "a class")}, required=(key,)
            ).check(value, place, report)
        else:
            self._wrong(value, place, report, "Write `file:` below it." if isinstance(value, str) else "")


@dataclass(frozen=True)
class FileList(Shape):
    """Files that go with a Spark step, each of them once."""

    wanted: str = "a list of files"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        Items(Text("a file"), self.wanted).check(value, place, report)
        given = value if isinstance(value, list) else []
        for index, item in enumerate(given):
            if isinstance(item, str) and item in given[:index]:
                fault = f"{shortened(item)} stands twice in `{place[-1]}`."
                report.add("wrong-value", (*place, index), fault, "Remove one of them.")


_FILES = FileList()
SPARK: dict[str, Shape] = {
    "code": environments.CODE,
    "entry": SparkEntry(),
    "py_files": _FILES,
    "jars": _FILES,
    "files": _FILES,
    "archives": _FILES,
    "conf": Table(Anything(), "settings of Spark by name"),
    "args": Text("the arguments as one text"),
    "environment": Either(
        environments.ENVIRONMENT.scalar,
        environments.ENVIRONMENT.mapping,
        wanted=environments.ENVIRONMENT.wanted,
        null=True,
    ),
    "resources": Keys(
        "a Spark step's resources",
        {"instance_type": Text("a VM size"), "runtime_version": Scalar()},
        required=("instance_type",),
    ),
    "identity": common.IDENTITY,
}
"""What a Spark step has of its own."""


@dataclass(frozen=True)
class TableData(Shape):
    """The data of an AutoML step: an mltable, or an expression that names one."""

    wanted: str = "an mltable with its `path`, or ${{parent.inputs.NAME}}"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if isinstance(value, str):
            return
        Keys(
            "a table", {"type": Text("mltable", ("mltable",)), "path": Text("a path or an asset")}, unknown="off"
        ).check(value, place, report)


@dataclass(frozen=True)
class Folds(Shape):
    """Into how many parts the data is cut for cross validation."""

    wanted: str = "a whole number, or auto"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if isinstance(value, str) and value.lower() == "auto":
            return
        Whole().check(value, place, report)


_TASKS_WITH_TARGET = (
    "classification",
    "regression",
    "forecasting",
    "image_classification",
    "image_classification_multilabel",
    "image_object_detection",
    "image_instance_segmentation",
    "text_classification",
    "text_classification_multilabel",
)
AUTOML_TASKS = (*_TASKS_WITH_TARGET, "text_ner")
_METRICS = (
    "accuracy",
    "auc_weighted",
    "norm_macro_recall",
    "average_precision_score_weighted",
    "precision_score_weighted",
    "iou",
    "mean_average_precision",
    "spearman_correlation",
    "normalized_root_mean_squared_error",
    "r2_score",
    "normalized_mean_absolute_error",
)
_COUNTS = ("max_trials", "max_concurrent_trials", "max_nodes", "max_cores_per_trial")
AUTOML: dict[str, Shape] = {
    "task": Text("a task", AUTOML_TASKS),
    "target_column_name": Text("a column's name"),
    "training_data": TableData(),
    "validation_data": TableData(),
    "test_data": TableData(),
    "primary_metric": Text("a metric", _METRICS, camel=True),
    "log_verbosity": Text("how much to log", ("not_set", "debug", "info", "warning", "error", "critical"), camel=True),
    "limits": Keys(
        "the limits of AutoML",
        {
            **{key: Whole() for key in _COUNTS},
            "timeout_minutes": Whole(unit="minutes"),
            "trial_timeout_minutes": Whole(unit="minutes"),
            "enable_early_termination": Flag(),
            "exit_score": Number(),
        },
    ),
    "n_cross_validations": Folds(),
    "validation_data_size": Number(),
    "test_data_size": Number(),
    "cv_split_column_names": Items(Text("a column's name")),
    "weight_column_name": Text("a column's name"),
}
"""What an AutoML step has of its own, as far as its tasks share it."""


def needed_by_automl(task: object) -> tuple[str, ...]:
    """The keys that an AutoML step of this task must have."""
    return ("task", "target_column_name") if str(task).lower() in _TASKS_WITH_TARGET else ("task",)
