"""Small deployments from files, and a steady stream of requests to them, for the tests of traffic."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from footplate.jobfile import JobFile, read
from footplate.local.endpoints import Endpoints
from footplate.local.store import Store
from footplate.settings import Settings

SCORE = """\
import json, os, time

def init():
    open("written.txt", "w").close()

def run(raw):
    asked = json.loads(raw or "{}")
    time.sleep(asked.get("sleep", 0))
    return {"who": os.environ["WHO"], "instance": os.getppid(), "asked": asked}
"""
"""It takes a request as long as that says, and tells who answered."""


@contextmanager
def workspace(home: Path) -> Iterator[tuple[Store, Endpoints]]:
    """A store and its endpoint `birds`, which has no deployment; every endpoint is deleted at the end."""
    store = Store(home)
    store.prepare()
    endpoints = Endpoints(store, Settings())
    endpoints.create("birds")
    try:
        yield store, endpoints
    finally:
        for endpoint in endpoints.list():
            endpoints.delete(endpoint.name)


def deployment_file(
    folder: Path, name: str, more: str = "", script: str = SCORE, who: str | None = None, model: str = "model"
) -> JobFile:
    """A deployment's file for endpoint `birds`, with a script and a model of a few bytes beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / model).mkdir(exist_ok=True)
    (folder / model / "weights.txt").write_text("weights\n")
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "score.py").write_text(script)
    file = folder / f"{name}.yml"
    file.write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/managedOnlineDeployment.schema.json\n"
        f"name: {name}\nendpoint_name: birds\nmodel:\n  name: tiny\n  path: ./{model}\n"
        "code_configuration:\n  code: ./src\n  scoring_script: score.py\n"
        f"environment_variables:\n  WHO: {who or name}\n"
        f"instance_type: Standard_DS3_v2\ninstance_count: 1\n{more}"
    )
    return read(file)


def deploy(endpoints: Endpoints, folder: Path, name: str, more: str = "", **given: str) -> None:
    """Deploy such a file."""
    endpoints.deploy_from(deployment_file(folder, name, more, **given), None, None, True)


@dataclass
class Stream:
    """What a stream of requests was answered: `who` by the request's number, and each failure's own words."""

    sent: int = 0
    who: dict[int, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    async def more(self, count: int) -> Counter[str]:
        """Who answered the next so many requests that are sent from now on."""
        numbers = range(self.sent, self.sent + count)
        deadline = time.monotonic() + 60
        while not all(number in self.who for number in numbers):
            assert time.monotonic() < deadline, f"the stream stands still: {len(self.who)} of {self.sent} answered"
            await asyncio.sleep(0.01)
        return Counter(self.who[number] for number in numbers)


@asynccontextmanager
async def stream(endpoints: Endpoints, every: float, headers: Mapping[str, str] | None = None) -> AsyncIterator[Stream]:
    """Send a request every so many seconds, whatever the answers do, over a few connections that stay open."""
    address, key = endpoints.endpoint("birds").scoring_uri, endpoints.keys("birds").primary
    sent = {"Content-Type": "application/json", "Authorization": f"Bearer {key}", **(headers or {})}
    found = Stream()
    ending = asyncio.Event()

    async def one(client: aiohttp.ClientSession, number: int) -> None:
        try:
            async with client.post(address, data=b"{}", headers=sent) as answer:
                text = await answer.text()
                if answer.status == 200:
                    found.who[number] = json.loads(text)["who"]
                    return
                failure = f"{answer.status} {text}"
        except aiohttp.ClientError as error:
            failure = repr(error)
        found.who[number] = "nobody"
        found.failures.append(failure)

    async def send(client: aiohttp.ClientSession) -> None:
        async with asyncio.TaskGroup() as requests:
            while not ending.is_set():
                requests.create_task(one(client, found.sent))
                found.sent += 1
                await asyncio.sleep(every)

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as client:
        sending = asyncio.create_task(send(client))
        try:
            yield found
        finally:
            ending.set()
            await sending
