"""The way in: opens the console, or runs a command."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run `footplate`; ends the process with the exit codes of the commands."""
    if sys.stderr is None:  # closed by the caller, `2>&-`: what is said there is lost, and nothing else
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open to the end
    if sys.stdout is None:
        # Before anything is done: the next file that is opened would take the output's place.
        print("footplate: The output is closed, so there is nowhere to write.\nCall it without >&-.", file=sys.stderr)
        sys.exit(1)
    try:
        _run()
    except KeyboardInterrupt:  # while commands or the console are being loaded
        print("Interrupted. Jobs and endpoints that were started go on.", file=sys.stderr)
        sys.exit(130)


def _run() -> None:
    if len(sys.argv) == 1 and "_FOOTPLATE_COMPLETE" not in os.environ:  # set where a shell asks what comes next
        # The usual start, without the commands and click, which the console does not need.
        from footplate.console import open_console

        sys.exit(open_console())
    from footplate.cli import cli

    cli.main(prog_name="footplate")


if __name__ == "__main__":
    main()
