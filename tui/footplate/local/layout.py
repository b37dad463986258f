"""Where things lie under the local workspace's home."""

from __future__ import annotations

from pathlib import Path


def job_folder(home: Path, name: str) -> Path:
    """A job's folder: `job.yml`, `source.json`, `code/`, `node-0/`…, `outputs/`, `named/`, `user_logs/`, `system_logs/`."""
    return home / "jobs" / name


def model_folder(home: Path, name: str, version: int) -> Path:
    """The files of one model version."""
    return home / "models" / name / str(version)


def data_folder(home: Path, name: str, version: int) -> Path:
    """The files of one data asset version that the workspace itself holds."""
    return home / "data" / name / str(version)


def endpoint_folder(home: Path, name: str) -> Path:
    """An endpoint's folder: `keys.json` (0600), `gateway.log`, and a folder a deployment with `code/` and `server.log`."""
    return home / "endpoints" / name
