"""What differs on Azure: one table, of which a launch and a deployment show the rows that apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from footplate.jobfile import JobFile
from footplate.workspace.model import Contrast

_JOBS = ("command", "sweep", "pipeline")
_RUNS = ("command", "sweep")
_SERVING = ("deployment",)
_ENDPOINTS = ("endpoint",)


@dataclass(frozen=True)
class Row:
    """One difference between this machine and Azure, for files of some kinds.

    It applies where one of the dotted `keys` is set (`*` stands for any name; a sweep's `trial.` is left out), where `unless`
    is not, or always without both. `when` narrows that.
    """

    topic: str
    here: str
    azure: str
    kinds: tuple[str, ...] = _JOBS
    keys: tuple[str, ...] = ()
    unless: str = ""
    when: Callable[[JobFile], bool] = lambda _: True

    def applies(self, file: JobFile) -> bool:
        """Whether it is of interest to who launches or deploys this file."""
        if file.kind not in self.kinds or not self.when(file):
            return False
        if self.unless:
            return not _is_set(file, self.unless)
        return not self.keys or any(_is_set(file, key) for key in self.keys)


def contrasts(file: JobFile) -> list[Contrast]:
    """The rows that apply to a file, in the table's order."""
    return [Contrast(row.topic, row.here, row.azure) for row in TABLE if row.applies(file)]


def _is_set(file: JobFile, key: str) -> bool:
    """Whether a dotted key has a value, at the top, or in the body of a sweep."""
    steps = tuple(key.split("."))
    return any(_has(file, prefix, steps) for prefix in {(), file.body})


def _has(file: JobFile, at: tuple[str | int, ...], steps: tuple[str, ...]) -> bool:
    if not steps:
        return file.get(*at) is not None
    if steps[0] == "*":
        return any(_has(file, (*at, name), steps[1:]) for name in file.mapping(*at))
    return _has(file, (*at, steps[0]), steps[1:])


def _data_inputs(file: JobFile) -> bool:
    return any(given.literal is None for given in file.inputs.values())


def _many_nodes(file: JobFile) -> bool:
    return file.nodes > 1


def _uses(sampling: str) -> Callable[[JobFile], bool]:
    def uses(file: JobFile) -> bool:
        given = file.get("sampling_algorithm")
        kind = file.text_at("sampling_algorithm", "type") if isinstance(given, dict) else str(given or "")
        return kind.lower() == sampling

    return uses


TABLE: tuple[Row, ...] = (
    # jobs
    Row(
        "start",
        "starts at once",
        "minutes for a node to come, and 10 to 30 more where the environment's image is built first",
    ),
    Row(
        "environment",
        "runs with this machine's Python and its packages; no image is used",
        "runs in the declared image, with its packages and no others",
        keys=("environment", "jobs"),
    ),
    Row(
        "variables",
        "also sees the variables of the shell that started the console",
        "sees the file's own variables and Azure's",
        _RUNS,
        keys=("environment_variables",),
    ),
    Row(
        "compute",
        "the cluster of that name is nodes of this machine",
        "the workspace's own cluster of that name; `local` is none",
        keys=("compute", "settings.default_compute"),
    ),
    Row(
        "serverless",
        "runs on the cluster `local`",
        "without `compute` it is serverless: Azure finds a machine of resources.instance_type within the quota",
        _RUNS,
        unless="compute",
    ),
    Row(
        "machine",
        "instance_type, shm_size, docker_args, locations and the rest of `resources` are not used",
        "they choose and shape the machine, and what it costs",
        _RUNS,
        keys=(
            "resources.instance_type",
            "resources.shm_size",
            "resources.docker_args",
            "resources.locations",
            "resources.properties",
            "resources.max_instance_count",
        ),
    ),
    Row(
        "nodes",
        "every node is a folder of this machine; ranks meet on 127.0.0.1",
        "every node is a machine; ranks meet over the network, NCCL over its fast part",
        _RUNS,
        keys=("resources.instance_count",),
        when=_many_nodes,
    ),
    Row(
        "limits",
        "ends a job after limits.timeout alone",
        "also ends it after 21 days (7 on low priority), and counts nodes against quotas",
        keys=("limits.timeout",),
    ),
    Row(
        "inputs",
        "data is the file or folder itself (a copy with mode download): what writes into it changes it",
        "data is mounted read-only or copied, over the network",
        _RUNS,
        keys=("inputs",),
        when=_data_inputs,
    ),
    Row(
        "outputs",
        "an output is a folder of this machine's disk",
        "an output is a mounted blob container: no append, no rename, no SQLite",
        _RUNS,
        keys=("outputs",),
    ),
    Row(
        "identity",
        "runs as you, with your files and your network",
        "runs as the identity, with its roles",
        keys=("identity",),
    ),
    Row(
        "services",
        "SSH, Jupyter, TensorBoard and VS Code are not started",
        "they are served while the job runs",
        keys=("services",),
    ),
    Row(
        "priority",
        "first come, first served",
        "the job's tier and priority decide; low priority may be taken away at any time",
        keys=("queue_settings",),
    ),
    Row("tracking", "metrics go to MLflow's store on this machine", "metrics go to the workspace", _RUNS),
    Row(
        "sampling",
        "draws by footplate's own generator, whose seed is kept",
        "draws by the service's; the values differ even with the same seed",
        ("sweep",),
        keys=("sampling_algorithm", "search_space"),
    ),
    Row(
        "bayesian",
        "a tree-structured Parzen estimator (Optuna)",
        "by the service's own method, whose details are not published",
        ("sweep",),
        keys=("sampling_algorithm",),
        when=_uses("bayesian"),
    ),
    Row(
        "early termination",
        "by the documented rules; where those are silent (ties, rounding, finished trials) by footplate's",
        "by the service's rules",
        ("sweep",),
        keys=("early_termination",),
    ),
    Row(
        "best trial",
        "by each trial's best value; a tie goes to the earlier, what is not a number never wins",
        "as the service says in best_child_run_id",
        ("sweep",),
        keys=("objective",),
    ),
    Row(
        "trials at once",
        "as many as nodes of this machine are free",
        "as many as the cluster has nodes and the quota cores",
        ("sweep",),
        keys=("limits",),
    ),
    Row(
        "steps",
        "each step runs, each time; components come from files",
        "a step whose inputs are as before may be skipped and its outputs used again; components also come from registries",
        ("pipeline",),
        keys=("jobs", "settings.force_rerun"),
    ),
    Row(
        "failed inputs",
        "a step never runs without an output that it takes",
        "it runs where that input is optional",
        ("pipeline",),
        keys=("settings.continue_run_on_failed_optional_input",),
    ),
    Row(
        "datastore",
        "outputs lie in the job's folder",
        "outputs lie in the default datastore",
        ("pipeline",),
        keys=("settings.default_datastore",),
    ),
    # deployments
    Row(
        "start",
        "the scoring server starts in seconds",
        "10 minutes and more: an image, a machine, the model's download",
        _SERVING,
    ),
    Row(
        "environment",
        "serves with this machine's Python and its packages; no image is used",
        "serves in the declared image, with its packages and no others",
        _SERVING,
        keys=("environment",),
    ),
    Row(
        "machine",
        "instance_type is not used; an instance is a process of this machine",
        "an instance is a machine that costs money while it stands, and about a fifth more are counted against the quota",
        _SERVING,
        keys=("instance_type", "instance_count", "resources"),
    ),
    Row(
        "scaling",
        "the instances stay as many as they are",
        "Azure Monitor's rules may change how many there are",
        _SERVING,
        keys=("scale_settings",),
    ),
    Row(
        "probes",
        "the liveness probe ends a server that hangs, where the file has one; the readiness probe says how long it may start",
        "both are always there, with defaults, and decide which instance gets requests",
        _SERVING,
        keys=("liveness_probe", "readiness_probe"),
    ),
    Row(
        "limits",
        "without request_settings a request may take 60 s, one runs at a time in an instance, and up to 1000 wait",
        "5 s; one at a time in an instance, and twice as many may be there at all: more get 429",
        _SERVING,
        when=lambda file: any(
            file.get("request_settings", key) is None
            for key in ("request_timeout_ms", "max_concurrent_requests_per_instance")
        ),
    ),
    Row(
        "model folder",
        "the model is found by AZUREML_MODEL_DIR alone",
        "it is mounted at model_mount_path too",
        _SERVING,
        keys=("model_mount_path",),
    ),
    Row(
        "logging",
        "requests are counted on this machine, and nothing is sent",
        "Application Insights and the data collector keep what was sent",
        _SERVING,
        keys=("app_insights_enabled", "data_collector"),
    ),
    Row(
        "network",
        "http on 127.0.0.1 alone",
        "https, from wherever public_network_access and egress allow",
        (*_SERVING, *_ENDPOINTS),
        keys=(
            "egress_public_network_access",
            "public_network_access",
            "private_network_connection",
            "model",
            "auth_mode",
        ),
    ),
    Row(
        "identity",
        "serves as you, with your files and your network",
        "serves as the endpoint's identity, with its roles",
        _ENDPOINTS,
        keys=("identity",),
    ),
    Row(
        "sign-in",
        "keys alone",
        "keys, Azure ML's tokens, or Microsoft Entra's",
        _ENDPOINTS,
        keys=("auth_mode",),
        when=lambda file: file.text_at("auth_mode").lower() not in ("", "key"),
    ),
    Row(
        "place",
        "this machine",
        "the workspace's region, or the Kubernetes cluster that `compute` names",
        _ENDPOINTS,
        keys=("location", "compute"),
    ),
)

SAME: dict[str, frozenset[str]] = {
    "command": frozenset({"command", "code", "distribution"}),
    "sweep": frozenset({"command", "code", "distribution", "trial"}),
    "pipeline": frozenset(
        {"inputs", "outputs", "component", "settings"}
        | {f"settings.{key}" for key in ("continue_on_step_failure", "on_init", "on_finalize")}
    ),
    "deployment": frozenset(
        {"code_configuration", "environment_variables", "request_settings"} | {"resources.requests", "resources.limits"}
    ),
    "endpoint": frozenset({"traffic", "mirror_traffic"}),
}
"""The keys that mean the same here and on Azure."""

LABELS = frozenset(
    {
        "$schema",
        "type",
        "name",
        "id",
        "description",
        "display_name",
        "experiment_name",
        "tags",
        "properties",
        "parent_job_name",
        "endpoint_name",
        "scoring_uri",
        "openapi_uri",
        "provisioning_state",
    }
)
"""The keys that name things, and change nothing of what runs."""


def unlisted(kind: str, keys: Iterable[str]) -> list[str]:
    """Which of a kind's keys, dotted, no row names and neither `SAME` nor `LABELS` has: the table would be silent of them."""
    known = SAME[kind] | {key for row in TABLE if kind in row.kinds for key in (*row.keys, row.unless)}
    roots = {key.partition(".")[0] for key in known}
    return [key for key in keys if key not in known | LABELS and not (key in roots and "." not in key)]
