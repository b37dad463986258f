"""A command job made a sweep, one trial of a sweep made a command job, and a file made to mean the same in another folder.

Text in, text out: what a file says moves with its comments, in the words that stand there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from footplate.jobfile import blocks, kinds, nodes, writing
from footplate.jobfile.document import BODY, JobFile, is_remote, parse
from footplate.jobfile.edit import REMOVE, Exact, splice
from footplate.jobfile.layout import Layout, same
from footplate.workspace.errors import Invalid

_SWEEP_ONLY = ("search_space", "sampling_algorithm", "objective", "early_termination")


def to_sweep(
    job_file: JobFile,
    spaces: Mapping[str, Mapping[str, Any]],
    objective: Mapping[str, Any],
    limits: Mapping[str, Any],
    sampling: str | Mapping[str, Any] = "random",
    policy: Mapping[str, Any] | None = None,
) -> JobFile:
    """A command job as a sweep over some of its inputs, as `job(lr=Uniform(…)).sweep(…)` of Azure's SDK makes it.

    `spaces` gives the search space of each chosen input, as it stands in a job file. Command, code, environment, variables,
    distribution and resources move below `trial`; the chosen inputs leave `inputs`, and the command names them as
    `search_space`. The job's own time limit becomes that of a trial. Raises Invalid for a file that is no command job, and
    for an input that it does not have.
    """
    if job_file.kind != "command":
        raise Invalid(f"{job_file.label} is {kinds.TITLES[job_file.kind]}.", "Only a command job becomes a sweep.")
    if not spaces:
        raise Invalid("A sweep needs an input to sweep.", "Choose at least one.")
    for name in spaces:
        if name not in job_file.inputs:
            known = ", ".join(job_file.inputs) or "none"
            raise Invalid(f"{job_file.label} has no input {name!r}.", f"Its inputs: {known}.")
    with _refusing(job_file):
        return _to_sweep(job_file, spaces, objective, limits, sampling, policy)


def _to_sweep(
    job_file: JobFile,
    spaces: Mapping[str, Mapping[str, Any]],
    objective: Mapping[str, Any],
    limits: Mapping[str, Any],
    sampling: str | Mapping[str, Any],
    policy: Mapping[str, Any] | None,
) -> JobFile:
    changes: dict[str | nodes.Path, object] = {("inputs", name): REMOVE for name in spaces}
    if set(spaces) == set(job_file.inputs):
        changes = {("inputs",): REMOVE}
    text = splice(_plain(job_file.text, BODY), changes)
    text = _renamed(text, ("command",), ("environment_variables",), names=spaces, old="inputs", new="search_space")
    text = _kind(_gathered(text), "commandJob", "sweepJob", "sweep")
    own = nodes.get(nodes.compose(text).values, ("limits", "timeout"))
    if own is not None:
        text = _key_renamed(text, ("limits", "timeout"), "trial_timeout")
    text = splice(text, {("limits", name): _value(value) for name, value in limits.items()})
    sections = {
        "sampling_algorithm": sampling,
        "search_space": spaces,
        "objective": objective,
        **({} if policy is None else {"early_termination": policy}),
    }
    values = {name: value for name, value in job_file.values.items() if name not in (*BODY, "inputs")}
    trial = {name: job_file.values[name] for name in BODY if name in job_file.values}
    for name in ("command", "environment_variables"):
        if name in trial:
            trial[name] = _replaced(
                trial[name], _expression(spaces, "inputs", single=name == "command"), "search_space"
            )
    values |= {"type": "sweep", "trial": trial, **sections}
    values["limits"] = {**({} if own is None else {"trial_timeout": own}), **limits}
    if inputs := {name: value for name, value in job_file.mapping("inputs").items() if name not in spaces}:
        values["inputs"] = inputs
    return _proved(_with_sections(text, sections), values, job_file)


def to_command(job_file: JobFile, values: Mapping[str, Any]) -> JobFile:
    """The command job of one trial of a sweep: `values` are what the trial drew, and become its inputs.

    Raises Invalid for a file that is no sweep, and where a value of the search space is missing.
    """
    if job_file.kind != "sweep":
        raise Invalid(f"{job_file.label} is {kinds.TITLES[job_file.kind]}.", "Only a sweep has trials.")
    spaces = job_file.mapping("search_space")
    for name in spaces:
        if not isinstance(values.get(name), str | int | float):
            raise Invalid(f"The trial has no value for {name!r}.", "Give one text or number for each search space.")
        if name in job_file.inputs:
            raise Invalid(f"{job_file.label} has both an input and a search space {name!r}.", "Rename one of them.")
    if not isinstance(job_file.get("trial"), Mapping):
        raise Invalid(f"{job_file.label} has no `trial`.", "Add it, with command and environment.")
    with _refusing(job_file):
        return _to_command(job_file, spaces, values)


def _to_command(job_file: JobFile, spaces: Mapping[str, Any], values: Mapping[str, Any]) -> JobFile:
    text = _plain(job_file.text, ())
    trial = job_file.mapping("trial")
    for section in ("resources", "queue_settings"):
        # What stands in both places: the trial's counts, and the sweep's own fills it up.
        own = job_file.mapping(section)
        if own and section in trial:
            known = job_file.mapping("trial", section)
            more = {("trial", section, key): value for key, value in own.items() if key not in known}
            text = splice(text, {**{path: _value(value) for path, value in more.items()}, (section,): REMOVE})
    text = splice(text, {("trial", "type"): REMOVE, **{(name,): REMOVE for name in _SWEEP_ONLY}})
    text = _renamed(
        text, ("trial", "command"), ("trial", "environment_variables"), names=spaces, old="search_space", new="inputs"
    )
    text = _kind(_spread(text), "sweepJob", "commandJob", "command")
    left = {name: value for name, value in job_file.mapping("limits").items() if name == "trial_timeout"}
    if left:
        drop: dict[str | nodes.Path, object] = {
            ("limits", name): REMOVE for name in job_file.mapping("limits") if name != "trial_timeout"
        }
        text = _key_renamed(splice(text, drop), ("limits", "trial_timeout"), "timeout")
    else:
        text = splice(text, {("limits",): REMOVE})
    text = splice(text, {("inputs", name): _value(values[name]) for name in spaces})
    wanted = {name: value for name, value in job_file.values.items() if name not in (*_SWEEP_ONLY, "trial", "limits")}
    for name, value in trial.items():
        both = name in ("resources", "queue_settings") and job_file.mapping(name)
        wanted[name] = {**both, **job_file.mapping("trial", name)} if both else value
    for name in ("command", "environment_variables"):
        if name in trial:
            expression = _expression(spaces, "search_space", single=name == "command")
            wanted[name] = _replaced(trial[name], expression, "inputs")
    wanted |= {"type": "command"} if "type" in wanted else {}
    wanted |= {"limits": {"timeout": left["trial_timeout"]}} if left else {}
    wanted["inputs"] = {**job_file.mapping("inputs"), **{name: values[name] for name in spaces}}
    return _proved(text, wanted, job_file)


def relocate(job_file: JobFile, folder: Path) -> JobFile:
    """The file as it has to be saved into another folder to mean the same: its relative paths lead to the same places."""
    base, target = Path(os.path.realpath(job_file.base)), Path(os.path.realpath(folder))
    layout = Layout.of(job_file.text)
    if base == target:
        return parse(job_file.text, None, target)
    changes = []
    for path, place in layout.places.items():
        value = nodes.get(layout.values, path)
        if place.kind != "scalar" or place.alias or place.shared or not isinstance(value, str):
            continue
        if _is_path(path, value):
            written = next(writing.forms(Exact(_moved(value, base, target)), place.style, layout.in_brackets(path)))
            changes.append((layout.content(path), place, written))
    text = job_file.text
    for start, place, written in sorted(changes, key=lambda change: change[0], reverse=True):
        tail = layout.newline if place.style in ("|", ">") and place.end > start else ""
        text = f"{text[:start]}{written}{tail}{text[place.end :]}"
    return parse(text, None, target)


@contextmanager
def _refusing(job_file: JobFile) -> Iterator[None]:
    """What the file has no place for, as Invalid."""
    try:
        yield
    except KeyError as error:
        hint = str(error.args[1]) if len(error.args) > 1 else "Change it in an editor."
        raise Invalid(f"{job_file.label} has no place for {error.args[0]!r}.", hint) from error
    except (yaml.YAMLError, nodes.Refused) as error:
        raise Invalid(
            f"{job_file.label} is written in a way that cannot be moved.", "Change it in an editor.", str(error)
        ) from error


def _proved(text: str, values: Mapping[str, Any], job_file: JobFile) -> JobFile:
    """The new file, read; Invalid where its text does not say what it has to say."""
    made = parse(text, job_file.path, job_file.base)
    if not same(_sorted(_without_schema(made.values)), _sorted(_without_schema(values))):
        raise Invalid(f"{job_file.label} is written in a way that cannot be moved.", "Change it in an editor.")
    return made


def _without_schema(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "$schema"}


def _sorted(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {str(key): _sorted(values[key]) for key in sorted(values)}
    return [_sorted(value) for value in values] if isinstance(values, list | tuple) else values


def _value(value: Any) -> Any:
    return Exact(value) if isinstance(value, str) else value


# Paths

_FILE = "file:"
_HOLD_PATHS = ("build", "model", "code_configuration", "training_data", "validation_data", "test_data")


def _is_path(path: nodes.Path, value: str) -> bool:
    """Whether a text is a path beside the file: by the key that it stands at, as Azure's client resolves them."""
    bare = value.removeprefix(_FILE)
    if not bare or "${{" in bare or is_remote(bare) or Path(bare).is_absolute():
        return False
    key, above = path[-1], path[:-1]
    if key in ("code", "conda_file"):
        return True
    if key in ("component", "trial", "environment", "create_job", "model", "data"):
        return value.startswith((_FILE, "./", "../"))
    if key == "path" and above:
        return above[-1] in _HOLD_PATHS or (len(above) > 1 and above[-2] == "inputs")
    return False


