"""What will really run: the resolved command, and the environment of every rank; of a sweep also of sample trials."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from footplate.jobfile import kinds
from footplate.jobfile.document import Input, JobFile
from footplate.jobfile.expressions import EXPRESSION, bound_name
from footplate.jobfile.faults import known_names, nearest
from footplate.jobfile.limits import MOST_RANKS
from footplate.workspace.errors import Invalid

if TYPE_CHECKING:
    from footplate.jobfile.search_space import Space

_BY_PROCESSES = ("pytorch", "mpi")
"""The distributions that start `process_count_per_instance` processes a node."""

SAMPLES = 3
"""Trials of a sweep that are shown before it runs."""


@dataclass(frozen=True)
class RankCommand:
    """One process of a job. `role` says what it is where the distribution has several kinds: `worker`, `ps`, `head`."""

    rank: int
    node: int
    environment: Mapping[str, str]
    command: str
    role: str = ""

    def document(self) -> dict[str, Any]:
        """What `launch --dry-run` prints of it; `role` only where there is one."""
        return {key: value for key, value in asdict(self).items() if key != "role" or value}


@dataclass(frozen=True)
class Plan:
    """A command job, resolved. Each of its processes runs the same `command` by `bash -c`.

    There are `nodes` × `ranks_per_node` of them; with `tensorflow` as many as `workers` and `parameter_servers` together.
    """

    command: str
    nodes: int
    ranks_per_node: int
    distribution: str
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    workers: int = 0
    parameter_servers: int = 0

    @property
    def world_size(self) -> int:
        """Number of processes."""
        if self.distribution == "tensorflow":
            return self.workers + self.parameter_servers
        return self.nodes * self.ranks_per_node

    def node(self, rank: int) -> int:
        """The node on which a process runs: nodes are filled one after the other, parameter servers are dealt out in turn."""
        if self.distribution != "tensorflow":
            return rank // self.ranks_per_node
        return rank * self.nodes // self.workers if rank < self.workers else (rank - self.workers) % self.nodes

    def role(self, rank: int) -> str:
        """What a process is, where the distribution has several kinds."""
        if self.distribution == "tensorflow":
            return "worker" if rank < self.workers else "ps"
        if self.distribution == "ray":
            return "worker" if rank else "head"
        return ""

    def environment(
        self, rank: int, master_addr: str = "127.0.0.1", master_port: int = 29500, ports: Sequence[int] = ()
    ) -> dict[str, str]:
        """The variables of one rank: the file's own and those that Azure sets for its distribution.

        `ports` are those of the processes of `tensorflow`, each of which listens; without them they are counted from
        `master_port`.
        Source: Azure, how-to-train-distributed-gpu: no launcher is needed, each process gets its place in the group.
        """
        variables = dict(self.environment_variables)
        local_rank = str(rank % self.ranks_per_node)
        if self.distribution == "pytorch":
            variables |= {
                "RANK": str(rank),
                "LOCAL_RANK": local_rank,
                "WORLD_SIZE": str(self.world_size),
                "NODE_RANK": str(self.node(rank)),
                "MASTER_ADDR": master_addr,
                "MASTER_PORT": str(master_port),
            }
        elif self.distribution == "mpi":
            variables |= {
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_SIZE": str(self.world_size),
                "OMPI_COMM_WORLD_LOCAL_RANK": local_rank,
                "OMPI_COMM_WORLD_LOCAL_SIZE": str(self.ranks_per_node),
            }
        elif self.distribution == "tensorflow":
            variables["TF_CONFIG"] = self._tf_config(
                rank, master_addr, ports or range(master_port, master_port + self.world_size)
            )
        return variables

    def _tf_config(self, rank: int, master_addr: str, ports: Sequence[int]) -> str:
        """TensorFlow's own description of the group: every process's address, and which of them this one is."""
        # `node-0` stands for the first node's address where none is known; the others are named alike.
        addresses = [
            f"{master_addr.replace('node-0', f'node-{self.node(other)}')}:{ports[other]}"
            for other in range(self.world_size)
        ]
        cluster = {"worker": addresses[: self.workers]}
        if self.parameter_servers:
            cluster["ps"] = addresses[self.workers :]
        role = self.role(rank)
        task = {"type": role, "index": rank if role == "worker" else rank - self.workers}
        return json.dumps({"cluster": cluster, "task": task})

    def ranks(self, master_addr: str = "node-0", master_port: int = 29500) -> tuple[RankCommand, ...]:
        """All processes, rank 0 first."""
        return tuple(
            RankCommand(
                r, self.node(r), self.environment(r, master_addr, master_port), self.command, self.role(r)
            )
            for r in range(self.world_size)
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Plan:
        """The plan that `document` wrote."""
        return cls(**document)


@dataclass(frozen=True)
class Trial:
    """One trial of a sweep: the values drawn for it, as the text that the command gets, and what it runs."""

    values: Mapping[str, str]
    plan: Plan


@dataclass(frozen=True)
class SweepPlan:
    """A sweep, resolved: in `plan` every `${{search_space.x}}` stands as it is, in each of `trials` a value that was drawn."""

    plan: Plan
    trials: tuple[Trial, ...]
    search_space: Mapping[str, Any]  # as Azure's client sends it


def plan(job_file: JobFile, inputs: Mapping[str, str] | None = None, outputs: Mapping[str, str] | None = None) -> Plan:
    """Resolve a command job.

    `inputs` and `outputs` give the text that stands for each data input and named output (a folder); without them the
    place where Azure would mount it is shown. Raises Invalid for `${{…}}` without a value, naming the nearest, and for more
    processes than footplate plans.
    """
    require(job_file, "command")
    return planned(job_file, known_texts(job_file, inputs, outputs))


def sweep_plan(
    job_file: JobFile,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    samples: int = SAMPLES,
) -> SweepPlan:
    """Resolve a sweep: the command of all trials, and the exact one of sample trials. Arguments and faults as of `plan`.

    The samples are the first points of a grid, else draws by a fixed seed; the service draws others.
    """
    from footplate.jobfile import search_space  # with the shapes, which a process that runs a plan never needs

    require(job_file, "sweep")
    known = known_texts(job_file, inputs, outputs)
    spaces = search_space.spaces_of(job_file)
    swept = {f"search_space.{name}": f"${{{{search_space.{name}}}}}" for name in job_file.mapping("search_space")}
    whole = planned(job_file, known | swept)
    trials = []
    for values in _samples(job_file, spaces, samples):
        drawn = planned(job_file, known | swept | {f"search_space.{name}": text for name, text in values.items()})
        # Source: azure-ai-ml's note on SweepJob.
        variables = {f"AZUREML_SWEEP_{name}": text for name, text in values.items()}
        trials.append(Trial(values, replace(drawn, environment_variables={**drawn.environment_variables, **variables})))
    return SweepPlan(whole, tuple(trials), {space.name: search_space.rest_form(space) for space in spaces})


def _samples(job_file: JobFile, spaces: tuple[Space, ...], count: int) -> list[dict[str, str]]:
    from footplate.jobfile import search_space

    names = [space.name for space in spaces]
    given = job_file.get("sampling_algorithm")
    algorithm = str(given.get("type", "") if isinstance(given, Mapping) else given or "").lower()
    if algorithm == "grid" and search_space.count(spaces) is not None:
        drawn = itertools.islice(search_space.grid(spaces), count)
        points = [tuple(search_space.as_text(value) for value in point) for point in drawn]
    else:
        points = list(zip(*(search_space.draws(space, count) for space in spaces), strict=False))
    return [dict(zip(names, point, strict=True)) for point in points if point]


def require(job_file: JobFile, kind: str) -> None:
    """Raise Invalid for a file of another kind, and for one whose shape nothing can run."""
    if job_file.kind != kind:
        raise Invalid(
            f"{job_file.label} line {job_file.line('type')}: this is {kinds.TITLES[job_file.kind]}.",
            f"What is asked for here is {kinds.TITLES[kind]}.",
        )
    from footplate.jobfile.check import require_shape  # with all rules, which a process that runs a plan never needs

    require_shape(job_file)


def planned(job_file: JobFile, known: Mapping[str, str], where: str = "") -> Plan:
    """The plan of what a file's body runs, with a text for everything that `${{…}}` may name. Raises Invalid as `plan` does.

    `where` is what messages call the command's place, without it the file and the line.
    """
    where = where or f"{job_file.label} line {job_file.line(*job_file.body, 'command')}"
    command = resolve(job_file.command, known, where, in_step=job_file.is_step)
    if not command.strip():
        raise Invalid(f"{where}: the command is empty once its inputs are filled in.", "Mend `command`.")
    distribution, nodes = job_file.distribution, job_file.nodes
    made = Plan(
        command,
        nodes,
        job_file.ranks_per_node if distribution in _BY_PROCESSES else 1,
        distribution,
        job_file.environment_variables,
    )
    if distribution == "tensorflow":
        place = (*job_file.body, "distribution")
        made = replace(
            made,
            workers=max(1, job_file.whole(*place, "worker_count", default=nodes)),
            parameter_servers=max(0, job_file.whole(*place, "parameter_server_count", default=0)),
        )
    if made.world_size > MOST_RANKS:
        raise Invalid(
            f"{job_file.label} asks for {made.world_size} processes; footplate plans {MOST_RANKS} at most.",
            "Mend `resources.instance_count` or what `distribution` says.",
        )
    return made


def known_texts(
    job_file: JobFile, inputs: Mapping[str, str] | None = None, outputs: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What `${{inputs.x}}` and `${{outputs.x}}` become; arguments as of `plan`."""
    given_inputs, given_outputs = inputs or {}, outputs or {}
    known = {f"inputs.{name}": given_inputs.get(name, place_of(given)) for name, given in job_file.inputs.items()}
    known |= {f"outputs.{name}": given_outputs.get(name, f"<output {name}>") for name in job_file.outputs}
    return known


