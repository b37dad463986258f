"""What a job file says, from the JSON that the service keeps of a job: values in the file's own names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from footplate.azure.place import Place
from footplate.azure.reading import count, items, mapping, seconds, tags, text
from footplate.azure.runs import trial_parameters, trial_tags
from footplate.jobfile import writing
from footplate.jobfile.writing import Exact, Typed

_MODES = {
    "ReadOnlyMount": "ro_mount",
    "ReadWriteMount": "rw_mount",
    "Download": "download",
    "Upload": "upload",
    "Direct": "direct",
    "EvalMount": "eval_mount",
    "EvalDownload": "eval_download",
}
_SERVICES = {"JupyterLab": "jupyter_lab", "SSH": "ssh", "TensorBoard": "tensor_board", "VSCode": "vs_code"}
_SERVICE_VALUES = {"sshPublicKeys": "ssh_public_keys", "logDir": "log_dir"}
_PRIORITIES = {1: "low", 2: "medium", 3: "high"}
_IDENTITIES = {"Managed": "managed", "AMLToken": "aml_token", "UserIdentity": "user_identity"}
_SPACES = {
    "uniform": ("min_value", "max_value"),
    "loguniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "lognormal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "qlognormal": ("mu", "sigma", "q"),
    "randint": ("upper",),
    "choice": ("values",),
}
_DURATIONS = ("timeout", "trial_timeout")
_STEP_OWN = (
    *("name", "type", "componentId", "computeId", "inputs", "outputs"),
    *("limits", "distribution", "trial", "entry", "identity"),
)
"""Members of a step that are written in another form."""
_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class References:
    """Ids of the service as job files name them; `codes` tells whether one was of code."""

    def __init__(self, place: Place) -> None:
        self._start = f"{place.path}/".lower()
        self.codes = False

    def code(self, identity: Any) -> str:
        """Code by its whole id."""
        self.codes = self.codes or bool(identity)
        return self.whole(identity)

    def whole(self, identity: Any) -> str:
        """What the SDK takes by a whole id only: of a shorter one of code it makes a path (measured)."""
        given = text(identity)
        return f"azureml:{given.removeprefix('azureml:')}" if given else ""

    def asset(self, identity: Any) -> str:
        """An environment, data asset, component or compute; an address of data as it is."""
        given = text(identity)
        if not given or "://" in given or "${{" in given:
            return given
        bare = given.removeprefix("azureml:")
        if not bare.lower().startswith(self._start):
            return f"azureml:{bare}"
        pieces = bare.rstrip("/").split("/")
        return f"azureml:{pieces[-3]}:{pieces[-1]}" if pieces[-2] == "versions" else f"azureml:{pieces[-1]}"


def command(properties: Mapping[str, Any], refer: References, name: str) -> dict[str, Any]:
    """What a command job's file says below its description."""
    return {
        **_body(properties, refer),
        "inputs": _inputs(properties, refer),
        "outputs": _outputs(properties, name),
        "compute": refer.asset(properties.get("computeId")),
        "resources": _resources(properties.get("resources")),
        "limits": _limits(properties.get("limits")),
        **_settings(properties),
    }


def sweep(properties: Mapping[str, Any], refer: References, name: str) -> dict[str, Any]:
    """What a sweep's file says below its description."""
    trial = mapping(properties.get("trial"))
    algorithm = _snaked(properties.get("samplingAlgorithm"))
    kind = text(algorithm.pop("sampling_algorithm_type", "")).lower()
    if text(algorithm.get("rule")).lower() in ("", "random"):
        algorithm.pop("rule", None)
    else:
        algorithm["rule"] = text(algorithm["rule"]).lower()
    objective = mapping(properties.get("objective"))
    policy = _snaked(properties.get("earlyTermination"))
    ends = _lower(policy.pop("policy_type", ""))
    return {
        "trial": {**_body(trial, refer), "resources": _resources(trial.get("resources"))},
        "inputs": _inputs(properties, refer),
        "outputs": _outputs(properties, name),
        "search_space": {
            parameter: _space(given) for parameter, given in mapping(properties.get("searchSpace")).items()
        },
        "sampling_algorithm": {"type": kind, **algorithm} if algorithm else kind,
        "objective": {
            "goal": text(objective.get("goal")).lower(),
            "primary_metric": text(objective.get("primaryMetric")),
        },
        "early_termination": {"type": ends, **{key: value for key, value in policy.items() if value}} if ends else {},
        "compute": refer.asset(properties.get("computeId")),
        "resources": _resources(properties.get("resources")),
        "limits": _limits(properties.get("limits")),
        **_settings(properties),
    }


