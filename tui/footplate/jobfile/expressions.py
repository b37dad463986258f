"""`${{…}}`: how it is found in a text, and `{inputs.x}`, which stands for it. Blanks may stand inside double braces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

# Possessive throughout: a file of nothing but blanks behind `${{` must not take longer than its length.
EXPRESSION = re.compile(r"\$\{\{\s*+((?:[^{}\s]|\s++(?!\}\}))*+)\s*+\}\}")
"""`${{ name }}`; the name is group 1, without the blanks round it."""

BINDING = re.compile(r"\$\{\{\s*parent\.(inputs|outputs|jobs)\.([^\s{}]+)\s*\}\}")
"""`${{parent.inputs.x}}`, `${{parent.outputs.x}}`, `${{parent.jobs.STEP.outputs.x}}`: what a step takes from its pipeline."""

_SINGLE = {space: re.compile(rf"(?<!\{{)\{{{space}\.") for space in ("inputs", "outputs", "search_space")}


def with_double_braces(command: str) -> str:
    """A job's command as Azure's client sends it: `{inputs.x}` written as `${{inputs.x}}`, whatever stands before it.

    Source: azure-ai-ml 1.35, measured: inputs, outputs and search spaces in this order; to the next brace, if no second
    follows it. It does so for command and sweep jobs, and not for the steps of a pipeline.
    """
    for space in _SINGLE:
        command = _doubled(command, space)
    return command


def single_braces(command: str) -> list[str]:
    """Every `{inputs.x}` of a command, as it stands there."""
    return [command[start:end] for space in _SINGLE for start, end in _spans(command, space)]


def _doubled(text: str, space: str) -> str:
    parts, at = [], 0
    for start, end in _spans(text, space):
        parts += [text[at:start], "${", text[start:end], "}"]
        at = end
    return "".join([*parts, text[at:]])


def _spans(text: str, space: str) -> Iterator[tuple[int, int]]:
    """Where each `{space.…}` begins and ends; each character is looked at once, however many braces stand open."""
    taken = closing = 0
    for match in _SINGLE[space].finditer(text):
        if match.start() < taken:
            continue
        if closing < match.end():
            closing = text.find("}", match.end())
        if closing < 0:
            return
        if text[closing + 1 : closing + 2] != "}":
            taken = closing + 1
            yield match.start(), taken


def bound_name(expression: str, known: Collection[str], *, in_step: bool = False) -> str:
    """Which of the known names an expression names, as `inputs.x`; itself where it names none.

    `.path` may follow an output, and in a step of a pipeline an input too; of a job's input Azure's client refuses it.
    """
    bare = expression.removesuffix(".path")
    may = bare in known and (in_step or not bare.startswith("inputs."))
    return bare if may and expression not in known else expression


def is_expression(value: object) -> bool:
    """Whether a text holds `${{…}}`, whose value is not known before the file runs."""
    if not isinstance(value, str):
        return False
    start = value.find("${{")
    return start >= 0 and "}}" in value[start + 3 :]
