"""Online endpoints and deployments, managed and on Kubernetes. Source: azure-ai-ml's schemas, reference-yaml-*-online."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.schema import common, environments
from footplate.jobfile.schema.common import MOST_WHOLE
from footplate.jobfile.shapes import (
    Anything,
    By,
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
    as_number,
    shortened,
)

CODES = (
    Code(
        "no-endpoint",
        "warning",
        "A deployment file without `endpoint_name`: it needs `--endpoint NAME` when it is deployed.",
        "# next line\n$schema: https://azuremlschemas.azureedge.net/latest/managedOnlineDeployment.schema.json\n"
        "name: blue\nmodel: azureml:m:1\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n",
    ),
    Code(
        "model-version",
        "warning",
        "A model's version that is no whole number: models have no others, unlike environments.",
        "name: blue\nendpoint_name: birds\nmodel: azureml:m:abc  # here\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n",
    ),
    Code(
        "request-timeout",
        "warning",
        "A request's time above what an online endpoint waits for: 180 seconds, on Kubernetes 300.",
        "name: blue\nendpoint_name: birds\nmodel: azureml:m:1\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n"
        "request_settings:\n  request_timeout_ms: 500000  # here\n",
    ),
)

_SWITCH = Text("enabled or disabled", ("enabled", "disabled"))
_PERCENT = Whole(0, 100, "percent")

_IDENTITY = Keys(
    "an identity",
    {
        "type": Text(),
        "principal_id": Text(),
        "tenant_id": Text(),
        "user_assigned_identities": Items(Table(Text()), wanted="a list of `resource_id: ADDRESS`"),
    },
)

_ENDPOINT: dict[str, Shape] = {
    "$schema": Scalar(),
    "name": Text("an endpoint's name"),
    "id": Text(),
    "description": Text(),
    "tags": common.ASSET_TAGS,
    "properties": common.ASSET_TAGS,
    "auth_mode": Text("a way to sign in", ("key", "aml_token", "aad_token"), camel=True),
    "scoring_uri": Text(),
    "openapi_uri": Text(),
    "location": Text("a region"),
    "provisioning_state": Text(),
    "identity": By(
        "type",
        {word: _IDENTITY for word in ("system_assigned", "user_assigned", "none")},
        "an identity",
        camel=True,
    ),
    "traffic": Table(_PERCENT),
    "mirror_traffic": Table(Whole(0, 50, "percent")),
}
_ENDPOINT_ADVICE = {
    "compute_type": "An endpoint is on Kubernetes when it names its `compute`; remove this line.",
    "type": "An endpoint is on Kubernetes when it names its `compute`; remove this line.",
    "deployments": "Each deployment has a file of its own; `traffic` names them.",
    "instance_type": "That belongs to a deployment's file.",
    "instance_count": "That belongs to a deployment's file.",
    "model": "That belongs to a deployment's file.",
    "endpoint_name": "An endpoint's own name is `name`.",
}
_MANAGED_ENDPOINT = Keys(
    "an online endpoint",
    {**_ENDPOINT, "public_network_access": _SWITCH},
    required=("name",),
    read_only=("kind",),
    advice=_ENDPOINT_ADVICE,
)
_KUBERNETES_ENDPOINT = Keys(
    "a Kubernetes online endpoint",
    {**_ENDPOINT, "compute": Text("a compute, as azureml:NAME")},
    required=("name",),
    read_only=("kind",),
    advice=_ENDPOINT_ADVICE,
)


@dataclass(frozen=True)
class EndpointShape(Shape):
    """An endpoint; one that names a `compute` is on Kubernetes."""

    wanted: str = "the keys of an online endpoint"

    @property
    def forms(self) -> tuple[Keys, ...]:
        """The keys of each form it can have."""
        return (_MANAGED_ENDPOINT, _KUBERNETES_ENDPOINT)

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        compute = value.get("compute") if isinstance(value, Mapping) else None
        if not compute:
            _MANAGED_ENDPOINT.check(value, place, report)
            return
        _KUBERNETES_ENDPOINT.check(value, place, report)
        if isinstance(compute, str) and not compute.startswith("azureml:"):
            report.add(
                "wrong-value",
                ("compute",),
                f"`compute` cannot be the bare name {compute!r}.",
                f"Write azureml:{compute}.",
            )


ENDPOINT = EndpointShape()

_MODEL = Keys(
    "an inline model",
    {
        "$schema": Scalar(),
        "name": Text(),
        "version": Scalar(),
        "type": Text("a type of model", ("custom_model", "mlflow_model", "triton_model")),
        "path": Text("a path"),
        "description": Text(),
        "properties": common.ASSET_TAGS,
        "tags": common.ASSET_TAGS,
        "stage": Text(),
        "flavors": Table(Anything()),
        "datastore": Text(),
        "system_metadata": Table(Anything()),
        "default_deployment_template": Anything(),
        "allowed_deployment_templates": Anything(),
    },
    read_only=("id", "utc_time_created", "creation_context", "job_name", "latest_version", "intellectual_property"),
)


@dataclass(frozen=True)
class ModelShape(Shape):
    """A model: an asset of the workspace or of a registry, or one that is made of a path as it is deployed."""

    wanted: str = "azureml:NAME:VERSION or the keys of a model"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report):
            return
        if isinstance(value, Mapping):
            _MODEL.check(value, place, report)
            path = value.get("path")
            for key in ("name", "version"):
                if isinstance(path, str) and "://" in path and key not in value:
                    message = f"`{key}` is missing from a model that does not lie on this machine."
                    report.add("missing-key", place, message, "Add it, or name a registered model.", key=True)
                elif key == "name" and not value.get(key) and value.get("version") is not None:
                    message = "The model has a version and no `name` to go with it."
                    report.add("missing-key", place, message, "Add the name, or remove the version.", key=True)
        elif not isinstance(value, str):
            self._wrong(value, place, report)
        elif not value.startswith("azureml:"):
            path = value.removeprefix("file:")
            local = path != value or path.startswith((".", "/")) or "\\" in path
            hint = f"Write `path: {path}` below it." if local else f"Write azureml:{path}, or `path: {path}` below it."
            report.add("wrong-value", place, f"`{place[-1]}` cannot be the bare name {value!r}.", hint)
        elif (version := re.fullmatch(r"azureml:[^:@/\s]+:([^:@/\s]*)", value)) and not version[1].isdecimal():
            fault = f"The version of a model is a whole number; {shortened(version[1])} is none."
            report.add("model-version", place, fault, "Write the number, or @latest in place of the version.")


_PROBE: dict[str, Shape] = {
    "period": Whole(1, MOST_WHOLE, "seconds"),
    "initial_delay": Whole(0, MOST_WHOLE, "seconds"),
    "timeout": Whole(1, MOST_WHOLE, "seconds"),
    "success_threshold": Whole(1, MOST_WHOLE),
    "failure_threshold": Whole(1, MOST_WHOLE),
}
_QUANTITIES = Keys(
    "container resources", {key: Text("a quantity in quotes, as '0.5' or 1Gi") for key in ("cpu", "memory", "gpu")}
)
_COLLECTION = Keys(
    "a collection",
    {
        "enabled": Text("'true' or 'false', in quotes", ("true", "false")),
        "data": Either(
            Text(),
            Keys("a data asset", {"name": Text(), "path": Text(), "version": Text(), "data_id": Text()}),
            wanted="a data asset",
        ),
        "client_id": Text(),
    },
    required=("enabled",),
)
_COLLECTOR = Keys(
    "a data collector",
    {
        "collections": Table(_COLLECTION),
        "rolling_rate": Text("a rate", ("minute", "hour", "day")),
        "sampling_rate": Number(),
        "request_logging": Keys("request logging", {"capture_headers": Items(Text("a header's name"))}),
    },
    required=("collections",),
)

_DEPLOYMENT: dict[str, Shape] = {
    "$schema": Scalar(),
    "name": Text("a deployment's name"),
    "endpoint_name": Text("an endpoint's name"),
    "id": Text(),
    "description": Text(),
    "tags": common.ASSET_TAGS,
    "properties": common.ASSET_TAGS,
    "type": Text("managed or kubernetes", ("managed", "kubernetes")),
    "model": ModelShape(),
    "model_mount_path": Text("a path"),
    "code_configuration": Keys(
        "a code configuration",
        {"code": Text("a folder"), "scoring_script": Text("a file")},
        advice={"entry_script": "The key is `scoring_script`.", "path": "The key is `code`."},
    ),
    "environment": environments.ENVIRONMENT,
    "environment_variables": common.VARIABLES,
    "app_insights_enabled": Flag(),
    "scale_settings": By(
        "type",
        {
            "default": Keys("default scale settings", {"type": Text()}),
            "target_utilization": Keys(
                "target utilization settings",
                {
                    "type": Text(),
                    "polling_interval": Whole(1, MOST_WHOLE, "seconds"),
                    "target_utilization_percentage": Whole(1, 100, "percent"),
                    "min_instances": Whole(0, MOST_WHOLE),
                    "max_instances": Whole(1, MOST_WHOLE),
                },
            ),
        },
        "scale settings",
        camel=True,
    ),
    "request_settings": Keys(
        "request settings",
        {
            "request_timeout_ms": Whole(1, MOST_WHOLE, "milliseconds"),
            "max_concurrent_requests_per_instance": Whole(1, MOST_WHOLE),
            "max_queue_wait_ms": Whole(0, MOST_WHOLE, "milliseconds"),
        },
    ),
    "liveness_probe": Keys("a liveness probe", _PROBE),
    "readiness_probe": Keys("a readiness probe", _PROBE),
    "provisioning_state": Text(),
    "instance_count": Whole(1, MOST_WHOLE),
    "instance_type": Text("a VM size"),
    "data_collector": _COLLECTOR,
}
_DEPLOYMENT_ADVICE = {
    "traffic": "That stands in the endpoint's file, or: footplate traffic ENDPOINT NAME=100.",
    "auth_mode": "That stands in the endpoint's file.",
    "code": "It stands below `code_configuration`.",
    "scoring_script": "It stands below `code_configuration`.",
    "image": "It stands below `environment`.",
    "endpoint": "The key is `endpoint_name`.",
}
_MANAGED_DEPLOYMENT = Keys(
    "an online deployment",
    {**_DEPLOYMENT, "egress_public_network_access": _SWITCH, "private_network_connection": Flag()},
    required=("name", "instance_type"),
    read_only=("creation_context",),
    advice={
        **_DEPLOYMENT_ADVICE,
        "resources": "Those are of Kubernetes: add `type: kubernetes`, or name an `instance_type`.",
    },
)
_KUBERNETES_DEPLOYMENT = Keys(
    "a Kubernetes online deployment",
    {**_DEPLOYMENT, "resources": Keys("container resources", {"requests": _QUANTITIES, "limits": _QUANTITIES})},
    required=("name",),
    advice=_DEPLOYMENT_ADVICE,
)


@dataclass(frozen=True)
class DeploymentShape(Shape):
    """A deployment, managed or on Kubernetes. The endpoint may also be named where it is deployed."""

    wanted: str = "the keys of an online deployment"

    @property
    def forms(self) -> tuple[Keys, ...]:
        """The keys of each form it can have."""
        return (_MANAGED_DEPLOYMENT, _KUBERNETES_DEPLOYMENT)

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        kubernetes = isinstance(value, Mapping) and value.get("type") == "kubernetes"
        (_KUBERNETES_DEPLOYMENT if kubernetes else _MANAGED_DEPLOYMENT).check(value, place, report)
        if isinstance(value, Mapping) and "endpoint_name" not in value:
            report.add(
                "no-endpoint",
                place,
                "The file names no endpoint.",
                "Add `endpoint_name`, or deploy it with --endpoint NAME.",
                key=True,
            )
        if isinstance(value, Mapping):
            _judge_numbers(value, place, kubernetes, report)


def _judge_numbers(value: Mapping[str, Any], place: nodes.Path, kubernetes: bool, report: Report) -> None:
    """Numbers that Azure's client takes and the service cannot do with. Source: how-to-manage-quotas, for the timeout."""
    wait = as_number(nodes.mapping(value.get("request_settings")).get("request_timeout_ms"))
    most = 300_000 if kubernetes else 180_000
    if wait is not None and wait > most:
        fault = f"A request may take {wait:.0f} ms; an online endpoint waits for {most} ms at most."
        where = (*place, "request_settings", "request_timeout_ms")
        report.add("request-timeout", where, fault, f"Write at most {most}, or use a batch endpoint.")
    rate = as_number(nodes.mapping(value.get("data_collector")).get("sampling_rate"))
    if rate is not None and not 0 <= rate <= 1:
        fault = f"`sampling_rate` is the share of requests to keep, from 0 to 1; it is {rate:g}."
        where = (*place, "data_collector", "sampling_rate")
        report.add("out-of-range", where, fault, "Write 1 for all of them.")


DEPLOYMENT = DeploymentShape()
