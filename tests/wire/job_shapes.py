"""The bodies of jobs, as the service answers: every member there, null where nothing is."""

from __future__ import annotations

import copy
import json
import uuid

from tests.wire.state import Body, State

_COMMON_RESOURCES: Body = {
    "instanceCount": 1,
    "maxInstanceCount": None,
    "instanceType": None,
    "locations": None,
    "properties": None,
    "shmSize": "2g",
    "dockerArgs": None,
}


def _with_nulls(shape: Body, given: Body | None) -> Body:
    """A shape filled with what is given; null leaves the shape's own value."""
    return shape | {key: value for key, value in (given or {}).items() if value is not None}


def _input(given: Body) -> Body:
    if given.get("jobInputType") == "literal":
        return {"description": None, "value": given["value"], "jobInputType": "literal"}
    shape = {"description": None, "uri": None, "mode": "ReadOnlyMount", "pathOnCompute": None, "jobInputType": None}
    return _with_nulls(shape, given)


def _output(given: Body) -> Body:
    shape = {
        "description": None,
        "uri": None,
        "assetName": None,
        "assetVersion": None,
        "mode": "ReadWriteMount",
        "pathOnCompute": None,
        "autoDeleteSetting": None,
        "jobOutputType": None,
    }
    return _with_nulls(shape, given)


def service(kind: str, endpoint: str) -> Body:
    """An entry of a job's services."""
    rest = ("status", "errorMessage", "properties", "nodes")
    return {"jobServiceType": kind, "port": None, "endpoint": endpoint, **dict.fromkeys(rest)}


def job_body(state: State, name: str, asked: Body, api_host: str, studio: str) -> Body:
    """A job as GET of 2024-01-01-preview answers, made of what was put; its status is Starting (of a sweep: Running)."""
    given = asked["properties"]
    kind = {"command": "Command", "sweep": "Sweep", "pipeline": "Pipeline"}.get(
        given["jobType"].lower(), given["jobType"]
    )
    cluster = str(given.get("computeId") or "").rsplit("/", 1)[-1] or None
    group, workspace = state.resource_group, state.workspace_name
    place = f"/subscriptions/{state.subscription_id}/resourcegroups/{group}/workspaces/{workspace}"
    services = {"Studio": service("Studio", f"{studio}/runs/{name}?wsid={place}")}
    if kind != "Sweep":
        tracking = f"azureml://{api_host}/mlflow/v1.0{state.ws}?"
        services = {"Tracking": service("Tracking", tracking), **services}
    for key, value in (given.get("services") or {}).items():
        services[key] = service(str(value.get("jobServiceType")), "") | value
    properties: Body = dict(given.get("properties") or {})
    if kind == "Command":
        properties |= {"_azureml.ComputeTargetType": "amlctrain", "_azureml.ClusterName": cluster}
    inner: Body = {
        "description": given.get("description"),
        "tags": dict(given.get("tags") or {}),
        "properties": properties,
        "displayName": given.get("displayName") or name,
        "status": {"Sweep": "Running", "Pipeline": "Preparing"}.get(kind, "Starting"),
        "experimentName": given.get("experimentName") or "Default",
        "services": services,
        "computeId": given.get("computeId"),
        "isArchived": bool(given.get("isArchived")),
        "identity": given.get("identity"),
        "componentId": given.get("componentId"),
        "notificationSetting": given.get("notificationSetting"),
        "secretsConfiguration": None,
        "jobType": kind,
    }
    outputs = {key: _output(value or {}) for key, value in (given.get("outputs") or {}).items()}
    store = f"azureml://datastores/workspaceartifactstore/ExperimentRun/dcid.{name}"
    for key, value in outputs.items():
        if value["uri"] is None:
            value["uri"] = f"azureml://datastores/workspaceblobstore/paths/azureml/{name}/{key}/"
    if kind != "Pipeline":
        outputs["default"] = _output({"uri": store, "jobOutputType": "uri_folder"})
    inputs = {key: _input(value) for key, value in (given.get("inputs") or {}).items() if value is not None}
    if kind == "Command":
        inner |= {
            "resources": _with_nulls(_COMMON_RESOURCES, given.get("resources")),
            "codeId": given.get("codeId"),
            "command": given["command"],
            "environmentId": given["environmentId"],
            "inputs": inputs,
            "outputs": outputs,
            "distribution": given.get("distribution"),
            "autologgerSettings": None,
            "limits": given.get("limits"),
            "environmentVariables": dict(given.get("environmentVariables") or {}),
            "parameters": {},
            "queueSettings": _with_nulls({"jobTier": "Null", "priority": None}, given.get("queueSettings")),
        }
    elif kind == "Sweep":
        inner |= _sweep(state, given) | {"inputs": inputs, "outputs": outputs, "componentConfiguration": None}
    elif kind == "Pipeline":
        inner |= {
            "settings": given.get("settings") or {},
            "jobs": given.get("jobs") or {},
            "inputs": inputs,
            "outputs": outputs,
            "sourceJobId": given.get("sourceJobId"),
        }
    else:
        inner |= {key: value for key, value in given.items() if key not in inner}
    return {
        "id": f"{state.ws}/jobs/{name}",
        "name": name,
        "type": "Microsoft.MachineLearningServices/workspaces/jobs",
        "properties": inner,
        "systemData": state.system_data(),
    }


