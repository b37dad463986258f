"""From what Azure's SDK raises to one plain sentence, and an error's way through the pipe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from footplate.azure import errors
from footplate.azure.masking import mask
from footplate.workspace import errors as kinds
from footplate.workspace.errors import Invalid, NotAllowed, NotSignedIn, Throttled, Unexpected, WorkspaceError

_ANSI = re.compile(r"\x1b\[[\d;]*m")
_HOST = re.compile(r"host='([^']+)'")
_BARRED = frozenset({"AuthorizationFailure", "AuthorizationPermissionMismatch", "AuthenticationFailed"})
_DETAIL = re.compile(r"^\s*\(x\)\s*(\S.*)$", re.M)
_HELP = re.compile(r"If you are trying to configure|The easiest way to author|Visit this link|Resolutions:")
_OTHER_BRANCH = re.compile(r"is not in set \[|In order to specify|Not a valid URL")
"""What the branches of a union say that the value was not meant for."""
_RAW_LIMIT = 4000


def to_document(error: WorkspaceError) -> dict[str, Any]:
    """An error as JSON."""
    document: dict[str, Any] = {
        "kind": type(error).__name__,
        "sentence": error.sentence,
        "next_step": error.next_step,
        "raw": error.raw,
    }
    return document | ({"retry_after": error.retry_after} if isinstance(error, Throttled) else {})


def from_document(document: Mapping[str, Any]) -> WorkspaceError:
    """The error that `to_document` wrote."""
    texts = (document["sentence"], document["next_step"], document["raw"])
    if document["kind"] == "Throttled":
        return Throttled(*texts, retry_after=document["retry_after"])
    kind: type[WorkspaceError] = getattr(kinds, document["kind"], Unexpected)
    return kind(*texts)


def told(error: BaseException, what: str, opened: Mapping[str, Any]) -> WorkspaceError:
    """The error for what the SDK raised when asked for `what`, as in `job 'birds'`."""
    if isinstance(error, WorkspaceError):
        return error
    if isinstance(error, HttpResponseError) and error.status_code is not None and error.status_code >= 400:
        return _refused(error, error.status_code, what, f"workspace {opened['workspace_name']!r}")
    said = mask(_ANSI.sub("", str(error)))
    if isinstance(error, ServiceRequestError | ServiceResponseError):
        host = found[1] if (found := _HOST.search(said)) else "the resource manager"
        return errors.from_failure(error, f"https://{host}")
    if isinstance(error, ClientAuthenticationError):
        return NotSignedIn("Azure did not take the sign-in.", "Sign in again: az login.", said[:_RAW_LIMIT])
    if _from_sdk(error):
        return Invalid(
            f"Azure's SDK refuses {what}: {_reason(said)}", "Mend what it names; nothing was done.", said[:_RAW_LIMIT]
        )
    if isinstance(error, OSError):
        return Invalid(f"A file of {what} cannot be read: {said}.", "Mend its path or its permissions.", repr(error))
    return Unexpected(
        f"Azure's SDK failed at {what}: {type(error).__name__}: {_reason(said)}",
        "The traceback is in footplate's log.",
        said[:_RAW_LIMIT],
    )


def _refused(error: HttpResponseError, status: int, what: str, place: str) -> WorkspaceError:
    response: Any = error.response
    given = getattr(error, "error_code", "") or ""
    code = str(getattr(given, "value", given))
    if status == 403 and code in _BARRED:
        return NotAllowed(
            f"The workspace's storage takes no files of {what}: {code}.",
            "Ask an owner for the role Storage Blob Data Contributor; a firewall or private link may also bar this network.",
            f"HTTP 403 {code}",
        )
    return errors.from_answer(status, getattr(response, "headers", {}), _body(response), what, place)


def _body(response: Any) -> bytes:
    """The body of an answer, of azure-core's new kind or its old one."""
    try:
        found = response.body() if callable(getattr(response, "body", None)) else response.content
    except Exception:  # noqa: BLE001  a body that was not read, or no longer can be, says nothing
        return b""
    return found if isinstance(found, bytes) else b""


def _from_sdk(error: BaseException) -> bool:
    """Whether it is the SDK's own refusal of what it was given, before anything was asked of Azure."""
    return any(kind.__name__ in ("MlException", "MarshmallowError") for kind in type(error).__mro__)


def _reason(said: str) -> str:
    """What a refusal says, as a sentence: of JSON in JSON each field with its fault, of other text what comes before the help."""
    start = said.find("{")
    if start >= 0:
        try:
            found = list(dict.fromkeys(_faults(json.JSONDecoder().raw_decode(said[start:])[0], "")))
        except ValueError:
            found = []
        if found:
            return f"{'; '.join(found[:5])}."
    if details := _DETAIL.findall(said):
        return " ".join(f"{detail.strip().rstrip('.')}." for detail in details[:5])
    words = " ".join(_HELP.split(said.strip())[0].split())[:600].rstrip(".:")
    return f"{words or 'it gave no reason'}."


def _faults(node: Any, path: str) -> Iterator[str]:
    """`field: fault` of a validation result."""
    if isinstance(node, str):
        start = node.find("{")
        try:
            inner = json.JSONDecoder().raw_decode(node[start:])[0] if start >= 0 else None
        except ValueError:
            inner = None
        if isinstance(inner, Mapping):
            yield from _faults(inner, path)
        else:
            line = node.strip().partition("\n")[0].rstrip(".:")
            yield f"{path}: {line}" if path else line
    elif isinstance(node, list):
        branches = [list(_faults(item, path)) for item in node]
        meant = [branch for branch in branches if not any(map(_OTHER_BRANCH.search, branch))]
        for branch in meant or branches:
            yield from branch
    elif isinstance(node, Mapping) and isinstance(node.get("errors"), list):
        for item in node["errors"]:
            at = item.get("path", "") if isinstance(item, Mapping) else ""
            message = item.get("message", "") if isinstance(item, Mapping) else item
            yield from _faults(message, "" if at == "*" else str(at))
    elif isinstance(node, Mapping):
        for name, item in node.items():
            yield from _faults(item, path if name == "_schema" else f"{path}.{name}" if path else str(name))
