"""A job file made from what the service keeps of a job: what its own file said, as far as that can be told from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from footplate.azure.job_file_values import References, command, job_tags, pipeline, sweep, texts
from footplate.azure.jobs import Jobs
from footplate.azure.place import Place
from footplate.azure.reading import mapping, text
from footplate.jobfile import JobFile, blocks, nodes, writing
from footplate.jobfile.document import parse
from footplate.jobfile.writing import Exact, Typed
from footplate.workspace.errors import Invalid

_SCHEMA = "https://azuremlschemas.azureedge.net/latest/{}Job.schema.json"
_TOLD = (
    *("jobType", "command", "codeId", "environmentId", "environmentVariables", "distribution", "inputs", "outputs"),
    *("computeId", "resources", "limits", "queueSettings", "services", "identity", "displayName", "experimentName"),
    *("description", "tags", "trial", "searchSpace", "samplingAlgorithm", "objective", "earlyTermination"),
    *("settings", "jobs"),
)
_OF_THE_RUN = ("status", "properties", "isArchived", "parentJobName", "parameters", "componentId", "sourceJobId")
"""What the service says of the run, and no file does; the last two are what the rest was made from."""


class JobFiles:
    """The job files of one workspace's jobs."""

    def __init__(self, jobs: Jobs, place: Place) -> None:
        self._jobs = jobs
        self._place = place

    async def job_file(self, name: str) -> JobFile:
        """A file that starts the same job again, without its name. Raises NotFound, Invalid for a kind that no file is made of."""
        record = await self._jobs.record(name)
        return parse(write(record, self._place), None, Path.cwd())


def write(record: Mapping[str, Any], place: Place) -> str:
    """The text of a job file for a job's JSON. Raises Invalid for another kind than command, sweep and pipeline."""
    properties, name = mapping(record.get("properties")), text(record.get("name"))
    kind = text(properties.get("jobType")).lower()
    if kind not in ("command", "sweep", "pipeline"):
        raise Invalid(
            f"Job {name!r} is of kind {kind or 'unknown'}: footplate makes files of command, sweep and pipeline jobs.",
            "Look at it in the studio.",
        )
    refer = References(place)
    values = {
        "$schema": _SCHEMA.format(kind),
        "type": kind,
        "display_name": text(properties.get("displayName")) if properties.get("displayName") != name else "",
        "experiment_name": text(properties.get("experimentName")),
        "description": text(properties.get("description")),
        "tags": texts(job_tags(name, properties, kind)),
        **{"command": command, "sweep": sweep, "pipeline": pipeline}[kind](properties, refer, name),
    }
    lost = sorted(
        key
        for key, value in properties.items()
        if key not in _TOLD and key not in _OF_THE_RUN and value not in (None, "", {}, [], False)
    )
    head = [
        f"Made from job {name} of workspace {place.workspace_name}, as Azure keeps it: its own file and comments are not kept."
    ]
    if refer.codes:
        head.append("The code is the snapshot that it ran with; name a folder instead to upload another.")
    if lost:
        head.append(f"Not carried over: {', '.join(lost)}.")
    lines = [f"# {''.join(c if c.isprintable() else '?' for c in line)}" for line in head]
    return "\n".join([*lines, *_block(values, 0)]) + "\n"


def _block(values: Mapping[str, Any], column: int) -> Iterator[str]:
    """Lines of YAML; what is empty is left out, but for the literal that is no text."""
    for name, value in values.items():
        start = f"{' ' * column}{writing.key(name)}:"
        if isinstance(value, Mapping):
            if inner := list(_block(value, column + 2)):
                yield start
                yield from inner
        elif value not in ("", None, [], ()):
            yield f"{start} {_written(value, column + 2)}"


def _written(value: Any, column: int) -> str:
    found = Exact(value) if isinstance(value, str) else value
    if isinstance(found, Exact) and "\n" in found.text:
        return _lines(found.text, column)
    return next(writing.forms(found)) if isinstance(found, Exact | Typed) else writing.collection(found)


def _lines(value: str, column: int) -> str:
    """Text of several lines as a block, where that reads back as the same."""
    made = blocks.new(value, column, "\n")
    try:
        read = nodes.compose(f"x: {made}\n").values
    except (yaml.YAMLError, nodes.Refused):
        read = None
    return made if read == {"x": value} else writing.quoted(value)
