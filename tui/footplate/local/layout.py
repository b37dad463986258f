"""Where things lie under the local workspace's home."""

from __future__ import annotations

from pathlib import Path


def job_folder(home: Path, name: str) -> Path:
    """A job's folder: `job.yml`, `source.json`, `code/`, `inputs/`, `node-0/`…, `outputs/`, `named/`, logs in `user_logs/` …"""
    return home / "jobs" / name


def model_folder(home: Path, name: str, version: int) -> Path:
    """The files of one model version."""
    return home / "models" / name / str(version)


def data_folder(home: Path, name: str, version: int) -> Path:
    """The files of one data asset version that the workspace itself holds."""
    return home / "data" / name / str(version)


def download_folder(home: Path, key: str) -> Path:
    """What was downloaded once for all jobs: `content`, and `record.json` that tells whether it is still the same."""
    return home / "cache" / "downloads" / key


def endpoint_folder(home: Path, name: str) -> Path:
    """An endpoint's folder: `keys.json` (0600), `gateway.log`, and a folder a deployment with `code/` and `server.log`."""
    return home / "endpoints" / name
