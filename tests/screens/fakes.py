"""A local workspace whose endpoints, trials or capabilities a test makes up, where the state is what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from footplate import settings
from footplate.jobfile import JobFile
from footplate.local.workspace import LocalWorkspace
from footplate.workspace import Deployment, Endpoint, Figures, Job, Keys, Service
from footplate.workspace.traffic import check_mirror, check_traffic, check_unchanged

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def deployment(name: str, **more: Any) -> Deployment:
    return Deployment(name, "birds", f"birds:{1 if name == 'blue' else 2}", more.pop("state", "Succeeded"), NOW, **more)


def endpoint(*deployments: Deployment, **more: Any) -> Endpoint:
    return Endpoint("birds", "Succeeded", NOW, "http://127.0.0.1:5001/score", deployments=deployments, **more)


def job(name: str, **more: Any) -> Job:
    given = {"type": "command", "status": "Completed", "compute": "local"} | more
    return Job(name, given.pop("display_name", name), experiment="birds", created=NOW, **given)


class Fake(LocalWorkspace):
    """What is made up is what is put into the attributes; all else is the local workspace's."""

    refused: Mapping[str, str] = {}

    def __init__(self) -> None:
        super().__init__("local", settings.load())
        self.endpoint_state: Endpoint | None = None
        self.made_up: dict[str, Job] = {}
        self.made_up_children: dict[str, list[Job]] = {}
        self.file: JobFile | None = None
        self.served: tuple[Service, ...] = ()
        self.acts: list[tuple[object, ...]] = []

    @property
    def capabilities(self) -> Mapping[str, str]:
        return self.refused

    # jobs

    async def job(self, name: str) -> Job:
        return self.made_up[name] if name in self.made_up else await super().job(name)

    async def children(self, name: str) -> Sequence[Job]:
        return self.made_up_children.get(name, ())

    async def job_file(self, name: str) -> JobFile:
        return self.file if self.file is not None else await super().job_file(name)

    async def services(self, name: str) -> Sequence[Service]:
        return self.served

    async def log_files(self, name: str) -> Sequence[Any]:
        return () if name in self.made_up else await super().log_files(name)

    async def metrics(self, name: str) -> Mapping[str, Any]:
        return {} if name in self.made_up else await super().metrics(name)

    # endpoints

    async def endpoints(self) -> Sequence[Endpoint]:
        return () if self.endpoint_state is None else (self.endpoint_state,)

    async def endpoint(self, name: str) -> Endpoint:
        assert self.endpoint_state is not None
        return self.endpoint_state

    async def set_traffic(
        self, name: str, traffic: Mapping[str, int], if_unchanged: Mapping[str, int] | None = None
    ) -> Endpoint:
        now = await self.endpoint(name)
        check_unchanged(now, if_unchanged)
        check_traffic(now, traffic)
        self.endpoint_state = replace(now, traffic=dict(traffic))
        return self.endpoint_state

    async def set_mirror(self, name: str, mirror: Mapping[str, int]) -> Endpoint:
        now = await self.endpoint(name)
        check_mirror(now, mirror)
        self.endpoint_state = replace(now, mirror=dict(mirror))
        return self.endpoint_state

    async def scale(self, endpoint: str, name: str, instances: int) -> Deployment:
        self.acts.append(("scale", name, instances))
        return deployment(name, instances=instances)

    async def delete_deployment(self, endpoint: str, name: str) -> None:
        self.acts.append(("delete", name))

    async def keys(self, name: str) -> Keys:
        return Keys("first-key", "second-key")

    async def regenerate_key(self, name: str, key: str) -> Keys:
        self.acts.append(("regenerate", key))
        return Keys("new-key", "second-key")

    async def deployment_log(self, endpoint: str, name: str, tail: int, container: str = "inference-server") -> str:
        return f"[bold]{container} of {name}"

    async def monitor(self, endpoint: str) -> Sequence[Figures]:
        times = [NOW - timedelta(minutes=minutes) for minutes in (3, 2, 1)]
        series = {
            name: [(t, float(n)) for n, t in enumerate(times)] for name in ("requests_per_minute", "latency_ms_p95")
        }
        return [Figures("blue", series, until=times[-1])]
