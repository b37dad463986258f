"""Every path that footplate uses, in one place."""

from __future__ import annotations

import os
from pathlib import Path

from footplate.workspace.errors import Invalid

_PACKAGE = Path(__file__).resolve().parent


def home() -> Path:
    """Folder of the local workspace: `$FOOTPLATE_HOME`, else the XDG data folder's `footplate`. Raises Invalid for no path."""
    if given := _given("FOOTPLATE_HOME"):
        return given
    import platformdirs

    return Path(platformdirs.user_data_dir("footplate"))


def config_file() -> Path:
    """The settings file: `$FOOTPLATE_CONFIG`, else the XDG config folder's `footplate/config.toml`. Raises Invalid for no path."""
    if given := _given("FOOTPLATE_CONFIG"):
        return given
    import platformdirs

    return Path(platformdirs.user_config_dir("footplate")) / "config.toml"


def _given(variable: str) -> Path | None:
    """The absolute path that an environment variable names; None where it is not set or empty."""
    given = os.environ.get(variable)
    if not given:
        return None
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise Invalid(
            f"{variable} is {given!r}, and there is no such user's home.", "Write the whole path out.", repr(error)
        ) from error
    except OSError as error:
        raise Invalid(
            f"{variable} is {given!r}, which lies in the current folder, and that is gone.",
            "Change to a folder that is there, or give the whole path.",
            repr(error),
        ) from error


def cache() -> Path:
    """Folder of what can be fetched again: `$FOOTPLATE_HOME/cache`, else the XDG cache folder's `footplate`. Raises Invalid."""
    if given := _given("FOOTPLATE_HOME"):
        return given / "cache"
    import platformdirs

    return Path(platformdirs.user_cache_dir("footplate"))


def state() -> Path:
    """Folder of what consoles remember: `$FOOTPLATE_HOME/state`, else the XDG state folder's `footplate`. Raises Invalid."""
    if given := _given("FOOTPLATE_HOME"):
        return given / "state"
    import platformdirs

    return Path(platformdirs.user_state_dir("footplate"))


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
