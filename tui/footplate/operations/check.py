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
from footplate.jobfile.kinds import JOBS
from footplate.jobfile.rules.workspace import (
    Versions,
    WorkspaceFacts,
    against,
    computes,
    data_references,
    datastore_references,
    environment_references,
    parse_asset,
    sizes,
)
from footplate.workspace import DataAsset, Invalid, Model, NotAllowed, NotFound, Quota, Size, Workspace

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

    Of environments only the newest versions are listed: any version of one that is there will do. An empty list of environments or
    datastores means that the workspace has no such thing, as on this machine, and tells nothing. Raises what the workspace
    raises, but for a missing right, which leaves a fact untold.
    """
    kind, job = job_file.kind, job_file.kind in ("command", "sweep")
    references = [(asset, is_model) for _, text, is_model in data_references(job_file) if (asset := parse_asset(text))]
    wanted_data = [asset for asset, is_model in references if not is_model]
    wanted_models = [asset for asset, is_model in references if is_model]
    named = {size.lower() for _, size in sizes(job_file)}
    clusters, endpoints, environments, datastores, offered, quota = await asyncio.gather(
        _asked(workspace.clusters, job or kind == "compute" or next(computes(job_file), None)),
        _asked(workspace.endpoints, kind in ("endpoint", "deployment")),
        _asked(workspace.environments, next(environment_references(job_file), None)),
        _asked(workspace.datastores, next(datastore_references(job_file), None)),
        _asked(workspace.sizes, named),
        _asked(workspace.quota, named),
    )
    refusal = await workspace.refusal(job_file) if kind in JOBS else None
    spot = job_file.text_at("queue_settings", "job_tier").lower() == "spot"
    return WorkspaceFacts(
        workspace=workspace.name,
        clusters=None if clusters is None else {cluster.name: cluster.max_nodes or None for cluster in clusters},
        default_cluster=next((cluster.name for cluster in clusters or () if cluster.type == "Local"), ""),
        data_assets=await _versions(workspace.data_assets, workspace.data_folder, wanted_data),
        models=await _versions(workspace.models, workspace.model, wanted_models),
        environments={one.name: () for one in environments} if environments else None,
        datastores=frozenset(one.name for one in datastores) if datastores else None,
        endpoints=None if endpoints is None else {e.name: frozenset(d.name for d in e.deployments) for e in endpoints},
        refused=None if refusal is None else (refusal.sentence, refusal.next_step),
        job_names=await _taken(workspace, job_file.name) if job and job_file.name else None,
        nodes_left=nodes_left(
            [size for size in offered or () if size.name.lower() in named], quota or (), low_priority=spot
        ),
    )


def nodes_left(offered: Sequence[Size], quota: Sequence[Quota], *, low_priority: bool) -> dict[str, int]:
    """How many more nodes the quota has room for, by size in lower case: of its family, and of all families together.

    A family's name is compared without case and blanks. Low priority has one pool for all. A size whose family has no limit
    is left out.
    """
    rows = [row for row in quota if row.low_priority == low_priority and row.limit is not None]
    totals = [row for row in rows if row.family.lower().startswith("total ")]
    found = {}
    for size in offered:
        own = [row for row in rows if _plain(row.family) == _plain(size.family)]
        if size.cores and (own or low_priority):
            left = [((row.limit or 0) - row.used) // size.cores for row in (*own, *totals)]
            if left:
                found[size.name.lower()] = min(left)
    return found


def _plain(family: str) -> str:
    return "".join(family.lower().split())


async def _asked(ask: Callable[[], Awaitable[Sequence[T]]], wanted: object) -> Sequence[T] | None:
    """A list, or None where nothing names what is in it, or this user may not have it."""
    return await _told(ask()) if wanted else None


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