def _moved(value: str, base: Path, target: Path) -> str:
    bare = value.removeprefix(_FILE)
    found = Path(os.path.relpath(os.path.normpath(base / bare), target)).as_posix()
    if not found.startswith(".."):
        found = f"./{found}" if found != "." else found
    slash = "/" if bare.endswith("/") and not found.endswith("/") else ""
    return f"{value[: len(value) - len(bare)]}{found}{slash}"


# Expressions and keys


def _renamed(text: str, *paths: nodes.Path, names: Mapping[str, Any], old: str, new: str) -> str:
    """`${{old.name}}` made `${{new.name}}` in all text at the paths, and below; in a command `{old.name}` too."""
    expressions = {single: _expression(names, old, single=single) for single in (False, True)}
    layout = Layout.of(text)
    inside = [path for path in layout.places if any(path[: len(start)] == start for start in paths)]
    for path in sorted(inside, key=lambda path: layout.places[path].start, reverse=True):
        place = layout.places[path]
        expression = expressions[path[-1] == "command" and path in paths]
        if place.kind == "scalar" and not place.alias and not place.shared:
            text = text[: place.start] + _replaced(text[place.start : place.end], expression, new) + text[place.end :]
    after = Layout.of(text)
    for path in inside:
        # Where the braces are broken over lines, or written with escapes, the value is written anew.
        wanted = nodes.get(layout.values, path)
        expression = expressions[path[-1] == "command" and path in paths]
        if isinstance(wanted, str) and (wanted := _replaced(wanted, expression, new)) != nodes.get(after.values, path):
            text = splice(text, {path: Exact(wanted)})
    return text