def pipeline(properties: Mapping[str, Any], refer: References, name: str) -> dict[str, Any]:
    """What a pipeline's file says below its description."""
    settings = {key: value for key, value in mapping(properties.get("settings")).items() if not key.startswith("_")}
    for key in ("default_compute", "default_datastore"):
        if given := text(settings.get(key)):
            settings[key] = refer.asset(given)
    return {
        "component": "" if mapping(properties.get("jobs")) else refer.whole(properties.get("componentId")),
        "compute": refer.asset(properties.get("computeId")),
        "settings": {key: value for key, value in settings.items() if value is not None},
        "inputs": _inputs(properties, refer),
        "outputs": _outputs(properties, name),
        "jobs": {step: _step(mapping(given), refer, name) for step, given in mapping(properties.get("jobs")).items()},
    }


def _step(given: Mapping[str, Any], refer: References, name: str) -> dict[str, Any]:
    """A step, whose members the service keeps in the names of the file: its component is what it runs."""
    kind = text(given.get("type")) or "command"
    own = {key: _present(value) for key, value in given.items() if key not in _STEP_OWN and not key.startswith("_")}
    if "mini_batch_size" in own:
        own["mini_batch_size"] = text(own["mini_batch_size"])
    if isinstance(keys := own.get("partition_keys"), str):
        own["partition_keys"] = json.loads(keys)
    entry = {key: value for key, value in mapping(given.get("entry")).items() if key != "spark_job_entry_type"}
    distribution = dict(mapping(given.get("distribution")))
    if word := _lower(distribution.pop("distribution_type", "")):
        distribution = {"type": word.replace("_", ""), **_present(distribution)}
    limits = {key: value for key, value in mapping(given.get("limits")).items() if key != "job_limits_type"}
    identity = mapping(given.get("identity"))
    word = _IDENTITIES.get(text(identity.get("identity_type")), text(identity.get("type")))
    return {
        "type": kind,
        "trial" if kind == "sweep" else "component": refer.asset(
            mapping(given.get("trial")).get("componentId") or given.get("trial") or given.get("componentId")
        ),
        "compute": refer.asset(given.get("computeId")),
        "inputs": {key: _step_end(mapping(value), refer) for key, value in mapping(given.get("inputs")).items()},
        "outputs": {
            key: _step_end(mapping(value), refer, name) for key, value in mapping(given.get("outputs")).items()
        },
        "distribution": distribution,
        "entry": entry,
        "limits": {key: _whole_seconds(key, value) for key, value in _present(limits).items()},
        "identity": {**{key: value for key, value in identity.items() if key != "identity_type"}, "type": word}
        if word
        else {},
        **own,
    }


def _step_end(given: Mapping[str, Any], refer: References, job: str = "") -> Any:
    """An input or, with the job's name, an output of a step: a value or binding alone, or with how it is mounted."""
    kind = text(given.get("job_input_type") or given.get("job_output_type") or given.get("type"))
    mode, value = _MODES.get(text(given.get("mode")), text(given.get("mode")).lower()), text(given.get("value"))
    named = {"mode": mode, "name": text(given.get("name") or given.get("asset_name"))}
    if kind == "literal" and not any(named.values()):
        return _literal(value)
    if kind == "literal":
        return {"path": value, **named}
    uri = text(given.get("uri"))
    path = "" if job and job in re.split(r"[/.]", uri) else refer.asset(uri)
    return {"type": kind, "path": path, **named}


def _body(given: Mapping[str, Any], refer: References) -> dict[str, Any]:
    """What a command job has at its top, and a sweep below `trial`."""
    distribution = _snaked(given.get("distribution"))
    kind = _lower(distribution.pop("distribution_type", "")).replace("_", "")
    return {
        "command": text(given.get("command")),
        "code": refer.code(given.get("codeId")),
        "environment": refer.asset(given.get("environmentId")),
        "environment_variables": texts(mapping(given.get("environmentVariables"))),
        "distribution": {"type": kind, **distribution} if kind else {},
    }


def texts(given: Mapping[str, Any]) -> dict[str, Exact]:
    """Values that are text, and stay when they are empty."""
    return {key: Exact(text(value)) for key, value in given.items()}


