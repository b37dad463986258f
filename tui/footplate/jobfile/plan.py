"""What will really run: the resolved command, and the environment of every rank."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from footplate.jobfile.document import JobFile
from footplate.workspace.errors import Invalid

_EXPRESSION = re.compile(r"\$\{\{\s*([^}]*?)\s*\}\}")
_RUNNABLE = ("", "pytorch")


@dataclass(frozen=True)
class RankCommand:
    """One process of a job."""

    rank: int
    node: int
    environment: Mapping[str, str]
    command: str


@dataclass(frozen=True)
class Plan:
    """A command job, resolved. Each of `nodes` × `ranks_per_node` processes runs the same `command` by `bash -c`."""

    command: str
    nodes: int
    ranks_per_node: int
    distribution: str
    environment_variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return self.nodes * self.ranks_per_node

    def environment(self, rank: int, master_addr: str = "127.0.0.1", master_port: int = 29500) -> dict[str, str]:
        """The variables of one rank: the file's own and, with `pytorch`, those that Azure sets.

        Source: Azure, how-to-train-distributed-gpu: no launcher is needed, each process gets its place in the group.
        """
        variables = dict(self.environment_variables)
        if self.distribution == "pytorch":
            variables |= {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank % self.ranks_per_node),
                "WORLD_SIZE": str(self.world_size),
                "NODE_RANK": str(rank // self.ranks_per_node),
                "MASTER_ADDR": master_addr,
                "MASTER_PORT": str(master_port),
            }
        return variables

    def ranks(self, master_addr: str = "node-0", master_port: int = 29500) -> tuple[RankCommand, ...]:
        """All processes, rank 0 first."""
        return tuple(
            RankCommand(r, r // self.ranks_per_node, self.environment(r, master_addr, master_port), self.command)
            for r in range(self.world_size)
        )

    def document(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Plan:
        """The plan that `document` wrote."""
        return cls(**document)


def plan(job_file: JobFile, inputs: Mapping[str, str] | None = None, outputs: Mapping[str, str] | None = None) -> Plan:
    """Resolve a command job.

    `inputs` and `outputs` give the text that stands for each data input and named output (a folder); without them the
    place where Azure would mount it is shown. Raises Invalid for `${{…}}` without a value, naming the nearest, and for a
    distribution that cannot run here.
    """
    if job_file.distribution not in _RUNNABLE:
        raise Invalid(
            f"{job_file.label} line {job_file.line('distribution', 'type')}: distribution {job_file.distribution!r} "
            "does not run in this version.",
            "Use `type: pytorch`, or none.",
        )
    known = {
        f"inputs.{name}": given.literal
        if given.literal is not None
        else (inputs or {}).get(name, f"<{name}: {given.path}>")
        for name, given in job_file.inputs.items()
    }
    known |= {f"outputs.{name}": (outputs or {}).get(name, f"<output {name}>") for name in job_file.outputs}
    command = resolve(job_file.command, known, f"{job_file.label} line {job_file.line('command')}")
    if not command.strip():
        raise Invalid(f"{job_file.label}: the command is empty once its inputs are filled in.", "Mend `command`.")
    ranks_per_node = job_file.ranks_per_node if job_file.distribution else 1
    return Plan(command, job_file.nodes, ranks_per_node, job_file.distribution, job_file.environment_variables)


def resolve(text: str, known: Mapping[str, str], where: str) -> str:
    """Replace every `${{name}}` (blanks inside allowed) by its text, unquoted, as Azure does. Raises Invalid for an unknown one."""

    def value(match: re.Match[str]) -> str:
        name = match[1].removesuffix(".path") if match[1].removesuffix(".path") in known else match[1]
        if name in known:
            return known[name]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean ${{{{{near[0]}}}}}?" if near else f"Known: {', '.join(known) or 'none'}."
        raise Invalid(f"{where}: ${{{{{match[1]}}}}} has no value.", hint)

    return _EXPRESSION.sub(value, text)
