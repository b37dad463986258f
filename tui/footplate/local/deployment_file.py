"""A deployment's file as this machine runs it: its model, code, limits; and what it asks for that is otherwise here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from footplate.jobfile import JobFile, kinds
from footplate.jobfile.check import check, refuse
from footplate.jobfile.document import is_remote, real_path
from footplate.local.deployment_spec import Probe, Spec
from footplate.workspace.errors import Invalid


@dataclass(frozen=True)
class InlineModel:
    """A model that the file has by its path; `name` and `version` where it gives them."""

    path: Path
    name: str
    version: str


@dataclass(frozen=True)
class DeploymentFile:
    """What a deployment's file says. `model`: a reference, a path, or none; `code`: the folder of the scoring script."""

    endpoint: str
    name: str
    model: str | InlineModel
    code: Path
    instances: int
    spec: Spec


def require(file: JobFile, kind: str) -> None:
    """Raise Invalid for a file of another kind, and for one with errors."""
    if file.kind != kind:
        raise Invalid(
            f"{file.label} is {kinds.TITLES[file.kind]}, not {kinds.TITLES[kind]}.", "Name a file of that kind."
        )
    refuse(check(file), file.label)


def read_deployment(file: JobFile, endpoint: str | None, name: str | None) -> DeploymentFile:
    """Read a deployment's file; names that are given replace its own. Raises Invalid for what cannot run here."""
    given = {"endpoint_name": endpoint, "name": name}
    file = file.edit({key: value for key, value in given.items() if value is not None and file.text_at(key) != value})
    require(file, "deployment")
    if not file.text_at("endpoint_name"):
        raise Invalid(f"{file.label} names no endpoint.", "Add `endpoint_name`, or deploy it with --endpoint NAME.")
    model = _model(file)
    return DeploymentFile(
        file.text_at("endpoint_name"),
        file.text_at("name"),
        model,
        _code(file),
        max(1, file.whole("instance_count")),
        _spec(file),
    )


def _model(file: JobFile) -> str | InlineModel:
    given = file.get("model")
    if isinstance(given, str):
        if given.startswith("azureml://"):
            raise Invalid(
                f"{file.label}: the model {given} does not lie on this machine.",
                "Download it and give its path, or register it here.",
            )
        return given
    if not isinstance(given, Mapping):
        return ""
    path = file.text_at("model", "path")
    if not path or is_remote(path):
        raise Invalid(
            f"{file.label}: the model {path or 'without a path'} does not lie on this machine.",
            "Download it and give its path, or register it here.",
        )
    place = real_path(file.base, path)
    if not place.exists():
        raise Invalid(f"{file.label}: the model {place} is not there.", "Mend `path` below `model`.")
    return InlineModel(place, file.text_at("model", "name"), file.text_at("model", "version"))


def _code(file: JobFile) -> Path:
    code, script = file.text_at("code_configuration", "code"), file.text_at("code_configuration", "scoring_script")
    if not code or not script:
        raise Invalid(
            f"{file.label} has no code_configuration: this machine serves a model with a scoring script, not with an image of "
            "its own and not without code.",
            "Add `code_configuration` with `code` and `scoring_script`.",
        )
    if is_remote(code):
        raise Invalid(f"{file.label}: the code {code} does not lie on this machine.", "Give a local folder.")
    folder = real_path(file.base, code)
    if not (folder / script).is_file():
        raise Invalid(
            f"{file.label}: the scoring script {script} is not in {folder}.",
            "`scoring_script` is relative to `code`, and `code` to the file.",
        )
    return folder


def _spec(file: JobFile) -> Spec:
    variables = dict(file.environment_variables)
    workers = variables.get("WORKER_COUNT", "")
    settings = file.mapping("request_settings")
    default = Spec()
    timeout = _milliseconds(settings.get("request_timeout_ms"))
    return Spec(
        script=file.text_at("code_configuration", "scoring_script"),
        variables=variables,
        workers=int(workers) if workers.isascii() and workers.isdecimal() and int(workers) > 0 else 1,
        request_seconds=default.request_seconds if timeout is None else timeout,
        concurrent=file.whole("request_settings", "max_concurrent_requests_per_instance", default=0) or None,
        queue_seconds=_milliseconds(settings.get("max_queue_wait_ms")),
        ready_seconds=_ready_seconds(file),
        liveness=_probe(file, "liveness_probe") if file.mapping("liveness_probe") else None,
        notes=tuple(_notes(file, workers)),
    )


def _milliseconds(value: Any) -> float | None:
    return None if value is None else int(value) / 1000


def _probe(file: JobFile, key: str) -> Probe:
    default = Probe()
    return Probe(
        initial_delay=file.whole(key, "initial_delay", default=int(default.initial_delay)),
        period=file.whole(key, "period", default=int(default.period)),
        timeout=file.whole(key, "timeout", default=int(default.timeout)),
        failures=file.whole(key, "failure_threshold", default=default.failures),
    )


def _ready_seconds(file: JobFile) -> float:
    """Until Azure gives up waiting: the readiness probe's delay, and its period as often as it may fail."""
    probe = _probe(file, "readiness_probe")
    return probe.initial_delay + probe.period * probe.failures


def _notes(file: JobFile, workers: str) -> list[str]:
    """What an operator would stumble on; what differs on Azure stands in the table of differences."""
    concurrent = file.whole("request_settings", "max_concurrent_requests_per_instance", default=0)
    if concurrent > 1 and not workers:
        return [f"{concurrent} requests at a time go to one worker: set WORKER_COUNT too"]
    return []
