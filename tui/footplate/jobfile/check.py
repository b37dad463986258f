"""Check a file: every fault at once, each with its place, from the file's own text; Azure's SDK is never asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from footplate.jobfile import document, kinds, rules, schema, shapes
from footplate.jobfile.document import JobFile, Unreadable
from footplate.jobfile.faults import Code, Fault, Report
from footplate.workspace.errors import Invalid

_OWN = (
    Code("not-yaml", "error", "The file cannot be read as YAML; nothing else can be said of it.", "inputs:\n\tepochs: 1  # here\n"),
    Code("bad-scalar", "error", "A value that looks like a date or number and is none, or holds a character that none may.",
         "command: echo\nenvironment: azureml:e:1\ntags: {made: 2026-13-45}  # here\n"),
    Code("bad-key", "error", "A key that YAML 1.1 does not read as text, as `on` or `1`.",
         "command: echo\nenvironment: azureml:e:1\ntags:\n  on: yes  # here\n"),
    Code("duplicate-key", "error", "A key that stands twice; YAML keeps the last and says nothing.",
         "command: echo a\nenvironment: azureml:e:1\ncommand: echo b  # here\n"),
    Code("too-large", "error", "More than 1 MB, more than 20,000 values, or nested more than 100 deep."),
    Code("no-mapping", "error", "The file is empty, or holds a list or one value.", "- a list  # here\n"),
    Code("unknown-kind", "error", "No kind of Azure ML file that footplate knows.", "# next line\nanything: goes\n"),
    Code("not-checked", "note", "A kind of Azure ML file of which footplate knows only that it is one.",
         "$schema: https://azuremlschemas.azureedge.net/latest/sparkJob.schema.json  # here\ntype: spark\n"),
)  # fmt: skip

CODES: Mapping[str, Code] = {code.id: code for code in (*_OWN, *shapes.CODES, *rules.CODES)}
"""Every code by its name."""

UNREADABLE = frozenset({"missing-key", "wrong-type", "wrong-value", "out-of-range", "bad-scalar", "duplicate-key"})
"""Faults of the shape: what has one cannot run, forced or not."""

_TELLING = frozenset({"wrong-type", "unknown-key", "empty-section", "bad-input-name", "component-syntax"})
"""Errors that say all of what stands at their place: what else a rule finds there comes of them."""

Rule = Callable[[JobFile, Report], None]


def check(job_file: JobFile, severities: Mapping[str, str] | None = None, more: Iterable[Rule] = ()) -> list[Fault]:
    """All faults of a file, in the order of their lines. `more` are rules that need more than the file."""
    file = str(job_file.path) if job_file.path else ""
    report = Report(job_file.text, job_file.places, file, CODES, severities or {})
    for place, refused in job_file.refused:
        report.add(
            refused.code, place, f"{_capital(refused.fault)}.", refused.next_step,
            at=(refused.line, refused.column),
        )  # fmt: skip
    shape = schema.SHAPES.get(job_file.kind)
    if shape is not None:
        shape.check(job_file.values, (), report)
    elif job_file.kind:
        first = next((key for key in ("$schema", "type") if key in job_file.values), "")
        if not job_file.kind.startswith("v1"):
            report.add(
                "not-checked", (first,) if first else (), f"This is {kinds.TITLES[job_file.kind]}; footplate does not check it.",
                "It checks command, sweep and pipeline jobs, components, online endpoints and deployments, and clusters.", key=True,
            )  # fmt: skip
    else:
        report.add(
            "unknown-kind", (), "This is no kind of Azure ML file that footplate knows.",
            "A command job has `command` and `environment`, a sweep `trial`, a pipeline `jobs`.",
        )  # fmt: skip
    for rule in (*rules.of(job_file.kind), *more):
        rule(job_file, report)
    told = {fault.place for fault in report.faults if fault.severity == "error" and fault.code in _TELLING}
    unique = {
        (f.code, f.place, f.line, f.column, f.message): f
        for f in report.faults
        if f.severity == "error" or f.place not in told
    }
    return sorted(unique.values(), key=lambda fault: (fault.line, fault.column))


def unreadable(fault: Fault) -> bool:
    """Whether a file with this fault cannot run, forced or not: of its shape something is missing or wrong."""
    return fault.unreadable or fault.code in UNREADABLE


def _capital(clause: str) -> str:
    """A clause as a sentence of its own begins."""
    return f"{clause[:1].upper()}{clause[1:]}"


def check_file(
    path: Path, severities: Mapping[str, str] | None = None, more: Iterable[Rule] = ()
) -> tuple[JobFile | None, list[Fault]]:
    """Read and check; a file that cannot be read is one fault. Raises Invalid where there is no such file."""
    try:
        job_file = document.read(path)
    except Unreadable as error:
        message = _capital(error.fault)
        return None, [Fault(error.code, "error", message, error.next_step, error.line, error.column, (), str(path))]
    return job_file, check(job_file, severities, more)


def refuse(faults: Sequence[Fault], label: str) -> None:
    """Raise Invalid with the first error of the list, and how many there are, where there is one."""
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors:
        first = errors[0]
        more = f" It has {len(errors) - 1} more: footplate check lists all." if len(errors) > 1 else ""
        raise Invalid(f"{label} line {first.line}: {first.message}", f"{first.hint}{more}".strip())


def require_shape(job_file: JobFile) -> None:
    """Raise Invalid for faults of the shape: a file that has them cannot run, whatever is forced."""
    refuse([fault for fault in check(job_file) if unreadable(fault)], job_file.label)
