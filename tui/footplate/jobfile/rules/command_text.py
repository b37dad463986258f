"""How the shell will read the command line by line: line breaks, quotes, launchers. Nothing is run."""

from __future__ import annotations

import re
from itertools import pairwise

from footplate.jobfile import nodes, shell_text
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.layout import BREAK
from footplate.jobfile.limits import MOST_RANKS
from footplate.jobfile.rules import filled_in

CODES = (
    *filled_in.CODES,
    Code(
        "unbalanced-quotes",
        "warning",
        "A quote in the command is never closed.",
        "command: echo it's  # here\nenvironment: azureml:e:1\n",
    ),
    Code(
        "broken-continuation",
        "warning",
        "A line of the command begins with an option, and the line before does not go on: it would run as a command.",
        "command: |\n  python train.py\n  --lr 1  # here\nenvironment: azureml:e:1\n",
    ),
    Code(
        "blank-after-backslash",
        "warning",
        "Blanks stand after the backslash at the end of a line, so that the line does not go on.",
        "environment: azureml:e:1\n# next line\ncommand: \"python train.py \\\\ \\n--lr 1\"\n",
    ),
    Code(
        "folded-backslash",
        "warning",
        "A backslash at the end of a line in folded text (`>`): YAML joins the lines, and the shell reads the backslash with the "
        "blank after it as part of a word.",
"environment: azureml:e:1\n# next line\ncommand: python train.py \\\n  --lr 1\n",
    ),
    Code(
        "joined-commands",
        "warning",
        "Folded text (`>`) joins two lines that are each a command: the second becomes arguments of the first.",
        "environment: azureml:e:1\ncommand: >\n  source activate\n  python train.py  # here\n",
    ),
    Code(
        "carriage-return",
        "warning",
        "The command holds a carriage return (`\\r`), which the shell takes as part of a word.",
        'environment: azureml:e:1\n# next line\ncommand: "echo a\\r\\necho b"\n',
    ),
    Code(
        "double-launcher",
        "error",
        "torchrun, accelerate, deepspeed or mpirun inside `distribution: pytorch`, which starts the processes itself: each of "
        "them would start all of them again. With one process a node it is the usual way to elastic restarts, and only a note.",
        "environment: azureml:e:1\ncommand: torchrun train.py  # here\n"
        "distribution: {type: pytorch, process_count_per_instance: 2}\n",
    ),
    Code(
        "too-many-ranks",
        "error",
        f"More than {MOST_RANKS} processes (nodes × processes a node).",
        "environment: azureml:e:1\ncommand: python train.py\nresources: {instance_count: 2}\n"
        "distribution: {type: pytorch, process_count_per_instance: 4000}  # here\n",
    ),
)  # fmt: skip


def command_text(job_file: JobFile, report: Report) -> None:
    """The command as the file has it: lines, quotes, launchers."""
    command = job_file.command
    place = (*job_file.body, "command")
    if "\r" in command:
        report.add(
            "carriage-return", place, "The command holds a carriage return, which the shell takes as part of a word.",
            "Write the command as a block (`command: |`), or remove `\\r`.",
        )  # fmt: skip
    _launchers(job_file, report, place)
    if not shell_text.is_certain(command):
        return
    _lines(job_file, report, place)
    at = shell_text.left_open(command)
    if at is not None:
        report.add(
            "unbalanced-quotes", place, f"The quote {command[at]} in the command is never closed.",
            "Close it, or put a backslash before it.", within=command[at:].split()[0],
        )  # fmt: skip


_SourceLine = tuple[int, int, str]
"""Line and column from 1, and the text, as the file has it."""


def _source_lines(job_file: JobFile, place: nodes.Path) -> list[_SourceLine]:
    """Line, column and text of each line of a scalar as the file has it."""
    found = job_file.places[place]
    texts = BREAK.split(job_file.text[found.start : found.end])
    numbered = [(found.line + index, text) for index, text in enumerate(texts)]
    if found.style in ("|", ">"):
        numbered = numbered[1:]
    first = [] if found.style in ("|", ">") else [(found.line, found.column, numbered.pop(0)[1])]
    return [*first, *((line, len(text) - len(text.lstrip()) + 1, text) for line, text in numbered)]


def _lines(job_file: JobFile, report: Report, place: nodes.Path) -> None:
    """Lines that do not go on where they should, and lines that are joined where they should not be."""
    found = job_file.places.get(place)
    if found is None or found.kind != "scalar":
        return
    source = _source_lines(job_file, place)
    at = 0
    before: str | None = None
    told, previous = False, None
    for line in shell_text.lines(job_file.command):
        stripped = line.text.strip()
        here = next((one for one in source[at : at + _NEAR] if one[2].strip() == stripped), None)
        at = source.index(here, at) + 1 if here else at
        deeper = found.style == ">" and line.text[:1] in " \t"
        alone = before is not None and not line.inside and not line.continued
        broken = alone and bool(_OPTION.match(stripped) or (deeper and stripped.startswith("${{")))
        # Of several such lines the first tells.
        if broken and not told and not _GOES_ON.search(before or ""):
            _broken(report, place, stripped, before or "", deeper, previous, here)
        told = broken
        if stripped:
            before, previous = line.text, here
    if found.style in ("", ">", "'"):
        _joined(job_file, report, place)


_NEAR = 1000
"""How many lines of the file are searched for a line of the command; folding moves none further than it has lines."""
_OPTION = re.compile(r"--?[A-Za-z]")
_GOES_ON = re.compile(r"(?:&&|\|\|?|;|\(|\bthen|\bdo|\belse)\s*$")


