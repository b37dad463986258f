"""The names that Azure ML takes for endpoints and deployments."""

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
