"""Long-running operations: their addresses with long signatures, their states, and what happens at their end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.wire.clock import NEVER
from tests.wire.http import SUB, Call, Refusal, Reply, Routes
from tests.wire.state import Body, new_id

if TYPE_CHECKING:
    from tests.wire.server import WireServer

routes = Routes()
_SIGNATURE = f"t=638000000000000000&c={'M' * 2900}&s={'s' * 342}&h={'h' * 43}"


@dataclass
class Operation:
    """One operation. It ends when its time has come, or earlier at its last poll where polls are counted."""

    id: str
    kind: str
    started: str
    finish: Callable[[], None]
    polls_left: int | None
    status: str = "Updating"
    ended: str = NEVER
    error: Body | None = None
    result: Body | None = None


class Operations:
    """The operations of one server."""

    def __init__(self, wire: WireServer) -> None:
        """None yet."""
        self._wire = wire
        self.all: dict[str, Operation] = {}

    def start(self, kind: str, seconds: float, finish: Callable[[], None], *, error: Body | None = None) -> Operation:
        """Start an operation of a kind (`mfe` or `compute`) that takes so long; with `error` it will have failed."""
        state = self._wire.state
        prefix = f"oeidp:{state.workspace_guid}:" if kind == "mfe" else ""
        polls = self._wire.operation_polls
        made = Operation(f"{prefix}{new_id()}", kind, state.stamp(), finish, polls, error=error)
        self.all[made.id] = made
        state.clock.after(seconds, lambda: self.end(made))
        return made

    def end(self, operation: Operation) -> None:
        """Let an operation end now; a second time does nothing."""
        if operation.status != "Updating":
            return
        operation.status = "Failed" if operation.error else "Succeeded"
        operation.ended = self._wire.state.stamp()
        operation.finish()

    def address(self, operation: Operation, word: str = "OperationsStatus") -> str:
        """Where an operation is asked about."""
        state = self._wire.state
        version = "2022-02-01-preview" if operation.kind == "mfe" else "2023-08-01-preview&service=new"
        return (
            f"{self._wire.resource_manager}/subscriptions/{state.subscription_id}"
            f"/providers/Microsoft.MachineLearningServices/locations/{state.location}"
            f"/{operation.kind}{word}/{operation.id}?api-version={version}&{_SIGNATURE}"
        )

    def headers(self, operation: Operation, location: str = "") -> dict[str, str]:
        """The headers of the answer that starts an operation."""
        made = {"Azure-AsyncOperation": self.address(operation), "x-ms-async-operation-timeout": "PT30M"}
        return made | ({"Location": location} if location else {})


def _find(call: Call) -> Operation:
    found = call.wire.operations.all.get(call["id"])
    if found is None:
        raise Refusal(404, "NotFound", f"Operation {call['id']} was not found.")
    return found


_PLACE = SUB + r"/providers/Microsoft\.MachineLearningServices/locations/(?P<location>[^/]+)"


@routes.on("GET", _PLACE + r"/(?P<kind>mfe|compute)OperationsStatus/(?P<id>[^/]+)")
def status(call: Call) -> Reply:
    """How an operation goes."""
    operation = _find(call)
    if operation.polls_left is not None and operation.status == "Updating":
        operation.polls_left -= 1
        if operation.polls_left <= 0:
            call.wire.operations.end(operation)
    if operation.kind == "compute":
        body: Body = {"status": "InProgress" if operation.status == "Updating" else operation.status}
    else:
        body = {
            "id": call.path,
            "name": operation.id,
            "startTime": operation.started,
            "endTime": operation.ended,
            "percentComplete": 0.0,
            "status": operation.status,
        }
    if operation.status == "Failed":
        body["error"] = operation.error
    return Reply(body=body)


@routes.on("GET", _PLACE + r"/(?P<kind>mfe|compute)OperationResults/(?P<id>[^/]+)")
def result(call: Call) -> Reply:
    """What an operation came to: 202 while it goes on."""
    operation = _find(call)
    if operation.status == "Updating":
        return Reply(202, headers={"Location": call.wire.operations.address(operation, "OperationResults")})
    return Reply(body=operation.result)