def _broken(
    report: Report,
    place: nodes.Path,
    line: str,
    before: str,
    deeper: bool,
    above: _SourceLine | None,
    here: _SourceLine | None,
) -> None:
    """A line that would run as a command of its own, for one of three reasons."""
    ends = before.rstrip()
    if ends.endswith("\\") and ends != before:
        fault = (above[0], above[1] + len(above[2].strip()) - 1) if above else None
        report.add(
            "blank-after-backslash", place, "Blanks stand after the backslash, so the line does not go on.",
            "Remove the blanks at the end of the line.", at=fault,
        )  # fmt: skip
        return
    hint = "End the line above with a backslash, or write the command with `>-`."
    if deeper:
        hint = "Indent it as the line above: YAML does not join deeper lines."
    elif ends.endswith("\\"):
        hint = "An empty line or a comment ends the line above, whatever its backslash says."
    at = here[:2] if here else None
    report.add(
        "broken-continuation", place, f"This line would run as a command of its own: {line[:40]!r}.", hint, at=at
    )


_COMPLETE = re.compile(
    r"(?:(?:source|\.)\s+\S+"
    r"|(?:cd|export|mkdir|set|ls|echo|pip3?\s+install|conda\s+(?:activate|install|create|env)|apt(?:-get)?"
    r"|python[\d.]*\s+(?:-m\s+pip|\S+\.py)|Rscript\s+\S+)\b.*)"
)
"""Commands that take no command as their last argument; `conda run` and shell scripts may."""
_BEGINS = re.compile(
    r"(?:python[\d.]*\s+(?:-u\s+)?(?:\S+\.py\b|-m\s|-c\s)|Rscript\s+\S+\.[rR]\b|(?:ba)?sh\s+\S+\.sh\b|source\s+\S+"
    r"|pip3?\s+install\s|conda\s+(?:activate|env|install)\s|export\s+\w+=|cd\s+\S+$|(?:torchrun|mpirun|deepspeed)\s"
    r"|accelerate\s+launch\s|papermill\s+\S+\.ipynb\b|julia\s+\S+\.jl\b|java\s+-|nvidia-smi$)"
)


def _joined(job_file: JobFile, report: Report, place: nodes.Path) -> None:
    """Lines that YAML joins: two commands in one, and backslashes that no longer stand at a line's end."""
    source = _source_lines(job_file, place)
    # In a folded block YAML joins the least indented lines only.
    least = (
        min((column for _, column, text in source if text.strip()), default=0)
        if job_file.places[place].style == ">"
        else 0
    )
    backslash = False
    for (number, column, upper), (next_number, next_column, lower) in pairwise(source):
        first, second = upper.strip(), lower.strip()
        if not first or not second or (least and (column, next_column) != (least, least)):
            continue
        if first.endswith("\\") and not first.endswith("\\\\"):
            if backslash:
                continue  # of several such lines the first tells
            backslash = True
            report.add(
                "folded-backslash", place, "YAML joins these lines; the backslash then makes the next blank part of a word.",
                "Remove the backslash, or write the command with `|`.", at=(number, column + len(first) - 1),
            )  # fmt: skip
        elif (
            _COMPLETE.fullmatch(first)
            and _BEGINS.match(second)
            and not re.search(r"(?:&&|[;|&(]|\s--?[\w-]+=?)$", first)
        ):
            report.add(
                "joined-commands", place,
                f"YAML joins this line with the one above: {second.split()[0]!r} becomes an argument of {first.split()[0]!r}.",
                "Write the command with `|`, or end the line above with &&.", at=(next_number, next_column),
            )  # fmt: skip


_MAY_LAUNCH = re.compile(r"torchrun|deepspeed|mpirun|mpiexec|horovodrun|launch|distributed\.run")
_LAUNCHER = re.compile(
    r"(?:\S*/)?(torchrun|deepspeed|mpirun|mpiexec|horovodrun|accelerate\s+launch)(?:\s|$)"
    r"|(?:\S*/)?python[\d.]*\s+(?:-\w+\s+)*-m\s+(torch\.distributed\.(?:launch|run)|accelerate\.commands\.launch)\b"
)


def _launchers(job_file: JobFile, report: Report, place: nodes.Path) -> None:
    if job_file.distribution != "pytorch" or not _MAY_LAUNCH.search(job_file.command):
        return
    for simple in shell_text.simple_commands(job_file.command):
        found = _LAUNCHER.match(simple)
        if not found:
            continue
        launcher = found[1] or found[2]
        each = job_file.ranks_per_node
        if each > 1:
            report.add(
                "double-launcher",
                place,
                f"`{launcher}` stands inside `distribution: pytorch`, which starts {each} processes a node itself.",
                "Each of them would start all again: set process_count_per_instance to 1, or start the script with python.",
                within=launcher,
            )
        else:
            report.add(
                "double-launcher",
                place,
                f"`{launcher}` starts the processes of a node; Azure starts it once on each node.",
                "That is the usual way to elastic restarts; without them start the script with python.",
                within=launcher,
                severity="note",
            )


def ranks(job_file: JobFile, report: Report) -> None:
    """Not more processes than a plan can list."""
    each = job_file.ranks_per_node if job_file.distribution else 1
    total = job_file.nodes * each
    if total > MOST_RANKS:
        place = (*job_file.body, "distribution", "process_count_per_instance")
        if each < job_file.nodes:
            place = job_file.nodes_place
        message = (
            f"{job_file.nodes} nodes with {each} processes each make {total}; footplate plans {MOST_RANKS} at most."
        )
        report.add("too-many-ranks", place, message, "Use fewer.")


RULES = ((("command", "sweep"), command_text), (("command", "sweep"), ranks), *filled_in.RULES)
