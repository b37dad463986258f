"""Which kind of Azure ML file a YAML file is: by its `type`, its `$schema`, or the keys that only one kind has."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

JOBS = ("command", "sweep", "pipeline")
"""The kinds that can be launched."""

TITLES = {
    "command": "a command job",
    "sweep": "a sweep job",
    "pipeline": "a pipeline job",
    "component": "a component",
    "endpoint": "an online endpoint",
    "deployment": "an online deployment",
    "compute": "a compute",
    "automl": "an AutoML job",
    "automl settings": "a settings file of AutoML",
    "spark": "a Spark job",
    "parallel": "a parallel step",
    "data transfer": "a data transfer job",
    "finetuning": "a fine-tuning job",
    "distillation": "a distillation job",
    "batch endpoint": "a batch endpoint",
    "batch deployment": "a batch deployment",
    "serverless endpoint": "a serverless endpoint",
    "environment": "an environment",
    "conda": "a conda environment file",
    "data": "a data asset",
    "model": "a model",
    "model package": "a model package",
    "datastore": "a datastore",
    "connection": "a connection",
    "workspace": "a workspace",
    "registry": "a registry",
    "schedule": "a schedule",
    "import": "a data import",
    "feature store": "a file of a feature store",
    "flow": "a prompt flow",
    "v1 run": "a run configuration of Azure ML v1",
    "v1 deployment": "a deployment or inference configuration of Azure ML v1",
    "v1 pipeline": "a pipeline of Azure ML v1",
    "": "no kind of Azure ML file that footplate knows",
}
"""What messages call each kind."""

_SCHEMAS = (
    ("batchendpoint", "batch endpoint"),
    ("batchdeployment", "batch deployment"),
    ("component", "component"),
    ("commandjob", "command"),
    ("sweepjob", "sweep"),
    ("pipelinejob", "pipeline"),
    ("automl", "automl"),
    ("sparkjob", "spark"),
    ("paralleljob", "parallel"),
    ("datatransfer", "data transfer"),
    ("finetuning", "finetuning"),
    ("distillation", "distillation"),
    ("serverlessendpoint", "serverless endpoint"),
    ("marketplacesubscription", "serverless endpoint"),
    ("onlineendpoint", "endpoint"),
    ("onlinedeployment", "deployment"),
    ("amlcompute", "compute"),
    ("computeinstance", "compute"),
    ("compute", "compute"),
    ("modelpackage", "model package"),
    ("packagemodel", "model package"),
    ("packageconfiguration", "model package"),
    ("environment", "environment"),
    ("dataimport", "import"),
    ("datastore", "datastore"),
    ("azureblob", "datastore"),
    ("azurefile", "datastore"),
    ("azuredatalake", "datastore"),
    ("onelake", "datastore"),
    ("hdfs", "datastore"),
    ("data.schema", "data"),
    ("mltable", "data"),
    ("model.schema", "model"),
    ("connection", "connection"),
    ("featureset", "feature store"),
    ("featurestore", "feature store"),
    ("workspace", "workspace"),
    ("hub.schema", "workspace"),
    ("project.schema", "workspace"),
    ("registry", "registry"),
    ("schedule", "schedule"),
    ("flow.schema", "flow"),
    ("run.schema", "flow"),
)
"""Part of the schema address, in lower case, and the kind it names; the first that fits counts."""

_TYPES = {
    "command": "command",
    "sweep": "sweep",
    "pipeline": "pipeline",
    "automl": "automl",
    "spark": "spark",
    "parallel": "parallel",
    "data_transfer": "data transfer",
    "finetuning": "finetuning",
    "fine_tuning": "finetuning",
    "distillation": "distillation",
    "amlcompute": "compute",
    "computeinstance": "compute",
    "virtualmachine": "compute",
    "synapsespark": "compute",
    "azure_blob": "datastore",
    "azure_file": "datastore",
    "azure_data_lake_gen1": "datastore",
    "azure_data_lake_gen2": "datastore",
    "one_lake": "datastore",
    "uri_file": "data",
    "uri_folder": "data",
    "mltable": "data",
    "custom_model": "model",
    "mlflow_model": "model",
    "triton_model": "model",
    "hub": "workspace",
    "project": "workspace",
    "monitor": "schedule",
}
"""What a `type` says, in lower case. `kubernetes` and `managed` are of more kinds than one: the other keys decide."""

_RUNS = frozenset({"command", "sweep", "pipeline", "automl", "spark", "parallel", "data transfer"})
"""Types that jobs and components have alike."""

_V1_DEPLOYMENT = frozenset(
    {"aciconfig", "akswebservice", "computeType", "entryScript", "containerResourceRequirements", "inferenceConfig"}
)
_V1_RUN = frozenset(
    {"target", "compute_target", "framework", "nodeCount", "node_count", "history", "communicator", "runConfig"}
    | {"run_config", "source_directory", "sourceDirectory", "arguments", "autoPrepareEnvironment", "conda_dependencies_file"}
)  # fmt: skip
_V1_SWEEP = frozenset(
    {"max_total_runs", "max_concurrent_runs", "primary_metric_name", "parameter_space", "hyperparameter_sampling"}
)

_SHAPES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"trial", "search_space", "sampling_algorithm", "objective"}), "sweep"),
    (frozenset({"mini_batch_size", "output_action", "max_concurrency_per_instance"}), "batch deployment"),
    (
        frozenset({"endpoint_name", "code_configuration", "request_settings", "scale_settings", "liveness_probe"})
        | frozenset({"readiness_probe", "app_insights_enabled", "egress_public_network_access"}),
        "deployment",
    ),
    (frozenset({"auth_mode", "traffic", "mirror_traffic"}), "endpoint"),
    (
        frozenset({"min_instances", "max_instances", "idle_time_before_scale_down", "idle_time_before_shutdown"})
        | frozenset({"idle_time_before_shutdown_minutes", "ssh_public_access_enabled", "enable_node_public_ip"}),
        "compute",
    ),
    (frozenset({"create_job", "create_monitor", "import_data"}), "schedule"),
    (frozenset({"training_data", "target_column_name"}), "automl"),
    (frozenset({"teacher_model_endpoint_connection", "student_model"}), "distillation"),
)
"""Keys of which any one tells the kind; the first row that fits counts."""


def kind_of(values: Mapping[str, Any]) -> str:
    """The kind's short name, one of `TITLES`; empty for a file of no known kind.

    Of jobs the type counts before the schema's address, as in Azure's client. Letter case does not, nor what is plainly a
    slip of the fingers: `check` says where it is wrong.
    """
    return _kind(values) or _kind(_as_meant(values))


def named_by_schema(values: Mapping[str, Any]) -> str:
    """The kind that the address in `$schema` names; empty without one, and for one of no known kind."""
    schema = str(values.get("$schema") or "").rpartition("/")[2].lower().replace("-", "").replace("_", "")
    return next((kind for part, kind in _SCHEMAS if part in schema), "") if schema else ""


def _kind(values: Mapping[str, Any]) -> str:
    named = named_by_schema(values)
    typed = _TYPES.get(str(values.get("type") or "").strip().lower(), "")
    shaped = _by_shape(values)
    if named in (*JOBS, "component") and not typed and _is_plain_command(values):
        return "command"
    if named == "component":
        return named
    if named not in ("", *JOBS) and not (typed in JOBS and shaped == typed):
        return named
    if typed in _RUNS and shaped == "component" and not named:
        return shaped
    if typed and not (typed == "command" and shaped in ("sweep", "pipeline")):
        return typed
    # A command job's address on a file that is plainly another kind is left over from the file it was copied from.
    if named == "command" and shaped == "component":
        return named
    return shaped or named if named in ("", "command") else named


def _is_plain_command(values: Mapping[str, Any]) -> bool:
    """Whether a file without a type is a command job, as Azure's client takes it, whatever its address says."""
    without = {key: value for key, value in values.items() if key != "$schema"}
    own = {"name", "version", "display_name", "is_deterministic"} & set(map(str, values))
    if _by_shape(without) != "command" or "command" not in values or "type" in values:
        return False
    if named_by_schema(values) != "component":
        return True
    # What a component declares has no values, and a component that no one names has still a type of its own.
    return not own and not any(
        isinstance(given, Mapping) and "path" not in given and "value" not in given
        for given in (values["inputs"].values() if isinstance(values.get("inputs"), Mapping) else ())
    )


