"""A workspace that refuses every change, whatever screen or command asks."""

from __future__ import annotations

from typing import Any, cast

from footplate.workspace.contract import Workspace
from footplate.workspace.errors import NotAllowed

FACTS = frozenset(
    {
        "name",
        "kind",
        "capabilities",
        "poll_seconds",
        "newest_jobs",
        "place",
        "signed_in_by",
        "reads_left",
        "upload",
        "deployment_size",
    }
)
"""What a workspace says of itself."""

READS = frozenset(
    {
        "close",
        "sign_in",
        "learn_capabilities",
        "clusters",
        "cluster",
        "nodes",
        "sizes",
        "quota",
        "jobs",
        "cached_jobs",
        "job",
        "job_file",
        "children",
        "contrasts",
        "refusal",
        "services",
        "log_files",
        "read_log",
        "rank_ends",
        "metrics",
        "usage",
        "outputs",
        "download",
        "environments",
        "datastores",
        "data_assets",
        "data_folder",
        "models",
        "model",
        "download_model",
        "endpoints",
        "endpoint",
        "keys",
        "deployment_log",
        "monitor",
        "invoke",
    }
)
"""The contract's methods that change nothing; all others are refused, those that are added later too."""


class _ReadOnly:
    read_only = True

    def __init__(self, inner: Workspace, way_out: str) -> None:
        self._inner = inner
        self._way_out = way_out

    def __getattr__(self, name: str) -> Any:
        if name in FACTS or name in READS:
            return getattr(self._inner, name)
        if not hasattr(Workspace, name):
            raise AttributeError(f"A workspace has no {name!r}.")

        async def refuse(*_: object, **__: object) -> None:
            act = name.replace("_", " ")
            raise NotAllowed(f"Workspace {self._inner.name!r} is open read-only: {act} is refused.", self._way_out)

        return refuse


def read_only(workspace: Workspace, way_out: str = "Open it without --read-only.") -> Workspace:
    """The same workspace, which raises NotAllowed for every method that is not in `READS`; `way_out` is its next step."""
    return workspace if workspace.read_only else cast(Workspace, _ReadOnly(workspace, way_out))
