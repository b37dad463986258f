"""A small Azure ML on this machine: a server that speaks the wire format of the service, for tests and for the demo.

    with running_server() as wire:                      # or `async with WireServer() as wire`; `python -m tests.wire`
        wire.seed.cluster("cpu")
        wire.seed.submit("job", computeId=f"{wire.state.ws}/computes/cpu")
        wire.faults.add("GET", "/details", fail(503), times=2)
        wire.advance(60)                                # the clock stands still till then
        print(wire.settings(), wire.token, wire.requests)

What was recorded of the service is answered as recorded (tests/unit/test_wire_recordings.py); the rest is as the SDK
and the documents have it, and is assumed where those say nothing.
"""

from __future__ import annotations

from tests.wire.faults import Fault, cut, fail, slow
from tests.wire.plans import JobPlan
from tests.wire.server import WireServer
from tests.wire.threaded import running_server

__all__ = ["Fault", "JobPlan", "WireServer", "cut", "fail", "running_server", "slow"]
