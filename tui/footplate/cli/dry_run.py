"""What `launch --dry-run` says to a reader: its document, as text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from footplate import words
from footplate.cli.frame import columned
from footplate.jobfile.changes import MarkedLine
from footplate.jobfile.plan import visible_lines
from footplate.logs.sanitise import clean


def dry_run_text(document: Mapping[str, Any], lines: Sequence[MarkedLine]) -> str:
    """The document of `operations.launch.dry_run` as text; `lines` are those of the file, with what was changed."""
    sections = (
        _commands(document["commands"]),
        _untold(document.get("steps", ())),
        _inputs(document["inputs"]),
        _search_space(document),
        _trials(document.get("trials", ())),
        _upload(document["upload"]),
        _contrasts(document.get("differs_on_azure", ())),
        _yaml(lines),
    )
    return "\n\n".join("\n".join(section) for section in map(list, sections) if section)


def _commands(ranks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each step's command once, then the variables of every rank."""
    steps: dict[str, list[Mapping[str, Any]]] = {}
    for rank in ranks:
        steps.setdefault(rank.get("step", ""), []).append(rank)
    for number, (step, own) in enumerate(steps.items()):
        if number:
            yield ""
        runs = "The one rank runs:" if len(own) == 1 else f"Every one of {len(own)} ranks runs:"
        yield f"Step {clean(step)}. {runs}" if step else runs
        yield from _command(own[0]["command"])
        yield ""
        for rank in own:
            role = f"  {rank['role']}" if rank.get("role") else ""
            yield f"rank {rank['rank']}  node {rank['node']}{role}  {_variables(rank['environment'])}".rstrip()


def _untold(steps: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Steps whose command is not known here."""
    for step in steps:
        if step["why"]:
            yield f"Step {clean(step['step'])} ({clean(step['type'])}): {clean(step['why'])}"


def _command(command: str) -> Iterator[str]:
    for line in visible_lines(command):
        yield f"  {clean(line)}"


def _variables(environment: Mapping[str, str]) -> str:
    return " ".join(f"{clean(name)}={clean(value)}" for name, value in environment.items())


def _inputs(inputs: Sequence[Mapping[str, str]]) -> Iterator[str]:
    if inputs:
        yield "Inputs"
        rows = [(one["name"], one["type"], _quoted(one["value"]), one["how"]) for one in inputs]
        yield from _indented(columned(rows))


def _quoted(value: str) -> str:
    """A value in quotes where its ends could not be seen."""
    return f'"{value}"' if value != value.strip() or not value else value


def _search_space(document: Mapping[str, Any]) -> Iterator[str]:
    spaces = document.get("search_space")
    if spaces:
        yield "Search space"
        rows = [(name, form[0], document["ranges"].get(name, "")) for name, form in spaces.items()]
        yield from _indented(columned(rows))


def _trials(trials: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, trial in enumerate(trials, 1):
        if number == 1:
            yield "Sample trials (the service draws its own)"
        values = "  ".join(f"{clean(name)} {clean(value)}" for name, value in trial["values"].items())
        yield f"  trial {number}: {values}"
        yield from _indented("\n".join(_command(trial["command"])))
        yield f"    {_variables(trial['environment'])}"


def _upload(upload: Mapping[str, Any]) -> Iterator[str]:
    by = f", by {upload['ignored_by']}" if upload["ignored_by"] else ""
    more = "more than " if upload.get("more") else ""
    files = f"{upload['files']} file{'' if upload['files'] == 1 and not more else 's'}"
    yield f"Upload: {more}{files}, {words.size(upload['bytes'])}{by}"
    if upload.get("largest"):
        yield "  The largest:" if upload["files"] > len(upload["largest"]) else "  Its files:"
        yield from _indented(columned([(words.size(one["bytes"]), one["path"]) for one in upload["largest"]]), 4)
    if upload.get("ignored"):
        yield f"  Left behind, and by which rule ({upload['ignored_count']}):"
        rows = [(one["path"], one["rule"], one["where"]) for one in upload["ignored"]]
        yield from _indented(columned(rows), 4)
        if upload["ignored_count"] > len(rows):
            yield f"    … and {upload['ignored_count'] - len(rows)} more"
    for link in upload.get("links_to_nothing", ()):
        yield f"  A link to nothing stays behind: {clean(link)}"
    for note in upload.get("notes", ()):
        yield f"  {clean(note)}"


def _contrasts(contrasts: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for number, one in enumerate(contrasts):
        if not number:
            yield "On Azure this would differ"
        yield f"  {one['topic']:<18}{one['azure']}"
        yield f"  {'':<18}here: {one['here']}"


def _yaml(lines: Sequence[MarkedLine]) -> Iterator[str]:
    changed = sum(line.state != "same" for line in lines)
    told = f"{changed} line{'s' * (changed > 1)} changed" if changed else "unchanged"
    yield f"The file as it will be submitted ({told})"
    for line in lines:
        if line.state != "same":
            for gone in line.before:
                yield f"  - {clean(gone)}"
        if line.state == "removed":
            continue
        yield f"  {' ' if line.state == 'same' else '+'} {clean(line.text)}".rstrip()
        if line.spans and line.state == "changed":
            yield f"    {_carets(line)}"


def _carets(line: MarkedLine) -> str:
    """Carets below the characters that changed; a wide character takes two."""
    marks = []
    for index, character in enumerate(line.text):
        under = "^" if any(start <= index < end for start, end in line.spans) else " "
        marks.append(under * _cells(character))
    return "".join(marks).rstrip()


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _indented(text: str, by: int = 2) -> Iterator[str]:
    for line in text.split("\n"):
        yield f"{' ' * by}{line}"
