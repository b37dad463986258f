"""The members that bodies may have: what the service does not know, it refuses by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.wire import errors

ANY = object()
"""Whatever is in it, it is taken."""


@dataclass(frozen=True)
class Shape:
    """An object's members; `each` is the shape of all values of a free dictionary."""

    name: str
    members: Mapping[str, Any] = field(default_factory=dict)
    each: Any = None
    """Shape of every value, where the names are free."""
    by: str = ""
    """The member whose value chooses the shape out of `kinds`."""
    kinds: Mapping[str, Shape] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def _shape(name: str, words: str, needs: tuple[str, ...] = (), **inner: Any) -> Shape:
    return Shape(name, {**dict.fromkeys(words.split(), ANY), **inner}, needs=needs)


_LITERAL = _shape("LiteralJobInput", "description jobInputType value", ("value",))
_URI_INPUTS = {
    f"{kind}": _shape(name, "description jobInputType mode uri pathOnCompute", ("uri",))
    for kind, name in {
        "uri_folder": "UriFolderJobInput",
        "uri_file": "UriFileJobInput",
        "mltable": "MLTableJobInput",
        "mlflow_model": "MLFlowModelJobInput",
        "custom_model": "CustomModelJobInput",
        "triton_model": "TritonModelJobInput",
    }.items()
}
_INPUT = Shape("JobInput", by="jobInputType", kinds={"literal": _LITERAL, **_URI_INPUTS})


def _output(words: str) -> Shape:
    names = {
        "uri_folder": "UriFolderJobOutput",
        "uri_file": "UriFileJobOutput",
        "mltable": "MLTableJobOutput",
        "mlflow_model": "MLFlowModelJobOutput",
        "custom_model": "CustomModelJobOutput",
        "triton_model": "TritonModelJobOutput",
    }
    return Shape("JobOutput", by="jobOutputType", kinds={kind: _shape(name, words) for kind, name in names.items()})


# 2025-01-01-preview does not know assetVersion (recorded); the preview of 2024 does.
_OUTPUT_NEW = _output("description jobOutputType assetName mode uri")
_OUTPUT_OLD = _output("description jobOutputType assetName assetVersion mode uri pathOnCompute autoDeleteSetting")
_DISTRIBUTION = Shape(
    "DistributionConfiguration",
    by="distributionType",
    kinds={
        "PyTorch": _shape("PyTorch", "distributionType processCountPerInstance"),
        "Mpi": _shape("Mpi", "distributionType processCountPerInstance"),
        "TensorFlow": _shape("TensorFlow", "distributionType parameterServerCount workerCount"),
        "Ray": _shape(
            "Ray",
            "distributionType port address includeDashboard dashboardPort headNodeAdditionalArgs "
            "workerNodeAdditionalArgs",
        ),
    },
)
_RESOURCES = _shape(
    "JobResourceConfiguration",
    "instanceCount instanceType maxInstanceCount locations properties shmSize dockerArgs dockerArgsList",
)
_QUEUE = _shape("QueueSettings", "jobTier priority")
_TRIAL = _shape(
    "TrialComponent",
    "codeId command environmentId environmentVariables",
    ("command", "environmentId"),
    distribution=_DISTRIBUTION,
    resources=_RESOURCES,
)
_BASE = (
    "description tags properties computeId componentId displayName experimentName identity isArchived jobType services "
    "status notificationSetting secretsConfiguration parentJobName"
)
_COMMAND_LIMITS = _shape("CommandJobLimits", "jobLimitsType timeout")
_SWEEP_LIMITS = _shape("SweepJobLimits", "jobLimitsType timeout maxConcurrentTrials maxTotalTrials trialTimeout")


def _job(output: Shape) -> Shape:
    inputs, outputs = Shape("inputs", each=_INPUT), Shape("outputs", each=output)
    return Shape(
        "JobBaseProperties",
        by="jobType",
        kinds={
            "Command": _shape(
                "CommandJob",
                f"{_BASE} codeId command environmentId environmentVariables parameters autologgerSettings",
                ("command", "environmentId"),
                inputs=inputs,
                outputs=outputs,
                limits=_COMMAND_LIMITS,
                distribution=_DISTRIBUTION,
                resources=_RESOURCES,
                queueSettings=_QUEUE,
            ),
            "Sweep": _shape(
                "SweepJob",
                f"{_BASE} earlyTermination samplingAlgorithm searchSpace componentConfiguration",
                ("objective", "samplingAlgorithm", "searchSpace", "trial"),
                inputs=inputs,
                outputs=outputs,
                limits=_SWEEP_LIMITS,
                objective=_shape("Objective", "goal primaryMetric", ("goal", "primaryMetric")),
                trial=_TRIAL,
                queueSettings=_QUEUE,
                resources=_RESOURCES,
            ),
            "Pipeline": _shape("PipelineJob", f"{_BASE} jobs settings sourceJobId", inputs=inputs, outputs=outputs),
            "AutoML": Shape("AutoMLJob", each=ANY),
            "Spark": Shape("SparkJob", each=ANY),
        },
    )