def _sweep(state: State, given: Body) -> Body:
    algorithm = given["samplingAlgorithm"]
    kind = str(algorithm.get("samplingAlgorithmType"))
    sampling: Body = {"samplingAlgorithmType": kind}
    if kind.lower() == "random":
        sampling = _with_nulls(sampling | {"seed": None, "logbase": None, "rule": "Random"}, algorithm)
    objective = given["objective"]
    trial: Body = {
        "codeId": None,
        "command": None,
        "environmentId": None,
        "environmentVariables": {},
        "distribution": None,
    } | {key: value for key, value in given["trial"].items() if value is not None}
    trial["environmentId"] = environment_id(state, trial["environmentId"])
    trial["resources"] = _with_nulls(_COMMON_RESOURCES, given["trial"].get("resources"))
    limits = {
        "timeout": None,
        "jobLimitsType": "Sweep",
        "maxTotalTrials": None,
        "maxConcurrentTrials": None,
        "trialTimeout": None,
    }
    return {
        "searchSpace": given["searchSpace"],
        "samplingAlgorithm": sampling,
        "limits": _with_nulls(limits, given.get("limits")),
        "earlyTermination": given.get("earlyTermination"),
        "objective": {
            "primaryMetric": objective["primaryMetric"],
            "goal": str(objective["goal"]).capitalize(),
        },
        "trial": trial,
        "queueSettings": _with_nulls({"jobTier": "Null", "priority": None}, given.get("queueSettings")),
        "resources": _with_nulls(_COMMON_RESOURCES, given.get("resources") or given["trial"].get("resources")),
    }


def environment_id(state: State, reference: str) -> str:
    """A short `azureml:name:version` as the workspace's id of it; anything else as it is."""
    parts = reference.split(":")
    if parts[0] == "azureml" and len(parts) == 3 and not parts[1].startswith("//"):
        return f"{state.ws}/environments/{parts[1]}/versions/{parts[2]}"
    return reference


def sweep_tags(state: State, body: Body) -> Body:
    """The system's own tags on a sweep, five kilobytes of them."""
    inner = body["properties"]
    limits = inner["limits"]
    rule = str(inner["samplingAlgorithm"].get("samplingAlgorithmType", "Random")).upper()
    metric = {"name": inner["objective"]["primaryMetric"], "goal": inner["objective"]["goal"].lower()}
    generator = {
        "name": rule,
        "parameter_space": inner["searchSpace"],
        "properties": {"rule": "Random", "logbase": None, "seed": None},
    }
    platform = {"Definition": inner["trial"], "Dockerfile": "FROM scratch\n" * 300}
    return {
        "_aml_system_max_concurrent_jobs": str(limits["maxConcurrentTrials"] or 1),
        "_aml_system_max_total_jobs": str(limits["maxTotalTrials"] or 1),
        "_aml_system_max_duration_minutes": "10080",
        "_aml_system_policy_config": json.dumps({"name": "Default", "properties": {}}, separators=(",", ":")),
        "_aml_system_generator_config": json.dumps(generator, separators=(",", ":")),
        "_aml_system_primary_metric_config": json.dumps(metric, separators=(",", ":")),
        "_aml_system_platform_config": json.dumps(platform, separators=(",", ":")),
        "_aml_system_resume_child_runs": "null",
        "_aml_system_all_jobs_generated": "false",
        "_aml_system_cancellation_requested": "false",
        "_aml_system_samples_generated_count": "0",
    }


def sweep_properties(body: Body) -> Body:
    """The properties of a sweep when it starts."""
    inner = body["properties"]
    metric = {"name": inner["objective"]["primaryMetric"], "goal": inner["objective"]["goal"].lower()}
    return {
        "primary_metric_config": json.dumps(metric, separators=(",", ":")),
        "resume_from": "null",
        "runTemplate": "HyperDrive",
        "azureml.runsource": "hyperdrive",
        "platform": "AML",
        "ContentSnapshotId": str(uuid.uuid5(uuid.NAMESPACE_URL, body["id"])),
        "user_agent": "managementfrontend/dd4b8b3d62d7e876c70157fae876a42af9fa8081",
    }


_OLD_ONLY = {
    "properties": ("secretsConfiguration", "autologgerSettings"),
    "resources": ("maxInstanceCount", "locations"),
    "inputs": ("pathOnCompute",),
    "outputs": ("assetVersion", "pathOnCompute", "autoDeleteSetting"),
    "queueSettings": ("priority",),
}


def view(body: Body, api_version: str) -> Body:
    """A job as an API version shows it: from 2025 on some members are gone, and others are there."""
    if api_version < "2025":
        return body
    made = copy.deepcopy(body)
    inner = made["properties"]
    for key in _OLD_ONLY["properties"]:
        inner.pop(key, None)
    inner["parentJobName"] = None
    for member in ("resources", "queueSettings"):
        for key in _OLD_ONLY[member]:
            (inner.get(member) or {}).pop(key, None)
    if inner.get("resources"):
        inner["resources"].setdefault("dockerArgsList", None)
    for member in ("inputs", "outputs"):
        for item in (inner.get(member) or {}).values():
            for key in _OLD_ONLY[member]:
                item.pop(key, None)
    return made
