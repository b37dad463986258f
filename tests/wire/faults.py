"""What a test tells the server to do wrong: rules that answer, slow or cut the requests they match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Fault:
    """A rule for requests whose method and `path?query` match; it acts `times` times (None: for ever) after `skip`."""

    status: int | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    cut_after: int | None = None
    """The connection is cut when so many bytes of the answer's body are sent."""
    method: str = ".*"
    path: str = ".*"
    times: int | None = 1
    skip: int = 0
    hits: int = 0
    """How often it has acted."""


def _body(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "details": [], "additionalInfo": []}}


def slow(seconds: float) -> Fault:
    """The right answer, late."""
    return Fault(delay_seconds=seconds)


def cut(after: int = 0) -> Fault:
    """The right answer, of which only so many bytes arrive before the connection is cut."""
    return Fault(cut_after=after)


CHALLENGE = 'Bearer authorization_uri="https://login.localhost/common", error="{error}", error_description="{text}"'
CLAIMS = "eyJhY2Nlc3NfdG9rZW4iOnsibmJmIjp7ImVzc2VudGlhbCI6dHJ1ZSwidmFsdWUiOiIxNzAwMDAwMDAwIn19fQ=="
_WORDS = {
    400: ("BadRequest", "The request is invalid."),
    404: ("ResourceNotFound", "The resource was not found."),
    409: ("Conflict", "The resource is in a state that does not allow this."),
    429: ("TooManyRequests", "The request was throttled."),
    500: ("InternalServerError", "Received 500 from a service request"),
    502: ("BadGateway", "Bad gateway"),
    503: ("ServiceUnavailable", "The service is temporarily unavailable."),
}


def fail(what: int | str, *, retry_after: int | None = None, message: str = "") -> Fault:
    """An answer that refuses: a status, or one of the words below, which say what the service means by it.

    `token` (401), `claims` (401 with a claims challenge), `role` (403, the signed-in principal may not), `firewall` (403
    of a blob's network rules), `expired` (403 of an old signature), `html` (200 of a proxy that answers with a page).
    """
    if what == "token":
        text = message or "The access token is invalid."
        challenge = CHALLENGE.format(error="invalid_token", text=text)
        return Fault(401, _body("InvalidAuthenticationToken", text), {"WWW-Authenticate": challenge})
    if what == "claims":
        text = message or "Continuous access evaluation resulted in challenge"
        challenge = CHALLENGE.format(error="insufficient_claims", text=text) + f', claims="{CLAIMS}"'
        return Fault(401, _body("InvalidAuthenticationToken", text), {"WWW-Authenticate": challenge})
    if what == "role":
        text = message or (
            "The client 'someone@example.org' with object id '00000000-0000-0000-0000-00000000000a' does not have "
            "authorization to perform action 'Microsoft.MachineLearningServices/workspaces/computes/write' over scope "
            "'/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg' or the scope is invalid. If access "
            "was recently granted, please refresh your credentials."
        )
        return Fault(403, {"error": {"code": "AuthorizationFailed", "message": text}})
    if what in ("firewall", "expired"):
        code = {"firewall": "AuthorizationFailure", "expired": "AuthenticationFailed"}[str(what)]
        return Fault(403, blob_error(code), {"x-ms-error-code": code, "Content-Type": "application/xml"})
    if what == "html":
        return Fault(200, b"<html><body>Sign in to the network</body></html>", {"Content-Type": "text/html"})
    code, text = _WORDS[int(what)]
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Fault(int(what), _body(code, message or text), headers)


_BLOB_TEXTS = {
    "AuthorizationFailure": "This request is not authorized to perform this operation.",
    "AuthenticationFailed": (
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly "
        "including the signature."
    ),
    "BlobNotFound": "The specified blob does not exist.",
    "ContainerNotFound": "The specified container does not exist.",
    "InvalidRange": "The range specified is invalid for the current size of the resource.",
    "InvalidBlockList": "The specified block list is invalid.",
    "BlobAlreadyExists": "The specified blob already exists.",
    "ConditionNotMet": "The condition specified using HTTP conditional header(s) is not met.",
    "AuthorizationPermissionMismatch": "This request is not authorized to perform this operation using this permission.",
}


def blob_error(code: str) -> bytes:
    """The body of a refusal by blob storage."""
    text = f"{_BLOB_TEXTS[code]}\nRequestId:00000000-0000-0000-0000-000000000000"
    return f'\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{text}</Message></Error>'.encode()


class Faults:
    """The rules in force; the first that matches and is not used up acts."""

    def __init__(self) -> None:
        """Nothing goes wrong yet."""
        self.rules: list[Fault] = []

    def add(self, method: str, path: str, fault: Fault, *, times: int | None = 1, skip: int = 0) -> Fault:
        """Put a fault on requests by method and by what is found in `path?query` (regular expressions).

        Of blobs the path starts with /blob, of scoring addresses with /score/ENDPOINT. A rule that skips a request
        leaves it to the rules after it.
        """
        fault.method, fault.path, fault.times, fault.skip = method, path, times, skip
        self.rules.append(fault)
        return fault

    def clear(self) -> None:
        """All is well again."""
        self.rules.clear()

    def match(self, method: str, address: str) -> Fault | None:
        """The fault of a request, which is thereby counted."""
        for rule in self.rules:
            if rule.times == 0 or not re.fullmatch(rule.method, method, re.I) or not re.search(rule.path, address):
                continue
            if rule.skip:
                rule.skip -= 1
                continue
            if rule.times is not None:
                rule.times -= 1
            rule.hits += 1
            return rule
        return None
