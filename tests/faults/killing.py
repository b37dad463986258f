"""Processes that are killed at their n-th step: whatever they write, rename, remove, start or look up in a store is a step.

`sitecustomize` (text) brings the same into processes that footplate itself starts, where PYTHONPATH leads to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

HOOK = '''
import os, signal, sys

STEPS = ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.link", "os.symlink", "os.chmod", "subprocess.Popen",
         "sqlite3.connect", "fcntl.flock", "os.killpg")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

def die_at(step, claim=None):
    """Kill this process with SIGKILL at its step of that number; with `claim`, only the first process that makes that file."""
    count = 0

    def look(event, arguments):
        nonlocal count
        wrote = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
        if not wrote and event not in STEPS:
            return
        count += 1
        if count != step:
            return
        if claim is not None:
            try:
                os.close(os.open(claim, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
'''

SITE = (
    HOOK
    + """
for module in {"footplate.local.supervisor", "footplate.local.gateway"}.intersection(sys.orig_argv):
    job = sys.orig_argv[sys.orig_argv.index(module) + 2]
    for name, step in (part.split("=") for part in os.environ["DIE"].split(",")):
        if name == job:
            die_at(int(step), os.path.join(os.environ["DIE_CLAIMS"], f"{name}-{step}"))
"""
)

FORKS = (
    HOOK
    + '''
import json
from pathlib import Path

def each_step(act, home):
    """Run `act(number)` in a process that dies at step 1, then in one that dies at step 2, until one comes to its end."""
    step = 0
    while True:
        step += 1
        told, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            die_at(step)
            answer = act(step)
            os.write(telling, json.dumps(answer).encode() or b"null")
            os.close(telling)
            os._exit(0)
        os.close(telling)
        with os.fdopen(told, "rb") as pipe:
            said = pipe.read()
        killed = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        acknowledged = json.loads(said) if said else None
        print(json.dumps({"step": step, "killed": killed, "said": acknowledged}), flush=True)
        if not killed:
            return
'''
)


def killed_at_each_step(act: str, *arguments: str) -> list[dict[str, object]]:
    """Run a script that defines `act(step)` in forks that die at step 1, 2, 3 … until one ends; what came of each.

    `said` is what a fork's act returned, None where it was killed before. The script finds `arguments` in `sys.argv`.
    """
    script = f"{FORKS}\n{act}\neach_step(act, sys.argv[1])\n"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert not told[-1]["killed"]
    assert told[-1]["said"] is not None, done.stderr
    return told


def supervisors_die(folder: Path, steps: dict[str, int], setenv: Callable[[str, str], None]) -> Path:
    """From now on the first supervisor of each of these jobs, or gateway of these endpoints, dies at its step.

    Gives the folder in which there is a file `NAME-STEP` for each that did.
    """
    place, claims = folder / "site", folder / "claims"
    place.mkdir()
    claims.mkdir()
    (place / "sitecustomize.py").write_text(SITE)
    setenv("PYTHONPATH", str(place))
    setenv("DIE", ",".join(f"{name}={step}" for name, step in steps.items()))
    setenv("DIE_CLAIMS", str(claims))
    return claims


def processes_of_home(home: Path) -> list[int]:
    """The pids of all supervisors and gateways of a home that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(home) in words and any(word.startswith(b"footplate.local.") for word in words):
            found.append(int(entry.name))
    return found


def kill(pid: int) -> None:
    """SIGKILL, and nothing where the process is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def in_threads(*acts: Callable[[], object]) -> list[object]:
    """Do all at the same moment, each in a thread; what each returned, or the error that it raised."""
    results: list[object] = [None] * len(acts)
    together = threading.Barrier(len(acts))

    def one(place: int) -> None:
        together.wait()
        try:
            results[place] = acts[place]()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            results[place] = error

    threads = [threading.Thread(target=one, args=(place,)) for place in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
