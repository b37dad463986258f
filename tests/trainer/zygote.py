"""Starts what tests ask for as forks of one process that has torch and the training script in it: an import for all.

Reads requests as JSON lines: a Python script with arguments, variables and files for its output. Answers with its pid, and
on a pid with its exit code, null while it runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))
import onnx  # noqa: F401 - these imports are the point
import onnxruntime  # noqa: F401
import train  # noqa: F401


def run(request: dict[str, Any]) -> int:
    """The script of a request, in this process; its exit code."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update(request["variables"])
    sys.argv = ["train.py", *request["arguments"]]
    try:
        exec(compile(request["script"], "script", "exec"), {"__name__": "script"})
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - a fork must not go on as the zygote
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Until the input ends; what then still runs is killed."""
    codes: dict[int, int | None] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            pid = request["pid"]
            if codes[pid] is None:
                found, status = os.waitpid(pid, os.WNOHANG)
                codes[pid] = os.waitstatus_to_exitcode(status) if found else None
            print(json.dumps(codes[pid]), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            code = run(request)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        codes[pid] = None
        print(pid, flush=True)
    for pid, code in codes.items():
        if code is None:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
