"""Check files: alone, or against what a workspace has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from footplate.jobfile import JobFile, read
from footplate.jobfile.check import check, check_file
from footplate.jobfile.document import Unreadable
from footplate.jobfile.faults import Fault
from footplate.jobfile.rules.workspace import (
    Versions,
    WorkspaceFacts,
    against,
    computes,
    data_references,
    parse_asset,
)
from footplate.workspace import DataAsset, Invalid, Model, NotAllowed, NotFound, Workspace

T = TypeVar("T")

AT_LAUNCH = {"data-missing": "error", "data-kind": "error"}
"""A file may be written before its data is there; launched without it a job would fail after its upload."""


async def check_path_on(
    workspace: Workspace, path: Path, severities: Mapping[str, str] | None = None
) -> tuple[JobFile | None, list[Fault]]:
    """As `check_file`, and against a workspace. Raises what the workspace raises too, but for a missing right to list."""
    try:
        job_file = read(path)
    except Unreadable:
        return check_file(path, severities)
    return job_file, check(job_file, severities, against(await gather(workspace, job_file)))


async def check_for_launch(
    workspace: Workspace, job_file: JobFile, severities: Mapping[str, str] | None = None
) -> list[Fault]:
    """All faults of a file that is about to be launched on a workspace, its own and those against the workspace.

    Raises what the workspace raises, but for a missing right to list. `severities` are those of the settings.
    """
    facts = against(await gather(workspace, job_file))
    return await asyncio.to_thread(check, job_file, {**AT_LAUNCH, **(severities or {})}, facts)


async def gather(workspace: Workspace, job_file: JobFile) -> WorkspaceFacts:
    """What a workspace has of the things that a file names; nothing is asked for that it does not name.

    The contract lists no environments, datastores and quota yet: they stay untold. Raises what the workspace raises, but for
    a missing right, which leaves a fact untold.
    """
    kind, job = job_file.kind, job_file.kind in ("command", "sweep")
    references = [(asset, is_model) for _, text, is_model in data_references(job_file) if (asset := parse_asset(text))]
    wanted_data = [asset for asset, is_model in references if not is_model]
    wanted_models = [asset for asset, is_model in references if is_model]
    clusters = None
    if job or kind == "compute" or next(computes(job_file), None):
        clusters = await _told(workspace.clusters())
    endpoints = await _told(workspace.endpoints()) if kind in ("endpoint", "deployment") else None
    return WorkspaceFacts(
        workspace=workspace.name,
        clusters=None if clusters is None else {cluster.name: cluster.max_nodes for cluster in clusters},
        default_cluster=next((cluster.name for cluster in clusters or () if cluster.type == "Local"), ""),
        data_assets=await _versions(workspace.data_assets, workspace.data_folder, wanted_data),
        models=await _versions(workspace.models, workspace.model, wanted_models),
        endpoints=None if endpoints is None else {e.name: frozenset(d.name for d in e.deployments) for e in endpoints},
        job_names=await _taken(workspace, job_file.name) if job and job_file.name else None,
    )


async def _told(asked: Awaitable[Sequence[T]]) -> Sequence[T] | None:
    """A list, or None where this user may not have it."""
    try:
        return await asked
    except NotAllowed:
        return None


async def _versions(
    listed: Callable[[], Awaitable[Sequence[DataAsset | Model]]],
    look_up: Callable[[str], Awaitable[object]],
    wanted: Sequence[tuple[str, str]],
) -> Versions | None:
    """The versions of each asset of a kind: those listed, and of those wanted what only a look-up by name finds."""
    every = await _told(listed()) if wanted else None
    if every is None:
        return None
    known: dict[str, tuple[str, ...]] = {}
    for asset in every:
        known[asset.name] = (*known.get(asset.name, ()), asset.version)
    for name, version in _absent(wanted, known):
        try:
            found = await look_up(f"azureml:{name}:{version}" if version else f"azureml:{name}@latest")
        except (NotFound, Invalid, NotAllowed):
            continue
        version = found.version if isinstance(found, Model) else version
        known[name] = (*known.get(name, ()), *([version] if version else ()))
    return known


def _absent(wanted: Iterable[tuple[str, str]], known: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """What a list does not show: it may be archived, and is asked for by its name."""
    return [
        (name, version)
        for name, version in dict.fromkeys(wanted)
        if version not in ("", *known.get(name, ())) or name not in known
    ]


async def _taken(workspace: Workspace, name: str) -> frozenset[str]:
    try:
        await workspace.job(name)
    except (NotFound, Invalid, NotAllowed):
        return frozenset()
    return frozenset({name})
