"""What an alert has done beside a toast: a notice of the terminal, a command, a post to a webhook."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping

from footplate.logs.sanitise import clean
from footplate.operations.alert_rules import Act, Finding, masked

COMMAND_SECONDS = 30.0
POST_SECONDS = 10.0
TRIES = 3
_PAUSE_SECONDS = 1.0
_MOST_TOLD, _KEPT_BYTES = 200, 4096
_REST_SECONDS = 0.5


def sequence(kind: str, found: Finding) -> str:
    """What makes a terminal show a notice, by OSC 9 or OSC 777: the text, cleaned of control characters."""
    text = clean(found.text)
    if kind == "osc9":
        return f"\x1b]9;footplate: {text}\a"  # words before a number: a number alone is another command
    return f"\x1b]777;notify;footplate;{text.replace(';', ',')}\a"


def variables(found: Finding, workspace: str) -> dict[str, str]:
    """The environment variables that a command gets."""
    document = found.document(workspace)
    return {f"FOOTPLATE_ALERT_{name.upper()}": "" if value is None else str(value) for name, value in document.items()}


async def do(act: Act, found: Finding, workspace: str) -> str:
    """Run an act's command or post to its webhook; gives a sentence on what went wrong, empty where nothing did."""
    if act.kind == "command":
        return await run(act.argv, variables(found, workspace))
    return await post(act.url, found.document(workspace))


async def run(argv: tuple[str, ...], extra: Mapping[str, str], limit_seconds: float = COMMAND_SECONDS) -> str:
    """Run a command without a shell; it and what it started are ended after so long. Gives what went wrong, else nothing."""
    name = clean(argv[0])
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={**os.environ, **extra},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"The command {name} of an alert cannot be run: {getattr(error, 'strerror', None) or error}."
    kept = bytearray()
    reading = asyncio.ensure_future(_keep_end(process, kept))
    try:
        async with asyncio.timeout(limit_seconds):
            code = await process.wait()
        await asyncio.wait({reading}, timeout=_REST_SECONDS)  # what it left running may hold its stderr open
    except TimeoutError:
        return f"The command {name} of an alert took more than {limit_seconds:g} s and was ended."
    finally:
        reading.cancel()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if not code:
        return ""
    said = _last_line(bytes(kept))
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    return f"The command {name} of an alert {ended}{f': {said}' if said else '.'}"


async def _keep_end(process: asyncio.subprocess.Process, kept: bytearray) -> None:
    """Keep the end of what a process says on stderr, however much that is."""
    assert process.stderr is not None
    while part := await process.stderr.read(65536):
        kept += part
        del kept[:-_KEPT_BYTES]


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return clean(lines[-1])[:_MOST_TOLD] if lines else ""


async def post(url: str, document: Mapping[str, object], pause_seconds: float = _PAUSE_SECONDS) -> str:
    """Post JSON to a webhook; tried three times where it does not answer, or says that it is busy.

    Gives what went wrong, else nothing. The address is shown without path and query, which may hold a secret.
    """
    import aiohttp  # seldom needed, and not free at start-up

    there = masked(url)
    body = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    headers = {"Content-Type": "application/json"}
    fault = ""
    limit = aiohttp.ClientTimeout(total=POST_SECONDS)
    async with aiohttp.ClientSession(timeout=limit, trust_env=url.startswith("https:")) as session:
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(pause_seconds * attempt)
            try:
                async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                    status = answer.status
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                fault = f"The webhook {there} of an alert does not answer ({type(error).__name__})."
                continue
            if 200 <= status < 300:
                return ""
            fault = f"The webhook {there} of an alert answered {status}."
            if status < 500 and status not in (408, 429):
                return fault
    return f"{fault} It was tried {TRIES} times."
