"""The command that looks for what is in the way: on this machine, or what holds of a live Azure workspace."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from footplate import settings
from footplate.cli.frame import Frame, columned, common
from footplate.workspace import Invalid

_SIGNS = {True: "ok", False: "NO", None: "–"}


@click.command("doctor")
@click.option("--azure", is_flag=True, help="Try the claims about Azure ML on a live workspace; reads only.")
@common
@click.pass_obj
def doctor_command(frame: Frame, azure: bool) -> None:
    """Look for what stands in the way on this machine; the exit code is 1 where something does.

    With --azure: try every claim that footplate makes about Azure ML on the workspace of --workspace, with GET requests only, and
    say which held. The report names nothing of yours: it can be sent with a question as it is. With --json it is a list of
    {claim, basis, held, saw}; without --azure, of {check, ok, saw, next_step}.
    """
    if azure:
        _azure(frame)
        return
    from footplate.operations import doctor

    found = doctor.examine()
    rows: list[Sequence[str]] = []
    for one in found:
        rows.append((_SIGNS[one.ok], one.check, one.saw))
        if one.next_step:
            rows.append(("", "", f"→ {one.next_step}"))
    frame.result([one.document() for one in found], lambda: columned(rows))
    if any(one.ok is False for one in found):
        sys.exit(1)


def _azure(frame: Frame) -> None:
    import asyncio

    loaded = settings.load()
    wanted = loaded.find(frame.workspace or loaded.workspace)
    if wanted.kind != "azure":
        raise Invalid(
            f"Workspace {wanted.name!r} is not on Azure.",
            "Name one that is: footplate doctor --azure --workspace NAME.",
        )
    from footplate.azure import doctor  # loads Azure's libraries

    found = asyncio.run(doctor.examine(wanted.name, loaded))
    rows: list[Sequence[str]] = [("HELD", "BASIS", "CLAIM", "SAW")]
    rows += [(_SIGNS[one.held], one.claim.basis, one.claim.id, one.saw) for one in found]
    held, not_held = (sum(one.held is answer for one in found) for answer in (True, False))
    said = (
        f"{held} held, {not_held} did not, {len(found) - held - not_held} were not shown. docs/azure.md has their text."
    )
    frame.result([one.document() for one in found], lambda: f"{columned(rows)}\n\n{said}")


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(doctor_command)
