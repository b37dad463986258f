"""References to registered things: `azureml:name:version`, `name@latest`, or a bare name for the newest."""

from __future__ import annotations

from footplate.workspace.errors import Invalid


def parse(reference: str, what: str) -> tuple[str, int | None]:
    """Name and version (None: the newest) of a reference. Raises Invalid when it has another form."""
    name, separator, version = reference.removeprefix("azureml:").partition(":")
    if not separator:
        name, _, label = name.partition("@")
        if name and label in ("", "latest"):
            return name, None
    elif name and version.isdecimal():
        return name, int(version)
    raise Invalid(
        f"{reference!r} names no {what}.", "Write NAME:VERSION or NAME@latest; versions here are whole numbers."
    )
