"""`python -m footplate.azure.sdk`: Azure's SDK in a process of its own, which ends with the console's end of its pipes.

Its environment variables, its registry of clouds and its words on stderr stay in here. JSON lines come on stdin:
`{"open": …}` first, then `{"call": 1, "act": "submit", "given": {…}}`, one act at a time, and `{"token": 1, …}` for each token
asked for. Lines on stdout: `{"ask": 1, "scope": …}` for a token, `{"progress": …}`, and `{"call": 1, "result": …}` or `"error"`.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, NoReturn


class Pipe:
    """Both directions of the talk with the console; any thread may speak."""

    def __init__(self, source: IO[bytes], target: IO[bytes]) -> None:
        self.source = source
        self._target = target
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Mapping[str, Any]]] = {}

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a line."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            self._target.write(line)
            self._target.flush()

    def token(self, scope: str, claims: str | None) -> Mapping[str, Any]:
        """Ask the console for a token, and wait for it. Raises WorkspaceError."""
        from footplate.azure.sdk_faults import from_document

        number, answer = next(self._numbers), Future[Mapping[str, Any]]()
        self._asked[number] = answer
        self.say({"ask": number, "scope": scope, "claims": claims})
        given = answer.result()
        if "error" in given:
            raise from_document(given["error"])
        return given

    def answered(self, message: Mapping[str, Any]) -> None:
        """The console's answer to `token`."""
        self._asked.pop(message["token"]).set_result(message)


def main() -> NoReturn:
    """Do what the pipe asks until it closes. Whatever goes on then ends with it."""
    pipe = _take_pipes()
    opened = json.loads(pipe.source.readline() or b"null")
    if opened is None:
        os._exit(0)
    _prepare(opened["open"])
    calls: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_work, args=(pipe, opened["open"], calls), daemon=True, name="acts").start()
    for line in pipe.source:
        message = json.loads(line)
        if "token" in message:
            pipe.answered(message)
        else:
            calls.put(message)
    os._exit(0)


def _take_pipes() -> Pipe:
    """Keep stdin and stdout to ourselves: what the SDK or a program that it starts prints goes to stderr, and it reads nothing."""
    pipe = Pipe(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return pipe


def _prepare(opened: Mapping[str, Any]) -> None:
    """Certificates and names of a custom cloud, before anything of the SDK is loaded."""
    if bundle := _certificates(opened["ca_file"]):
        os.environ["REQUESTS_CA_BUNDLE"] = bundle
    if opened["metadata"]:
        _know_loopback_names()


def _certificates(ca_file: str | None) -> str | None:
    """A file with every certificate that the reads trust too; None where the environment names a folder of them."""
    import certifi

    given = os.environ.get("REQUESTS_CA_BUNDLE")
    if given and Path(given).is_dir():
        return None
    files = dict.fromkeys((certifi.where(), ssl.get_default_verify_paths().cafile, ca_file, given))
    content = b"\n".join(Path(file).read_bytes() for file in files if file and Path(file).is_file())
    memory = os.memfd_create("certificates")  # nothing to tidy up, however this process ends
    os.write(memory, content)
    return f"/proc/self/fd/{memory}"


def _know_loopback_names() -> None:
    """Names under `.localhost` are this machine (RFC 6761), which glibc alone does not know."""
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return real("127.0.0.1" if isinstance(name, str) and name.endswith(".localhost") else host, *rest, **more)

    socket.getaddrinfo = resolve


def _work(pipe: Pipe, opened: Mapping[str, Any], calls: queue.SimpleQueue[Mapping[str, Any]]) -> None:
    """Do the acts one after the other; a fault is the act's answer, and the traceback of one nobody foresaw goes to stderr."""
    from footplate.azure.sdk_faults import to_document, told
    from footplate.workspace.errors import Unexpected

    acts = None
    while True:
        call = calls.get()
        try:
            if acts is None:
                from footplate.azure.sdk_acts import Acts  # loads the SDK: a second or two

                acts = Acts(opened, pipe)
            pipe.say({"call": call["call"], "result": getattr(acts, call["act"])(**call["given"])})
        except Exception as error:  # noqa: BLE001  whatever it is, the console waits for an answer
            fault = told(error, call["what"], opened)
            if isinstance(fault, Unexpected):
                traceback.print_exc(file=sys.stderr)
                sys.stderr.flush()
            pipe.say({"call": call["call"], "error": to_document(fault)})


if __name__ == "__main__":
    main()
