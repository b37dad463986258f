"""The settings file and the environment variables that stand for its keys."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from footplate import paths
from footplate.workspace.errors import Invalid

T = TypeVar("T")


@dataclass(frozen=True)
class LocalSettings:
    """How the local workspace runs things; each key has the environment name `FOOTPLATE_LOCAL_<KEY>`."""

    python: str = ""
    """The Python that runs jobs; empty: the console's own where it has torch, else the first `python` on PATH."""


@dataclass(frozen=True)
class ServingSettings:
    """How endpoints on this machine are served; environment names `FOOTPLATE_SERVING_<KEY>`."""

    python: str = ""
    """The Python with azureml-inference-server-http; empty: the same as for jobs."""


@dataclass(frozen=True)
class WorkspaceSettings:
    """One `[workspaces.NAME]` table."""

    name: str
    kind: str = "local"
    read_only: bool = False


@dataclass(frozen=True)
class Settings:
    """All settings, with defaults where the file is silent."""

    workspace: str = "local"
    """Which workspace the console opens; `FOOTPLATE_WORKSPACE`."""
    local: LocalSettings = field(default_factory=LocalSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    workspaces: tuple[WorkspaceSettings, ...] = ()

    def find(self, name: str) -> WorkspaceSettings:
        """The named workspace; `local` is always there. Raises Invalid with the known names."""
        for workspace in self.workspaces:
            if workspace.name == name:
                return workspace
        if name == "local":
            return WorkspaceSettings(name="local")
        known = ", ".join(["local", *(w.name for w in self.workspaces)])
        raise Invalid(f"There is no workspace {name!r} in the settings.", f"Known: {known}.")


def load(path: Path | None = None) -> Settings:
    """Read the settings file, if there is one, and the environment over it.

    Raises Invalid naming the file and the key when a value has the wrong type or a key is unknown.
    """
    path = path or paths.config_file()
    raw: dict[str, Any] = {}
    if path.is_file():
        import tomllib  # seldom needed, and not free at start-up

        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"The settings file {path} is not TOML: {error}.", "Mend or remove it.") from error
    workspaces = _table(raw.pop("workspaces", {}), path, "workspaces")
    local = _section(LocalSettings, raw.pop("local", {}), path, "local")
    serving = _section(ServingSettings, raw.pop("serving", {}), path, "serving")
    workspace = os.environ.get("FOOTPLATE_WORKSPACE", raw.pop("workspace", "local"))
    if raw:
        raise Invalid(f"{path}: unknown key {next(iter(raw))!r}.", "Known: workspace, workspaces, local, serving.")
    named = tuple(
        _section(WorkspaceSettings, {**_table(table, path, f"workspaces.{name}"), "name": name}, path, name)
        for name, table in workspaces.items()
    )
    return Settings(workspace=str(workspace), local=local, serving=serving, workspaces=named)


def _table(value: object, path: Path, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{path}: {where} must be a table.", f"Write it as [{where}] with keys below it.")
    return value


def _section(kind: type[T], value: object, path: Path, where: str) -> T:
    table = _table(value, path, where)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # always one of the dataclasses above
    for key, given in table.items():
        if key not in known:
            raise Invalid(f"{path}: unknown key {where}.{key}.", f"Known: {', '.join(known)}.")
        wanted = bool if known[key].type == "bool" else str
        if not isinstance(given, wanted):
            raise Invalid(
                f"{path}: {where}.{key} must be a {wanted.__name__}, not {given!r}.", "Mend the settings file."
            )
    for key in known:
        if (from_environment := os.environ.get(f"FOOTPLATE_{where.upper()}_{key.upper()}")) is not None and where in (
            "local",
            "serving",
        ):
            table[key] = from_environment
    return kind(**table)