JOB_2025 = _shape("JobBaseResource", "id name type systemData", ("properties",), properties=_job(_OUTPUT_NEW))
JOB_2024 = _shape("JobBaseResource", "id name type systemData", ("properties",), properties=_job(_OUTPUT_OLD))

AML_COMPUTE = _shape(
    "ComputeResource",
    "id name type location tags sku identity systemData",
    ("properties",),
    properties=_shape(
        "AmlCompute",
        "computeType computeLocation description resourceId disableLocalAuth provisioningState createdOn modifiedOn "
        "provisioningErrors isAttachedCompute",
        ("computeType",),
        properties=_shape(
            "AmlComputeProperties",
            "osType vmSize vmPriority virtualMachineImage isolatedNetwork userAccountCredentials subnet "
            "remoteLoginPortPublicAccess enableNodePublicIp propertyBag allocationState allocationStateTransitionTime "
            "errors currentNodeCount targetNodeCount nodeStateCounts",
            scaleSettings=_shape("ScaleSettings", "maxNodeCount minNodeCount nodeIdleTimeBeforeScaleDown"),
        ),
    ),
)

_TRACKED = "id name type location tags kind sku identity systemData"
ENDPOINT = _shape(
    "OnlineEndpoint",
    _TRACKED,
    ("location", "properties"),
    properties=_shape(
        "OnlineEndpointProperties",
        "authMode description keys properties scoringUri swaggerUri compute mirrorTraffic provisioningState "
        "publicNetworkAccess traffic createdBy createdAt lastModifiedAt lastModifiedBy",
        ("authMode",),
    ),
)
_PROBE = _shape("ProbeSettings", "failureThreshold initialDelay period successThreshold timeout")
DEPLOYMENT = _shape(
    "OnlineDeployment",
    _TRACKED,
    ("location", "properties"),
    properties=_shape(
        "OnlineDeploymentProperties",
        "description environmentId environmentVariables properties appInsightsEnabled dataCollector "
        "egressPublicNetworkAccess endpointComputeType instanceType model modelMountPath provisioningState "
        "containerResourceRequirements privateNetworkConnection",
        ("endpointComputeType",),
        codeConfiguration=_shape("CodeConfiguration", "codeId scoringScript"),
        livenessProbe=_PROBE,
        readinessProbe=_PROBE,
        startupProbe=_PROBE,
        requestSettings=_shape("OnlineRequestSettings", "maxConcurrentRequestsPerInstance maxQueueWait requestTimeout"),
        scaleSettings=_shape(
            "OnlineScaleSettings",
            "scaleType minInstances maxInstances pollingInterval targetUtilizationPercentage",
        ),
    ),
)
_ASSET = "description tags properties isArchived isAnonymous provisioningState stage autoDeleteSetting"


def _version(name: str, words: str) -> Shape:
    inner = _shape(f"{name}Properties", f"{_ASSET} {words}")
    return _shape(name, "id name type systemData", ("properties",), properties=inner)


ASSETS = {
    "codes": _version("CodeVersion", "codeUri"),
    "models": _version("ModelVersion", "flavors jobName modelType modelUri datasets defaultDeploymentTemplate"),
    "environments": _version(
        "EnvironmentVersion", "autoRebuild build condaFile environmentType image inferenceConfig osType"
    ),
    "data": _version("DataVersion", "dataType dataUri referencedUris dataHash"),
    "components": _version("ComponentVersion", "componentSpec"),
}


def check_members(body: Any, shape: Shape, path: str = "") -> None:
    """Refuse a body with members that its shape has not, or without those it needs; all of them are told at once."""
    found: list[tuple[str, str]] = []
    _check(body, shape, (), found)
    if found:
        raise errors.invalid(*found)


def _check(value: Any, shape: Any, path: tuple[str, ...], found: list[tuple[str, str]]) -> None:
    if shape is ANY or value is None:
        return
    if not isinstance(value, dict):
        kind = shape.name
        found.append(("RequestInvalid", f"Error converting value to type '{kind}'. Path '{'.'.join(path)}', line 1."))
        return
    if shape.by:
        chosen = value.get(shape.by)
        kinds = {name.lower(): kind for name, kind in shape.kinds.items()}
        kind = kinds.get(str(chosen).lower())
        if kind is None:
            where = ".".join((*path, shape.by))
            found.append(("RequestInvalid", f"Value '{chosen}' of '{where}' names no known '{shape.name}'."))
            return
        shape = kind
    if shape.each is not None:
        for key, item in value.items():
            _check(item, shape.each, (*path, key), found)
        return
    for key, item in value.items():
        if key not in shape.members:
            text = f"Could not find member '{key}' on object of type '{shape.name}'. Path '{key}', line 1, position 1."
            found.append(("RequestInvalid", text))
        else:
            _check(item, shape.members[key], (*path, key), found)
    for need in shape.needs:
        if value.get(need) is None:
            found.append(("RequestInvalid", f"The {need} field is required. Path '{'.'.join((*path, need))}'."))
