"""Compute: clusters, compute instances, and attached computes. Source: azure-ai-ml's schemas, reference-yaml-compute-*."""

from __future__ import annotations

from footplate.jobfile.schema.common import MOST_WHOLE
from footplate.jobfile.shapes import (
    Anything,
    By,
    Flag,
    Items,
    Keys,
    Scalar,
    Shape,
    Table,
    Text,
    Whole,
)

_BASE: dict[str, Shape] = {
    "$schema": Scalar(),
    "name": Text("the compute's name"),
    "type": Text(),
    "location": Text("a region"),
    "description": Text(),
    "resource_id": Text("a resource's address"),
    "tags": Table(Text("text (quote numbers and booleans)")),
}
_READ_ONLY = ("id", "provisioning_errors", "created_on", "provisioning_state")
_IDENTITY = By(
    "type",
    {
        word: Keys(
            "an identity",
            {
                "type": Text(),
                "user_assigned_identities": Items(
                    Keys(
                        "a user-assigned identity",
                        {"resource_id": Text()},
                        read_only=("principal_id", "client_id", "tenant_id"),
                    )
                ),
            },
            read_only=("principal_id", "tenant_id"),
        )
        for word in ("system_assigned", "user_assigned", "none", "system_assigned,user_assigned")
    },
    "an identity",
    camel=True,
)
_NETWORK = Keys(
    "network settings",
    {"vnet_name": Text(), "subnet": Text()},
    read_only=("public_ip_address", "private_ip_address"),
)

_CLUSTER = Keys(
    "a cluster",
    {
        **_BASE,
        "size": Text("a VM size"),
        "tier": Text("dedicated or low_priority", ("dedicated", "low_priority")),
        "min_instances": Whole(0, MOST_WHOLE, "nodes"),
        "max_instances": Whole(0, MOST_WHOLE, "nodes"),
        "idle_time_before_scale_down": Whole(0, MOST_WHOLE, "seconds"),
        "ssh_public_access_enabled": Flag(),
        "ssh_settings": Keys(
            "ssh settings",
            {"admin_username": Text(), "admin_password": Text(), "ssh_key_value": Text()},
            required=("admin_username",),
        ),
        "network_settings": _NETWORK,
        "identity": _IDENTITY,
        "enable_node_public_ip": Flag(),
    },
    required=("name", "type"),
    read_only=_READ_ONLY,
    advice={
        "vm_size": "The key is `size`.",
        "min_nodes": "The key is `min_instances`.",
        "max_nodes": "The key is `max_instances`.",
        "vm_priority": "The key is `tier`.",
        "idle_seconds_before_scaledown": "The key is `idle_time_before_scale_down`.",
    },
)

_TRIGGER: dict[str, Shape] = {"type": Text(), "start_time": Scalar(), "time_zone": Text()}
_SCHEDULE = Keys(
    "a schedule",
    {
        "action": Text("start or stop", ("start", "stop")),
        "state": Text("enabled or disabled", ("enabled", "disabled")),
        "trigger": By(
            "type",
            {
                "cron": Keys("a cron trigger", {**_TRIGGER, "expression": Text()}, required=("expression",)),
                "recurrence": Keys(
                    "a recurrence",
                    {
                        **_TRIGGER,
                        "frequency": Text("a unit of time", ("minute", "hour", "day", "week", "month")),
                        "interval": Whole(1, MOST_WHOLE),
                        "schedule": Anything(),
                        "end_time": Scalar(),
                    },
                    required=("frequency",),
                ),
            },
            "a trigger",
        ),
    },
    required=("action",),
    read_only=("schedule_id", "provisioning_state"),
)
_SCRIPT = Keys("a script", {"path": Text(), "command": Text(), "timeout_minutes": Whole(1, MOST_WHOLE, "minutes")})
_APPLICATION = Keys(
    "an application",
    {
        "name": Text(),
        "type": Text("docker", ("docker",)),
        "image": Keys("an image", {"reference": Text()}),
        "endpoints": Items(Keys("an endpoint", {"target": Whole(1025, 65535), "published": Whole(1025, 65535)})),
        "environment_variables": Table(Scalar(null=True)),
        "bind_mounts": Items(Keys("a mount", {"source": Text(), "target": Text()})),
    },
    required=("name",),
)
_INSTANCE = Keys(
    "a compute instance",
    {
        **_BASE,
        "size": Text("a VM size"),
        "network_settings": _NETWORK,
        "create_on_behalf_of": Keys("a user", {"user_tenant_id": Text(), "user_object_id": Text()}),
        "ssh_settings": Keys("ssh settings", {"ssh_key_value": Text()}, read_only=("admin_username", "ssh_port")),
        "ssh_public_access_enabled": Flag(),
        "schedules": Keys("schedules", {"compute_start_stop": Items(_SCHEDULE)}),
        "identity": _IDENTITY,
        "idle_time_before_shutdown": Text("a time, as PT30M"),
        "idle_time_before_shutdown_minutes": Whole(1, MOST_WHOLE, "minutes"),
        "custom_applications": Items(_APPLICATION),
        "setup_scripts": Keys("setup scripts", {"creation_script": _SCRIPT, "startup_script": _SCRIPT}),
        "enable_node_public_ip": Flag(),
        "enable_sso": Flag(),
        "enable_root_access": Flag(),
        "release_quota_on_stop": Flag(),
        "enable_os_patching": Flag(),
    },
    required=("name", "type"),
    read_only=(*_READ_ONLY, "state", "last_operation", "services", "os_image_metadata"),
    advice={"min_instances": "An instance is one machine: a cluster has `type: amlcompute`."},
)

_KUBERNETES = Keys(
    "a Kubernetes compute",
    {**_BASE, "namespace": Text(), "properties": Table(Anything()), "identity": _IDENTITY},
    required=("name", "type"),
    read_only=_READ_ONLY,
)
_MACHINE = Keys(
    "a virtual machine",
    {
        **_BASE,
        "ssh_settings": Keys(
            "ssh settings",
            {
                "admin_username": Text(),
                "admin_password": Text(),
                "ssh_port": Whole(1, 65535),
                "ssh_private_key_file": Text("a file"),
            },
            required=("admin_username",),
        ),
    },
    required=("name", "type", "resource_id"),
    read_only=(*_READ_ONLY, "compute_location"),
)
_SYNAPSE = Keys(
    "a Synapse Spark compute",
    {
        **_BASE,
        "identity": _IDENTITY,
        "scale_settings": Keys(
            "scale settings", {}, read_only=("min_node_count", "max_node_count", "auto_scale_enabled")
        ),
        "auto_pause_settings": Keys("pause settings", {}, read_only=("delay_in_minutes", "auto_pause_enabled")),
    },
    required=("name", "type", "resource_id"),
    read_only=(*_READ_ONLY, "node_family", "node_size", "node_count", "spark_version"),
)

COMPUTE = By(
    "type",
    {
        "amlcompute": _CLUSTER,
        "computeinstance": _INSTANCE,
        "kubernetes": _KUBERNETES,
        "virtualmachine": _MACHINE,
        "synapsespark": _SYNAPSE,
    },
    "a compute",
)
