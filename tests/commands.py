"""The commands as programs, with a home and settings of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "footplate")


class Footplate:
    """Call it with a command's words; `environment` is what it runs with, `folder` where, `home` and `settings` its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.settings = folder / "config.toml"
        self.environment = {
            **os.environ,
            "FOOTPLATE_HOME": str(self.home),
            "FOOTPLATE_CONFIG": str(self.settings),
        }

    def __call__(self, *arguments: str, seconds: float = 120, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with more variables in `extra`."""
        return subprocess.run(
            [*COMMAND, *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env={**self.environment, **extra},
            check=False,
        )

    def json(self, *arguments: str, code: int = 0, **extra: Any) -> Any:
        """The document of a command with `--json`, which must end with the code."""
        done = self(*arguments, "--json", **extra)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout, parse_constant=not_json)


def not_json(word: str) -> None:
    """For `parse_constant`: Python reads NaN and Infinity, which JSON does not have."""
    raise AssertionError(f"{word} is not JSON")