def _expression(names: Mapping[str, Any], space: str, *, single: bool = False) -> re.Pattern[str]:
    """What names one of the names in a space; with `single` also in single braces, as a command may have it."""
    each = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    double = rf"\$\{{\{{\s*{space}\.({each})\s*\}}\}}"
    return re.compile(rf"{double}|(?<!\{{)\{{{space}\.({each})\}}(?!\}})" if single else double)


def _replaced(value: Any, expression: re.Pattern[str], space: str) -> Any:
    """Text, and text in a mapping, with each expression named in another space."""
    if isinstance(value, Mapping):
        return {key: _replaced(item, expression, space) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    return expression.sub(lambda found: f"${{{{{space}.{found[found.lastindex or 1]}}}}}", value)


def _key_renamed(text: str, path: nodes.Path, name: str) -> str:
    layout = Layout.of(text)
    place = layout.places.get(path)
    if place is None or place.key is None or place.shared:
        value = nodes.get(layout.values, path)
        return splice(text, {path: REMOVE, (*path[:-1], name): _value(value)})
    return text[: place.key[0]] + writing.key(name) + text[place.key[1] :]


def _kind(text: str, old: str, new: str, kind: str) -> str:
    """The schema's address and the `type` of another kind of job."""
    layout = Layout.of(text)
    schema = layout.places.get(("$schema",))
    if schema is not None:
        source = text[schema.start : schema.end]
        text = text[: schema.start] + re.sub(old, new, source, flags=re.IGNORECASE) + text[schema.end :]
        layout = Layout.of(text)
    if ("type",) in layout.places:
        return splice(text, {("type",): kind})
    if kind == "command":
        return text
    where = (("$schema",),) if schema is not None else ()
    first = layout.begin(layout.children[()][0])
    at = layout.line_end(layout.end(where[0])) if where else max(layout.line_start(first), layout.head)
    return layout.with_lines(at, f"type: {kind}{layout.newline}")


# Sections


def _plain(text: str, moved: tuple[str, ...]) -> str:
    """The text with what is about to move in blocks at the left, and with no alias that would come before its anchor."""
    layout = Layout.of(text)
    if any(place.alias for place in layout.places.values()) and _crosses(layout, moved):
        for path, place in sorted(layout.places.items(), key=lambda item: item[1].alias or (0, 0), reverse=True):
            if place.alias and not place.shared:
                text = text[: place.alias[0]] + layout.written(path) + text[place.alias[1] :]
        layout = Layout.of(text)
    root = layout.places[()]
    if root.flow or layout.column(()):
        return _with_sections("", dict(layout.values))
    return text


def _crosses(layout: Layout, moved: tuple[str, ...]) -> bool:
    """Whether an alias and its anchor stand on different sides of what moves."""
    homes = {p.anchor: path[:1] for path, p in layout.places.items() if p.anchor and not p.alias and not p.shared}
    return any(
        (path[0] in moved) != (str((homes.get(place.anchor) or ("",))[0]) in moved)
        for path, place in layout.places.items()
        if place.alias and not place.shared
    )


_BLANK_BEFORE = re.compile(r"(?:\A|\n|\r)[ \t]*(?:\r\n|\n|\r)\Z")


def _gathered(text: str) -> str:
    """A command job's body moved below a new key `trial`, where its first part stood."""
    layout = blocks.closed(Layout.of(text))
    text = layout.text
    if not layout.ends_with_break:
        text += layout.newline
    if not set(layout.values) & set(BODY):
        raise Invalid("The job has no command.", "Add `command` and `environment`.")
    spans = [_span(layout, text, (name,)) for (name,) in layout.children[()] if name in BODY]
    pad = " " * layout.step
    moved = "".join(text[start:end] for start, end in spans)
    moved = re.sub(r"(?m)^(?=[^\r\n])", pad, moved)
    for start, end in reversed(spans[1:]):
        # Of the blank lines round what moves one is enough.
        blank = re.match(r"[ \t]*(\r\n|\n|\r)", text[end:]) if _BLANK_BEFORE.search(text[:start]) else None
        text = text[:start] + text[end + (blank.end() if blank else 0) :]
    start, end = spans[0]
    return f"{text[:start]}trial:{layout.newline}{moved}{text[end:]}"


def _span(layout: Layout, text: str, path: nodes.Path) -> tuple[int, int]:
    """The lines of a key at the top, with the comment lines right above it; a comment at the head of the file stays."""
    start, end = layout.line_start(layout.begin(path)), layout.line_end(layout.end(path))
    upper = start
    while upper and text[(line := layout.line_start(upper - 1)) : upper].startswith("#"):
        upper = line
    if path == layout.children[()][0]:
        upper = max(start, layout.head)
    return upper, len(text) if end >= len(layout.text) else end


def _spread(text: str) -> str:
    """A sweep's `trial` taken apart: its keys at the top, where it stood."""
    layout = blocks.closed(Layout.of(text))
    place = layout.places[("trial",)]
    text = layout.text + ("" if layout.ends_with_break else layout.newline)
    layout = Layout.of(text)
    start, end = layout.line_start(layout.begin(("trial",))), layout.line_end(layout.end(("trial",)))
    if place.flow or place.alias:
        trial = nodes.get(layout.values, ("trial",))
        return text[:start] + _with_sections("", trial) + text[end:]
    begin = layout.line_start(layout.content(("trial",)))
    column = layout.column(("trial",))
    own = text[layout.behind_key(("trial",)) : begin].strip()
    comments = "".join(f"{line.strip()}{layout.newline}" for line in own.splitlines() if line.strip().startswith("#"))
    body = re.sub(rf"(?m)^ {{1,{column}}}", "", text[begin:end])
    return text[:start] + comments + body + text[end:]


def _with_sections(text: str, sections: Mapping[str, Any]) -> str:
    """The text with whole sections at its end, one key a line."""
    if not text:
        return "".join(_section(name, value, 0, "\n", 2) for name, value in sections.items())
    layout = blocks.closed(Layout.of(text))
    lines = "".join(_section(name, value, 0, layout.newline, layout.step) for name, value in sections.items())
    return layout.with_lines(layout.line_end(layout.end(())), lines)


def _section(name: str, value: Any, column: int, newline: str, step: int) -> str:
    head = f"{' ' * column}{writing.key(name)}:"
    if isinstance(value, Mapping) and value:
        below = (_section(str(key), item, column + step, newline, step) for key, item in value.items())
        return f"{head}{newline}{''.join(below)}"
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        return f"{head} {blocks.new(value, column + step, newline)}{newline}"
    return f"{head} {next(writing.forms(_value(value)))}{newline}"
