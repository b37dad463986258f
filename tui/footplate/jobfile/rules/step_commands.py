"""What steps, inline components and component files run, judged by the rules of jobs: each is seen as a job file of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from footplate.jobfile import nodes
from footplate.jobfile.document import BODY, JobFile
from footplate.jobfile.expressions import EXPRESSION, bound_name
from footplate.jobfile.faults import Fault, Report, known_names
from footplate.jobfile.rules import bindings, command_text, names, scalars, sweeps
from footplate.jobfile.rules.files import FOLDER, found_at, local_path, near_name, near_path

T = TypeVar("T")
Rule = Callable[[JobFile, Report], None]

_TEXT: tuple[Rule, ...] = tuple(rule for _, rule in command_text.RULES)
_COMMAND: tuple[Rule, ...] = (bindings.bindings, *_TEXT, scalars.scalars, names.references)
_SWEEP: tuple[Rule, ...] = (*_TEXT, *(rule for _, rule in sweeps.RULES), scalars.scalars, names.references)
_COMPONENT: tuple[Rule, ...] = (bindings.bindings, *_TEXT)

_NOT_OF_A_STEP = ("$schema", "name", "version", "is_deterministic", "jobs")
"""Keys by which a step would be taken for another kind of file."""
_RUN = ("command", "sweep")


@dataclass(frozen=True)
class _Part:
    """A step as a job file, and where each of its paths stands in the whole file."""

    seen: JobFile
    here: nodes.Path
    origin: Mapping[nodes.Path, nodes.Path]

    def at(self, place: nodes.Path) -> nodes.Path:
        """The path in the whole file; of what is not there, below the nearest that is."""
        for end in range(len(place), 0, -1):
            if place[:end] in self.origin:
                return (*self.origin[place[:end]], *place[end:])
        return (*self.here, *place)


def steps(job_file: JobFile, report: Report) -> None:
    """Every command and sweep step, in pipelines within too."""
    found = dict(_steps(job_file.values, ()))
    places = _by_step(((path, path) for path in job_file.places), found)
    known = _by_step(((fault.place, fault) for fault in report.faults), found)
    for here, step in found.items():
        kind = str(step.get("type") or "command").lower()
        if kind in _RUN:
            part = _part(job_file, here, step, kind, places[here])
            _judge(part, _SWEEP if kind == "sweep" else _COMMAND, report, known[here])
            if kind == "sweep":
                _trial(part, report)
        elif kind == "parallel":
            inner = nodes.mapping(step.get("component"))
            where = (*here, "component") if inner else here
            given = {**nodes.mapping(inner.get("inputs")), **nodes.mapping(step.get("inputs"))}
            _parallel(job_file, inner or step, where, given, report)


def component(job_file: JobFile, report: Report) -> None:
    """What a component file runs, with the defaults of its inputs."""
    kind = str(job_file.get("type") or "command").lower()
    if kind == "parallel":
        _parallel(job_file, job_file.values, (), job_file.mapping("inputs"), report)
    if kind == "command":
        values = {**job_file.values, "inputs": _with_defaults(job_file.mapping("inputs"), {})}
        seen = replace(job_file, values=values, is_step=True)
        _judge(_Part(seen, (), {path: path for path in job_file.places}), _COMPONENT, report, report.faults)


def _parallel(
    job_file: JobFile, values: Mapping[str, Any], place: nodes.Path, inputs: Mapping[str, Any], report: Report
) -> None:
    """A parallel step's script is in its code folder, and its `input_data` is one of its inputs."""
    task = nodes.mapping(values.get("task"))
    code, script = local_path(task.get("code")), task.get("entry_script")
    folder = job_file.base / code if code else None
    if folder and isinstance(script, str) and found_at(folder) == FOLDER and found_at(folder / script) == "":
        near = near_path(folder, script, report)
        hint = f"Did you mean {near}?" if near.endswith(".py") else f"It is relative to the code folder {code}."
        fault = f"The script {script} is not in the code folder {code}."
        report.add("script-missing", (*place, "task", "entry_script"), fault, hint)
    match = EXPRESSION.fullmatch(str(values.get("input_data") or "").strip())
    known = [f"inputs.{name}" for name in inputs]
    if match and match[1] not in known:
        near = near_name(match[1], known, report)
        hint = f"Did you mean ${{{{{near}}}}}?" if near else f"The step has {known_names(known)}."
        report.add("unbound", (*place, "input_data"), f"`{match[1]}` is no input of the step.", hint)


def _steps(values: Mapping[str, Any], place: nodes.Path) -> Iterator[tuple[nodes.Path, Mapping[str, Any]]]:
    for name, step in nodes.mapping(values.get("jobs")).items():
        if isinstance(step, Mapping):
            yield (*place, "jobs", name), step
            yield from _steps(step, (*place, "jobs", name))
            yield from _steps(nodes.mapping(step.get("component")), (*place, "jobs", name, "component"))


