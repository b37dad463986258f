"""The commands on the installation itself: config, clean, completion."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from footplate import paths, settings, words
from footplate.cli.frame import Frame, common, fail
from footplate.operations import alert_rules
from footplate.workspace import Invalid, Workspace, WorkspaceError
from footplate.workspace.model import iso

_VARIABLE = "_FOOTPLATE_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


@click.group("config")
def config_group() -> None:
    """Show or check the settings; the schema of their file."""


@config_group.command("show")
@common
@click.pass_obj
def show_command(frame: Frame) -> None:
    """Print the settings as they hold: the file, the environment's variables over it, and defaults."""
    found = settings.load()
    values = _values(found)
    variables = {name: os.environ[name] for name in _variables() if os.environ.get(name)}
    document = {
        "file": str(found.file),
        "exists": found.file.is_file(),
        "settings": values,
        "environment": variables,
    }
    frame.result(document, lambda: _toml(document))


@config_group.command("validate")
@common
@click.pass_obj
def validate_command(frame: Frame) -> None:
    """Check the settings file: every table of it, and that the workspace it opens is there. Ends with 2 for a fault."""
    faults = list(_faults())
    file = paths.config_file()
    there = "" if file.is_file() else " (it is not there: the defaults hold)"
    if frame.json or not faults:
        frame.result(
            [{"message": fault.sentence, "hint": fault.next_step or None} for fault in faults],
            f"{file}{there}: no faults",
        )
    for fault in faults:
        fail(fault.sentence, fault.next_step)
    if faults:
        sys.exit(2)


@config_group.command("schema")
@common
@click.pass_obj
def schema_command(frame: Frame) -> None:
    """Print the JSON schema of the settings file, which editors check it by."""
    from footplate.cli import json_text

    click.echo(json_text.dumps(_schema()))  # JSON with and without --json


