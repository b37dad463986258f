"""Installs what requirements.txt names and an Azure image lacks, once a node, before any of its processes goes on.

    python packages.py && python train.py …

On this machine nothing is ever installed: train.py says what is missing. A package that cannot be had is told, and the job
goes on, as most of them can be done without.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
ON_AZURE = "AZUREML_ARM_SUBSCRIPTION"
"""A variable that Azure ML's compute sets, and the local workspace does not."""


def missing() -> list[str]:
    """The lines of requirements.txt whose package is not installed, in whatever version."""
    lines = [line.partition("#")[0].strip() for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not installed(re.split(r"[<>=!~\[; ]", line)[0])]


def installed(name: str) -> bool:
    """Whether a package is there; MLflow's small package comes with the whole one."""
    try:
        version(name)
    except PackageNotFoundError:
        return name == "mlflow-skinny" and installed("mlflow")
    return True


def main() -> int:
    """Always 0: whoever needs a package that is not there says so."""
    if ON_AZURE not in os.environ or not missing():
        return 0
    with (Path(tempfile.gettempdir()) / "footplate-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other processes of this node wait here
        if not (wanted := missing()):
            return 0
        print(f"Installing {', '.join(wanted)}, which this image lacks.", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
        if subprocess.run(pip, check=False).returncode:
            print(f"packages.py: {', '.join(wanted)} could not be installed; the job goes on without.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
