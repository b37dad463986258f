"""`${{…}}` in a command: what it names must be there, and what is there should be named."""

from __future__ import annotations

import re
from collections.abc import Collection

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.expressions import EXPRESSION, bound_name, single_braces
from footplate.jobfile.faults import Code, Report, Severity, known_names, nearest

CODES = (
    Code(
        "unbound",
        "error",
        "`${{…}}` names an input, output or search space that the file does not have. Azure accepts it and the job fails.",
        "command: python train.py ${{inputs.learnin_rate}}  # here\nenvironment: azureml:e:1\ninputs: {learning_rate: 0.1}\n",
    ),
    Code(
        "broken-expression",
        "warning",
        "Text that was meant as `${{…}}` and is none, as `${inputs.x}` or `{{inputs.x}}`: the shell gets it as it stands.",
        "command: python train.py ${inputs.epochs}  # here\nenvironment: azureml:e:1\ninputs: {epochs: 3}\n",
    ),
    Code(
        "single-braces",
        "warning",
        "`{inputs.x}` in a job's command: Azure's client fills it in as it does `${{inputs.x}}`, and calls it deprecated.",
        "command: python train.py {inputs.epochs}  # here\nenvironment: azureml:e:1\ninputs: {epochs: 3}\n",
    ),
    Code(
        "unused",
        "warning",
        "An input that the command never names.",
        "command: python train.py\nenvironment: azureml:e:1\ninputs:\n  epochs: 3  # here\n",
    ),
    Code(
        "unused-sweep",
        "warning",
        "A value that the sweep varies and the command never passes on: every trial would run the same.",
        "type: sweep\ntrial: {command: python train.py, environment: azureml:e:1}\nsearch_space:\n"
        "  lr: {type: choice, values: [1, 2]}  # here\nsampling_algorithm: random\n"
        "objective: {goal: maximize, primary_metric: a}\nlimits: {max_total_trials: 2}\n",
    ),
    Code(
        "swept-and-given",
        "warning",
        "A name that is both an input and in the search space: the command gets the one that it names.",
        "type: sweep\ntrial: {command: 'python train.py ${{inputs.lr}} ${{search_space.lr}}', environment: azureml:e:1}\n"
        "inputs: {lr: 1}\nsearch_space:\n  lr: {type: choice, values: [1, 2]}  # here\nsampling_algorithm: random\n"
        "objective: {goal: maximize, primary_metric: a}\nlimits: {max_total_trials: 2}\n",
    ),
    Code(
        "unused-output",
        "note",
        "An output that the command never names: the script is not told where to write it.",
        "command: python train.py\nenvironment: azureml:e:1\noutputs:\n  model: {type: uri_folder}  # here\n",
    ),
    Code(
        "optional-brackets",
        "warning",
        "`$[[…]]` in a job's command: only components drop a bracket whose input has no value.",
        "command: python train.py $[[--lr ${{inputs.lr}}]]  # here\nenvironment: azureml:e:1\ninputs: {lr: 0.1}\n",
    ),
)

_MOST_HINTS = 20
"""Looking for what was meant takes long in a file of thousands of names."""
_SERVER = frozenset({"name", "output_name", "default_datastore"})
"""What Azure fills in in the paths of outputs."""

_BROKEN = re.compile(
    r"\$\{\s*(?P<single>(?:inputs|outputs|search_space)\.\w+)\s*\}"  # ${inputs.x}
    r"|(?<!\$)\{\{\s*(?P<bare>(?:inputs|outputs|search_space)\.\w+)\s*\}\}"  # {{inputs.x}}
    r"|\$\(\s*(?P<round>(?:inputs|outputs|search_space)\.\w+)\s*\)"  # $(inputs.x)
    r"|\$\{\{\s*(?P<open>(?:inputs|outputs|search_space)\.\w+)(?![^{}]*\}\})"  # ${{inputs.x}
)
_BRACKETS = re.compile(r"\$\[\[.*?\]\]", re.DOTALL)


def bindings(job_file: JobFile, report: Report) -> None:
    """What the command names is there, and what is there is named."""
    if not job_file.command:
        return  # the shape says that it is missing
    place = (*job_file.body, "command")
    known = dict.fromkeys(
        f"{space}.{name}"
        for space in ("inputs", "outputs", "search_space")
        # What a sweep's trial holds, where it does not belong, has its fault there.
        for holder in sorted({(), job_file.body})
        for name in job_file.mapping(*holder, space)
    )
    named = _named_elsewhere(job_file)
    unbound: set[str] = set()
    finder = _Finder(job_file, place)
    for match in EXPRESSION.finditer(job_file.command):
        name = bound_name(match[1], known, in_step=job_file.is_step)
        named.add(name)
        if name not in known and name not in unbound:
            unbound.add(name)
            meant, hint = _hint(job_file, name, list(known)) if len(unbound) <= _MOST_HINTS else ("", "")
            # The input that was meant is used, only under a wrong name: one fault is told once.
            named.add(meant)
            severity: Severity | None = "warning" if name in _SERVER else None
            at = finder.find(match[0]) or finder.find(match[0][2:-1])  # as `{inputs.x}` it may stand there too
            report.add("unbound", place, f"`{match[1]}` is not defined.", hint, severity=severity, at=at)
    _single(job_file, report, place, known, named)
    for match in _BROKEN.finditer(job_file.command_as_written):
        name = next(part for part in match.groups() if part)
        named.add(name)
        becomes = f"`{match[0].strip()}` is not filled in."
        if match["single"] and not job_file.is_step and " " not in match[0]:
            becomes = f"`{match[0]}` becomes a $ with the value behind it, which the shell takes for a variable."
        report.add("broken-expression", place, becomes, f"Write ${{{{{name}}}}}.", within=match[0])
    for match in _BRACKETS.finditer(job_file.command, 0, job_file.command.rfind("]]") + 2):
        report.add(
            "optional-brackets", place, "`$[[…]]` has a meaning in components only; here the shell gets the brackets.",
            "Write the option without the brackets, or leave it out.", within=match[0],
        )  # fmt: skip
    _unused(job_file, report, named)


