"""What a command or sweep job means, in one form: as footplate reads it, and as Azure's client sends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from footplate.jobfile.document import JobFile
from footplate.jobfile.search_space import rest_form

_MODES = {
    "": "",
    "ro_mount": "ReadOnlyMount",
    "rw_mount": "ReadWriteMount",
    "mount": "ReadWriteMount",
    "download": "Download",
    "upload": "Upload",
    "direct": "Direct",
    "eval_mount": "EvalMount",
    "eval_download": "EvalDownload",
}
_SERVICES = {"ssh": "SSH", "tensor_board": "TensorBoard", "vs_code": "VSCode", "jupyter_lab": "JupyterLab"}
_PRIORITIES = {"low": 1, "medium": 2, "high": 3}
_RESOURCES = ("instance_type", "shm_size", "docker_args", "properties")
_BODY = ("command", "code", "environment", "variables", "distribution", "nodes", "ranks", "resources")


def meaning(job_file: JobFile) -> dict[str, Any]:
    """What footplate reads in a job file."""
    found: dict[str, Any] = {
        "type": job_file.kind,
        "name": job_file.name,
        "display_name": job_file.display_name,
        "experiment": job_file.text_at("experiment_name"),
        "description": job_file.description,
        "tags": dict(job_file.tags),
        "compute": job_file.compute,
        "command": job_file.command,
        "code": job_file.text_at(*job_file.body, "code"),
        "environment": _asset(job_file.environment),
        "variables": dict(job_file.environment_variables),
        "distribution": job_file.distribution,
        "nodes": job_file.nodes,
        "ranks": job_file.ranks_per_node,
        "resources": {
            key: job_file.get(*job_file.body, "resources", key)
            for key in _RESOURCES
            if job_file.get(*job_file.body, "resources", key)
        },
        "timeout": job_file.timeout_s,
        "inputs": {
            given.name: (given.type, _asset(given.path), _MODES[given.mode]) if given.literal is None else given.literal
            for given in job_file.inputs.values()
        },
        "outputs": {
            given.name: (given.type, _asset(given.path), _MODES[given.mode]) for given in job_file.outputs.values()
        },
        "services": {name: _service(given) for name, given in job_file.mapping("services").items()},
        "identity": _word(job_file.text_at("identity", "type")).replace("managedidentity", "managed"),
        "queue": (
            job_file.text_at("queue_settings", "job_tier").lower(),
            _PRIORITIES.get(job_file.text_at("queue_settings", "priority").lower()),
        ),
    }
    if job_file.kind == "sweep":
        algorithm = job_file.get("sampling_algorithm")
        found |= {
            "space": {name: rest_form(given) for name, given in job_file.mapping("search_space").items()},
            "sampling": _lowered(algorithm if isinstance(algorithm, Mapping) else {"type": algorithm}),
            "objective": _lowered(job_file.mapping("objective")),
            "limits": {key: job_file.whole("limits", key) for key in job_file.mapping("limits")},
            "policy": _policy(job_file.mapping("early_termination")),
        }
    return found


def sent_meaning(sent: Mapping[str, Any]) -> dict[str, Any]:
    """What Azure's client sends, in the same form."""
    kind = sent["jobType"].lower()
    body = sent["trial"] if kind == "sweep" else sent
    distribution = body.get("distribution") or {}
    resources = {_snake(key): value for key, value in (body.get("resources") or {}).items() if value}
    if docker := resources.pop("docker_args_list", None):
        resources["docker_args"] = docker
    local = (resources.get("properties") or {}).pop("IsLocal", None)
    resources = {key: value for key, value in resources.items() if value}
    environment = body["environmentId"]
    queue = sent.get("queueSettings") or {}
    limits = {_snake(k): _number(v) for k, v in (sent.get("limits") or {}).items() if k != "jobLimitsType"}
    found: dict[str, Any] = {
        "type": kind,
        "name": sent["name"],
        "display_name": sent.get("displayName") or "",
        "experiment": sent.get("experimentName") or "",
        "description": sent.get("description") or "",
        "tags": {name: str(value) for name, value in (sent.get("tags") or {}).items()},
        "compute": "local" if local else sent.get("computeId") or "",
        "command": body["command"],
        "code": str(body.get("codeId") or ""),
        "environment": _asset(environment) if isinstance(environment, str) else _inline(environment),
        "variables": {
            name: "" if value is None else str(value)
            for name, value in (body.get("environmentVariables") or {}).items()
        },
        "distribution": (distribution.get("distributionType") or "").lower(),
        "nodes": resources.pop("instance_count", 1),
        "ranks": distribution.get("processCountPerInstance", 1),
        "resources": resources,
        "timeout": limits.get("timeout"),
        "inputs": {name: _sent_data(given, "Input") for name, given in (sent.get("inputs") or {}).items()},
        "outputs": {name: _sent_data(given, "Output") for name, given in (sent.get("outputs") or {}).items()},
        "services": {name: _sent_service(given) for name, given in (sent.get("services") or {}).items()},
        "identity": _word((sent.get("identity") or {}).get("identityType", "")),
        "queue": ((queue.get("jobTier") or "").lower(), queue.get("priority")),
    }
    if kind == "sweep":
        sampling = {_snake(key): value for key, value in (sent.get("samplingAlgorithm") or {}).items()}
        sampling["type"] = sampling.pop("sampling_algorithm_type", None)
        found |= {
            "space": sent["searchSpace"],
            "sampling": _lowered({key: value for key, value in sampling.items() if value is not None}),
            "objective": _lowered({_snake(key): value for key, value in sent["objective"].items()}),
            "limits": limits,
            "policy": _policy({_snake(key): value for key, value in (sent.get("earlyTermination") or {}).items()}),
        }
    return found


