"""A file against a workspace: what it names is there, and is large enough. Judges facts that others gather."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report, known_names, nearest
from footplate.jobfile.rules.files import bodies
from footplate.jobfile.rules.retired import values_of
from footplate.workspace.names import next_name

_ON = "command: python train.py\nenvironment: azureml:e:1\n"
_DEPLOYMENT = "name: green\nendpoint_name: birds\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n"

CODES = (
    Code(
        "refused",
        "error",
        "A job that the workspace does not run, as this machine one whose distribution is ray.",
        f"{_ON}distribution:\n  type: ray  # here\n",
        "workspace",
    ),
    Code(
        "unknown-cluster",
        "error",
        "A cluster that the workspace does not have.",
        f"{_ON}compute: azureml:gpu-clustre  # here\n",
        "workspace",
    ),
    Code(
        "cluster-too-small",
        "error",
        "More nodes than the cluster can ever have: the job would wait for good.",
        f"{_ON}compute: azureml:cpu-cluster\nresources:\n  instance_count: 8  # here\n",
        "workspace",
    ),
    Code(
        "sweep-over-cluster",
        "warning",
        "A sweep whose trials, all at once, want more nodes than the cluster can have: some of them wait.",
        "type: sweep\ntrial:\n  command: python train.py --lr ${{search_space.lr}}\n  environment: azureml:e:1\n"
        "compute: azureml:cpu-cluster\nobjective: {goal: maximize, primary_metric: acc}\n"
        "search_space:\n  lr: {type: uniform, min_value: 0.1, max_value: 0.9}\n"
        "limits:\n  max_total_trials: 20\n  max_concurrent_trials: 10  # here\n",
        "workspace",
    ),
    Code(
        "over-quota",
        "warning",
        "More nodes of a VM size than the subscription's quota has left.",
        f"{_ON}resources:\n  instance_type: Standard_NC24ads_A100_v4\n  instance_count: 8  # here\n",
        "workspace",
    ),
    Code(
        "unknown-environment",
        "warning",
        "An environment that the workspace does not list; it may be archived.",
        "command: python train.py\nenvironment: azureml:torch-gpu:3  # here\n",
        "workspace",
    ),
    Code(
        "unknown-data",
        "error",
        "A data asset, or a version of one, that the workspace does not have.",
        "command: ls ${{inputs.birds}}\nenvironment: azureml:e:1\ninputs:\n"
        "  birds: {type: uri_folder, path: azureml:brids:1}  # here\n",
        "workspace",
    ),
    Code(
        "unknown-model",
        "error",
        "A model, or a version of one, that the workspace does not have.",
        f"{_DEPLOYMENT}model: azureml:brids:1  # here\n",
        "workspace",
    ),
    Code(
        "unknown-datastore",
        "error",
        "A datastore that the workspace does not have.",
        "command: ls ${{inputs.birds}}\nenvironment: azureml:e:1\ninputs:\n"
        "  birds: {type: uri_folder, path: azureml://datastores/pictures/paths/birds/}  # here\n",
        "workspace",
    ),
    Code("name-taken", "error", "A job's fixed name that another job has already.", f"name: train  # here\n{_ON}", "workspace"),
    Code(
        "unknown-endpoint",
        "warning",
        "A deployment of an endpoint that is not there yet, or traffic for a deployment that the endpoint does not have.",
        "name: blue\nendpoint_name: brids  # here\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n",
        "workspace",
    ),
    Code(
        "already-there",
        "note",
        "An endpoint, deployment or cluster of that name is there: the file would change it.",
        "name: birds  # here\nauth_mode: key\ntraffic: {}\n",
        "workspace",
    ),
)  # fmt: skip

MODEL_TYPES = ("mlflow_model", "custom_model", "triton_model")
_ASSET = re.compile(r"azureml:(?!//)([^:@/\s]+)(?:@[^:@/\s]+|:([^:@/\s]+))?")
_DATASTORE = re.compile(r"azureml://(?:subscriptions/.*/)?datastores/([^/\s]+)(?:/|\Z)", re.IGNORECASE)
_NO_CLUSTER = ("local", "serverless", "instance_type")
"""Words at `compute` that name no cluster."""
_NEAR_ENVIRONMENTS = 3

Versions = Mapping[str, tuple[str, ...]]
"""Versions by name, newest first; empty where any will do."""


@dataclass(frozen=True)
class WorkspaceFacts:
    """What a workspace has, as far as it was asked and can tell: None stands for what cannot be told, and is not judged."""

    workspace: str
    clusters: Mapping[str, int | None] | None = None
    """The most nodes of each cluster; None where it tells of none, as an attached Kubernetes."""
    default_cluster: str = ""
    """The cluster of a job that names none; empty where such a job is serverless."""
    data_assets: Versions | None = None
    models: Versions | None = None
    environments: Versions | None = None
    datastores: frozenset[str] | None = None
    endpoints: Mapping[str, frozenset[str]] | None = None
    """The deployments of each endpoint."""
    job_names: frozenset[str] | None = None
    """Of the names that the file gives its job, those that are taken."""
    refused: tuple[str, str] | None = None
    """Why the workspace does not run such a job at all, and what to do instead."""
    nodes_left: Mapping[str, int] = field(default_factory=dict)
    """How many more nodes the quota has room for, by VM size in lower case; sizes that are absent cannot be told."""


def parse_asset(reference: object) -> tuple[str, str] | None:
    """Name and version (empty for a label, as `@latest`, or none) of `azureml:NAME:VERSION`; None for anything else."""
    match = _ASSET.fullmatch(reference.strip()) if isinstance(reference, str) else None
    if match is None or "${{" in match[0]:
        return None
    return match[1], match[2] or ""


def data_references(job_file: JobFile) -> Iterator[tuple[nodes.Path, str, bool]]:
    """Where data inputs name something that is not on this machine, what, and whether it is a model."""
    for place, body in bodies(job_file):
        for name, item in nodes.mapping(body.get("inputs")).items():
            given = nodes.mapping(item)
            path = given.get("path")
            if isinstance(path, str) and path.startswith("azureml:"):
                yield (*place, "inputs", name, "path"), path.strip(), given.get("type") in MODEL_TYPES
    model = job_file.get("model")
    if job_file.kind == "deployment" and isinstance(model, str):
        yield ("model",), model.strip(), True


def environment_references(job_file: JobFile) -> Iterator[tuple[nodes.Path, tuple[str, str]]]:
    """Where a file names a registered environment, and its name and version."""
    for place, text in values_of(job_file.values, "environment"):
        if asset := parse_asset(text):
            yield place, asset


def datastore_references(job_file: JobFile) -> Iterator[tuple[nodes.Path, str]]:
    """Where a path leads into a datastore, and its name."""
    for place, text in values_of(job_file.values, "path"):
        match = _DATASTORE.match(text.strip())
        if match and "${{" not in match[1]:
            yield place, match[1]


def sizes(job_file: JobFile) -> Iterator[tuple[nodes.Path, str]]:
    """Where a file says how many nodes of a VM size it wants, and the size."""
    for place, body in bodies(job_file):
        deployment = job_file.kind == "deployment"
        holder = body if deployment else nodes.mapping(body.get("resources"))
        size = holder.get("instance_type")
        if isinstance(size, str):
            yield (*place, *(() if deployment else ("resources",)), "instance_count"), size.strip()


def computes(job_file: JobFile) -> Iterator[tuple[nodes.Path, str]]:
    """Where a job names a cluster, and its bare name."""
    for place, body in bodies(job_file):
        yield from _computes((*place, "compute"), body.get("compute"))
    yield from _computes(("settings", "default_compute"), job_file.get("settings", "default_compute"))


def _computes(place: nodes.Path, given: object) -> Iterator[tuple[nodes.Path, str]]:
    if isinstance(given, str) and "${{" not in given and "/" not in given:
        name = given.strip().removeprefix("azureml:").partition(":")[0]
        if name and name.lower() not in _NO_CLUSTER:
            yield place, name


def against(facts: WorkspaceFacts) -> list[Callable[[JobFile, Report], None]]:
    """The rules of a file against a workspace, for `check(…, more=…)`."""
    return [
        partial(rule, facts)
        for rule in (_refused, _clusters, _nodes, _quota, _environments, _data, _datastores, _job_name, _endpoints)
    ]


def _refused(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    """The refusal at the line that it names, else at the kind of job; an error that is told there already says it as well."""
    if facts.refused is None:
        return
    sentence, next_step = facts.refused
    told = re.match(rf"{re.escape(job_file.label)} line (\d+): (?=\S)", sentence)
    line = int(told[1]) if told else job_file.line("type")
    said = sentence[told.end() :] if told else sentence
    candidates = ((*job_file.body, "distribution", "type"), ("sampling_algorithm",), ("type",))
    place = next((place for place in candidates if place in job_file.places and job_file.line(*place) == line), ())
    if any(fault.severity == "error" and (fault.line == line or not told) for fault in report.faults):
        return
    report.add("refused", place, f"{said[:1].upper()}{said[1:]}", next_step, at=None if place else (line, 1))


def _clusters(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    if facts.clusters is None or job_file.kind == "compute":
        return
    for place, name in computes(job_file):
        if name not in facts.clusters:
            hint = _near(name, facts.clusters)
            if facts.default_cluster:  # this machine, where a cluster costs nothing and is there at once
                hint += f" Or make it: footplate cluster create {name} --size SIZE."
            report.add("unknown-cluster", place, f"Workspace {facts.workspace} has no cluster {name}.", hint)


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"Did you mean {near}?" if near else f"It has {known_names(sorted(known))}."


def _nodes(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    if facts.clusters is None or job_file.kind not in ("command", "sweep"):
        return
    cluster = job_file.compute or facts.default_cluster
    most, wanted = facts.clusters.get(cluster), job_file.nodes
    if most is None:
        return
    if wanted > most:
        fault = f"The job wants {wanted} nodes; cluster {cluster} has {most} at most."
        report.add(
            "cluster-too-small", job_file.nodes_place, fault, f"Set instance_count to {most}, or take a larger cluster."
        )
    at_once = job_file.whole(
        "limits", "max_concurrent_trials", default=job_file.whole("limits", "max_total_trials", default=1)
    )
    if job_file.kind == "sweep" and wanted <= most < at_once * wanted:
        each = "1 node each" if wanted == 1 else f"{wanted} nodes each"
        sums = f"{at_once} trials at once × {each} = {at_once * wanted} nodes; cluster {cluster} has {most} at most."
        place = ("limits", "max_concurrent_trials")
        hint = f"{most // wanted} run at once, the others wait."
        report.add("sweep-over-cluster", place if place in job_file.places else ("limits",), sums, hint)


def _quota(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    for place, size in sizes(job_file):
        left, wanted = facts.nodes_left.get(size.lower()), job_file.whole(*place)
        if left is not None and wanted > left:
            fault = f"{wanted} of {size} are wanted; the quota has room for {max(0, left)}."
            report.add("over-quota", place, fault, "Ask for more quota, or take fewer or smaller nodes.")


def _environments(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    if facts.environments is not None:
        for place, asset in environment_references(job_file):
            _look_up("unknown-environment", "environment", place, asset, facts.environments, facts, report)


def _look_up(
    code: str,
    what: str,
    place: nodes.Path,
    asset: tuple[str, str],
    known: Versions,
    facts: WorkspaceFacts,
    report: Report,
) -> None:
    name, version = asset
    if name not in known:
        lower = {candidate.lower(): candidate for candidate in known}
        near = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, _NEAR_ENVIRONMENTS)]
        newest = [f"azureml:{one}:{known[one][0]}" if known[one] else f"azureml:{one}@latest" for one in near]
        hint = f"Near: {', '.join(newest)}." if newest else f"It has {known_names(sorted(known))}."
        report.add(code, place, f"Workspace {facts.workspace} has no {what} {name}.", hint)
    elif version and known[name] and version not in known[name]:
        fault = f"The {what} {name} has no version {version} in workspace {facts.workspace}."
        report.add(code, place, fault, f"It has {known_names(known[name])}.")


def _data(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    for place, text, is_model in data_references(job_file):
        known, asset = facts.models if is_model else facts.data_assets, parse_asset(text)
        if asset and known is not None:
            code, what = ("unknown-model", "model") if is_model else ("unknown-data", "data asset")
            _look_up(code, what, place, asset, known, facts, report)


def _datastores(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    if facts.datastores is not None:
        for place, name in datastore_references(job_file):
            if name not in facts.datastores:
                fault = f"Workspace {facts.workspace} has no datastore {name}."
                report.add("unknown-datastore", place, fault, _near(name, facts.datastores))


def _job_name(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    if job_file.name and facts.job_names and job_file.name in facts.job_names:
        fault = f"Workspace {facts.workspace} has a job {job_file.name} already."
        hint = f"Give another name, as {next_name(job_file.name)}, or none to have one made."
        report.add("name-taken", ("name",), fault, hint)


def _endpoints(facts: WorkspaceFacts, job_file: JobFile, report: Report) -> None:
    name, where = job_file.text_at("name"), facts.workspace
    if job_file.kind == "compute" and facts.clusters is not None and name in facts.clusters:
        report.add("already-there", ("name",), f"Workspace {where} has a cluster {name}: the file would change it.")
    if facts.endpoints is None:
        return
    if job_file.kind == "endpoint":
        there = facts.endpoints.get(name)
        if there is not None:
            report.add(
                "already-there", ("name",), f"Workspace {where} has an endpoint {name}: the file would change it."
            )
        for deployment, share in job_file.mapping("traffic").items():
            if share and deployment not in (there or ()):
                fault = f"Endpoint {name} has no deployment {deployment} to take traffic."
                hint = _near(deployment, there) if there else "Create the deployments first, then set the traffic."
                report.add("unknown-endpoint", ("traffic", deployment), fault, hint, key=True)
    elif job_file.kind == "deployment" and job_file.text_at("endpoint_name"):
        endpoint = job_file.text_at("endpoint_name")
        if endpoint not in facts.endpoints:
            hint = (
                _near(endpoint, facts.endpoints) if facts.endpoints else "Create it first: footplate endpoint create."
            )
            report.add("unknown-endpoint", ("endpoint_name",), f"Workspace {where} has no endpoint {endpoint}.", hint)
        elif name in facts.endpoints[endpoint]:
            fault = f"Endpoint {endpoint} has a deployment {name}: the file would change it."
            report.add("already-there", ("name",), fault)
