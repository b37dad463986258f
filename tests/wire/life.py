"""How jobs go on: their states in time, their logs and metrics, their end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.wire import job_shapes, run_shapes
from tests.wire.parents import Pipelines, Sweeps
from tests.wire.plans import JobPlan
from tests.wire.pool import Pool
from tests.wire.state import Body, GrowingLog, Point

if TYPE_CHECKING:
    from tests.wire.server import WireServer

_ENDED = frozenset({"Completed", "Failed", "Canceled"})
LOGS = "azureml"
"""The container of logs and default outputs."""


@dataclass
class Going:
    """What the server still has to do for a job that goes on."""

    plan: JobPlan
    cluster: str | None = None
    nodes: list[Body] = field(default_factory=list)
    logs: list[GrowingLog] = field(default_factory=list)
    trials_left: int = 0
    steps_left: dict[str, set[str]] = field(default_factory=dict)


class Life:
    """The jobs of one server that go on."""

    def __init__(self, wire: WireServer) -> None:
        """None yet."""
        self._wire = wire
        self._state = wire.state
        self.going: dict[str, Going] = {}
        self._pool = Pool(wire)
        self._parents: dict[str, Sweeps | Pipelines] = {
            "Sweep": Sweeps(self, wire.state),
            "Pipeline": Pipelines(self, wire.state),
        }

    def submit(self, name: str, asked: Body, parent: str | None = None) -> Body:
        """Take a job in, and start it; the body it has now."""
        state, wire = self._state, self._wire
        body = job_shapes.job_body(state, name, asked, wire.api_host, wire.studio)
        inner = body["properties"]
        if inner["jobType"] == "Sweep":
            inner["tags"] |= job_shapes.sweep_tags(state, body)
            inner["properties"] |= job_shapes.sweep_properties(body)
        state.jobs[name] = body
        state.runs[name] = run_shapes.run_body(state, name, body, parent)
        if parent:
            state.children.setdefault(parent, []).append(name)
        going = self.going[name] = Going(wire.plan(name, body))
        parent_kind = self._parents.get(inner["jobType"])
        start = parent_kind.start if parent_kind else self._start
        start(name, going)
        return body

    def after(self, name: str, seconds: float, act: Callable[[], None]) -> None:
        """Do something for a job later, if it still goes on and was not asked to end."""

        def then() -> None:
            if name in self.going and self._state.jobs[name]["properties"]["status"] != "CancelRequested":
                act()

        self._state.clock.after(seconds, then)

    def set_status(self, name: str, status: str) -> None:
        """Write a status into a job and its run."""
        run = self._state.runs[name]
        self._state.jobs[name]["properties"]["status"] = status
        run["status"] = status
        run["statusRevision"] += 1
        run["lastModifiedUtc"] = self._state.stamp()
        if status == "Running" and run["startTimeUtc"] is None:
            run["startTimeUtc"] = self._state.stamp()
        if status in _ENDED:
            run["endTimeUtc"] = self._state.stamp()

    # a command job

    def _start(self, name: str, going: Going) -> None:
        self.after(name, going.plan.starting, lambda: self._prepare(name, going))

    def _prepare(self, name: str, going: Going) -> None:
        self.set_status(name, "Preparing")
        plan = going.plan
        if plan.image_build:
            self._log(
                name, going, "azureml-logs/20_image_build_log.txt", 4, lambda i: f"Step {i}/40 : RUN conda install"
            )
        self.after(name, plan.image_build + plan.preparing, lambda: self._queue(name, going))

    def _queue(self, name: str, going: Going) -> None:
        self._end_logs(going)
        inner = self._state.jobs[name]["properties"]
        cluster = str(inner.get("computeId") or "").rsplit("/", 1)[-1]
        nodes = self._state.clusters.get(cluster, {}).get("properties", {})
        if nodes.get("computeType") != "AmlCompute":
            self._run(name, going)
            return
        going.cluster = cluster
        self.set_status(name, "Queued")

        def start(nodes: list[Body]) -> None:
            going.nodes = nodes
            self._run(name, going)

        self._pool.ask(cluster, name, start)

    def _run(self, name: str, going: Going) -> None:
        self.set_status(name, "Running")
        plan, inner = going.plan, self._state.jobs[name]["properties"]
        base = "system_logs/cs_capability/cs-capability.log"
        self.append_log(name, base, b"2026-12-01T00:00:00Z INFO cs_capability: started\n")
        for path in self._rank_logs(inner):
            self._log(name, going, path, plan.lines_per_second, plan.line)
        for epoch in range(plan.epochs):
            moment = plan.running * (epoch + 1) / plan.epochs
            self.after(name, moment, lambda epoch=epoch: self._measure(name, going, epoch))  # type: ignore[misc]
        self.after(name, plan.running, lambda: self._finalize(name, going))

    @staticmethod
    def _rank_logs(inner: Body) -> list[str]:
        per_node = int((inner.get("distribution") or {}).get("processCountPerInstance") or 1)
        ranks = per_node * int((inner.get("resources") or {}).get("instanceCount") or 1)
        if inner.get("distribution") is None or ranks == 1:
            return ["user_logs/std_log.txt"]
        digits = 2 if ranks > 10 else 1
        return [f"user_logs/std_log_process_{rank:0{digits}d}.txt" for rank in range(ranks)]

    def _measure(self, name: str, going: Going, epoch: int) -> None:
        plan, parent = going.plan, self._state.runs[name]["parentRunId"]
        values = plan.metrics(epoch, plan.epochs, plan.skill)
        objective = self._state.jobs[parent]["properties"].get("objective") if parent else None
        if objective and values:
            values.setdefault(objective["primaryMetric"], values.get("best_val_acc", 1.0))
        for metric, value in values.items():
            self.log_metric(name, metric, value, epoch)

    def _finalize(self, name: str, going: Going) -> None:
        self._end_logs(going)
        self.set_status(name, "Finalizing")
        self.after(name, going.plan.finalizing, lambda: self.end(name, going.plan.ends))

    def _write(self, name: str, output: str) -> None:
        """Put what a job writes where its record says."""
        if output:
            uri = self._state.jobs[name]["properties"]["outputs"][output]["uri"]
            path = uri.partition("/paths/")[2].strip("/")
            self._state.put_blob("azureml-blobstore-1", f"{path}/w.bin", b"w" * 100)
            return
        folder = f"ExperimentRun/dcid.{name}/outputs/model"
        self._state.put_blob(LOGS, f"{folder}/model.json", json.dumps({"format": 1, "job": name}).encode())
        self._state.put_blob(LOGS, f"{folder}/model.onnx", b"onnx" * 1000)

    def end(self, name: str, status: str) -> None:
        """Let a job end now; one that has ended stays as it is."""
        going = self.going.pop(name, None)
        if going is None:
            return
        self._end_logs(going)
        if status == "Failed":
            self._state.runs[name]["error"] = run_shapes.run_error(self._state, going.plan.error)
            self.append_log(name, "user_logs/std_log.txt", f"Traceback\n{going.plan.error}\n".encode())
        elif status == "Completed" and self._state.jobs[name]["properties"]["jobType"] == "Command":
            self._write(name, going.plan.writes_to)
        self.set_status(name, status)
        if going.cluster is not None:
            self._pool.give_back(going.cluster, going.nodes)
        parent = self._state.runs[name]["parentRunId"]
        if parent in self.going:
            self._parents[self._state.jobs[parent]["properties"]["jobType"]].ended(parent, name)

    # ending on request

    def ask_to_end(self, name: str) -> None:
        """A job and its children were asked to end."""
        for one in (name, *self._state.children.get(name, [])):
            if one in self.going:
                self.set_status(one, "CancelRequested")
                tags = self._state.jobs[one]["properties"]["tags"]
                if "_aml_system_cancellation_requested" in tags:
                    tags["_aml_system_cancellation_requested"] = "true"
                self._pool.forget(one)

    def cancelled(self, name: str) -> None:
        """A job and its children have ended, because they were asked to."""
        for one in (*self._state.children.get(name, []), name):
            self.end(one, "Canceled")

    # logs and metrics

    def _log(self, name: str, going: Going, path: str, per_second: float, line: Callable[[int], str]) -> None:
        key = (LOGS, log_path(name, path))
        self._state.put_blob(*key, b"")
        log = GrowingLog(key, self._state.now, per_second, line)
        going.logs.append(log)
        self._state.growing.append(log)

    def _end_logs(self, going: Going) -> None:
        for log in going.logs:
            log.until = log.until or self._state.now
        going.logs = []

    def append_log(self, name: str, path: str, data: bytes) -> None:
        """Add to the end of a log file of a job."""
        self._state.append_blob(LOGS, log_path(name, path), data)

    def log_metric(self, name: str, metric: str, value: float, step: int) -> None:
        """Add a value to a metric of a job."""
        points = self._state.metrics.setdefault(name, {}).setdefault(metric, [])
        points.append(Point(value, step, self._state.now))


def log_path(name: str, path: str) -> str:
    """Where a log file of a job lies in its container."""
    return f"ExperimentRun/dcid.{name}/{path}"
