"""What stands in footplate's way on this machine: Python, the extra, the home, what ends jobs, the terminal, the settings."""

from __future__ import annotations

import getpass
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from footplate import __version__, paths, settings, words
from footplate.mounts import NETWORK, file_system
from footplate.workspace.errors import WorkspaceError

_EXTRA = ("torch", "torchvision", "optuna", "mlflow", "onnx", "onnxruntime", "safetensors", "psutil")
_LEAST_BYTES = 2 * 10**9
"""A training's checkpoints, its model and the model's copy for an endpoint."""
_ASK_SECONDS = 5.0
_LEAST_COLUMNS, _LEAST_LINES = 80, 24


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `ok` is None where it is no fault, or cannot be told; then `saw` says what to know."""

    check: str
    ok: bool | None
    saw: str
    next_step: str = ""

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return asdict(self)


def examine() -> Sequence[Check]:
    """Look at everything; what cannot be looked at is a finding too. Changes nothing, and asks no network."""
    home = _guarded("home", lambda: [_home(paths.home())])
    found = [_python(), _libraries(), _extra(), *home]
    if home[0].ok is not False:
        found += _guarded("file system", lambda: [_file_system(paths.home()), _space(paths.home())])
    return [*found, _log_out(), _terminal(), *_settings()]


def _guarded(name: str, look: Callable[[], list[Check]]) -> list[Check]:
    try:
        return look()
    except WorkspaceError as error:
        return [Check(name, False, error.sentence, error.next_step)]
    except OSError as error:
        return [Check(name, False, f"It cannot be looked at: {error}.", "Mend it, or set FOOTPLATE_HOME to another.")]


def _python() -> Check:
    return Check("python", True, f"footplate {__version__} on Python {platform.python_version()}, {sys.executable}")


def _libraries() -> Check:
    names = ("textual", "azure-ai-ml", "azure-identity", "azure-core", "aiohttp")
    found, missing = [], []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("libraries", False, f"Missing: {', '.join(missing)}.", "Install footplate again.")
    return Check("libraries", True, ", ".join(found))


def _extra() -> Check:
    missing = [name for name in _EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        step = "pip install 'footplate[local]' brings them; the console and Azure do without."
        return Check("extra local", None, f"This Python lacks {', '.join(missing)}, which jobs here may need.", step)
    return Check("extra local", True, "all of it is there")


def _home(home: Path) -> Check:
    """Whether files can be written there; the nearest folder that exists counts for one that does not."""
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    shown = words.path(home)
    if not there.is_dir():
        return Check(
            "home", False, f"{there} is no folder, so {shown} cannot be one.", "Set FOOTPLATE_HOME to another."
        )
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(b"footplate")
            probe.flush()
    except OSError as error:
        step = "Free space or mend its permissions, or set FOOTPLATE_HOME to another folder."
        return Check("home", False, f"{shown} cannot be written: {error.strerror or error}.", step)
    if home.exists() and (others := home.stat().st_mode & 0o077):
        access = "write" if others & 0o022 else "read"
        return Check("home", None, f"{shown} can be written; other users may {access} it.", f"chmod 700 {shown}")
    return Check("home", True, f"{shown}{'' if home.exists() else ', made at the first use'}")


def _file_system(home: Path) -> Check:
    kind = file_system(home, Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace"))
    if kind in NETWORK:
        step = "Set FOOTPLATE_HOME to a folder on a disk of this machine: SQLite's locks are not sure over a network."
        saw = f"The home lies on a network file system, {kind}: its store keeps a rollback journal, no write-ahead log."
        return Check("file system", False, saw, step)
    return Check("file system", True, kind or "unknown")


def _space(home: Path) -> Check:
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    usage = os.statvfs(there)
    free = usage.f_bavail * usage.f_frsize
    text = f"{words.size(free)} free"
    if free < _LEAST_BYTES:
        return Check("disk", False, text, "footplate clean frees what old jobs hold.")
    if usage.f_files and usage.f_favail < 10_000:
        return Check(
            "disk", False, f"{text}, but only {usage.f_favail:,} more files", "Remove files that are not needed."
        )
    return Check("disk", True, text)


def _log_out() -> Check:
    """Whether systemd ends jobs when their user logs out: they outlive the console only where it does not."""
    name = "logging out"
    kills = _ask("loginctl", "show-session", "--property=KillUserProcesses")
    if kills is None:
        return Check(name, None, "No systemd tells whether it ends processes at the end of a session.")
    if "KillUserProcesses=yes" not in kills:
        return Check(name, True, "jobs go on after you have logged out")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    if "Linger=yes" in (_ask("loginctl", "show-user", user, "--property=Linger") or ""):
        return Check(name, None, "systemd ends a session's processes, and this user lingers.", _UNDER_SYSTEMD)
    step = f"loginctl enable-linger {user}. {_UNDER_SYSTEMD}"
    return Check(name, False, "systemd ends jobs and endpoints when you log out (KillUserProcesses).", step)


_UNDER_SYSTEMD = "Start the console as: systemd-run --user --scope footplate"


def _ask(*command: str) -> str | None:
    """What a program says; None where it is not there, fails, or does not answer."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def _terminal() -> Check:
    kind, within = os.environ.get("TERM", ""), [name for name in ("TMUX", "STY") if os.environ.get(name)]
    if not sys.stderr.isatty():
        return Check("terminal", None, "stderr is no terminal, so it was not looked at.")
    size = os.get_terminal_size(sys.stderr.fileno())
    colours = "no colours" if os.environ.get("NO_COLOR") else os.environ.get("COLORTERM") or "256 or fewer colours"
    inside = {"TMUX": " in tmux", "STY": " in screen"}[within[0]] if within else ""
    text = f"{kind or 'no TERM'}{inside}, {size.columns}×{size.lines}, {colours}"
    coding = (sys.stderr.encoding or "").lower().replace("-", "")
    if kind in ("", "dumb"):
        return Check("terminal", False, text, "Set TERM, as to xterm-256color: the console moves the cursor.")
    if coding != "utf8":
        return Check("terminal", False, f"{text}, {sys.stderr.encoding}", "Set a UTF-8 locale: export LC_ALL=C.UTF-8")
    if size.columns < _LEAST_COLUMNS or size.lines < _LEAST_LINES:
        return Check("terminal", None, text, f"Below {_LEAST_COLUMNS}×{_LEAST_LINES} parts of the screens are cut off.")
    return Check("terminal", True, text)


def _settings() -> Iterable[Check]:
    try:
        loaded = settings.load()
        loaded.find(loaded.workspace)
    except WorkspaceError as error:
        return [Check("settings", False, error.sentence, error.next_step)]
    file = words.path(loaded.file)
    there = loaded.file.is_file()
    found = [Check("settings", True, file if there else f"{file} is not there: all is as it comes")]
    for name, table in loaded.workspaces.items():
        found += _workspace(loaded, name, str(table.get("kind", "local")))
    if there and loaded.file.stat().st_mode & 0o022:
        found.append(Check("settings", None, f"Other users may write {file}.", f"chmod go-w {file}"))
    return found


def _workspace(loaded: settings.Settings, name: str, kind: str) -> list[Check]:
    """Whether a workspace of the settings can be opened, as far as that can be told without asking anybody."""
    from footplate.workspace.open import open_workspace

    try:
        # Of this machine it is not opened, which would make the home, or bring its store to this version.
        found = loaded.find(name) if kind == "local" else open_workspace(name, loaded)
    except WorkspaceError as error:
        return [Check(f"workspace {name}", False, error.sentence, error.next_step)]
    return [Check(f"workspace {name}", True, f"{kind}{', read-only' if found.read_only else ''}")]
