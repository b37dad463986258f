"""How the shell will read a value where the command has it: it is filled in as plain text, with no quotes of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from footplate.jobfile import document, nodes, shell_text
from footplate.jobfile.document import JobFile
from footplate.jobfile.expressions import EXPRESSION
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.shell_text import Reader

CODES = (
    Code(
        "shell-characters",
        "warning",
        "A value holds characters that the shell acts on where the command has it: it is filled in without quotes of its own.",
        "command: python train.py --title ${{inputs.title}}\nenvironment: azureml:e:1\ninputs:\n  title: a; echo b  # here\n",
    ),
    Code(
        "broken-quotes",
        "warning",
        "A value holds a quote that ends, or opens, the quotes that the command has round it.",
        "command: python train.py --label '${{inputs.label}}'\nenvironment: azureml:e:1\ninputs:\n"
        '  label: "it\'s"  # here\n',
    ),
    Code(
        "words-split",
        "note",
        "A value with blanks stands unquoted in the command: the script gets it as several arguments.",
        "command: python train.py --title ${{inputs.title}}\nenvironment: azureml:e:1\ninputs:\n  title: two words  # here\n",
    ),
    Code(
        "empty-input",
        "warning",
        "An input is empty text: Azure's client takes it, the service refuses it.",
        'command: python train.py --tag "${{inputs.tag}}"\nenvironment: azureml:e:1\ninputs:\n  tag: ""  # here\n',
    ),
    Code(
        "blank-input",
        "warning",
        "An input of blanks stands unquoted in the command: nothing is left of it, and its option has no value.",
        'command: python train.py --tag ${{inputs.tag}}\nenvironment: azureml:e:1\ninputs:\n  tag: " "  # here\n',
    ),
)

_MOST_JUDGED = 10_000
"""Characters of a value; no command line holds much more."""
_PRINTS = ("echo", "printf")
"""Commands to which it is all the same how many words they get."""


def filled_in(job_file: JobFile, report: Report) -> None:
    """The command with its values: each is filled in as plain text, and the shell reads the whole."""
    for name, given in job_file.inputs.items():
        if given.literal == "":
            report.add(
                "empty-input",
                _literal_place(job_file, name),
                f"Input `{name}` is empty text, which the service refuses.",
                "Give it a value, or leave the input out.",
            )
    if not shell_text.is_certain(job_file.command):
        return
    reader = Reader()
    told: set[tuple[str, nodes.Path]] = set()
    judged: set[tuple[str, str, bool]] = set()
    at = 0
    for match in EXPRESSION.finditer(job_file.command):
        reader.read(job_file.command[at : match.start()])
        at = match.end()
        # One name may stand a thousand times; what is said of it depends on what stands round it only.
        how = (match[1], reader.quoting, reader.starts_word)
        values = () if how in judged else _values(job_file, match[1].removesuffix(".path"))
        judged.add(how)
        for value in values:
            for code, message in _judge(reader, value, option=_option(reader.head)):
                if (code, value.place) not in told:
                    told.add((code, value.place))
                    report.add(code, value.place, message, _quoting_hint(reader.quoting, match[0], value.text))
        reader.skip(match[0])


@dataclass(frozen=True)
class _Value:
    """A text that is filled in: what messages call it, its place, and whether it is a path, of which less is judged."""

    called: str
    place: nodes.Path
    text: str
    is_path: bool = False


def _literal_place(job_file: JobFile, name: str) -> nodes.Path:
    return ("inputs", name, "value") if ("inputs", name, "value") in job_file.places else ("inputs", name)


def _values(job_file: JobFile, expression: str) -> Iterator[_Value]:
    """The texts that can stand for `inputs.x` or `search_space.x`, where the file says them."""
    space, _, name = expression.partition(".")
    if space == "inputs" and name in job_file.inputs:
        given = job_file.inputs[name]
        if given.literal is not None:
            yield _Value(f"`{name}`", _literal_place(job_file, name), given.literal)
        elif given.path and (given.mode == "direct" or not document.is_remote(given.path)):
            yield _Value(f"The path of `{name}`", ("inputs", name, "path"), given.path, is_path=True)
    elif space == "search_space":
        values = job_file.get("search_space", name, "values")
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if isinstance(value, str):
                yield _Value(f"A value of `{name}`", ("search_space", name, "values", index), value)


def _judge(reader: Reader, value: _Value, option: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a value where the reader stands: code and sentence."""
    text = value.text[:_MOST_JUDGED]
    if not text or reader.quoting == "#" or EXPRESSION.search(text) or not reader.head.strip():
        return  # a value that begins the command is meant to be one
    if reader.quoting == "'":
        if "'" in text:
            yield "broken-quotes", f"{value.called} holds ', which ends the quotes round it."
        return
    if reader.quoting == '"':
        if '"' in text or re.search(r"(?<!\\)(?:\\\\)*\\$", text):
            ends = '"' if '"' in text else "a backslash at its end"
            yield "broken-quotes", f"{value.called} holds {ends}, which breaks the quotes round it."
        acted_on = [name for name in ("$", "`", "\\") if _acts(text, name)]
        if acted_on:
            yield (
                "shell-characters",
                f"{value.called} holds {_listed(acted_on)}, on which the shell acts in double quotes too.",
            )
        return
    if not text.strip():
        vanishes = f": `{option}` gets no value" if option else ""
        yield (
            "blank-input",
            f"{value.called} is {text!r} and stands unquoted in the command, where nothing is left of it{vanishes}.",
        )
        return
    ahead = reader.copy()
    readings = ahead.feed(text)
    if ahead.open != reader.open and any(mark in ahead.open[len(reader.open) :] for mark in ("'", '"', "`", "$'")):
        yield "broken-quotes", f"{value.called} holds a quote that is never closed, and stands unquoted in the command."
        return
    plain = [reading for reading in readings if reading.quoting == "" and not reading.escaped]
    special = "$`;&|<>()\\" if value.is_path else "$`;&|<>()\\*?\n"
    found = {
        reading.character: None
        for reading in plain
        if (reading.character in special and (reading.character != "$" or _acts(text, "$")))
        or (reading.character == "#" and reading.starts_word)
    }
    if re.search(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}", "".join(reading.character for reading in plain)):
        found["{"] = None  # {a,b} becomes two words
    if found:
        yield (
            "shell-characters",
            f"{value.called} holds {_listed(found)}, on which the shell acts as the command has it unquoted.",
        )
    elif text[:1] in ("{", "[") and '"' in text:
        yield "broken-quotes", f"{value.called} stands unquoted in the command, where the shell removes its quotes."
    elif (
        any(reading.character in " \t" for reading in plain)
        and text[0] != "-"  # a value of options is meant to be several arguments
        and _first_word(reader.head) not in _PRINTS
    ):
        yield (
            "words-split",
            f"{value.called} has blanks and stands unquoted in the command, where the shell splits it at them.",
        )