def place_of(given: Input) -> str:
    """What the command gets for an input: a literal's text, the address itself in mode `direct`, else a mark for the place.

    Where Azure mounts or copies data is known only while the job runs.
    """
    if given.literal is not None:
        return given.literal
    if given.mode == "direct" and given.path and "://" in given.path:
        return given.path
    return f"<{given.name}: {given.path}>"


def resolve(text: str, known: Mapping[str, str], where: str, *, in_step: bool = False) -> str:
    """Replace every `${{name}}` (blanks inside allowed) by its text, unquoted, as Azure does. Raises Invalid for an unknown one."""

    def value(match: re.Match[str]) -> str:
        name = bound_name(match[1], known, in_step=in_step)
        if name in known:
            return known[name]
        near = nearest(name, known)
        hint = f"Did you mean ${{{{{near}}}}}?" if near else f"Known: {known_names(known)}."
        raise Invalid(f"{where}: ${{{{{match[1]}}}}} has no value.", hint)

    return EXPRESSION.sub(value, text)


_MARKS = {"\t": "→", "\r": "␍", "\u00a0": "⍽", "\v": "␋", "\f": "␌"}
"""What cannot be seen and the shell takes for something: a tab, a carriage return, a blank that separates no words …"""


def visible_lines(command: str) -> tuple[str, ...]:
    """A command's shell lines with what cannot be seen made visible.

    `⏎` stands where a line breaks, `·` for a blank at a line's end (after a `\\` it breaks the continuation), `→` for a tab.
    """
    lines = command.split("\n")
    last = len(lines) - 1
    shown = []
    for number, line in enumerate(lines):
        text = "".join(_MARKS.get(character, character) for character in line)
        kept = text.rstrip(" ")
        text = f"{kept}{'·' * (len(text) - len(kept))}"
        if number < last:
            shown.append(f"{text}⏎")
        elif text or not number:
            shown.append(text)
    return tuple(shown)