def job_tags(name: str, properties: Mapping[str, Any], kind: str) -> Mapping[str, str]:
    """The user's tags: without those of a sweep for its trials, and those that a trial's values are held in."""
    raw = mapping(properties.get("tags"))
    if kind == "sweep":
        return {
            tag: value
            for tag, value in tags(raw).items()
            if not re.match(rf"{re.escape(name)}_(\d+|preparation)\Z", tag)
        }
    return trial_tags(raw, trial_parameters(raw))


def _inputs(properties: Mapping[str, Any], refer: References) -> dict[str, Any]:
    return {name: _input(mapping(given), refer) for name, given in mapping(properties.get("inputs")).items()}


def _input(given: Mapping[str, Any], refer: References) -> Any:
    kind = text(given.get("jobInputType"))
    if kind == "literal":
        return _literal(text(given.get("value")))
    return {
        "type": kind,
        "path": refer.asset(given.get("uri")),
        "mode": _MODES.get(text(given.get("mode")), ""),
        "path_on_compute": text(given.get("pathOnCompute")),
    }


def _literal(value: str) -> Any:
    """A value as one types it, where the SDK sends it again as it is."""
    try:
        found = writing.plain(value)
    except ValueError:
        return Exact(value)
    known = isinstance(found, bool | int | float) and str(found) == value
    return Typed(value) if known else Exact(value)


def _outputs(properties: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The named outputs. A path with the job's own name is the service's choice, where another job must not write."""
    found: dict[str, Any] = {}
    for key, value in mapping(properties.get("outputs")).items():
        given = mapping(value)
        if key == "default":
            continue
        uri = text(given.get("uri"))
        found[key] = {
            "type": text(given.get("jobOutputType")) or "uri_folder",
            "mode": _MODES.get(text(given.get("mode")), ""),
            "path": "" if name in re.split(r"[/.]", uri) else uri,
            "name": text(given.get("assetName")),
        }
    return found


def _resources(value: Any) -> dict[str, Any]:
    found = _snaked(value)
    if listed := found.pop("docker_args_list", None):
        found["docker_args"] = listed
    return {key: item for key, item in found.items() if item not in ({}, [])}


def _limits(value: Any) -> dict[str, Any]:
    return {key: _whole_seconds(key, item) for key, item in _snaked(value).items() if key != "job_limits_type"}


def _whole_seconds(key: str, value: Any) -> Any:
    return seconds(value) if key in _DURATIONS and isinstance(value, str) else value


def _settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Queue, services and identity."""
    queue = mapping(properties.get("queueSettings"))
    tier = text(queue.get("jobTier"))
    identity = mapping(properties.get("identity"))
    word = _IDENTITIES.get(text(identity.get("identityType")), "")
    own = {key: value for key, value in _snaked(identity).items() if key != "identity_type"}
    return {
        "queue_settings": {
            "job_tier": tier.lower() if tier not in ("", "Null") else "",
            "priority": _PRIORITIES.get(count(queue.get("priority")), ""),
        },
        "services": {
            key: service
            for key, given in mapping(properties.get("services")).items()
            if (service := _service(mapping(given)))
        },
        "identity": {"type": word, **own} if word else {},
    }


def _service(given: Mapping[str, Any]) -> dict[str, Any]:
    kind = _SERVICES.get(text(given.get("jobServiceType")), "")
    if not kind:
        return {}
    values = mapping(given.get("properties"))
    nodes_of = text(mapping(given.get("nodes")).get("nodesValueType")).lower()
    known = {_SERVICE_VALUES[key]: text(value) for key, value in values.items() if key in _SERVICE_VALUES}
    return {"type": kind, "port": given.get("port"), "nodes": nodes_of, **known}


def _space(value: Any) -> Any:
    """A search space of `["uniform", [0.1, 0.9]]`."""
    given = items(value)
    kind = text(given[0]).lower() if given else ""
    return {"type": kind, **dict(zip(_SPACES.get(kind, ()), items(given[1]) if len(given) > 1 else (), strict=False))}


def _snaked(value: Any) -> dict[str, Any]:
    """The members that are there, in the names of the file."""
    return {_lower(key): item for key, item in mapping(value).items() if item is not None}


def _lower(name: Any) -> str:
    return _UPPER.sub("_", text(name)).lower()


def _present(value: Any) -> Any:
    """The same without what is null."""
    if isinstance(value, Mapping):
        return {key: _present(item) for key, item in value.items() if item is not None}
    return value
