"""The rules of an endpoint's traffic, alike on Azure and on this machine: checked before anything is changed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from footplate.workspace.errors import Conflict, Invalid
from footplate.workspace.serving import Endpoint

MOST_MIRRORED = 50
"""Per cent of the requests that may be mirrored (documented: how-to-safely-rollout-online-endpoints)."""


def shares_text(shares: Mapping[str, int]) -> str:
    """Shares as text: `blue 90 %, green 10 %`, or `none`; a share of 0 is not told."""
    return ", ".join(f"{name} {share} %" for name, share in sorted(shares.items()) if share) or "none"


def check_traffic(endpoint: Endpoint, traffic: Mapping[str, int]) -> None:
    """Check shares: whole per cents of its deployments, 100 together or 0 for none, none for one that failed or is mirrored to.

    Raises Invalid.
    """
    _check_names(endpoint, traffic)
    _check_whole(traffic, 100)
    total = sum(traffic.values())
    if total not in (0, 100):
        raise Invalid(
            f"The traffic of endpoint {endpoint.name!r} would sum to {total} %: {shares_text(traffic)}.",
            "The shares sum to 100, or to 0 for no traffic at all.",
        )
    _check_failed(endpoint, traffic)
    both = sorted(name for name, share in traffic.items() if share and endpoint.mirror.get(name))
    if both:
        raise Invalid(
            f"Deployment {both[0]!r} has mirrored requests, and cannot have live ones too.",
            "End the mirroring first: set its mirrored share to 0.",
        )


def check_mirror(endpoint: Endpoint, mirror: Mapping[str, int]) -> None:
    """Check mirrored shares: at most one deployment, without live traffic, with at most 50 per cent. Raises Invalid."""
    _check_names(endpoint, mirror)
    _check_whole(mirror, MOST_MIRRORED)
    wanted = sorted(name for name, share in mirror.items() if share)
    if len(wanted) > 1:
        raise Invalid(
            f"Requests are mirrored to one deployment at most, not to {len(wanted)}: {', '.join(wanted)}.",
            "Name one of them.",
        )
    _check_failed(endpoint, mirror)
    if wanted and endpoint.traffic.get(wanted[0]):
        raise Invalid(
            f"Deployment {wanted[0]!r} has {endpoint.traffic[wanted[0]]} % of the live traffic, and cannot have mirrored "
            "requests too.",
            "Take its live traffic away first.",
        )


def check_unchanged(endpoint: Endpoint, shown: Mapping[str, int] | None) -> None:
    """Check that the traffic is still what was shown; a share of 0 is as good as none. Raises Conflict with both."""
    if shown is not None and _given(shown) != _given(endpoint.traffic):
        raise Conflict(
            f"The traffic of endpoint {endpoint.name!r} was changed meanwhile: it was {shares_text(shown)}, and is now "
            f"{shares_text(endpoint.traffic)}.",
            "Look again, then decide.",
        )


def _given(shares: Mapping[str, int]) -> dict[str, int]:
    return {name: share for name, share in shares.items() if share}


def _check_names(endpoint: Endpoint, shares: Mapping[str, int]) -> None:
    known = [deployment.name for deployment in endpoint.deployments]
    for name in shares:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(known)}." if known else "It has none yet."
        raise Invalid(f"Endpoint {endpoint.name!r} has no deployment {name!r}.", hint)


def _check_whole(shares: Mapping[str, int], most: int) -> None:
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, int) or not 0 <= share <= most:
            raise Invalid(f"{share!r} is no share for deployment {name!r}.", f"Give a whole number from 0 to {most}.")


def _check_failed(endpoint: Endpoint, shares: Mapping[str, int]) -> None:
    for deployment in endpoint.deployments:
        if deployment.state == "Failed" and shares.get(deployment.name):
            raise Invalid(
                f"Deployment {deployment.name!r} has failed: it can answer nothing.",
                "Mend it first; its log says why it failed.",
            )
