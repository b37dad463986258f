"""From what Azure answered, or did not, to one plain sentence: facts on the wire, section 7."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from footplate.azure.masking import mask
from footplate.workspace.errors import (
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    NotSignedIn,
    QuotaExceeded,
    Throttled,
    Unexpected,
    Unreachable,
    WorkspaceError,
)

_DEPTH = 16
_RAW_LIMIT = 4000
_ACTION = re.compile(r"perform action '([^']+)'(?:.*?over scope '([^']+)')?", re.S)
_WORKSPACE = re.compile(r"workspaces/([^/'\"]+)'")
_NUMBERS = {
    "asked": re.compile(r"(?:additional requested|requested|required)\D{0,20}?(\d+)", re.I),
    "used": re.compile(r"(?:current in use|current usage|in use|used)\D{0,12}?(\d+)", re.I),
    "limit": re.compile(r"(?:maximum allowed|current limit|limit|quota of)\D{0,12}?(\d+)", re.I),
}
_TAKEN = ("AlreadyExists", "NameNotAvailable", "NameInUse")


@dataclass(frozen=True)
class Fault:
    """What an answer says went wrong: all its codes, outermost first, its true cause, and its correlation id."""

    codes: tuple[str, ...]
    cause: str
    correlation: str = ""


def read_fault(body: bytes, headers: Mapping[str, str] | None = None) -> Fault:
    """Read the body of a refusal in any of the services' shapes; nested JSON is unwrapped to the cause."""
    text = body.decode("utf-8-sig", "replace").strip()
    given = {name.lower(): value for name, value in (headers or {}).items()}
    correlation = given.get("x-ms-correlation-request-id") or given.get("x-ms-request-id") or ""
    content = _json(text)
    if not isinstance(content, Mapping):
        if text.startswith("<"):
            code, message = (_xml(text, "Code"), _xml(text, "Message"))
            return Fault((code,) if code else (), message.splitlines()[0] if message else "", correlation)
        return Fault((), text[:300], correlation)
    pairs = list(_walk(content, _DEPTH))
    codes = tuple(dict.fromkeys(code for code, _ in pairs if code))
    messages = list(dict.fromkeys(message for _, message in pairs if message))
    # The outermost message is the title; where there are deeper ones, they say what is wrong.
    cause = " ".join(messages[1:4] if len(messages) > 1 else messages)
    return Fault(codes, " ".join(cause.split()), correlation or _correlation(content))


def from_answer(
    status: int, headers: Mapping[str, str], body: bytes, what: str, place: str = "the workspace"
) -> WorkspaceError:
    """The error for an answer of status 400 and up to a request for `what`, as in `job 'birds'`."""
    fault = read_fault(body, headers)
    raw = _raw(status, body, fault)
    said = mask(fault.cause)
    if status == 401:
        return NotSignedIn("Azure did not take the sign-in.", "Sign in again: az login.", raw)
    if any("quota" in code.lower() for code in fault.codes) or (status in (400, 403, 409) and "quota" in said.lower()):
        return quota(said, raw)
    if status == 403:
        return _forbidden(fault, what, raw)
    if status == 404:
        return _missing(fault, what, place, raw)
    if status in (409, 412) or any(taken in code for code in fault.codes for taken in _TAKEN):
        return Conflict(_sentence(f"Azure refuses this for {what}", said), "Look again, then decide.", raw)
    if status == 429:
        return throttled(retry_after(headers), raw)
    if status == 408 or status >= 500:
        return Unreachable(f"Azure answered {status} when asked for {what}.", "Try again in a moment.", raw)
    if 400 <= status < 500:
        return Invalid(
            _sentence(f"Azure refuses the request for {what}", said), "Change what it names; nothing was done.", raw
        )
    return Unexpected(_sentence(f"Azure answered {status} when asked for {what}", said), "Try again.", raw)


def not_json(body: bytes, what: str, address: str) -> WorkspaceError:
    """The error for an answer that is no JSON, as a proxy or a sign-in page of the network sends it."""
    host = urlsplit(address).hostname or address
    page = body.lstrip()[:1] == b"<"
    return Unexpected(
        f"{host} answered {'with a web page' if page else 'with something else'} where JSON was due ({what}).",
        "A proxy or the network's own sign-in page may stand between: look at HTTPS_PROXY and the network.",
        mask(body[:_RAW_LIMIT].decode("utf-8", "replace")),
    )


def from_failure(error: BaseException, address: str) -> WorkspaceError:
    """The error for a request without an answer: no network, no such host, refused, cut, too slow, an untrusted certificate."""
    host = urlsplit(address).hostname or address
    text = mask(str(error))
    lower = text.lower()
    if "hostname mismatch" in lower or "not valid for" in lower:
        return Unreachable(
            f"The certificate that {host} shows is for another host.", "Look at the address, and at the network.", text
        )
    if "certificate" in lower:
        return Unreachable(
            f"The certificate of {host} is not trusted.",
            "Where a proxy of your network or a custom cloud signs it, name that certificate in ca_file of the settings.",
            text,
        )
    if "not permitted for non-tls" in lower:
        return Invalid(f"{host} is addressed without TLS, and a token is sent over TLS only.", "Write https://.", text)
    if any(word in lower for word in ("name or service", "nodename", "getaddrinfo", "name resolution", "dns")):
        return Unreachable(f"There is no host {host} as seen from here.", "Look at the network, VPN or DNS.", text)
    if "timeout" in lower or "timed out" in lower or "timeout" in type(error).__name__.lower():
        return Unreachable(f"{host} did not answer in time.", "Try again in a moment.", text)
    return Unreachable(f"{host} cannot be reached.", "Look at the network; what was read before stays.", text)