def _acts(text: str, character: str) -> bool:
    """Whether the shell does something at a `$` of the text (`5$` it leaves), a backslash in double quotes, or a backtick."""
    if character == "$":
        return bool(re.search(r"\$[A-Za-z_0-9({@*#?!$-]", text))
    if character == "\\":
        return bool(re.search(r"\\[$`\"\\\n]", text))
    return character in text


def _listed(characters: Iterable[str]) -> str:
    names = ["a line break" if name == "\n" else f"`{name}`" if name != "`" else "a backtick" for name in characters]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _first_word(head: str) -> str:
    return head.split()[0] if head.split() else ""


def _option(head: str) -> str:
    """The option whose value comes next: `--tag` of `train.py --tag `."""
    found = re.search(r"(?:^|\s)(--?[A-Za-z][\w-]*)[\s=]*$", head)
    return found[1] if found else ""


def _quoting_hint(quoting: str, expression: str, text: str) -> str:
    """Which quotes in the command take the value as it is."""
    if "'" not in text and quoting != "'":
        return f"Write '{expression}' in the command, in single quotes."
    if not any(character in text for character in '"$`\\') and quoting != '"':
        return f'Write "{expression}" in the command, in double quotes.'
    return "No quotes take it as it is: change the value."


RULES = ((("command", "sweep"), filled_in),)
