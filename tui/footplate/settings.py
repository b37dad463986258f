"""The settings file and the environment variables that stand for its keys."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
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
    nodes: int = 0
    """Nodes of the cluster `local`, which share this machine; 0: 4, or 1 where it has GPUs."""


@dataclass(frozen=True)
class ServingSettings:
    """How endpoints on this machine are served; environment names `FOOTPLATE_SERVING_<KEY>`."""

    python: str = ""
    """The Python with azureml-inference-server-http; empty: the first of `local.python`, the console's own and the
    `python` on PATH that has it."""


@dataclass(frozen=True)
class CheckSettings:
    """How job files are checked."""

    severities: Mapping[str, str] = field(default_factory=dict)
    """The table `[check.severities]`: `error`, `warning`, `note` or `off` for a code of `footplate check`."""


@dataclass(frozen=True)
class AlertSettings:
    """What is told of watched things, and how."""

    defaults: bool = True
    """Whether a toast tells how watched jobs end, that they stand still, and that a watched cluster or endpoint is in trouble."""
    rules: Sequence[Mapping[str, Any]] = ()
    """The tables `[[alerts.rules]]`, as `operations.alert_rules` reads them."""


@dataclass(frozen=True)
class ClipboardSettings:
    """What is copied; each key has the environment name `FOOTPLATE_CLIPBOARD_<KEY>`."""

    max_kb: int = 100
    """The largest text that is handed to the terminal's clipboard; a larger one is kept in a file only."""


@dataclass(frozen=True)
class LogsSettings:
    """How much of logs is kept on this machine, where they lie elsewhere; environment names `FOOTPLATE_LOGS_<KEY>`."""

    keep_mb: int = 2000
    """Of all logs together; what was looked at longest ago goes first."""
    keep_file_mb: int = 500
    """Of one log file; its beginning goes first, and the log says so."""
    quiet_minutes: int = 10
    """A running job whose logs and metrics stand still for so long is said to make no progress; 0: none is."""


@dataclass(frozen=True)
class WorkspaceSettings:
    """What every `[workspaces.NAME]` table may say."""

    name: str
    kind: str = "local"
    read_only: bool = False


@dataclass(frozen=True)
class AzureSettings:
    """A `[workspaces.NAME]` table of kind `azure`; where the three names are missing, they are looked for elsewhere."""

    kind: str = "azure"
    read_only: bool = False
    subscription_id: str = ""
    resource_group: str = ""
    workspace_name: str = ""
    tenant_id: str = ""
    cloud: str = "AzureCloud"
    """`AzureCloud`, `AzureChinaCloud`, `AzureUSGovernment`, or `custom` with the five addresses below."""
    resource_manager: str = ""
    active_directory: str = ""
    aml_resource_id: str = ""
    storage_endpoint: str = ""
    ca_file: str = ""
    """Certificates to trust besides the system's, as a path from the settings file's folder."""
    token_env: str = ""
    """The environment variable that holds a ready bearer token: automation, tests."""
    token_cache: bool = False
    """Whether a sign-in by device code stays on this machine's disk for the next console."""
    deployment_size: str = ""
    """The size of machine that a model is deployed on where no file says it; empty for Standard_DS3_v2."""


