"""Scoring addresses: the key or token is checked, a deployment chosen, and the scorer that the test gave asked."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from tests.wire.http import Call, Reply
from tests.wire.state import Call as ScoreCall

if TYPE_CHECKING:
    from tests.wire.server import WireServer

_HEADER = "azureml-model-deployment"


def answer_score(call: Call) -> Reply:
    """Answer a request to the host of an endpoint."""
    _, _, name, path = call.path.split("/", 3)
    wire, state = call.wire, call.wire.state
    endpoint = state.endpoints.get(name)
    if endpoint is None or endpoint["properties"]["scoringUri"] is None:
        return Reply(404, b"no such endpoint")
    if (why := _refusal(wire, name, str(endpoint["properties"]["authMode"]), call)) is not None:
        return why
    if path == "swagger.json":
        return Reply(body={"swagger": "2.0", "info": {"title": name, "version": "1.0"}, "paths": {"/score": {}}})
    if path != "score" or call.method != "POST":
        return Reply(405 if path == "score" else 404, b"")
    chosen = call.headers.get(_HEADER) or _by_traffic(wire, name, endpoint["properties"]["traffic"])
    deployment = state.deployments.get(f"{name}/{chosen}")
    if deployment is None or deployment["properties"]["provisioningState"] not in ("Succeeded", "Updating"):
        text = f"Deployment {chosen} was not found." if chosen else "No deployment has traffic."
        return Reply(404, text.encode())
    wire.scored[name, str(chosen)] += 1
    if not call.headers.get(_HEADER):
        _mirror(wire, name, endpoint["properties"].get("mirrorTraffic") or {}, call)
    status, answer = state.scorer(ScoreCall(name, str(chosen), call.body, call.headers))
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    headers = {_HEADER: str(chosen), "x-ms-server-version": "azmlinfsrv/1.5.1", "Content-Type": "application/json"}
    # What the model's own code answered, the front passes on with 424, with the model's status in a header.
    if status >= 400:
        headers["ms-azureml-model-error-statuscode"] = str(status)
        headers["ms-azureml-model-error-reason"] = "model_error"
        status = 424
    return Reply(status, data, headers)


def _refusal(wire: WireServer, name: str, mode: str, call: Call) -> Reply | None:
    header = call.headers.get("Authorization", "")
    if not header:
        return Reply(401, b"", {"WWW-Authenticate": "Bearer", "Content-Type": "text/plain"})
    token = header.removeprefix("Bearer ").strip()
    if mode.lower() == "key":
        good = token in wire.state.keys[name].values()
        return None if good else Reply(403, b"key_auth_access_denied", {"Content-Type": "text/plain"})
    why = wire.tokens.why_not(header)
    return Reply(403 if token else 401, b"token_auth_access_denied") if why else None


def _mirror(wire: WireServer, name: str, shares: dict[str, int], call: Call) -> None:
    """Send its copy of a request to a deployment that mirrors, of a hundred requests exactly its share; nobody gets the answer."""
    for deployment, share in shares.items():
        asked = wire.mirrored[name, deployment] = wire.mirrored[name, deployment] + int(share)
        if asked % 100 < int(share) and f"{name}/{deployment}" in wire.state.deployments:
            wire.scored[name, deployment] += 1
            wire.state.scorer(ScoreCall(name, deployment, call.body, call.headers))


def _by_traffic(wire: WireServer, name: str, traffic: dict[str, int]) -> str | None:
    """The deployment that is furthest behind its share: over a hundred requests the shares are exact."""
    live = {key: int(share) for key, share in traffic.items() if int(share)}
    if not live:
        return None
    had: Counter[str] = wire.served.setdefault(name, Counter())
    total = sum(had[key] for key in live) + 1
    chosen = max(live, key=lambda key: live[key] / 100 * total - had[key])
    had[chosen] += 1
    return chosen
