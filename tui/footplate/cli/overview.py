"""The commands on what a workspace holds, and on the installation: data, environments, datastores, info."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Sequence
from typing import Any

import click

from footplate import __version__, paths
from footplate.cli.frame import Frame, common
from footplate.workspace import Environment, Workspace


@click.command("data")
@common
@click.pass_obj
def data_command(frame: Frame) -> None:
    """List data assets."""
    found = frame.run(lambda workspace: workspace.data_assets())
    frame.table(
        [
            {"name": d.name, "version": d.version, "type": d.type, "path": d.path, "description": d.description}
            for d in found
        ],
        ("DATA", "TYPE", "PATH", "DESCRIPTION"),
        [(f"{d.name}:{d.version}", d.type, d.path, d.description) for d in found],
        "No data assets.",
    )


@click.command("environments")
@common
@click.pass_obj
def environments_command(frame: Frame) -> None:
    """List the newest version of each environment that jobs can name."""

    async def work(workspace: Workspace) -> tuple[Sequence[Environment], str]:
        return await workspace.environments(), workspace.kind

    found, kind = frame.run(work)
    frame.table(
        [environment.document() for environment in found],
        ("ENVIRONMENT", "IMAGE", "DESCRIPTION"),
        [(f"{e.name}:{e.version}", e.image, e.description) for e in found],
        "No environments: on this machine jobs run with a Python, which footplate info names."
        if kind == "local"
        else "No environments.",
    )


@click.command("datastores")
@common
@click.pass_obj
def datastores_command(frame: Frame) -> None:
    """List where the workspace keeps data."""
    found = frame.run(lambda workspace: workspace.datastores())
    frame.table(
        [{"name": d.name, "type": d.type, "location": d.location or None, "is_default": d.is_default} for d in found],
        ("DATASTORE", "TYPE", "DEFAULT", "LOCATION"),
        [(d.name, d.type, "default" if d.is_default else "", d.location) for d in found],
        "No datastores.",
    )


@click.command("info")
@common
@click.pass_obj
def info_command(frame: Frame) -> None:
    """Say where everything lies, and what this installation can do."""

    async def work(workspace: Workspace) -> dict[str, Any]:
        return {"workspace": workspace.name, "kind": workspace.kind, "read_only": workspace.read_only}

    document = {
        "version": __version__,
        **frame.run(work),
        "home": str(paths.home()),
        "home_exists": paths.home().is_dir(),
        "settings": str(paths.config_file()),
        "settings_exist": paths.config_file().is_file(),
        "log": str(paths.console_log()),
        "templates": str(paths.asset("jobs")),
        "python": sys.executable,
        "python_version": platform.python_version(),
        "extra_local": {
            name: importlib.util.find_spec(name) is not None
            for name in ("torch", "torchvision", "mlflow", "onnxruntime")
        },
    }
    frame.result(
        document, lambda: "\n".join(f"{key.replace('_', ' '):<16}{_plain(value)}" for key, value in document.items())
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in value.items())
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (data_command, environments_command, datastores_command, info_command):
        group.add_command(command)
