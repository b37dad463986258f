"""The bodies of the service's refusals, in the shapes that it was recorded to answer with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.wire.clock import stamp
from tests.wire.http import Refusal

if TYPE_CHECKING:
    from tests.wire.state import State


def body(refusal: Refusal, state: State) -> dict[str, Any]:
    """A refusal's body: nested, with the list of additional information that only a program could love."""
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
    if refusal.plain:
        return {"error": error}
    info: list[tuple[str, Any]] = [
        ("ComponentName", "managementfrontend"),
        ("Correlation", {"operation": "9518a5120e841c6a36af896acafd0355", "request": "2632b07b9427daef"}),
        ("Environment", state.location),
        ("Location", state.location),
        ("Time", stamp(state.clock.now)),
    ]
    if refusal.inner is not None:
        info.append(("InnerError", refusal.inner))
    error["details"] = refusal.details
    error["additionalInfo"] = [{"type": kind, "info": {"value": value}} for kind, value in info]
    return {"error": error}


def detail(code: str, message: str) -> dict[str, Any]:
    """One entry of `details`."""
    return {"code": code, "message": message, "details": [], "additionalInfo": []}


def not_found(what: str, name: str) -> Refusal:
    """No such thing in the workspace: 404 UserError, with the cause in the details."""
    text = f"{what} {name} not found."
    inner = {"code": "NotFound", "innerError": {"code": f"{what}NotFound", "innerError": None}}
    return Refusal(404, "UserError", text, details=[detail("NotFound", text)], inner=inner)


def resource_not_found(kind: str, name: str, group: str) -> Refusal:
    """No such resource, as the resource manager itself says it."""
    text = (
        f"The Resource 'Microsoft.MachineLearningServices/{kind}/{name}' under resource group '{group}' was not found. "
        "For more details please go to https://aka.ms/ARMResourceNotFoundFix"
    )
    return Refusal(404, "ResourceNotFound", text, plain=True)


def invalid(*details: tuple[str, str]) -> Refusal:
    """A body with members that the service does not know, or without those it needs."""
    return Refusal(
        400,
        "UserError",
        "Request is invalid and/or missing fields.",
        details=[detail(code, message) for code, message in details],
        inner={"code": "RequestInvalid", "innerError": None},
    )


def unknown_compute(name: str) -> Refusal:
    """A job for compute that is not there."""
    inner = {"code": "BadArgument", "innerError": {"code": "UnknownTargetType", "innerError": None}}
    return Refusal(400, "UserError", f"Unknown compute target '{name}'.", inner=inner)


def bad_argument(message: str, code: str = "BadArgument") -> Refusal:
    """A value that the service does not take."""
    return Refusal(400, "UserError", message, details=[detail(code, message)], inner={"code": code, "innerError": None})


def conflict(message: str) -> Refusal:
    """A name that is taken, or a resource that is busy."""
    return Refusal(409, "Conflict", message, inner={"code": "Conflict", "innerError": None})
