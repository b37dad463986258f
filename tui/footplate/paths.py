"""Every path that footplate uses, in one place."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def home() -> Path:
    """Folder of the local workspace: `$FOOTPLATE_HOME`, else the XDG data folder's `footplate`."""
    if given := os.environ.get("FOOTPLATE_HOME"):
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("footplate"))


def config_file() -> Path:
    """The settings file: `$FOOTPLATE_CONFIG`, else the XDG config folder's `footplate/config.toml`."""
    if given := os.environ.get("FOOTPLATE_CONFIG"):
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("footplate")) / "config.toml"


def console_log() -> Path:
    """The console's own log: tracebacks that no screen shows."""
    return home() / "console.log"


def asset(name: str) -> Path:
    """Folder `jobs`, `trainer` or `score`: the wheel's data, or the repository's root in a checkout.

    Raises FileNotFoundError with a sentence when neither is there (a broken installation).
    """
    packaged = _PACKAGE / "assets" / name
    if packaged.is_dir():
        return packaged
    checkout = _PACKAGE.parents[1] / name
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(f"footplate's folder {name!r} is missing from this installation; install footplate again.")
