"""The way in: opens the console, or runs a command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `footplate`; ends the process with the exit codes of the commands."""
    if len(sys.argv) == 1:
        # The usual start, without the commands and click, which the console does not need.
        from footplate.console import open_console

        sys.exit(open_console())
    from footplate.cli import cli

    cli.main(prog_name="footplate")


if __name__ == "__main__":
    main()
