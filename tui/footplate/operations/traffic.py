"""Share out an endpoint's requests: what was typed, and the change against what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from footplate.workspace import Endpoint, Invalid, Workspace
from footplate.workspace.traffic import check_mirror, check_traffic, check_unchanged


def parse(written: Sequence[str]) -> dict[str, int]:
    """Shares as they are typed, `blue=90 green=10`, by deployment. Raises Invalid for what is none, or stands there twice."""
    shares: dict[str, int] = {}
    for one in written:
        name, equals, share = one.partition("=")
        per_cent = share.strip().removesuffix("%").strip()
        if not equals or not name or not per_cent.isdecimal() or not per_cent.isascii() or len(per_cent) > 3:
            raise Invalid(f"{one!r} is no share of the traffic.", "Write whole per cents, as in blue=90 green=10.")
        if name in shares:
            raise Invalid(f"The share of {name!r} is given twice.", "Give each deployment one share.")
        shares[name] = int(per_cent)
    return shares


async def shift(
    workspace: Workspace,
    name: str,
    traffic: Mapping[str, int] | None = None,
    mirror: Mapping[str, int] | None = None,
    seen: Mapping[str, int] | None = None,
) -> tuple[Endpoint, Endpoint]:
    """Change an endpoint's traffic, its mirrored traffic, or both; gives the endpoint before and after.

    `seen` is the traffic that the operator looked at; without it, what is read here: a change by somebody else in between is a
    Conflict. Raises what `set_traffic` and `set_mirror` raise.
    """
    before = after = await workspace.endpoint(name)
    if mirror is not None and traffic is not None:
        # Of two changes neither is begun where the first look already refuses one.
        check_unchanged(before, seen)
        check_traffic(replace(before, mirror=mirror), traffic)
        check_mirror(replace(before, traffic=traffic), mirror)
    live = before.mirror if any(before.mirror.values()) else {}
    wanted = {one: share for one, share in (mirror or {}).items() if share}
    if mirror is not None and live and (traffic is not None or not wanted):
        after = await workspace.set_mirror(name, {})  # no deployment has both kinds at any moment
    if traffic is not None:
        after = await workspace.set_traffic(name, traffic, before.traffic if seen is None else seen)
    if wanted:
        after = await workspace.set_mirror(name, wanted)
    return before, after
