"""One instance of a deployment: its scoring server started, waited for, watched, started again when it dies, and ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.local import model_files, server_log
from footplate.local.deployment_spec import Spec
from footplate.local.processes import signal_group
from footplate.local.serving_python import serving_python
from footplate.settings import Settings
from footplate.workspace.errors import Invalid

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    import aiohttp

RESTART_SECONDS = (0.5, 2.0, 5.0)
"""Waiting before each further start of a server that died; after the last the deployment has failed."""

STEADY_SECONDS = 60.0
"""A server that served this long starts its restarts anew."""

_END_SECONDS = 6.0
_DRAIN_SECONDS = 2.0
"""What a worker that outlives its server has to finish its request."""

_BOOT_FAILED = 3
"""gunicorn's exit code when a worker that it starts anew cannot load the script."""

_GUARD = Path(__file__).with_name("serving_guard.py")
_GUNICORN_SETTINGS = Path(__file__).with_name("gunicorn_settings.py")
_APP_ROOT = "AML_APP_ROOT"

log = logging.getLogger("footplate.gateway")


@dataclass(frozen=True)
class Revision:
    """What the instances of one revision of a deployment have in common; `folder` is the deployment's.

    `text` is the spec as the store has it.
    """

    endpoint: str
    name: str
    model: str
    text: str
    spec: Spec
    folder: Path

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"Deployment {self.name!r} of {self.model}"


