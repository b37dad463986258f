"""The command on metrics: the latest values, every point as JSON or CSV, a chart as a picture; of one job or of several."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from footplate import words
from footplate.cli import names as known
from footplate.cli.frame import Frame, columned, common
from footplate.jobfile.faults import known_names, nearest
from footplate.operations import charts
from footplate.operations.metrics import (
    Axis,
    Metrics,
    Source,
    begin_of,
    compiled,
    differences,
    labels,
    order,
    series_of,
    shown,
    split_system,
)
from footplate.workspace import Invalid, Job, Workspace
from footplate.workspace.model import iso
from footplate.workspace.points import Points

_MOST_CURVES = 12


@dataclass(frozen=True)
class _Found:
    """A job with the metrics that were asked for, and the names of all that it has."""

    job: Job
    metrics: Metrics
    names: Sequence[str]
    note: str = ""


@click.command("metrics")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=known.jobs)
@click.option("--metric", "pattern", metavar="REGEX", default="", help="Only metrics in whose names this occurs.")
@click.option("--usage", is_flag=True, help="What the job used of CPU, memory, GPU, disk and network instead.")
@click.option("--csv", "as_csv", is_flag=True, help="Every point as a line of CSV: job,metric,step,time,value.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw a chart into this file.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Draw a chart into this file.")
@click.option(
    "--axis", type=click.Choice(["step", "time"]), help="The chart's x axis; time is counted from each job's start."
)
@click.option("--log", is_flag=True, help="A logarithmic y axis.")
@click.option(
    "--smooth",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="Exponential moving average of this weight.",
)
@click.option("--dark", is_flag=True, help="A chart on a dark ground.")
@common
@click.pass_obj
def metrics_command(
    frame: Frame,
    names: tuple[str, ...],
    pattern: str,
    usage: bool,
    as_csv: bool,
    svg: Path | None,
    png: Path | None,
    axis: Axis | None,
    log: bool,
    smooth: float,
    dark: bool,
) -> None:
    """Print jobs' metrics: the latest values, every point with --json or --csv; or draw a chart.

    Of several jobs, what they were given that differs comes first; a chart has all of them over each other.
    """
    pictures = [file for file in (svg, png) if file is not None]
    if (as_csv and (frame.json or pictures)) or (frame.json and pictures):
        raise Invalid("--json, --csv and a picture are three answers.", "Ask for one of them.")
    if not pictures and (axis or log or smooth or dark):
        raise Invalid("--axis, --log, --smooth and --dark are about a picture.", "Give --svg FILE or --png FILE, too.")
    wanted = compiled(pattern)

    async def work(workspace: Workspace) -> list[_Found]:
        return [await _find(workspace, name, wanted.search, usage) for name in dict.fromkeys(names)]

    found = frame.run(work)
    if pattern and not any(one.metrics for one in found) and any(one.names for one in found):
        raise _no_such(pattern, found)
    if pictures:
        figure = _figure(found, axis or ("time" if usage else "step"), log, smooth, dark)
        for file in pictures:
            ending = ".svg" if file is svg else ".png"
            charts.save(figure, file, ending)
            frame.say(f"Drawn into {words.path(file)}.")
    elif as_csv:
        frame.result(None, _csv(found))
    elif frame.json:
        documents = [_document(one) for one in found]
        frame.result(documents[0]["metrics"] if len(found) == 1 else documents, "")
    else:
        _print(frame, found, "usage" if usage else "metrics")


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(metrics_command)


async def _find(workspace: Workspace, name: str, wanted: Any, usage: bool) -> _Found:
    job = await workspace.job(name)
    own, note = dict(await workspace.metrics(name)), ""
    if usage:
        own = split_system(own)[1]
        if not (note := workspace.capabilities.get("usage", "")):
            sampled = await workspace.usage(name)
            own, note = {**own, **sampled.series}, sampled.note
    chosen = {key: own[key] for key in sorted(own, key=order) if len(own[key]) and wanted(key)}
    return _Found(job, chosen, tuple(own), note)


def _no_such(pattern: str, found: Sequence[_Found]) -> Invalid:
    names = sorted({shown(name) for one in found for name in one.names})
    near = nearest(pattern, names)
    meant = f"Meant {near}? " if near else ""
    return Invalid(f"No metric's name matches {pattern!r}.", f"{meant}There are: {known_names(names)}.")


def _document(one: _Found) -> dict[str, Any]:
    return {
        "name": one.job.name,
        "display_name": one.job.display_name,
        "inputs": dict(one.job.inputs),
        "parameters": dict(one.job.parameters),
        "metrics": {
            metric: [{"step": p.step, "time": iso(p.time), "value": p.value} for p in points]
            for metric, points in one.metrics.items()
        },
    }


def _csv(found: Sequence[_Found]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("job", "metric", "step", "time", "value"))
    for one in found:
        for metric, points in one.metrics.items():
            writer.writerows((one.job.name, metric, p.step, iso(p.time), repr(p.value)) for p in points)
    return text.getvalue().rstrip("\n")


def _print(frame: Frame, found: Sequence[_Found], what: str) -> None:
    for one in found:
        if one.note:
            frame.note(f"{one.job.name}: {one.note}")
    if not any(one.metrics for one in found):
        named = ", ".join(one.job.name for one in found)
        nothing = "no usage sampled" if what == "usage" else "logged no metrics"
        frame.say(f"{named} {'has' if len(found) == 1 else 'have'} {nothing}.")
        return
    rows: list[tuple[str, ...]] = []
    for one in found:
        for metric, points in one.metrics.items():
            last, values = points[-1], Points.of(points).values
            odd = sum(value - value != 0 for value in values)
            rows.append(
                (
                    *((one.job.name,) if len(found) > 1 else ()),
                    shown(metric),
                    words.number(last.value),
                    str(last.step),
                    str(len(points)),
                    f"{odd} NaN/inf" if odd else "",
                )
            )
    head = (*(("JOB",) if len(found) > 1 else ()), "METRIC", "LATEST", "STEP", "POINTS", "NOTE")
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    parts = [columned([head, *rows])]
    if len(found) > 1 and (differing := differences([one.job for one in found])):
        columns = ("DIFFERS", *(one.job.name for one in found))
        parts.insert(0, columned([columns, *((d.name, *(value or "–" for value in d.values)) for d in differing)]))
    frame.result(None, "\n\n".join(parts))


def _figure(found: Sequence[_Found], axis: Axis, log: bool, smooth: float, dark: bool) -> charts.Figure:
    """All curves that were asked for on one chart."""
    metrics = list(dict.fromkeys(metric for one in found for metric in one.metrics))
    named = ", ".join(one.job.name for one in found)
    if not metrics:
        raise Invalid(f"There is nothing to draw: no metrics of {named}.", "See footplate metrics NAME.")
    count = sum(len(one.metrics) for one in found)
    if count > _MOST_CURVES:
        raise Invalid(
            f"{count} curves are too many for one chart ({_MOST_CURVES} at most).",
            f"Narrow them with --metric REGEX. There are: {known_names([shown(name) for name in metrics])}.",
        )
    series = []
    for label, one in zip(labels([one.job for one in found]), found, strict=True):
        begin = begin_of(one.metrics, one.job)
        for metric, points in one.metrics.items():
            parts = [label] if len(found) > 1 else []
            parts += [shown(metric)] if len(metrics) > 1 or not parts else []
            series.append(series_of(Source(" ".join(parts), Points.of(points), begin), axis, smooth, log))
    title = shown(metrics[0]) if len(metrics) == 1 else f"{len(metrics)} metrics"
    title = f"{title} · {found[0].job.display_name or named}" if len(found) == 1 else f"{title} of {len(found)} jobs"
    notes = [f"smoothed {smooth:g}" if smooth else "", "log scale" if log else ""]
    return charts.Figure(title, series, axis, log, note=", ".join(filter(None, notes)), dark=dark)
