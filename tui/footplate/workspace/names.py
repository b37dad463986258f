"""Names: which Azure ML takes for clusters, their tiers, endpoints and models, and what comes after a job's name that is taken."""

from __future__ import annotations

import re

from footplate.workspace.errors import Invalid

_ONLINE_NAME = re.compile(r"(?=.{3,32}\Z)[A-Za-z](?:-?[A-Za-z0-9])*")


def check_name(what: str, name: str) -> None:
    """Check the name of an endpoint or deployment by Azure's rule (how-to-manage-quotas). Raises Invalid."""
    if not _ONLINE_NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of {'an' if what == 'endpoint' else 'a'} {what}.",
            "Use 3 to 32 characters: a letter first, then letters, digits and single dashes, with no dash at the end.",
        )


_CLUSTER_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,22}[A-Za-z0-9])?")


def check_cluster_name(name: str) -> None:
    """Check the name of a cluster by Azure's rule (how-to-create-attach-compute-cluster). Raises Invalid."""
    if len(name) < 2 or not _CLUSTER_NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of a cluster.",
            "Use 2 to 24 letters, digits and dashes: a letter first, and no dash at the end.",
        )


TIERS = {"dedicated": "Dedicated", "low_priority": "LowPriority", "lowpriority": "LowPriority"}
"""A cluster's tiers as `az ml` and the service write them, in small letters, and as footplate does."""


def as_tier(text: str) -> str:
    """A tier as footplate writes it, from any letters. Raises Invalid."""
    if text.lower() not in TIERS:
        raise Invalid(f"There is no tier {text!r}.", "Use dedicated or low_priority.")
    return TIERS[text.lower()]


_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


def check_model_name(name: str) -> None:
    """Check the name of a model, alike on Azure and on this machine. Raises Invalid."""
    if not _MODEL_NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be a model's name.",
            "Use letters, digits, and . - _ between them, a letter or digit first, 255 at most.",
        )


_COUNTER = re.compile(r"^(.*?)(?:[-_](\d{1,6}))?$", re.DOTALL)
_LONGEST_STEM = 247
"""A job's name has 255 characters at most."""


def next_name(taken: str) -> str:
    """The name after one that is taken: `my-run` gives `my-run-2`, `my-run-2` gives `my-run-3`."""
    found = _COUNTER.match(taken)
    stem, number = (found[1], int(found[2] or 1)) if found else (taken, 1)
    return f"{stem[:_LONGEST_STEM]}-{number + 1}"