@click.command("clean")
@click.option(
    "--older-than",
    metavar="AGE",
    default="30d",
    show_default=True,
    help="Jobs that ended so long ago, as 12h, 30d, 8w.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
@click.pass_obj
def clean_command(frame: Frame, older_than: str, dry_run: bool, yes: bool) -> None:
    """Free the space of old jobs on this machine: their records, logs, outputs and metrics go, and old downloads of inputs.

    Models that were registered from them stay, and so do jobs that have not ended. A download is fetched again when a job wants it.
    """
    from footplate.operations import cleaning

    age = cleaning.age(older_than)

    async def work(workspace: Workspace) -> tuple[list[cleaning.Old], list[cleaning.Download], bool]:
        old = await cleaning.old_jobs(workspace, age)
        fetched = [] if workspace.read_only and not dry_run else await asyncio.to_thread(cleaning.old_downloads, age)
        if dry_run or not (old or fetched):
            return old, fetched, False
        if not yes:
            _ask(frame, old, fetched)
        gone = await cleaning.clean(workspace, old)
        return gone, await asyncio.to_thread(cleaning.clean_downloads, fetched), True

    old, fetched, removed = frame.run(work)
    total = sum(one.bytes for one in old) + sum(one.bytes for one in fetched)
    jobs = _counted(old, fetched)
    lines = [
        f"{one.job.name}  {words.size(one.bytes)}  ended {words.age(one.job.ended or one.job.created)} ago"
        for one in old
    ]
    lines += [f"{one.address}  {words.size(one.bytes)}  a download" for one in fetched]
    if not old and not fetched:
        lines = [f"No job ended more than {older_than} ago: there is nothing to free."]
    elif removed:
        lines.append(f"Freed {words.size(total)}: {jobs} removed.")
    else:
        lines.append(f"{words.size(total)} of {jobs} would be freed; nothing was removed.")
    document = {
        "removed": removed,
        "bytes": total,
        "jobs": [{"name": one.job.name, "ended": iso(one.job.ended), "bytes": one.bytes} for one in old],
        "downloads": [{"address": one.address, "bytes": one.bytes} for one in fetched],
    }
    frame.result(document, "\n".join(lines))


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@common
@click.pass_obj
def completion_command(frame: Frame, shell: str) -> None:
    """Print what makes a shell complete commands, options and names.

    \b
    bash   eval "$(footplate completion bash)"   in ~/.bashrc
    zsh    eval "$(footplate completion zsh)"    in ~/.zshrc
    fish   footplate completion fish | source    in config.fish
    """
    from click.shell_completion import get_completion_class

    from footplate.cli import cli

    made = get_completion_class(shell)
    if made is None:
        raise Invalid(f"There is no completion for {shell}.", f"Known: {', '.join(_SHELLS)}.")
    script = made(cli, {}, "footplate", _VARIABLE).source()
    frame.result({"shell": shell, "script": script}, script.strip("\n"))


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (config_group, clean_command, completion_command):
        group.add_command(command)


def _counted(old: Sequence[Any], fetched: Sequence[Any]) -> str:
    """`2 jobs and 1 download`, without what there is none of."""
    counts = ((len(old), "job"), (len(fetched), "download"))
    return " and ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count) or "0 jobs"


def _ask(frame: Frame, old: Sequence[Any], fetched: Sequence[Any]) -> None:
    """Ask before anything goes. Raises Invalid where nobody can be asked, click's Abort for a no."""
    total = words.size(sum(one.bytes for one in (*old, *fetched)))
    names = [*(one.job.name for one in old), *(one.address for one in fetched)]
    named = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    question = f"Remove {_counted(old, fetched)} of long ago ({named}) and free {total}?"
    if not sys.stdin.isatty():
        raise Invalid(
            f"{question} Nobody can be asked here, and nothing was removed.", "Add --yes, or --dry-run to look."
        )
    click.confirm(question, abort=True, err=True)


def _values(found: settings.Settings) -> dict[str, Any]:
    """The settings as the file would have them."""
    plain = dataclasses.asdict(found)
    del plain["file"], plain["names_workspace"]
    plain["alerts"]["rules"] = [_without_secret(rule) for rule in plain["alerts"]["rules"]]
    return plain


def _without_secret(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rule of alerts; a webhook's path often is its password."""
    return {key: alert_rules.masked(str(value)) if key == "webhook" else value for key, value in rule.items()}


def _variables() -> list[str]:
    """The environment variables that stand for settings."""
    sections = {
        "LOCAL": settings.LocalSettings,
        "SERVING": settings.ServingSettings,
        "CLIPBOARD": settings.ClipboardSettings,
        "LOGS": settings.LogsSettings,
    }
    keys = [
        f"FOOTPLATE_{name}_{one.name.upper()}" for name, kind in sections.items() for one in dataclasses.fields(kind)
    ]
    return ["FOOTPLATE_CONFIG", "FOOTPLATE_HOME", "FOOTPLATE_WORKSPACE", *keys]


def _toml(document: dict[str, Any]) -> str:
    import tomlkit  # only this text is made with it

    text = tomlkit.dumps({key: value for key, value in document["settings"].items() if value != {}})
    there = "" if document["exists"] else ", which is not there: these are the defaults"
    lines = [f"# {document['file']}{there}"]
    lines += [f"# {name}={value} in the environment" for name, value in document["environment"].items()]
    return "\n".join([*lines, "", text.strip()])


def _faults() -> Iterator[WorkspaceError]:
    """The faults of the settings, one a table at most; a file that cannot be read at all has that one."""
    try:
        found = settings.load()
    except Invalid as error:
        yield error
        return
    from footplate.workspace.open import check_kind

    for name in dict.fromkeys([found.workspace, *found.workspaces]):
        try:
            wanted = found.find(name)
            check_kind(wanted)
            if wanted.kind == "azure":
                found.azure(name)
        except Invalid as error:
            yield error


_TYPES: Mapping[str, Mapping[str, Any]] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "minimum": 0},
}


def _schema() -> dict[str, Any]:
    """The schema, made from the classes that read the file."""
    from footplate.jobfile.check import CODES
    from footplate.jobfile.faults import SEVERITIES

    severities = {code: {"enum": list(SEVERITIES)} for code in sorted(CODES)}
    local = _object(settings.WorkspaceSettings, leave_out=("name",), kind="local")
    azure = _object(settings.AzureSettings, kind="azure")
    azure["required"] = ["kind"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "footplate's settings",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "workspace": {"type": "string", "default": settings.Settings.workspace},
            "local": _object(settings.LocalSettings),
            "serving": _object(settings.ServingSettings),
            "clipboard": _object(settings.ClipboardSettings),
            "logs": _object(settings.LogsSettings),
            "check": {
                "description": settings.CheckSettings.__doc__,
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "severities": {"type": "object", "additionalProperties": False, "properties": severities}
                },
            },
            "alerts": alert_rules.schema(settings.AlertSettings.__doc__ or ""),
            "workspaces": {"type": "object", "additionalProperties": {"anyOf": [azure, local]}},
        },
    }


def _object(section: type[Any], leave_out: tuple[str, ...] = (), kind: str = "") -> dict[str, Any]:
    """The schema of a table."""
    properties: dict[str, Any] = {
        one.name: {**_TYPES[str(one.type)], "default": one.default}
        for one in dataclasses.fields(section)
        if one.name not in leave_out
    }
    if kind:
        properties["kind"] = {"const": kind}
    return {
        "description": section.__doc__,
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
