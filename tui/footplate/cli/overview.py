"""The commands on the workspace and the installation: clusters, data, info."""

from __future__ import annotations

import importlib.util
import platform
import sys
from typing import Any

import click

from footplate import __version__, paths, words
from footplate.cli.frame import Frame, common
from footplate.workspace import Workspace


@click.command("clusters")
@common
@click.pass_obj
def clusters_command(frame: Frame) -> None:
    """List clusters."""
    found = frame.run(lambda workspace: workspace.clusters())
    frame.table(
        [cluster.document() for cluster in found],
        ("CLUSTER", "TYPE", "SIZE", "STATE", "NODES", "BUSY", "QUEUED"),
        [
            (
                c.name,
                c.type,
                c.size,
                c.state,
                f"{c.min_nodes}–{c.max_nodes}",
                str(c.busy_nodes),
                words.count(c.queued_jobs),
            )
            for c in found
        ],
        "No clusters.",
    )


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
    for command in (clusters_command, data_command, info_command):
        group.add_command(command)