def _by_step(every: Iterable[tuple[nodes.Path, T]], steps: Mapping[nodes.Path, object]) -> dict[nodes.Path, list[T]]:
    """What stands in each step; once through the file, however many steps it has."""
    found: dict[nodes.Path, list[T]] = {here: [] for here in steps}
    for path, one in every:
        for end in range(2, len(path) + 1):
            if path[:end] in found:
                found[path[:end]].append(one)
    return found


def _part(
    job_file: JobFile, here: nodes.Path, step: Mapping[str, Any], kind: str, paths: Iterable[nodes.Path]
) -> _Part:
    """A step as a job file. What an inline component says stands where the step itself says nothing."""
    values = {str(key): value for key, value in step.items() if key not in _NOT_OF_A_STEP}
    held = step.get("component") if kind == "command" else None
    inner = nodes.mapping(held)
    origin: dict[nodes.Path, nodes.Path] = {}
    below: list[nodes.Path] = []
    for path in paths:
        if path[len(here) : len(here) + 1] == ("component",) and inner:
            below.append(path)
        else:
            origin[path[len(here) :]] = path
    for path in below:
        origin.setdefault(path[len(here) + 1 :], path)
    if inner:
        del values["component"]
        values = {**{key: inner[key] for key in (*BODY, "outputs") if key in inner}, **values}
        values["inputs"] = _with_defaults(nodes.mapping(inner.get("inputs")), nodes.mapping(step.get("inputs")))
        values["outputs"] = {**nodes.mapping(inner.get("outputs")), **nodes.mapping(step.get("outputs"))}
    places = {seen: job_file.places[path] for seen, path in origin.items()}
    seen = replace(job_file, values={**values, "type": kind}, places=places, refused=(), is_step=True)
    return _Part(seen, here, origin)


def _with_defaults(declared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs with the values that a step gives, else the defaults."""
    found = {}
    for name, said in declared.items():
        spec = nodes.mapping(said)
        members = nodes.mapping(spec.get("values")) if spec.get("type") == "group" else {}
        for key, inner in ({f"{name}.{member}": one for member, one in members.items()} or {name: said}).items():
            default = nodes.mapping(inner).get("default")
            found[key] = inner if default is None else default
    return {**found, **given}


def _judge(part: _Part, rules: Iterable[Rule], report: Report, known: Iterable[Fault]) -> None:
    """Run rules on a part, and take what they find over into the report of the whole file."""
    depth = len(part.here)
    before = [replace(fault, place=fault.place[depth:]) for fault in known]
    own = Report(report.text, part.seen.places, report.file, report.codes, report.severities, list(before))
    for rule in rules:
        rule(part.seen, own)
    key = report.places[part.here].name if part.here in report.places else (1, 1)
    for fault in own.faults[len(before) :]:
        if not _is_filled_in(part.seen, fault):
            # What the step does not have is told at its own key, not at the file's first line.
            line, column = key if (fault.line, fault.column) == (1, 1) else (fault.line, fault.column)
            report.faults.append(replace(fault, place=part.at(fault.place), line=line, column=column))


def _is_filled_in(part: JobFile, fault: Fault) -> bool:
    """Whether a fault is none in a pipeline: the service fills in `${{parent.…}}` anywhere, and optional brackets."""
    if fault.code == "bound-expression":
        match = EXPRESSION.search(part.text_at(*fault.place))
        return match is not None and match[1].startswith("parent.")
    return fault.code == "optional-brackets"


def _trial(part: _Part, report: Report) -> None:
    """What an inline trial's command names is there; a swept value is named as an input or as a search space."""
    sweep = part.seen
    swept = sweep.mapping("search_space")
    known = dict.fromkeys(
        [f"{key}.{name}" for key in ("inputs", "outputs", "search_space") for name in sweep.mapping(key)]
        + [f"{key}.{name}" for key in ("inputs", "outputs") for name in sweep.mapping("trial", key)]
        + [f"inputs.{name}" for name in swept]
    )
    told: set[str] = set()
    for match in EXPRESSION.finditer(sweep.command):
        if bound_name(match[1], known, in_step=True) not in known and match[1] not in told:
            told.add(match[1])
            near = near_name(match[1], known, report)
            hint = f"Did you mean ${{{{{near}}}}}?" if near else f"The step has {known_names(known)}."
            fault = f"`{match[1]}` is not defined in step {part.here[-1]}."
            report.add("unbound", (*part.here, "trial", "command"), fault, hint, within=match[0])


RULES = ((("pipeline", "component"), steps), (("component",), component))
