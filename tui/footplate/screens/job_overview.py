"""All that is known of one job, as text: its stages with their times, why it waits, what it is, serves and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from textual.content import Content

from footplate import words
from footplate.logs.sanitise import clean
from footplate.workspace import Job, Service

_LABEL = 22
_MUTED = "$text-muted"


def overview(
    job: Job, services: Sequence[Service] = (), now: datetime | None = None, *, explained: bool = False
) -> Content:
    """The overview of a job: first its stages and why it waits or failed, in a line each; not again where that is `explained`."""
    now = now or datetime.now(UTC)
    lines = [stages(job, now)]
    if why := ("" if explained else job.error) or job.note:
        style = "$text-error" if job.error and not explained else "$text-warning" if job.active else _MUTED
        lines += [Content.styled(clean(line), style) for line in why.splitlines()]
    lines.append(Content(""))
    lines += [_row(label, value) for label, value in _rows(job, now) if value]
    lines += [_service(service) for service in services]
    if job.command.strip():
        lines += [Content(""), Content.styled("command", _MUTED)]
        lines += [Content(f"  {clean(line)}") for line in job.command.strip().splitlines()]
    return Content("\n").join(lines)


def stages(job: Job, now: datetime) -> Content:
    """The stages of a job's life with their times, the one it is in bold; where none are told, what start and end say."""
    parts: list[Content] = []
    for stage in job.stages:
        seconds = max(0.0, ((stage.ended or (now if job.active else job.ended) or now) - stage.started).total_seconds())
        goes_on = stage.ended is None and job.active
        parts.append(
            Content.styled(
                f"{clean(stage.name).lower()} {words.span(seconds)}{' so far' if goes_on else ''}",
                "bold" if goes_on else "",
            )
        )
    if not job.stages:
        waited = ((job.started or job.ended or now) - job.created).total_seconds()
        parts.append(Content(f"waited {words.span(max(0.0, waited))}"))
        if job.started is not None:
            parts.append(Content(f"ran {words.span(job.seconds(now))}"))
    if not job.active:
        parts.append(Content.styled(clean(job.status).lower(), "bold"))
    return Content(" · ").join(parts)


def runs_on(job: Job) -> str:
    """The cluster, or serverless."""
    return job.compute or ("" if job.type == "pipeline" else "serverless")


def _rows(job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    yield "name", job.name
    yield "display name", job.display_name
    yield "type", job.type
    yield "status", f"{job.status}{', archived' if job.archived else ''}"
    yield "experiment", job.experiment
    yield "part of", job.parent or ""
    yield "cluster", runs_on(job)
    yield "nodes × ranks", "" if job.type == "pipeline" else f"{job.nodes} × {job.ranks_per_node}"
    yield "created", _moment(job.created)
    yield "started", _moment(job.started)
    yield "ended", _moment(job.ended)
    yield "took", words.span(job.seconds(now))
    if job.type == "sweep":
        yield "objective", " ".join(part for part in ((job.goal or "").lower(), job.primary_metric) if part)
        yield "best trial", job.best_child or "none yet"
    for name, value in job.parameters.items():
        yield f"parameter {name}", str(value)
    if job.metric is not None:
        yield job.primary_metric or "metric", words.metric(job.metric)
    for name, value in job.inputs.items():
        if name not in job.parameters:
            yield f"input {name}", str(value)
    for name, value in job.tags.items():
        yield f"tag {name}", value
    yield "studio  y copies it", job.studio_url


def _moment(moment: datetime | None) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment is not None else ""


def _row(label: str, value: str) -> Content:
    return Content.assemble((f"{clean(label):<{_LABEL}}", _MUTED), clean(value))


def _service(service: Service) -> Content:
    """What a job serves: where it answers, or why it does not."""
    said = service.url or service.error or "no address yet"
    kind = "" if service.type.lower() == service.name.lower() else f"{service.type} "
    return Content.assemble(
        (f"{clean(f'service {service.name}'):<{_LABEL}}", _MUTED),
        (f"{clean(kind)}{clean(service.status)}  ", _MUTED),
        (clean(said), "$text-error" if service.error and not service.url else ""),
    )
