"""What runs a job: its environment, named or with its keys, and its code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.document import as_path
from footplate.jobfile.faults import Report, Severity, nearest
from footplate.jobfile.schema.common import ASSET_READ_ONLY, ASSET_TAGS, HEAD
from footplate.jobfile.shapes import (
    Anything,
    Either,
    Keys,
    Scalar,
    Shape,
    Text,
    Whole,
    is_bound,
    shortened,
)


@dataclass(frozen=True)
class CondaPath(Shape):
    """The path of a conda file, which unlike an environment's and a component's has no `file:` before it."""

    wanted: str = "a path, or the conda file's content"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if not isinstance(value, str):
            self._wrong(value, place, report)
        elif value.startswith("file:"):
            report.add("wrong-value", place, f"`conda_file` takes no `file:`, as {value!r} has.", f"Write {value[5:]}.")


_ROUTE = Keys("a route", {"path": Text(), "port": Whole(1, 65535)}, required=("path", "port"))
_ROUTES = ("liveness_route", "readiness_route", "scoring_route")
ENVIRONMENT_KEYS: dict[str, Shape] = {
    **HEAD,
    # An environment within another file is registered under a name that Azure's client makes up: these are not read.
    "name": Scalar(null=True),
    "version": Scalar(null=True),
    "tags": ASSET_TAGS,
    "image": Text("an image's name"),
    "conda_file": Either(CondaPath(), Anything(), wanted="a path, or the conda file's content"),
    "build": Keys("a build", {"path": Text("a folder"), "dockerfile_path": Text("a path")}, required=("path",)),
    "os_type": Text("an operating system", ("linux", "windows")),
    "inference_config": Keys("an inference configuration", {name: _ROUTE for name in _ROUTES}, required=_ROUTES),
    "datastore": Text(),
    "auto_delete_setting": Anything(),
}
_INLINE_ENVIRONMENT = Keys(
    "an inline environment",
    ENVIRONMENT_KEYS,
    read_only=(*ASSET_READ_ONLY, "intellectual_property"),
    advice={"docker": "Write the image itself, as in `image: NAME`."},
)


@dataclass(frozen=True)
class InlineEnvironment(Shape):
    """The keys of an environment, of which one says what it is made of. `severity` is that of none, or of both."""

    severity: Severity | None = None
    wanted: str = "the keys of an environment"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`. Source: azure-ai-ml's Environment.validate, which is asked as the environment is made."""
        _INLINE_ENVIRONMENT.check(value, place, report)
        if not isinstance(value, Mapping):
            return
        # An empty key, and one that is misspelt, have a sentence of their own.
        unknown = [str(key) for key in value if str(key) not in ENVIRONMENT_KEYS]
        if {"image", "build"} <= set(value) and value["image"] and value["build"]:
            fault = "The environment has an `image` and a `build`: Azure makes it of one of them."
            report.add("image-or-build", place, fault, "Remove one of the two.", key=True, severity=self.severity)
        elif not {"image", "build"} & set(value) and not any(
            nearest(key, ("image", "build", "docker")) for key in unknown
        ):
            fault = "The environment has neither an `image` nor a `build`: Azure makes it of one of them."
            registered = f", or azureml:{value['name']}:VERSION in place of these keys" if value.get("name") else ""
            hint = f"Add `image`, a base image's name{registered}."
            report.add("image-or-build", place, fault, hint, key=True, severity=self.severity)


@dataclass(frozen=True)
class EnvironmentName(Shape):
    """A reference to an environment: an asset of the workspace or of a registry, or a file."""

    wanted: str = "azureml:NAME:VERSION or the keys of an environment"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if not isinstance(value, str):
            self._wrong(value, place, report)
        elif not value.startswith(("azureml:", "file:")):
            image = "/" in value or value.endswith((".yml", ".yaml"))
            hint = (
                f"Write `image: {value}` below it for an image, or file:{value} for a file."
                if image
                else f"Write azureml:{value}{'' if ':' in value or '@' in value else '@latest'}."
            )
            report.add("wrong-value", place, f"`{place[-1]}` cannot be the bare name {value!r}.", hint)


_ENVIRONMENT_FORMS = "azureml:NAME:VERSION or the keys of an environment"
ENVIRONMENT = Either(EnvironmentName(), InlineEnvironment("warning"), wanted=_ENVIRONMENT_FORMS)
JOB_ENVIRONMENT = Either(EnvironmentName(), InlineEnvironment(), wanted=_ENVIRONMENT_FORMS)
"""That of a command job, whose environment Azure's client makes up before it asks the service for anything."""


_CODE_ELSEWHERE = re.compile(
    r"git\+|(?:https?|ftps?)://"
    r"|azureml:(?://registries/|/subscriptions/|[^/]*[:@][^/]+\Z)",
    re.IGNORECASE,
)
"""Code that does not lie on this machine: a repository, an address, or a code asset. No path in a datastore is code."""


@dataclass(frozen=True)
class CodeShape(Shape):
    """The code to send: a folder, an address, a repository, or a code asset with its version."""

    wanted: str = "a path"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if not isinstance(value, str):
            self._wrong(value, place, report, "Write the folder itself, as in `code: ./src`.")
            return
        path = as_path(value)
        if path != value:
            prefix = value.removesuffix(path)
            report.add(
                "wrong-value", place, f"`code` takes no `{prefix}` before a path, as {value!r} has.", f"Write {path}."
            )
        elif re.fullmatch(r"azureml:[^:@/]+", value):
            report.add(
                "wrong-value", place, f"`code` names the asset {value!r} with no version.", f"Write {value}:VERSION."
            )
        elif ("://" in value or value.startswith(("azureml:", "git@"))) and not _CODE_ELSEWHERE.match(value):
            hint = "Name a folder, a repository as git+https://…, or a code asset as azureml:NAME:VERSION."
            report.add("wrong-value", place, f"`code` cannot be {shortened(value)}.", hint)


CODE = CodeShape()