def throttled(seconds: float, raw: str = "") -> Throttled:
    """Too many requests; so many seconds are left to wait."""
    whole = max(1, round(seconds))
    return Throttled(
        "Azure takes no more requests just now.",
        f"Next try in {whole} second{'' if whole == 1 else 's'}.",
        raw,
        retry_after=seconds,
    )


def quota(said: str, raw: str) -> QuotaExceeded:
    """More was asked for than the quota has: asked, used and limit where the text tells them."""
    found = {name: match[1] for name, pattern in _NUMBERS.items() if (match := pattern.search(said))}
    numbers = ", ".join(f"{name} {number}" for name, number in found.items())
    return QuotaExceeded(
        f"The quota does not reach{f': {numbers}' if numbers else ''}. {said}".strip(),
        "Take fewer or smaller nodes, free some, or ask for more quota in the Azure portal.",
        raw,
    )


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds to wait as the answer says, else 1."""
    given = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after", 1.0), ("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001)):
        try:
            return max(0.0, float(given[name]) * unit)
        except (KeyError, ValueError):  # a date: the services of Azure ML send seconds
            continue
    return 1.0


def _forbidden(fault: Fault, what: str, raw: str) -> NotAllowed:
    found = _ACTION.search(fault.cause)
    if not found:
        said = mask(fault.cause)
        return NotAllowed(_sentence(f"You may not do this with {what}", said), "Ask an owner of the workspace.", raw)
    action, scope = found[1], found[2] or ""
    over = f" on {scope.rpartition('/')[2]}" if scope else ""
    return NotAllowed(
        f"You lack the permission {action}{over}.",
        f"Ask an owner for the role {role_for(action)}, or one like it.",
        raw,
    )


def role_for(action: str) -> str:
    """The built-in role that has an action (documented: how-to-assign-roles)."""
    lower = action.lower()
    if "/computes/" in lower and not lower.endswith("/read"):
        return "AzureML Compute Operator"
    return "Reader" if lower.endswith("/read") else "AzureML Data Scientist"


def _missing(fault: Fault, what: str, place: str, raw: str) -> NotFound:
    codes = {code.lower() for code in fault.codes}
    if "subscriptionnotfound" in codes:
        return NotFound("There is no such subscription, or you may not see it.", "Mend subscription_id.", raw)
    if "resourcegroupnotfound" in codes:
        return NotFound("There is no such resource group in the subscription.", "Mend resource_group.", raw)
    if "resourcenotfound" in codes and (found := _WORKSPACE.search(fault.cause)):
        return NotFound(
            f"There is no Azure ML workspace {found[1]!r} in the resource group.", "Mend workspace_name.", raw
        )
    return NotFound(f"There is no {what} in {place}.", "Its list has the names.", raw)


def _walk(node: Any, depth: int) -> Iterator[tuple[str, str]]:
    """(code, message) of a refusal and all it holds, outermost first."""
    if depth == 0:
        return
    if isinstance(node, str):
        inner = _json(node)
        if isinstance(inner, Mapping):
            yield from _walk(inner, depth - 1)
        elif node.strip():
            yield "", node.strip()
        return
    if not isinstance(node, Mapping):
        return
    if isinstance(node.get("error"), Mapping):
        yield from _walk(node["error"], depth)
        return
    code = next((str(node[key]) for key in ("code", "error_code") if node.get(key)), "")
    yield code, ""
    yield from _walk(node.get("message") or node.get("messageFormat"), depth - 1)
    details = node.get("details")
    for detail in details if isinstance(details, list) else ():
        yield from _walk(detail, depth - 1)
    info = node.get("additionalInfo")
    for entry in info if isinstance(info, list) else ():
        if isinstance(entry, Mapping) and entry.get("type") == "InnerError" and isinstance(entry.get("info"), Mapping):
            yield from _walk(entry["info"].get("value"), depth - 1)
    for key in ("innerError", "innererror"):
        yield from _walk(node.get(key), depth - 1)


def _correlation(content: Mapping[str, Any]) -> str:
    """The id that support asks for: of run history beside the error, of the management front end within it."""
    found = content.get("correlation")
    error = content.get("error")
    info = error.get("additionalInfo") if isinstance(error, Mapping) else None
    for entry in info if isinstance(info, list) else ():
        if isinstance(entry, Mapping) and entry.get("type") == "Correlation" and isinstance(entry.get("info"), Mapping):
            found = entry["info"].get("value")
    return str(found.get("operation") or found.get("request") or "") if isinstance(found, Mapping) else ""


def _raw(status: int, body: bytes, fault: Fault) -> str:
    lines = [f"HTTP {status} {' '.join(fault.codes)}".rstrip()]
    if fault.correlation:
        lines.append(f"correlation id {fault.correlation}")
    lines.append(body[:_RAW_LIMIT].decode("utf-8-sig", "replace"))
    return mask("\n".join(lines))


def _sentence(start: str, said: str) -> str:
    return f"{start}: {said}" if said.endswith((".", "!", "?")) else f"{start}: {said}." if said else f"{start}."


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _xml(text: str, element: str) -> str:
    found = re.search(rf"<{element}>(.*?)</{element}>", text, re.S)
    return found[1].strip() if found else ""
