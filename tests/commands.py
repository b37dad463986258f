"""The commands, as programs or in the tests' own process, with a home and settings of their own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import metrics_template

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
        self._prepare(arguments, extra)
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

    def _prepare(self, arguments: tuple[str, ...], extra: Mapping[str, str]) -> None:
        """A new home in which a job starts has a metrics store already."""
        starts = {"launch", "rerun"} & set(arguments) and "--dry-run" not in arguments
        if starts and "FOOTPLATE_HOME" not in extra and not (self.home / "footplate.db").exists():
            metrics_template.give(self.home)

    def json(self, *arguments: str, code: int = 0, **extra: Any) -> Any:
        """The document of a command with `--json`, which must end with the code."""
        done = self(*arguments, "--json", **extra)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout, parse_constant=not_json)


class Inside(Footplate):
    """The same calls without a process each, which would take most of the time: the same words, streams and exit codes."""

    def __call__(self, *arguments: str, seconds: float = 120, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with more variables in `extra`."""
        from footplate.cli import cli

        self._prepare(arguments, extra)
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        code: object = 0
        began = time.monotonic()
        with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open() as nothing:
            patch.chdir(self.folder)
            for name, value in {**self.environment, **extra}.items():
                patch.setenv(name, value)
            for name, stream in (("stdin", nothing), ("stdout", out), ("stderr", err)):
                patch.setattr(sys, name, stream)
            try:
                cli.main(list(arguments), prog_name="footplate")
            except SystemExit as end:
                code = end.code
        assert time.monotonic() - began < seconds
        assert isinstance(code, int)
        texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(arguments, code, *texts)


def not_json(word: str) -> None:
    """For `parse_constant`: Python reads NaN and Infinity, which JSON does not have."""
    raise AssertionError(f"{word} is not JSON")