class ScoringServer:
    """`azureml-inference-server-http` for one instance.

    Its WSGI app is run by gunicorn, as its own command does; that command always listens on every address of the machine,
    so gunicorn is started here with a Unix socket that is already bound, in a folder that only its owner may enter: no other
    user of the machine can go round the gateway and its keys. `client` speaks to it, and is None while no request can be
    answered; `changed` is called whenever that, `error` or `note` changes.

    The process's current folder must be the endpoint's: a socket's address has room for 107 bytes, a home for more.
    """

    def __init__(self, revision: Revision, number: int, settings: Settings, changed: Callable[[], None]) -> None:
        self.number = number
        self.client: aiohttp.ClientSession | None = None
        self.busy = 0
        self.served = False
        self.error = ""
        self.note = ""
        self.pid: int | None = None
        self._revision = revision
        self._spec = revision.spec
        self._settings = settings
        self._changed = changed
        self._code = revision.folder / revision.spec.code
        self._log_file = revision.folder / "server.log"
        # In the code folder, below the endpoint's folder that only its owner may enter.
        self._socket = f"server-{number}.sock" if number else "server.sock"
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def state(self) -> str:
        """Azure's word: Creating until it served, Succeeded while it serves, Updating while it is started again, Failed."""
        if self.error:
            return "Failed"
        if self.client is not None:
            return "Succeeded"
        return "Updating" if self.served else "Creating"

    def take(self) -> None:
        """One more request is with it."""
        self.busy += 1
        self._idle.clear()

    def give_back(self) -> None:
        """One request less."""
        self.busy -= 1
        if not self.busy:
            self._idle.set()

    async def drained(self, seconds: float) -> None:
        """Wait until it has no request, or the seconds are over."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%s: %s requests are cut off", self._revision.title, self.busy)

    async def keep(self) -> None:
        """Serve until cancelled, or until it has failed; cancelling ends the whole process group."""
        import aiohttp

        connector = aiohttp.UnixConnector(f"{self._revision.name}/{self._spec.code}/{self._socket}", limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:
            await self._keep(client)

    async def _keep(self, client: aiohttp.ClientSession) -> None:
        try:
            python = await asyncio.to_thread(serving_python, self._settings)
        except Invalid as error:
            self._tell(error=str(error))
            return
        loop = asyncio.get_running_loop()
        restarts = 0
        while True:
            started = loop.time()
            try:
                ready, why = await self._serve(python, client)
            except OSError as error:
                ready, why = False, f"{self._revision.title} cannot be started: {error}."
            if ready and loop.time() - started > STEADY_SECONDS:
                restarts = 0
            if not self.served or restarts == len(RESTART_SECONDS):
                sentence, _, rest = why.partition("\n")
                again = f" It was started again {restarts} times." if restarts else ""
                self._tell(error=f"{sentence}{again}" + (f"\n{rest}" if rest else ""))
                return
            sentence = why.partition("\n")[0]
            self._tell(note=f"{sentence} It is being started again.")
            await asyncio.sleep(RESTART_SECONDS[restarts])
            restarts += 1

    async def _serve(self, python: str, client: aiohttp.ClientSession) -> tuple[bool, str]:
        """One life of the server: whether it was ready, and why it ended: a sentence, and below it what its log has."""
        begin = self._log_file.stat().st_size if self._log_file.exists() else 0
        process, hold = await self._start(python)
        ready = False
        ending = "the server ended before it was ready"
        try:
            ready, ending = await self._ready(client)
            if ready:
                self.client, self.pid, self.served = client, process.pid, True
                self._tell(note=self.note.replace("It is being started again.", "It was started again."))
                ending = await self._until_end(process, client)
        finally:
            self.client = self.pid = None
            self._changed()
            if ready:
                await self.drained(_DRAIN_SECONDS if process.returncode is not None else 0)
            os.close(hold)  # the guard sees this and ends the group
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()
            except TimeoutError:
                log.warning("%s: the guard %s did not end its server in time", self._revision.name, process.pid)
            signal_group(process.pid, signal.SIGKILL)
        return ready, self._why(ending, begin, process.returncode, ready)

    def _why(self, ending: str, begin: int, code: int | None, ready: bool) -> str:
        if ready and code != _BOOT_FAILED:  # what its log ends with is about requests, not about its death
            return f"{self._revision.title}: {ending}{_ended_with(code)}."
        reason, traceback = server_log.failure(self._log_file, begin)
        said = f": {reason}" if reason else f"{_ended_with(code)} and nothing in its log"
        sentence = f"{self._revision.title}: {ending}{said.rstrip('.')}."
        return (
            f"{sentence}\n{traceback}\n{model_files.tree(self._revision.folder / self._spec.model)}"
            if traceback
            else sentence
        )

    def _tell(self, error: str = "", note: str = "") -> None:
        self.error, self.note = error, note
        log.info(
            "deployment %s, instance %s: %s %s",
            self._revision.name,
            self.number,
            self.state,
            (error or note).partition("\n")[0],
        )
        self._changed()

    async def _until_end(self, process: Process, client: aiohttp.ClientSession) -> str:
        """Wait for the server's death, or for its liveness probe to fail too often, where it has one."""
        ended = asyncio.ensure_future(process.wait())
        try:
            if (probe := self._spec.liveness) is None:
                await ended
                return "the server died"
            failures, pause = 0, probe.initial_delay
            while not (await asyncio.wait({ended}, timeout=pause))[0]:
                failures = 0 if (await self._asked(client, probe.timeout))[0] else failures + 1
                if failures >= probe.failures:
                    return f"its liveness probe failed {failures} times in a row"
                pause = probe.period
            return "the server died"
        finally:
            ended.cancel()

    async def _start(self, python: str) -> tuple[Process, int]:
        """The guard's process, and the pipe end whose closing ends it and the server."""
        with socket.socket(socket.AF_UNIX) as listening, self._log_file.open("ab") as output:
            with chdir(self._code):  # gunicorn, whose folder this is, removes the socket by the same name
                Path(self._socket).unlink(missing_ok=True)
                listening.bind(self._socket)
            listening.listen()
            fd = listening.fileno()
            # Its time-out frees a worker that a request has hung up.
            hung = int(self._spec.request_seconds) + 5
            gunicorn = ("gunicorn", "--config", str(_GUNICORN_SETTINGS), "--bind", f"fd://{fd}")
            limits = ("--workers", str(self._spec.workers), "--timeout", str(hung), "--graceful-timeout", "2")
            logs = ("--access-logfile", "-", "--error-logfile", "-")
            command = (python, "-m", *gunicorn, *limits, *logs, "azureml_inference_server_http.server.entry:app")
            reading, hold = os.pipe()
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(_GUARD), str(fd), *command),
                    stdin=reading,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    pass_fds=(fd,),
                    start_new_session=True,
                    cwd=self._code,
                    env=self._environment(),
                )
            except BaseException:
                os.close(hold)  # a guard that was started after all ends by this
                raise
            finally:
                os.close(reading)
            return process, hold

    def _environment(self) -> dict[str, str]:
        # An operator's own gunicorn or inference-server settings are not this server's.
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("GUNICORN_", "AML_", "AZUREML_", "FOOTPLATE_"))
        }
        return {
            **inherited,
            "SERVICE_NAME": self._revision.endpoint,
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            **self._spec.variables,
            _APP_ROOT: str(self._code.resolve()),
            "AZUREML_ENTRY_SCRIPT": self._spec.script,
            "AZUREML_MODEL_DIR": str(self._revision.folder / self._spec.model),
            "SPT_NOENV": "1",  # setproctitle, where gunicorn finds it, would write over the environment we look for
        }

    async def _ready(self, client: aiohttp.ClientSession) -> tuple[bool, str]:
        """Wait for the health route; the connection waits in the socket's queue until the model is loaded."""
        return await self._asked(client, self._spec.ready_seconds)

    async def _asked(self, client: aiohttp.ClientSession, seconds: float) -> tuple[bool, str]:
        """Whether the health route answers in time, and why not."""
        import aiohttp

        try:
            async with client.get("http://localhost/", timeout=aiohttp.ClientTimeout(total=seconds)) as answer:
                return answer.status == 200, f"the health route answered {answer.status}"
        except TimeoutError:
            return False, f"the server was not ready within {seconds:.0f} seconds"
        except aiohttp.ClientError:
            return False, "the server ended before it was ready"


def _ended_with(code: int | None) -> str:
    if code is None:
        return ""
    number = -code if code < 0 else code - 128
    if number in {one.value for one in signal.Signals}:
        return f", killed by {signal.Signals(number).name}"
    return f", with exit code {code}"


def end_leftovers(endpoint_folder: Path) -> None:
    """Kill every scoring server of an endpoint whose gateway is gone.

    Found by the code folder in their environment, not by a recorded pid: right after a reboot too, and none is missed.
    """
    mark = f"{_APP_ROOT}={endpoint_folder.resolve()}/".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            if any(variable.startswith(mark) for variable in environment.split(b"\0")):
                os.kill(int(entry.name), signal.SIGKILL)
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            continue  # another user's, or gone meanwhile
