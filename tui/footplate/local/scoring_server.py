"""One deployment's scoring server: started, waited for, watched, started again when it dies, and ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.local import layout, server_log
from footplate.local.processes import signal_group, start_time
from footplate.local.serving_python import serving_python
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace.errors import Invalid

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

_END_SECONDS = 6.0
_GUARD = Path(__file__).with_name("serving_guard.py")
_GUNICORN_SETTINGS = Path(__file__).with_name("gunicorn_settings.py")
_APP_ROOT = "AML_APP_ROOT"

log = logging.getLogger("footplate.gateway")


class ScoringServer:
    """`azureml-inference-server-http` for one deployment.

    Its WSGI app is run by gunicorn, as its own command does; that command always listens on every address of the machine,
    so gunicorn is started here with a socket on 127.0.0.1 that is already bound: no free port can be lost on the way.
    `port` is None while no request can be answered. The deployment's row in the store follows what happens.
    """

    def __init__(self, store: Store, endpoint: str, name: str, model: str, settings: Settings) -> None:
        self.name = name
        self.model = model
        self.state = "Creating"
        self.error = ""
        self.port: int | None = None
        self._store = store
        self._endpoint = endpoint
        self._settings = settings
        self._folder = layout.endpoint_folder(store.home, endpoint) / name
        self._log_file = self._folder / "server.log"

    async def keep(self, client: aiohttp.ClientSession) -> None:
        """Serve until cancelled, or until the deployment has failed; cancelling ends the whole process group."""
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
            ready, why = await self._serve(python, client)
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
        process, port, hold = await self._start(python)
        ready = False
        ending = "the server ended before it was ready"
        try:
            ready, ending = await self._ready(port, client)
            if ready:
                self.port = port
                await self._record("Succeeded", "", process.pid, port)
                await process.wait()
                ending = "the server died"
        finally:
            self.port = None
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

    async def _start(self, python: str) -> tuple[Process, int, int]:
        """The guard's process, the server's port, and the pipe end whose closing ends them."""
        code = self._folder / "code"
        reading, hold = os.pipe()
        with socket.create_server(("127.0.0.1", 0)) as listening, self._log_file.open("ab") as output:
            fd = listening.fileno()
            # One worker, as a deployment has by default; its time-out frees a worker that a request has hung up.
            gunicorn = ("gunicorn", "--config", str(_GUNICORN_SETTINGS), "--bind", f"fd://{fd}", "--workers", "1")
            limits = ("--timeout", str(int(REQUEST_SECONDS) + 5), "--graceful-timeout", "2")
            logs = ("--access-logfile", "-", "--error-logfile", "-")
            command = (python, "-m", *gunicorn, *limits, *logs, "azureml_inference_server_http.server.entry:app")
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
            os.close(reading)
            return process, int(listening.getsockname()[1]), hold

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

    async def _ready(self, port: int, client: aiohttp.ClientSession) -> tuple[bool, str]:
        """Wait for the health route; the connection waits in the socket's queue until the model is loaded."""
        import aiohttp

        within = aiohttp.ClientTimeout(total=READY_SECONDS)
        try:
            async with client.get(f"http://127.0.0.1:{port}/", timeout=within) as answer:
                return answer.status == 200, f"the health route answered {answer.status}"
        except TimeoutError:
            return False, f"the server was not ready within {READY_SECONDS:.0f} seconds"
        except aiohttp.ClientError:
            return False, "the server ended before it was ready"

    async def _record(self, state: str, error: str, pid: int | None = None, port: int | None = None) -> None:
        self.state, self.error = state, error
        log.info("deployment %s: %s %s", self.name, state, error)
        try:
            await asyncio.to_thread(self._write, state, error, pid, port)
        except sqlite3.OperationalError as fault:
            log.warning("the store could not be written: %s", fault)  # the server goes on; requests see its true state

    def _write(self, state: str, error: str, pid: int | None, port: int | None) -> None:
        started = None if pid is None else start_time(pid)
        with self._store.write() as db:
            db.execute(
                "UPDATE deployment SET state = ?, error = ?, server_pid = ?, server_started = ?, server_port = ?"
                " WHERE endpoint = ? AND name = ?",
                (state, error, pid, started, port, self._endpoint, self.name),
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