_MEANT_KEYS = ("command", "environment", "trial", "search_space", "jobs", "type", "endpoint_name")
_SHORTEST_MISSPELT = 5
_MEANT_TYPES = ("command", "sweep", "pipeline", "amlcompute", "computeinstance", "virtualmachine", "synapsespark")


def _as_meant(values: Mapping[str, Any]) -> dict[str, Any]:
    """A file of no known kind with its telling keys, and its type, in the spelling that was probably meant."""
    meant: dict[str, Any] = {}
    for key, value in values.items():
        meant.setdefault(_near(str(key), _MEANT_KEYS) or str(key), value)
    if isinstance(word := meant.get("type"), str):
        meant["type"] = _near(word, _MEANT_TYPES) or word
    return meant


def _near(word: str, known: Collection[str]) -> str:
    """The known word of which this one is a misspelling; empty where that is not plain, as of a short word."""
    lower = word.strip().lower()[:40]
    if lower in known or len(lower) < _SHORTEST_MISSPELT:
        return lower if lower in known else ""
    return next(iter(difflib.get_close_matches(lower, known, 1, cutoff=0.8)), "")


def _by_shape(values: Mapping[str, Any]) -> str:
    keys = set(map(str, values))
    if (old := _by_old_shape(values, keys)) or "jobs" in keys:
        return old or ("component" if _is_component(values) else "pipeline")
    if found := next((kind for telling, kind in _SHAPES if keys & telling), ""):
        return found
    if "command" not in keys and "instance_type" in keys and keys & {"model", "environment", "instance_count"}:
        return "deployment"
    if str(values.get("type", "")).lower() == "kubernetes":
        return "compute"
    if "component" in keys and "command" not in keys:
        return "pipeline"
    if "command" in keys:
        return "component" if _is_component(values) else "command"
    if "dependencies" in keys and keys & {"channels", "name"}:
        return "conda"
    if keys & {"conda_file", "image", "build"} and "environment" not in keys:
        return "environment"
    if keys & {"code", "inputs", "environment"}:
        return "component" if _is_component(values) else "command"
    return ""


def _by_old_shape(values: Mapping[str, Any], keys: set[str]) -> str:
    """The kinds of Azure ML v1, whose keys are written in another way."""
    if keys & _V1_DEPLOYMENT:
        return "v1 deployment"
    if ("script" in keys and keys & _V1_RUN) or (keys & {"runConfig", "run_config"} and "command" not in keys):
        return "v1 run"
    if (
        len(keys & {"framework", "communicator", "nodeCount", "autoPrepareEnvironment", "history"}) > 1
        or keys & _V1_SWEEP
    ):
        return "v1 run"
    steps = values.get("pipeline")
    return "v1 pipeline" if isinstance(steps, Mapping) and "steps" in steps else ""


def _is_component(values: Mapping[str, Any]) -> bool:
    """Whether a file is a component: it has a name and a version of its own, and nothing that only a job has."""
    if "component" in str(values.get("$schema") or "").lower() or "is_deterministic" in values:
        return True
    return "version" in values and "name" in values and not {"compute", "experiment_name", "settings"} & set(values)
