"""Azure's own client, asked what it makes of a file, and the corpus with what its files name made up beside them."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"
MANIFEST: list[dict[str, Any]] = json.loads((CORPUS / "manifest.json").read_text()) if CORPUS.is_dir() else []
KINDS = {
    "command job": "command",
    "sweep job": "sweep",
    "pipeline job": "pipeline",
    "online endpoint": "endpoint",
    "online deployment": "deployment",
    "compute": "compute",
}
"""The manifest's word for each kind, and ours."""

needs_corpus = pytest.mark.skipif(not MANIFEST, reason=f"{CORPUS} is not there")


def every(*kinds: str) -> Any:
    """A test's parameter `entry`: the manifest's entries of these kinds."""
    found = [entry for entry in MANIFEST if KINDS[entry["kind"]] in kinds]
    return pytest.mark.parametrize("entry", found, ids=[entry["path"] for entry in found])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The client warns of what is experimental, on stderr and as warnings."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class AzureClient:
    """Azure's client: what it reads, refuses and would send."""

    loaders: Mapping[str, Any]
    refusals: tuple[type[Exception], ...]

    def refusal(self, kind: str, path: Path) -> str:
        """Why the client refuses a file, as one line; empty where it loads it."""
        try:
            with _quiet():
                self.loaders[kind](path)
        except self.refusals as error:
            return " ".join(f"{type(error).__name__}: {error}".split())
        return ""

    def sent(self, kind: str, path: Path) -> dict[str, Any]:
        """What the client would send for a command or sweep job: the properties of its REST body, and its name."""
        with _quiet():
            job = self.loaders[kind](path)
            # A command job is loaded as a step of a pipeline; this is the job that it is submitted as.
            body = job._to_job()._to_rest_object() if kind == "command" else job._to_rest_object()
        plain: dict[str, Any] = body if isinstance(body, dict) else body.as_dict()
        return {**plain["properties"], "name": plain.get("name")}


@functools.cache
def azure_client() -> AzureClient:
    """The client, imported once a process: that takes a second or two. Skips the test where it is not installed."""
    with _quiet():
        ml = pytest.importorskip("azure.ai.ml")
        from azure.ai.ml.exceptions import MlException
        from marshmallow.exceptions import MarshmallowError
    loaders = {
        **dict.fromkeys(("command", "sweep", "pipeline"), ml.load_job),
        "component": ml.load_component,
        "endpoint": ml.load_online_endpoint,
        "deployment": ml.load_online_deployment,
        "compute": ml.load_compute,
    }
    # It also fails in ways it does not mean to, as with a TypeError for a date.
    slips = (TypeError, ValueError, AttributeError, LookupError, OSError, NotImplementedError)
    return AzureClient(loaders, (MlException, MarshmallowError, *slips))


def copy_corpus(root: Path) -> Path:
    """A copy of the corpus with the code folders, data, conda files and components that its files name."""
    root = root / "a" / "b" / "c"  # some files name what lies above the corpus
    shutil.copytree(CORPUS, root)
    for entry in MANIFEST:
        # Of one file the code folder is missing in the repository that it comes from, too.
        lost = "Can't find directory" in (entry["error"] or "")
        _make_beside(root / entry["path"], ("path",) if lost else ("code", "path"))
    return root


def _make_beside(path: Path, named_by: tuple[str, ...]) -> None:
    values = yaml.safe_load(path.read_text())
    if isinstance(values.get("component"), str):
        _make_component(path, values["component"], {"type": "pipeline"}, [])
    for name, step in (values.get("jobs") or {}).items():
        used = re.findall(rf"parent\.jobs\.{name}\.outputs\.(\w+)", path.read_text())
        for key in ("component", "trial"):
            if isinstance(step.get(key), str):
                _make_component(path, step[key], step, used)
    for keys, text in _texts(values, ()):
        remote = text.startswith(("azureml:", "$")) or "://" in text
        if keys[-1] == "conda_file":
            _make(path.parent / text, "name: made-up\ndependencies: [python=3.10]\n")
        elif keys[-1] in named_by and not remote and not text.startswith("/"):
            _make(path.parent / text, "" if Path(text).suffix else None)


def _texts(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield keys, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _texts(item, (*keys, str(key)))


def _make(path: Path, text: str | None) -> None:
    """A folder, or a file with this text."""
    (path if text is None else path.parent).mkdir(parents=True, exist_ok=True)
    if text is not None and not path.exists():
        path.write_text(text)


_SPARK = ("driver.cores", "driver.memory", "executor.cores", "executor.memory", "executor.instances")


def _make_component(path: Path, named: str, step: Mapping[str, Any], used: list[str]) -> None:
    """A component that takes what the step gives, and makes what the step names and other steps use."""
    if named.startswith("azureml:"):
        return
    kind = "command" if step["type"] == "sweep" else step["type"]
    inputs: dict[str, Any] = {}
    for name, value in {**(step.get("inputs") or {}), **(step.get("search_space") or {})}.items():
        bound = isinstance(value, str) and "${{" in value
        inputs[name] = {"type": "uri_folder" if bound else "string", "optional": True}
    outputs = {name: {"type": "uri_folder"} for name in [*(step.get("outputs") or {}), *used]}
    component: dict[str, Any] = {
        "$schema": f"https://azuremlschemas.azureedge.net/latest/{kind}Component.schema.json",
        "name": "made_up",
        "version": "1",
        "type": kind,
        "inputs": inputs,
        "outputs": outputs,
    }
    if kind == "command":
        component |= {"command": "echo made up", "environment": "azureml:made-up:1"}
    elif kind == "spark":
        conf = {f"spark.{key}": 1 for key in _SPARK}
        component |= {"entry": {"file": "made_up.py"}, "code": ".", "conf": conf}
    elif kind == "pipeline":
        component["jobs"] = {}
    _make(path.parent / named.removeprefix("file:"), yaml.safe_dump(component))
