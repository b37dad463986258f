"""Jobs of the corpus on the wire server: what they name is made there when it turns out to be missing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.wire import WireServer

MISSING: tuple[tuple[str, Callable[[WireServer, str], Any]], ...] = (
    (r"Unknown compute target '(.+?)'", lambda wire, name: wire.seed.cluster(name)),
    (r"/computes/(\S+?)' under", lambda wire, name: wire.seed.cluster(name)),
    (r"Asset (\S+) does not exist", lambda wire, name: wire.seed.data(name)),
)
NOT_THERE = (
    r"Asset my_train does not exist",  # a registered component
    r"Entry \S+ doesn't exist",  # a file of the code folder that is made up here
)


def make_missing(wire: WireServer, why: str) -> bool:
    """Make on the server what a refusal names as missing; whether there was such a thing."""
    known = [(found[1], make) for pattern, make in MISSING if (found := re.search(pattern, why))]
    for name, make in known[:1]:
        make(wire, name)
    return bool(known)


def submit(ml: Any, wire: WireServer, job: Any) -> str:
    """Submit a job, with the compute and data that it names made where they are missing; why not, or nothing."""
    why = ""
    for _ in range(4):
        try:
            ml.jobs.create_or_update(job)
        except Exception as error:  # noqa: BLE001 - the SDK fails in many ways, all of which are of interest
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            return ""
        if not make_missing(wire, why):
            break
    return why
