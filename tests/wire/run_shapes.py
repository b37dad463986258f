"""The bodies of runs, as run history answers."""

from __future__ import annotations

import uuid
from typing import Any

from tests.wire.state import Body, State, new_id


def run_body(state: State, name: str, job: Body, parent: str | None = None) -> Body:
    """A run as run history keeps it."""
    inner = job["properties"]
    kinds = {"Command": "azureml.scriptrun", "Sweep": "hyperdrive", "Pipeline": "azureml.PipelineRun"}
    traits = {"Command": ["script"], "Sweep": ["hyperdrive"], "Pipeline": ["azureml.PipelineRun"]}
    number = len(state.runs) + 1
    target = str(inner.get("computeId") or "").rsplit("/", 1)[-1] or "Serverless"
    author = {
        "userObjectId": "00000000-0000-0000-0000-00000000000a",
        "userPuId": None,
        "userIdp": None,
        "userAltSecId": None,
        "userIss": "https://sts.windows.net/00000000-0000-0000-0000-0000000000aa/",
        "userTenantId": "00000000-0000-0000-0000-0000000000aa",
        "userName": state.author,
        "upn": None,
    }
    empty: tuple[str, ...] = (
        "token",
        "tokenExpiryTimeUtc",
        "error",
        "warnings",
        "parentRunUuid",
        "lastStartTimeUtc",
        "effectiveStartTimeUtc",
        "startTimeUtc",
        "endTimeUtc",
        "duration",
        "cancelationReason",
        "scheduleId",
        "actionUris",
        "scriptName",
        "settings",
        "runDefinition",
        "jobSpecification",
        "primaryMetricName",
        "createdFrom",
        "cancelUri",
        "completeUri",
        "diagnosticsUri",
        "compute",
        "queueingInfo",
    )
    guid = new_id()
    run: Body = dict.fromkeys(empty)
    run |= {
        "runNumber": number,
        "rootRunId": parent or name,
        "createdUtc": job["systemData"]["createdAt"],
        "createdBy": author,
        "userId": author["userObjectId"],
        "revision": 1,
        "statusRevision": 0,
        "runUuid": guid,
        "rootRunUuid": guid,
        "hasVirtualParent": False,
        "currentComputeTime": "00:00:00",
        "computeDuration": None,
        "lastModifiedBy": author,
        "lastModifiedUtc": job["systemData"]["createdAt"],
        "currentAttemptId": 1,
        "runId": name,
        "parentRunId": parent,
        "experimentId": str(uuid.uuid5(uuid.NAMESPACE_URL, inner["experimentName"])),
        "status": inner["status"],
        "displayName": inner["displayName"],
        "name": None,
        "dataContainerId": f"dcid.{name}",
        "description": inner["description"],
        "hidden": inner["isArchived"],
        "runType": kinds.get(inner["jobType"], "azureml.scriptrun"),
        "runTypeV2": {
            "orchestrator": None,
            "traits": traits.get(inner["jobType"], []),
            "attribution": None,
            "computeType": None,
        },
        "properties": inner["properties"],
        "parameters": {},
        "target": target,
        "uniqueChildRunComputeTargets": [],
        "tags": inner["tags"],
        "services": {},
        "inputDatasets": [],
        "outputDatasets": [],
        "computeRequest": {"nodeCount": (inner.get("resources") or {}).get("instanceCount", 1), "gpuCount": 0},
        "retainForLifetimeOfWorkspace": False,
        "inputs": None,
        "outputs": None,
    }
    return run


def run_error(state: State, message: str) -> Body:
    """The error of a failed run."""
    error: dict[str, Any] = {
        "code": "UserError",
        "severity": None,
        "message": message,
        "messageFormat": "{Message}",
        "messageParameters": {"Message": message},
        "referenceCode": "Process terminated.",
        "detailsUri": None,
        "target": None,
        "details": [],
        "innerError": {"code": "BadArgument", "innerError": {"code": "ExecutionFailed", "innerError": None}},
        "debugInfo": None,
        "additionalInfo": None,
    }
    return {
        "error": error,
        "correlation": {"operation": "9518a5120e841c6a36af896acafd0355", "request": "2632b07b9427daef"},
        "environment": state.location,
        "location": state.location,
        "time": state.stamp(),
        "componentName": "CommonRuntime",
    }
