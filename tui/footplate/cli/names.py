"""Completion of names in a shell: jobs, clusters, models and endpoints, as far as they are known without a network."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import click

from footplate import paths, settings
from footplate.cli.frame import Frame
from footplate.workspace import JobFilter, Workspace, WorkspaceError

MOST = 100
"""Names that a shell is given at once."""

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(listed: Callable[[Workspace], Coroutine[Any, Any, Iterable[str]]], *, cached: bool = False) -> Completer:
    """What click asks for names; `cached` where a workspace on a network keeps such names on this machine."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        given = context.params.get(parameter.name or "")
        there = set(given) if isinstance(given, tuple | list) else set()
        try:
            frame = context.ensure_object(Frame)
            known = settings.load()
            local = known.find(frame.workspace or known.workspace).kind == "local"
            if not (paths.home().is_dir() if local else cached):
                return []
            names = frame.run(listed)
        except WorkspaceError:
            return []  # nothing is to be said between a tab and its answer
        return [name for name in names if name.startswith(incomplete) and name not in there][:MOST]

    return complete


async def _jobs(workspace: Workspace) -> list[str]:
    if workspace.kind != "local":
        return [job.name for job in (await workspace.cached_jobs())[0]]
    async for page in workspace.jobs(JobFilter()):
        return [job.name for job in page]  # the newest thousand
    return []


async def _clusters(workspace: Workspace) -> list[str]:
    return [cluster.name for cluster in await workspace.clusters()]


async def _models(workspace: Workspace) -> list[str]:
    return [model.reference for model in await workspace.models()]


async def _endpoints(workspace: Workspace) -> list[str]:
    return [endpoint.name for endpoint in await workspace.endpoints()]


jobs = _completer(_jobs, cached=True)
clusters = _completer(_clusters)
models = _completer(_models)
endpoints = _completer(_endpoints)
