"""The console's end of `footplate.azure.sdk`: starts the child at the first write, gives it tokens, tells of its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import TokenRequestOptions

from footplate import paths
from footplate.azure.client import Client
from footplate.azure.masking import mask
from footplate.azure.reading import mapping, text
from footplate.azure.sdk_faults import from_document, to_document
from footplate.workspace.errors import NotSignedIn, Unexpected, Unreachable, WorkspaceError
from footplate.workspace.model import Uploading

_WORKSPACE_VERSION = "2024-10-01-preview"
_LONGEST_LINE = 1 << 24
_END_SECONDS = 5.0
_SECRETS = (
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PASSWORD",
    "AZURE_PASSWORD",
    "IDENTITY_HEADER",
    "MSI_SECRET",
)
_ANSI = re.compile(r"\x1b\[[\d;]*m")


class Sdk:
    """The child process of one workspace. When it dies, the calls that wait fail, and the next one starts a new child."""

    def __init__(self, client: Client, token_env: str = "") -> None:
        """Nothing is started yet. The variable `token_env` is kept from the child."""
        self._client = client
        self._hidden = frozenset({*_SECRETS, token_env})
        self._starting = asyncio.Lock()
        self._child: _Child | None = None
        self.upload: Uploading | None = None

    @property
    def pid(self) -> int | None:
        """The process that is there, if any."""
        return self._child.process.pid if self._child is not None and self._child.alive else None

    async def call(self, act: str, what: str, **given: Any) -> Any:
        """Have an act of `sdk_acts.Acts` done; `what` names its object in an error. Raises WorkspaceError."""
        async with self._starting:
            if (child := self._child) is None or not child.alive:
                child = await self._start()
        try:
            return await child.call(act, what, given)
        except NotSignedIn:
            if token := self._client.credential.ready(self._client.cloud.scope):
                self._client.credential.forget(token.token)  # the next try has a new one made
            raise

    async def close(self) -> None:
        """End the child, and whatever it does."""
        async with self._starting:
            if self._child is not None:
                await self._child.end()

    async def _start(self) -> _Child:
        opened = await self._opening()
        environment = {name: value for name, value in os.environ.items() if name not in self._hidden}
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # what lies in the folder where the console was started is no module of ours
                "-m",
                "footplate.azure.sdk",
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=_LONGEST_LINE,
                start_new_session=True,  # no terminal to write on, no ctrl+c of its own
                env=environment,
            )
        except OSError as error:
            raise Unexpected(
                f"The process for Azure's SDK could not be started: {error.strerror or error}.",
                "Free memory or processes, then try again.",
                repr(error),
            ) from error
        child = self._child = _Child(process, self._client, self)
        await child.say({"open": opened})
        return child

    async def _opening(self) -> Mapping[str, Any]:
        cloud, place = self._client.cloud, self._client.place
        metadata: dict[str, str] = {}
        if cloud.custom:
            metadata = {
                "resource_manager": cloud.resource_manager,
                "active_directory": cloud.active_directory,
                "aml_resource_id": cloud.aml_resource_id,
                "storage_endpoint": cloud.storage_endpoint,
                "registry_discovery_endpoint": f"{await self._region()}/",
            }
        return {
            "subscription_id": place.subscription_id,
            "resource_group": place.resource_group,
            "workspace_name": place.workspace_name,
            "cloud": cloud.name,
            "metadata": metadata,
            "ca_file": str(cloud.ca_file) if cloud.ca_file else None,
        }

    async def _region(self) -> str:
        """The address of the region's services, which also tell where a registry is."""
        record = await self._client.get("", _WORKSPACE_VERSION, f"workspace {self._client.place.workspace_name!r}")
        parts = urlsplit(text(mapping(mapping(record).get("properties")).get("discoveryUrl")))
        return f"{parts.scheme}://{parts.netloc}"


class _Child:
    """One process, and the calls that wait for it."""

    def __init__(self, process: Process, client: Client, sdk: Sdk) -> None:
        self.process = process
        self.alive = True
        self._client = client
        self._sdk = sdk
        self._calls: dict[int, tuple[asyncio.Future[Any], str]] = {}
        self._count = 0
        self._answers: set[asyncio.Task[None]] = set()
        self._readers = (asyncio.create_task(self._read()), asyncio.create_task(self._log()))

    async def call(self, act: str, what: str, given: Mapping[str, Any]) -> Any:
        self._count += 1
        number = self._count
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[number] = (answer, what)
        try:
            await self.say({"call": number, "act": act, "what": what, "given": given})
            return await answer
        finally:
            self._calls.pop(number, None)
            if not self._calls:
                self._sdk.upload = None

    async def say(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):  # its end is told by whoever reads
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            await self.process.stdin.drain()

    async def end(self) -> None:
        """Close the pipe, at which the child ends; one that does not is killed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), _END_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await asyncio.wait(self._readers, timeout=_END_SECONDS)  # longer only for a program that the SDK has started
        for task in (*self._readers, *self._answers):
            task.cancel()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ConnectionError, ValueError):  # a line cut by its death, or too long
            while line := await self.process.stdout.readline():
                self._heard(json.loads(line))
        self.alive = False
        if self.process.returncode is None and self.process.stdin is not None:
            self.process.stdin.close()
        code = await self.process.wait()
        for answer, what in list(self._calls.values()):
            if not answer.done():
                answer.set_exception(_ended(code, what))

    def _heard(self, message: Mapping[str, Any]) -> None:
        if "ask" in message:
            task = asyncio.create_task(self._give_token(message))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        elif "progress" in message:
            self._sdk.upload = Uploading(**message["progress"])
        elif (waiting := self._calls.get(message["call"])) is not None and not waiting[0].done():
            if "error" in message:
                waiting[0].set_exception(from_document(message["error"]))
            else:
                waiting[0].set_result(message["result"])

    async def _give_token(self, asked: Mapping[str, Any]) -> None:
        options: TokenRequestOptions = {"claims": asked["claims"]} if asked["claims"] else {}
        answer: dict[str, Any] = {"token": asked["ask"]}
        try:
            token = await asyncio.to_thread(self._client.credential.get_token_info, asked["scope"], options=options)
        except Exception as error:  # noqa: BLE001  the child waits for an answer, whatever it is
            fault = error if isinstance(error, WorkspaceError) else Unexpected("No token was made.", "", repr(error))
            answer["error"] = to_document(fault)
        else:
            answer |= {"value": token.token, "expires_on": token.expires_on}
        await self.say(answer)

    async def _log(self) -> None:
        """What the SDK says goes to the console's log, without colours and secrets."""
        assert self.process.stderr is not None
        rest = b""
        while data := await self.process.stderr.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            await asyncio.to_thread(_write_log, lines)
        await asyncio.to_thread(_write_log, [rest])


def _write_log(lines: list[bytes]) -> None:
    said = [mask(_ANSI.sub("", line.decode("utf-8", "replace"))).rstrip() for line in lines]
    kept = "".join(f"azure-ai-ml: {line}\n" for line in said if line)
    if not kept:
        return
    with contextlib.suppress(OSError, WorkspaceError):  # a log that cannot be written stops no write
        file = paths.console_log()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with file.open("a", encoding="utf-8") as log:
            log.write(kept)


def _ended(code: int, what: str) -> WorkspaceError:
    why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return Unreachable(
        f"The process in which footplate runs Azure's SDK ended {why}, before {what} was done.",
        "Look whether it was done all the same; the next try starts a new process.",
    )