def _single(job_file: JobFile, report: Report, place: nodes.Path, known: Collection[str], named: set[str]) -> None:
    """`{inputs.x}`: filled in in a job, and deprecated; plain text in a step, where it is told if it names something."""
    command = job_file.command_as_written
    for text in dict.fromkeys(single_braces(command)):
        if f"${text}" in command and command.count(text) == command.count(f"${text}"):
            continue  # told as `${inputs.x}`
        if job_file.is_step and text[1:-1] not in known:
            continue
        named.add(text[1:-1])
        code, says = "single-braces", f"`{text}` is deprecated; Azure's client still writes it as `${{{text}}}`."
        if job_file.is_step:
            code, says = "broken-expression", f"`{text}` is not filled in."
        report.add(code, place, says, f"Write ${{{text}}}.", within=text)


class _Finder:
    """Finds texts of a scalar in the file, one after the other, without counting lines from the top each time."""

    def __init__(self, job_file: JobFile, place: nodes.Path) -> None:
        found = job_file.places.get(place)
        self._text = job_file.text
        self._at, self._end = (found.start, found.end) if found else (0, 0)
        self._line = found.line if found else 1

    def find(self, text: str) -> tuple[int, int] | None:
        """Line and column of the text's next place; None where an escape or a fold hides it."""
        offset = self._text.find(text, self._at, self._end)
        if offset < 0:
            return None
        self._line += self._text.count("\n", self._at, offset)
        self._at = offset
        return self._line, offset - self._text.rfind("\n", 0, offset)


def _hint(job_file: JobFile, name: str, known: list[str]) -> tuple[str, str]:
    """What was probably meant (empty for nothing), and the next step."""
    space, _, rest = name.rpartition(".")
    # The same name elsewhere says more than one that is spelt alike.
    same = next(
        (candidate for candidate in known if candidate.partition(".")[2] in (rest, name.partition(".")[2]) and rest), ""
    )
    if job_file.is_step and name.startswith("parent."):
        bound = name.removeprefix("parent.")
        own = rest.rpartition(".")[2]
        return (
            same,
            f"A step's command names the step's own inputs: bind {own}: ${{{{parent.{bound}}}}} below `inputs`.",
        )
    if same and space.startswith("parent"):
        return same, f"`parent` belongs to the steps of a pipeline; write ${{{{{same}}}}}."
    if not same and space == "search_space" and job_file.kind == "command":
        return "", "A command job has no search space: make it a sweep, or name an input."
    near = same or nearest(name, known)
    return near, f"Did you mean ${{{{{near}}}}}?" if near else f"Known: {known_names(known)}."


def _named_elsewhere(job_file: JobFile) -> set[str]:
    """What the file uses outside the command, and by the variables that Azure sets beside it."""
    own = (*job_file.body, "command")
    named: set[str] = set()
    if job_file.is_step or job_file.text.count("${{") > job_file.command.count("${{"):
        for path, place in job_file.places.items():
            if place.kind == "scalar" and path != own and "${{" in (text := job_file.text_at(*path)):
                named.update(match[1] for match in EXPRESSION.finditer(text))
    for prefix, space in (
        ("AZURE_ML_INPUT_", "inputs"),
        ("AZURE_ML_OUTPUT_", "outputs"),
        ("AZUREML_SWEEP_", "search_space"),
    ):
        named |= {f"{space}.{name}" for name in re.findall(rf"\b{prefix}(\w+)", job_file.command)}
    return named


def _unused(job_file: JobFile, report: Report, named: set[str]) -> None:
    swept = job_file.mapping("search_space") if job_file.kind == "sweep" else {}
    for name in job_file.inputs:
        if f"inputs.{name}" not in named and name not in swept:
            hint = "Name it there, or remove it."
            if name in ("type", "path", "mode"):
                hint = f"It stands beside the inputs: indent it below the input whose {name} it is."
            report.add("unused", ("inputs", name), f"The command never uses the input `{name}`.", hint, key=True)
    for name in swept:
        place = ("search_space", name)
        if name in job_file.inputs:
            report.add(
                "swept-and-given", place, f"`{name}` is swept and is an input too, which never changes.",
                f"Remove the input, and write ${{{{search_space.{name}}}}} in the command.", key=True,
            )  # fmt: skip
        elif f"search_space.{name}" not in named:
            report.add(
                "unused-sweep", place, f"The sweep varies `{name}`, but the command never passes it on.",
                f"Write ${{{{search_space.{name}}}}} in it, unless the script reads AZUREML_SWEEP_{name}.", key=True,
            )  # fmt: skip
    for name in job_file.outputs:
        if f"outputs.{name}" not in named:
            report.add(
                "unused-output", ("outputs", name), f"The command never names the output `{name}`.",
                f"Pass ${{{{outputs.{name}}}}} to the script.", key=True,
            )  # fmt: skip


RULES = ((("command", "sweep"), bindings),)
