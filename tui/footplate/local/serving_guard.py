"""The watchdog of one scoring server: starts it, and ends its whole process group when the gateway is gone.

Run by its path, without footplate: `python -I -S serving_guard.py SOCKET_FD COMMAND…`, as leader of a session of its own.
Standard input is the reading end of a pipe whose other end only the gateway holds: its end is the gateway's end, however
the gateway died, and there is no moment at which the server runs unwatched. Exits with the server's exit code.
"""

from __future__ import annotations

import os
import select
import signal
import sys

GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL."""

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def watch(socket_fd: int, command: list[str]) -> int:
    """Start the command with the inherited listening socket and stay until it, or the gateway, ends."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    nothing = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[nothing], setsigdef=_IGNORED)
    os.close(socket_fd)  # else connections would be accepted, and wait for ever, after the server's death
    server = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(server, select.POLLIN)
    ready = {fd for fd, _ in poller.poll()}
    if server not in ready:
        poller.unregister(0)
        os.killpg(0, signal.SIGTERM)
        poller.poll(GRACE_SECONDS * 1000)
        os.killpg(0, signal.SIGKILL)  # the server, what it started, and this process
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(watch(int(sys.argv[1]), sys.argv[2:]))
