"""One deployment's scoring server: started, waited for, watched, started again when it dies, and ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.local import layout, server_log
from footplate.local.processes import signal_group, start_time
from footplate.local.serving_python import serving_python
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace.errors import Invalid, Unexpected

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    import aiohttp

REQUEST_SECONDS = 60.0
"""How long the model may take for one request."""

READY_SECONDS = 60.0
RESTART_SECONDS = (0.5, 2.0, 5.0)
"""Waiting before each further start of a server that died; after the last the deployment has failed."""

STEADY_SECONDS = 60.0
"""A server that served this long starts its restarts anew."""

_SOCKET = "server.sock"
"""In the deployment's code folder, below the endpoint's folder that only its owner may enter."""

_END_SECONDS = 6.0
_GUARD = Path(__file__).with_name("serving_guard.py")
_GUNICORN_SETTINGS = Path(__file__).with_name("gunicorn_settings.py")
_APP_ROOT = "AML_APP_ROOT"

log = logging.getLogger("footplate.gateway")


class ScoringServer:
    """`azureml-inference-server-http` for one deployment.

    Its WSGI app is run by gunicorn, as its own command does; that command always listens on every address of the machine,
    so gunicorn is started here with a Unix socket that is already bound, in a folder that only its owner may enter: no other
    user of the machine can go round the gateway and its keys. `client` speaks to it, and is None while no request can be
    answered. The deployment's row in the store follows what happens; what cannot be written there waits for `flush`.

    The process's current folder must be the endpoint's: a socket's address has room for 107 bytes, a home for more.
    """

    def __init__(self, store: Store, endpoint: str, name: str, model: str, settings: Settings) -> None:
        self.name = name
        self.model = model
        self.state = "Creating"
        self.error = ""
        self.client: aiohttp.ClientSession | None = None
        self._store = store
        self._endpoint = endpoint
        self._settings = settings
        self._folder = layout.endpoint_folder(store.home, endpoint) / name
        self._log_file = self._folder / "server.log"
        self._unwritten: tuple[str, str, int | None] | None = None
        self._writing = asyncio.Lock()

    @property
    def recorded(self) -> bool:
        """Whether the store knows the state."""
        return self._unwritten is None

    async def keep(self) -> None:
        """Serve until cancelled, or until the deployment has failed; cancelling ends the whole process group."""
        import aiohttp

        connector = aiohttp.UnixConnector(f"{self.name}/code/{_SOCKET}", limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:
            await self._keep(client)

    async def _keep(self, client: aiohttp.ClientSession) -> None:
        try:
            python = await asyncio.to_thread(serving_python, self._settings)
        except Invalid as error:
            await self._record("Failed", str(error))
            return
        loop = asyncio.get_running_loop()
        served_once = False
        restarts = 0
        while True:
            started = loop.time()
            try:
                ready, why = await self._serve(python, client)
            except OSError as error:
                ready, why = False, f"Deployment {self.name!r} of {self.model} cannot be started: {error}."
            served_once = served_once or ready
            if ready and loop.time() - started > STEADY_SECONDS:
                restarts = 0
            if not served_once or restarts == len(RESTART_SECONDS):
                again = f" It was started again {restarts} times." if restarts else ""
                await self._record("Failed", f"{why}{again}")
                return
            await self._record("Updating", f"{why} It is being started again.")
            await asyncio.sleep(RESTART_SECONDS[restarts])
            restarts += 1

    async def _serve(self, python: str, client: aiohttp.ClientSession) -> tuple[bool, str]:
        """One life of the server: whether it was ready, and the sentence why it ended."""
        begin = self._log_file.stat().st_size if self._log_file.exists() else 0
        process, hold = await self._start(python)
        ready = False
        ending = "the server ended before it was ready"
        try:
            ready, ending = await self._ready(client)
            if ready:
                self.client = client
                await self._record("Succeeded", "", process.pid)
                await process.wait()
                ending = "the server died"
        finally:
            self.client = None
            os.close(hold)  # the guard sees this and ends the group
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()
            except TimeoutError:
                log.warning("%s: the guard %s did not end its server in time", self.name, process.pid)
            signal_group(process.pid, signal.SIGKILL)
        reason = server_log.reason(self._log_file, begin)
        said = f": {reason}" if reason else f", with exit code {process.returncode} and nothing in its log"
        return ready, f"Deployment {self.name!r} of {self.model}: {ending}{said.rstrip('.')}."

    async def _start(self, python: str) -> tuple[Process, int]:
        """The guard's process, and the pipe end whose closing ends it and the server."""
        code = self._folder / "code"
        with socket.socket(socket.AF_UNIX) as listening, self._log_file.open("ab") as output:
            with chdir(code):  # gunicorn, whose folder this is, removes the socket by the same name
                Path(_SOCKET).unlink(missing_ok=True)
                listening.bind(_SOCKET)
            listening.listen()
            fd = listening.fileno()
            # One worker, as a deployment has by default; its time-out frees a worker that a request has hung up.
            gunicorn = ("gunicorn", "--config", str(_GUNICORN_SETTINGS), "--bind", f"fd://{fd}", "--workers", "1")
            limits = ("--timeout", str(int(REQUEST_SECONDS) + 5), "--graceful-timeout", "2")
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
                    cwd=code,
                    env=self._environment(code),
                )
            except BaseException:
                os.close(hold)  # a guard that was started after all ends by this
                raise
            finally:
                os.close(reading)
            return process, hold

    def _environment(self, code: Path) -> dict[str, str]:
        name, _, version = self.model.rpartition(":")
        # An operator's own gunicorn or inference-server settings are not this server's.
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("GUNICORN_", "AML_", "AZUREML_", "FOOTPLATE_"))
        }
        return {
            **inherited,
            _APP_ROOT: str(code.resolve()),
            "AZUREML_ENTRY_SCRIPT": "score.py",
            "AZUREML_MODEL_DIR": str(layout.model_folder(self._store.home, name, int(version))),
            "SERVICE_NAME": self._endpoint,
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "SPT_NOENV": "1",  # setproctitle, where gunicorn finds it, would write over the environment we look for
        }

    async def _ready(self, client: aiohttp.ClientSession) -> tuple[bool, str]:
        """Wait for the health route; the connection waits in the socket's queue until the model is loaded."""
        import aiohttp

        within = aiohttp.ClientTimeout(total=READY_SECONDS)
        try:
            async with client.get("http://localhost/", timeout=within) as answer:
                return answer.status == 200, f"the health route answered {answer.status}"
        except TimeoutError:
            return False, f"the server was not ready within {READY_SECONDS:.0f} seconds"
        except aiohttp.ClientError:
            return False, "the server ended before it was ready"

    async def _record(self, state: str, error: str, pid: int | None = None) -> None:
        self.state, self.error = state, error
        self._unwritten = (state, error, pid)
        log.info("deployment %s: %s %s", self.name, state, error)
        await self.flush()

    async def flush(self) -> None:
        """Write to the store what it does not know yet; where it is locked or full the next call tries again."""
        async with self._writing:
            if (unwritten := self._unwritten) is None:
                return
            try:
                await asyncio.to_thread(self._write, *unwritten)
            except Unexpected as fault:
                log.warning("the state %s of deployment %s could not be written: %s", unwritten[0], self.name, fault)
                return
            if self._unwritten is unwritten:
                self._unwritten = None

    def _write(self, state: str, error: str, pid: int | None) -> None:
        started = None if pid is None else start_time(pid)
        with self._store.write() as db:
            db.execute(
                "UPDATE deployment SET state = ?, error = ?, server_pid = ?, server_started = ?"
                " WHERE endpoint = ? AND name = ?",
                (state, error, pid, started, self._endpoint, self.name),
            )


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