@dataclass(frozen=True)
class Settings:
    """All settings, with defaults where the file is silent."""

    workspace: str = "local"
    """Which workspace the console opens; `FOOTPLATE_WORKSPACE`."""
    local: LocalSettings = field(default_factory=LocalSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    check: CheckSettings = field(default_factory=CheckSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    clipboard: ClipboardSettings = field(default_factory=ClipboardSettings)
    logs: LogsSettings = field(default_factory=LogsSettings)
    workspaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The tables `[workspaces.NAME]` as they stand in the file; read only for the workspace that is opened."""
    file: Path = field(default_factory=paths.config_file)
    names_workspace: bool = False
    """Whether file or environment say which workspace is opened."""

    def find(self, name: str) -> WorkspaceSettings:
        """The named workspace; `local` is always there. Raises Invalid with the known names, or for a key of its table.

        Keys that only another kind than `local` has are left to that kind. `azure` without a table is the workspace that a
        `config.json` or the environment names.
        """
        if name not in self.workspaces and name not in ("local", "azure"):
            known = ", ".join(dict.fromkeys(["local", *self.workspaces]))
            raise Invalid(f"There is no workspace {name!r} in the settings.", f"Known: {known}.")
        where, shared = f"workspaces.{name}", ("kind", "read_only")
        table = self.workspaces.get(name, {"kind": "azure"} if name == "azure" else {})
        if table.get("kind", "local") == "local":
            _refuse_unknown(table, shared, self.file, where)
        known_keys = {key: value for key, value in table.items() if key in shared}
        return _section(WorkspaceSettings, {**known_keys, "name": name}, self.file, where)

    def azure(self, name: str) -> AzureSettings:
        """The whole table of a workspace of kind `azure`. Raises Invalid for a key that is unknown or of the wrong type."""
        return _section(AzureSettings, self.workspaces.get(name, {}), self.file, f"workspaces.{name}")


def load(path: Path | None = None) -> Settings:
    """Read the settings file, if there is one, and the environment over it.

    Raises Invalid naming the file and the key when a value has the wrong type or a key is unknown.
    """
    path = path or paths.config_file()
    raw = _read(path)
    _refuse_unknown(raw, ("workspace", "workspaces", "local", "serving", "check", "alerts", "clipboard", "logs"), path)
    workspace = os.environ.get("FOOTPLATE_WORKSPACE") or raw.get("workspace", "local")
    if not isinstance(workspace, str):
        raise Invalid(f"{path}: workspace must be text in quotes, not {workspace!r}.", "Mend the settings file.")
    tables = _table(raw.get("workspaces", {}), path, "workspaces")
    return Settings(
        workspace=workspace,
        local=_section(LocalSettings, raw.get("local", {}), path, "local", "FOOTPLATE_LOCAL_"),
        serving=_section(ServingSettings, raw.get("serving", {}), path, "serving", "FOOTPLATE_SERVING_"),
        check=_check(raw.get("check", {}), path),
        alerts=_alerts(raw.get("alerts", {}), path),
        clipboard=_section(ClipboardSettings, raw.get("clipboard", {}), path, "clipboard", "FOOTPLATE_CLIPBOARD_"),
        logs=_section(LogsSettings, raw.get("logs", {}), path, "logs", "FOOTPLATE_LOGS_"),
        workspaces={name: _table(table, path, f"workspaces.{name}") for name, table in tables.items()},
        file=path,
        names_workspace="workspace" in raw or bool(os.environ.get("FOOTPLATE_WORKSPACE")),
    )


def _read(path: Path) -> dict[str, Any]:
    """The file's content, empty where there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise Invalid(f"The settings file {path} is not UTF-8: {error}.", "Mend or remove it.") from error
    except OSError as error:
        raise Invalid(
            f"The settings file {path} cannot be read: {error.strerror or error}.",
            "Mend its permissions, or name another file in FOOTPLATE_CONFIG.",
        ) from error
    import tomllib  # seldom needed, and not free at start-up

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"The settings file {path} is not TOML: {error}.", "Mend or remove it.") from error


def _table(value: object, path: Path, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{path}: {where} must be a table.", f"Write it as [{where}] with keys below it.")
    return value


def _check(value: object, path: Path) -> CheckSettings:
    table = _table(value, path, "check")
    _refuse_unknown(table, ("severities",), path, "check")
    severities = _table(table.get("severities", {}), path, "check.severities")
    if severities:
        # The codes come with all rules of job files: not to be loaded at every start.
        from footplate.jobfile.check import CODES
        from footplate.jobfile.faults import SEVERITIES, nearest

        for code, severity in severities.items():
            if code not in CODES:
                near = nearest(code, CODES)
                step = f"Did you mean {near}?" if near else "footplate check names the code of each fault."
                raise Invalid(f"{path}: check.severities.{code} is no code of footplate check.", step)
            if severity not in SEVERITIES:
                near = nearest(severity, SEVERITIES)
                step = f"Did you mean {near!r}?" if near else f"Use {', '.join(SEVERITIES)}."
                raise Invalid(f"{path}: check.severities.{code} cannot be {severity!r}.", step)
    return CheckSettings(severities)


def _alerts(value: object, path: Path) -> AlertSettings:
    table = _table(value, path, "alerts")
    _refuse_unknown(table, ("defaults", "rules"), path, "alerts")
    defaults, rules = table.get("defaults", True), table.get("rules", [])
    if not isinstance(defaults, bool):
        raise Invalid(f"{path}: alerts.defaults must be true or false, not {defaults!r}.", "Mend the settings file.")
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise Invalid(f"{path}: alerts.rules must be tables.", "Write each as [[alerts.rules]] with keys below it.")
    if rules:
        from footplate.operations.alert_rules import read_rule  # seldom needed at the start

        for number, rule in enumerate(rules):
            try:
                read_rule(rule)
            except Invalid as error:
                where = _rule_line(path, number, error.sentence.partition(" ")[0].rstrip(":"))
                step = error.next_step or "Mend the settings file."
                raise Invalid(f"{path}{where}: rule {number + 1} of alerts: {error.sentence}", step) from error
    return AlertSettings(defaults, rules)


def _rule_line(path: Path, number: int, key: str) -> str:
    """`:LINE` of a key in the table `[[alerts.rules]]` of that number, else of the table; empty where neither stands so."""
    lines = path.read_text(encoding="utf-8").splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(r"\s*\[\[\s*alerts\s*\.\s*rules\s*\]\]", line)]
    if number >= len(heads):
        return ""
    end = next((at for at in range(heads[number] + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    own = (at for at in range(heads[number], end) if re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", lines[at]))
    return f":{next(own, heads[number]) + 1}"


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], path: Path, where: str = "") -> None:
    for key in table:
        if key not in known:
            raise Invalid(f"{path}: unknown key {f'{where}.{key}' if where else key}.", f"Known: {', '.join(known)}.")


_MOST: Mapping[str, int] = {
    "nodes": 100,
    "max_kb": 10_000,
    "keep_mb": 10_000_000,
    "keep_file_mb": 10_000_000,
    "quiet_minutes": 10_000,
}
"""The largest whole number a key may have: nodes as Azure's limit for a cluster, a clipboard's text as terminals bear it."""
_WANTED: Mapping[str, tuple[type, str]] = {
    "bool": (bool, "true or false"),
    "int": (int, "a whole number from 0 to"),
    "str": (str, "text in quotes"),
}


def _whole(text: str, variable: str, most: int) -> int:
    """A whole number from an environment variable. Raises Invalid."""
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) > most:
        raise Invalid(f"{variable} must be a whole number from 0 to {most}, not {text!r}.", "Mend or unset it.")
    return int(text)


def _section(kind: type[T], value: object, path: Path, where: str, variables: str = "") -> T:
    """A table as a dataclass; an environment variable of the prefix `variables` goes before the file."""
    table = dict(_table(value, path, where))
    types = {f.name: f.type for f in fields(kind)}  # type: ignore[arg-type]  # always one of the dataclasses above
    _refuse_unknown(table, tuple(types), path, where)
    for key, given in table.items():
        wanted, called = _WANTED[str(types[key])]
        if wanted is int:
            called = f"{called} {_MOST[key]}"
        whole = type(given) is int and 0 <= given <= _MOST.get(key, 0)
        if not isinstance(given, wanted) or (wanted is int and not whole):
            raise Invalid(f"{path}: {where}.{key} must be {called}, not {given!r}.", "Mend the settings file.")
    for key in types:
        if variables and (from_environment := os.environ.get(f"{variables}{key.upper()}")) is not None:
            table[key] = from_environment
            if types[key] == "int":
                table[key] = _whole(from_environment, f"{variables}{key.upper()}", _MOST[key])
    return kind(**table)
