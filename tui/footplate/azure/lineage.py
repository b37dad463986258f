"""What a model on Azure comes from: the job that wrote it, of a sweep its trial with its parameters, its metric and its commit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from footplate.azure.jobs import Jobs
from footplate.workspace.errors import WorkspaceError


class Lineage:
    """Asks once for each job, of which nothing changes any more when a model was made of it."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._known: dict[str, Mapping[str, Any]] = {}

    async def of(self, job: str | None, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        """`job`, `trial`, `parameters`, `metric` and `commit`, each where it is known; a job that cannot be read tells its name."""
        if job is not None and job not in self._known:
            try:
                self._known[job] = await self._of_job(job)
            except WorkspaceError:  # deleted, or out of reach now: the model says which one it was
                return {"job": job, **_of_metadata(metadata)}
        return {**self._known.get(job or "", {}), **_of_metadata(metadata)}

    async def _of_job(self, name: str) -> Mapping[str, Any]:
        job = await self._jobs.job(name)
        if job.parameters:
            sweep = job.parent or await self._sweep(name)
            return {"job": sweep or name, "trial": name, "parameters": dict(job.parameters)}
        return {"job": name, "parameters": dict(job.inputs)} if job.inputs else {"job": name}

    async def _sweep(self, trial: str) -> str:
        """The sweep of a trial whose record does not name it: `hunt` of `hunt_0`, where that is a sweep; empty else."""
        stem, _, number = trial.rpartition("_")
        if not stem or not number.isdecimal():
            return ""
        try:
            return stem if (await self._jobs.job(stem)).type == "sweep" else ""
        except WorkspaceError:
            return ""


def _of_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's own `model.json` says: its accuracy, and the commit of its code."""
    found: dict[str, Any] = {}
    metrics = metadata.get("metrics")
    best = metrics.get("best_val_acc") if isinstance(metrics, Mapping) else None
    if isinstance(best, float) and math.isfinite(best):
        found["metric"] = {"best_val_acc": best}
    if isinstance(commit := metadata.get("git_commit"), str):
        found["commit"] = commit.encode("utf-8", "replace").decode()
    return found