def _asset(path: str | None) -> str:
    return (path or "").removeprefix("azureml:")


def _word(text: str) -> str:
    return text.replace("_", "").lower()


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def _lowered(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values with their words in lower case, but for the metric, whose name is the user's own."""
    return {
        key: value.lower() if isinstance(value, str) and key != "primary_metric" else value
        for key, value in given.items()
    }


def _policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """A policy without what is zero: the client sends a 0 for what the file does not say, but a median's interval of 1."""
    kind = _word(str(given.get("policy_type") or given.get("type") or ""))
    numbers = {
        key: float(value) for key, value in given.items() if key not in ("type", "policy_type") and value is not None
    }
    default = 1.0 if kind == "medianstopping" else 0.0
    if kind:
        numbers.setdefault("evaluation_interval", default)
    return {"type": kind, **{key: value for key, value in numbers.items() if value}}


def _service(given: Mapping[str, Any]) -> dict[str, Any]:
    more = {
        "sshPublicKeys": given.get("ssh_public_keys"),
        "logDir": given.get("log_dir"),
        **(given.get("properties") or {}),
    }
    return {
        "type": _SERVICES[given["type"].lower()],
        "port": given.get("port"),
        "nodes": given.get("nodes"),
        "properties": {key: value for key, value in more.items() if value is not None},
    }


def _sent_service(given: Mapping[str, Any]) -> dict[str, Any]:
    nodes = (given.get("nodes") or {}).get("nodesValueType")
    return {
        "type": given["jobServiceType"],
        "port": given.get("port"),
        "nodes": nodes.lower() if nodes else None,
        "properties": given.get("properties") or {},
    }


def _sent_data(given: Mapping[str, Any], end: str) -> Any:
    kind = given[f"job{end}Type"]
    if kind == "literal":
        return given["value"]
    mode = given.get("mode") or ("ReadWriteMount" if end == "Output" else "")
    return kind, _asset(given.get("uri")), mode


def _inline(environment: Any) -> str:
    """An inline environment as footplate names it; the client sends it as an object that it registers first."""
    image = getattr(environment, "image", None)
    return f"image {image}" if image else "inline environment"


def _number(value: Any) -> Any:
    """A count, or the seconds of an ISO 8601 duration."""
    if not isinstance(value, str):
        return value
    parts = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", value)
    assert parts, value
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
