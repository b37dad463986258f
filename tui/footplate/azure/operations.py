"""Long-running operations: what the service says of one that it was asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from footplate.azure.errors import read_fault
from footplate.azure.masking import mask
from footplate.azure.reading import mapping, moment, text

_ENDED = frozenset({"Succeeded", "Failed", "Canceled"})
"""All else goes on, whatever it is called: a recorded endpoint's says Updating, a cluster's InProgress."""


@dataclass(frozen=True)
class Operation:
    """The state of an operation; `ended` is None while it goes on."""

    status: str
    done: bool
    started: datetime | None
    ended: datetime | None
    error: str


def read_operation(body: Any) -> Operation:
    """An operation from the JSON of its address. A body without a status is the finished resource itself."""
    document = mapping(body)
    status = text(document.get("status")) or "Succeeded"
    fault = read_fault(json.dumps({"error": document["error"]}).encode()).cause if document.get("error") else ""
    return Operation(
        status=status,
        done=status in _ENDED,
        started=moment(document.get("startTime")),
        ended=moment(document.get("endTime")),
        error=mask(fault),
    )
