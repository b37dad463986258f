"""The data inputs of a job file on this machine: where each lies, or will lie once the job's supervisor has fetched it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from footplate.jobfile.document import Input
from footplate.local import layout, references
from footplate.local.data import DataAssets
from footplate.local.store import Store
from footplate.workspace.errors import Invalid, NotFound

MODEL_TYPES = frozenset({"custom_model", "mlflow_model", "triton_model"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""It becomes a folder."""
_FOLDERS = ("uri_folder", "mltable")
_WEB = ("http://", "https://")
_STORAGE = ("azureml://", "wasb://", "wasbs://", "abfs://", "abfss://", "adl://")


@dataclass
class Inputs:
    """What a job's command gets for each data input, and what has to be done before it can run.

    `assets` are references of data assets that must be there. `fetch` says of an input where it comes from, a path or an address,
    and where it has to lie: `(from, to)`.
    """

    places: dict[str, str] = field(default_factory=dict)
    assets: list[str] = field(default_factory=list)
    fetch: dict[str, tuple[str, str]] = field(default_factory=dict)


def resolve(
    store: Store, data_assets: DataAssets, inputs: Mapping[str, Input], base: Path, job: str, label: str
) -> Inputs:
    """The data inputs of a job named `job`, whose relative paths lie in `base`; `label` is what messages call its file.

    Source of the modes: Azure, how-to-read-write-data-v2. `download` gives the job a copy of its own, `direct` the address as it
    is written, any other mode the files themselves. Raises Invalid, NotFound.
    """
    found = Inputs()
    for given in inputs.values():
        if given.literal is None:
            _resolve_one(store, data_assets, given, base, layout.job_folder(store.home, job) / "inputs", label, found)
    return found


def _resolve_one(
    store: Store, data_assets: DataAssets, given: Input, base: Path, own: Path, label: str, found: Inputs
) -> None:
    path, name = given.path or "", given.name
    if (path.startswith(_WEB) or given.mode == "download") and not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of an input that is fetched.", "Use letters, digits and _, no digit first."
        )
    remote = "://" in path or (path.startswith("azureml:") and not path.startswith(("azureml:./", "azureml:../")))
    if remote and given.mode == "direct":
        found.places[name] = path
        return
    if path.startswith(_WEB):
        if given.type in _FOLDERS:
            raise Invalid(
                f"Input {name!r}: {path} is an address of one file, not a folder.", "Set its type to uri_file."
            )
        found.places[name] = str(own / name / _file_name(path))
        found.fetch[name] = (path, found.places[name])
        return
    if remote and "://" not in path:
        if given.type in MODEL_TYPES:
            place = model_folder(store, path)
        else:
            place = data_assets.folder(path)
            found.assets.append(path)
    elif remote and not path.startswith(_STORAGE):
        raise Invalid(
            f"Input {name!r}: {path} is an address that is not read here: it is neither of the web nor a path.",
            "Use an address with https:// or http://, or download it and give a local path.",
        )
    elif remote:
        raise Invalid(
            f"Input {name!r}: {path} lies in Azure's storage, which the local workspace does not read.",
            "Download it and give a local path, or launch on an Azure workspace, which reads it.",
        )
    else:
        place = _local(given, path, base, label)
    found.places[name] = str(place)
    if given.mode == "download":
        found.places[name] = str(own / name / place.name)
        found.fetch[name] = (str(place), found.places[name])


def _local(given: Input, path: str, base: Path, label: str) -> Path:
    """A path of this machine, which is there and of the input's type. Raises Invalid."""
    path = path.removeprefix("azureml:").removeprefix("file:")
    place = Path(os.path.realpath(base / os.path.expanduser(path)))  # noqa: PTH111  # raises for no ~user
    if not look(place, lambda _: True):
        raise Invalid(f"Input {given.name!r}: {place} is not there.", f"Mend its `path` in {label}.")
    if given.type in _FOLDERS and not look(place, stat.S_ISDIR):
        raise Invalid(f"Input {given.name!r}: {place} is not a folder.", "Set its type to uri_file, or name a folder.")
    if given.type == "uri_file" and not look(place, stat.S_ISREG):
        raise Invalid(f"Input {given.name!r}: {place} is not a file.", "Set its type to uri_folder, or name a file.")
    return place


def look(place: Path, of_kind: Callable[[int], bool]) -> bool:
    """Whether a place is there, with a mode of that kind. Raises Invalid where it may not be looked at."""
    try:
        return of_kind(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise Invalid(
            f"{place} cannot be looked at: {error.strerror or error}.", "Mend the path or its permissions.", repr(error)
        ) from error


def model_folder(store: Store, reference: str) -> Path:
    """Where a registered model's files lie. Raises NotFound, Invalid."""
    name, version = references.parse(reference, "model")
    with store.read() as db:
        found = db.execute(
            "SELECT max(version) FROM model WHERE name = ? AND (? IS NULL OR version = ?)", (name, version, version)
        ).fetchone()[0]
    if found is None:
        raise NotFound(f"There is no model {reference!r}.", "Register it first.")
    return layout.model_folder(store.home, name, found)


def _file_name(address: str) -> str:
    """A file's name for what lies at an address: its last part, with plain characters."""
    last = unquote(urlsplit(address).path).rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).lstrip(".")[-100:] or "data"
