"""What shapes cannot say: rules over a whole file, a module a subject. Each has the codes it can report and its rules."""

from __future__ import annotations

from collections.abc import Callable

from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Report
from footplate.jobfile.rules import (
    bindings,
    command_text,
    component_limits,
    endpoints,
    files,
    names,
    pipelines,
    retired,
    scalars,
    sweeps,
    version1,
    workspace,
)
from footplate.jobfile.schema import common
from footplate.jobfile.schema import endpoints as endpoint_schema

_MODULES = (
    bindings,
    command_text,
    component_limits,
    endpoints,
    files,
    names,
    pipelines,
    retired,
    scalars,
    sweeps,
    version1,
)

CODES = tuple(code for module in (common, endpoint_schema, *_MODULES, workspace) for code in module.CODES)
"""The codes of all rules; those of `workspace` are asked for with `check(…, more=workspace.against(facts))`."""

Rule = Callable[[JobFile, Report], None]


def of(kind: str) -> tuple[Rule, ...]:
    """The rules for a kind of file; those of the kind `*` hold for every kind."""
    return tuple(rule for module in _MODULES for kinds, rule in module.RULES if kind in kinds or "*" in kinds)
