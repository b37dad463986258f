"""Test an endpoint with a picture: prepare the request, send it, explain the answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from footplate.logs.sanitise import clean
from footplate.operations import pictures
from footplate.workspace import Answer, Deployment, Endpoint, Invalid, NotFound, Workspace, WorkspaceError

FORMATS = ("auto", "image", "tensor")
_EXIT_CODES = {401: 4, 403: 4, 408: 3, 429: 3, 503: 3}
"""What a command ends with for an answer's status: not allowed, or try again; for any other error it is 1."""
_LOG_LINES = 80
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(:|$)")
"""A line that ends a traceback: what was raised, at the line's very start."""

_SEND_WHOLE = 1 << 20
"""Up to this many bytes `auto` sends the picture's file as it is; above, the picture as the model's own first step makes it."""


@dataclass(frozen=True)
class Score:
    """One class and its probability."""

    label: str
    probability: float


@dataclass(frozen=True)
class Request:
    """A scoring request, ready to send; `steps` say what was done to the picture on this side."""

    body: bytes
    content_type: str
    steps: tuple[str, ...]
    preprocess_seconds: float


@dataclass(frozen=True)
class Prediction:
    """An answer, explained. `error` is set when the model did not answer with scores; `raw` is the body as it came.

    A model that names its class alone has a label and no probability. `notes`: what is odd about the answer, in sentences.
    """

    endpoint: str
    deployment: str
    status: int
    label: str | None
    probability: float | None
    scores: tuple[Score, ...]
    steps: tuple[str, ...]
    request_bytes: int
    preprocess_seconds: float
    request_seconds: float
    raw: bytes
    error: str | None = None
    model_ms: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """What a command ends with: 0, 4 where the key was refused, 3 where trying again may help, else 1."""
        return _EXIT_CODES.get(self.status, 1) if self.error else 0

    def document(self) -> dict[str, Any]:
        """What `invoke --json` prints."""
        return {
            "endpoint": self.endpoint,
            "deployment": self.deployment,
            "status": self.status,
            "label": self.label,
            "probability": self.probability,
            "scores": [{"label": s.label, "probability": s.probability} for s in self.scores],
            "steps": list(self.steps),
            "request_bytes": self.request_bytes,
            "timings": {
                "preprocess_ms": round(self.preprocess_seconds * 1000, 3),
                "request_ms": round(self.request_seconds * 1000, 3),
            },
            **({"notes": list(self.notes)} if self.notes else {}),
            **({"error": self.error} if self.error else {}),
        }


def answering(endpoint: Endpoint, deployment: str | None) -> Deployment | None:
    """The deployment that a request goes to: the named one, else the one with most traffic. Raises NotFound for a wrong name."""
    named = {d.name: d for d in endpoint.deployments}
    if deployment is not None:
        if deployment not in named:
            known = ", ".join(named) or "none"
            raise NotFound(f"Endpoint {endpoint.name!r} has no deployment {deployment!r}.", f"It has: {known}.")
        return named[deployment]
    weights = {name: weight for name, weight in endpoint.traffic.items() if weight and name in named}
    return named[max(weights, key=lambda name: weights[name])] if weights else None


async def preprocessing(workspace: Workspace, endpoint: Endpoint, deployment: str | None) -> Mapping[str, Any] | None:
    """The preprocessing that the answering model declares in its `model.json`, if it is known."""
    target = answering(endpoint, deployment)
    if target is None or not target.model:
        return None
    try:
        return (await workspace.model(target.model)).preprocessing
    except NotFound:
        return None


def prepare(path: Path, spec: Mapping[str, Any] | None, form: str = "auto") -> Request:
    """Make the request from a picture file. Raises Invalid, before anything is sent, for what is no readable picture."""
    if form not in FORMATS:
        raise Invalid(f"There is no request format {form!r}.", f"Known: {', '.join(FORMATS)}.")
    try:
        return _prepare(path, spec, form)
    except OSError as error:
        raise Invalid(
            f"The picture {path} cannot be read: {error.strerror or error}.", "Mend its permissions, or give another."
        ) from error


def _prepare(path: Path, spec: Mapping[str, Any] | None, form: str) -> Request:
    started = time.perf_counter()
    whole = path.read_bytes() if form == "auto" and path.is_file() and path.stat().st_size <= _SEND_WHOLE else b""
    if form == "tensor":
        body, steps = pictures.tensor_request(path, spec)
        return Request(body, "application/json", steps, time.perf_counter() - started)
    if form == "image" or whole or spec is None:
        content = pictures.check(path)
        return Request(whole or path.read_bytes(), content, (), time.perf_counter() - started)
    body, steps = pictures.resized_request(path, spec)
    return Request(body, "image/png", steps, time.perf_counter() - started)


async def send(workspace: Workspace, endpoint: str, request: Request, deployment: str | None = None) -> Prediction:
    """Send a request and explain the answer, with the deployment's log where its script failed.

    Raises Unreachable when there is no answer.
    """
    answer = await workspace.invoke(endpoint, request.body, {"Content-Type": request.content_type}, deployment)
    prediction = explain(endpoint, request, answer)
    if prediction.error and _own_status(answer) >= 500 and answer.deployment:
        try:
            log = await workspace.deployment_log(endpoint, answer.deployment, _LOG_LINES)
        except WorkspaceError:  # the answer is explained without it
            return prediction
        if said := last_exception(log):
            prediction = replace(prediction, error=f"{prediction.error.rstrip('.')}. Last in its log: {said}")
    return prediction


def last_exception(log: str) -> str:
    """The line with which a server log's last traceback ends, with what to do where that is known; empty without one.

    The server wraps a script's exception in one of its own, which says nothing.
    """
    found, inside = "", False
    for line in log.splitlines():
        inside = inside or "Traceback (most recent call last):" in line
        if inside and (match := _RAISED.match(line)):
            inside = False
            if not match[1].rpartition(".")[2].startswith("UserScript"):
                found = clean(line.strip())
    hint = " Let run() return lists, numbers and texts." if "is not JSON serializable" in found else ""
    return f"{found.rstrip('.')}.{hint}" if found else ""


async def invoke(
    workspace: Workspace, endpoint: str, path: Path, deployment: str | None = None, form: str = "auto"
) -> Prediction:
    """Test an endpoint with one picture: look up what its model wants, prepare, send, explain."""
    spec = await preprocessing(workspace, await workspace.endpoint(endpoint), deployment)
    return await ask(workspace, endpoint, path, spec, deployment, form)


async def ask(
    workspace: Workspace,
    endpoint: str,
    path: Path,
    spec: Mapping[str, Any] | None,
    deployment: str | None = None,
    form: str = "auto",
) -> Prediction:
    """Test an endpoint with one picture, where the preprocessing its model declares is known already."""
    request = await asyncio.to_thread(prepare, path, spec, form)
    return await send(workspace, endpoint, request, deployment)


def explain(endpoint: str, request: Request, answer: Answer) -> Prediction:
    """Read the answer's label, probability and scores, or say in a sentence why there are none."""
    parsed: Any = None
    notes: tuple[str, ...] = ()
    try:
        parsed, layers = _unwrapped(json.loads(answer.body))
    except (ValueError, RecursionError):  # the latter for lists in lists without end
        error: str | None = "The answer is not JSON; see the raw answer."
    else:
        error = None
        if layers:
            notes = (
                "The answer is JSON within JSON text: let run() in score.py return the object, not json.dumps of it.",
            )
    if answer.status >= 400:
        error = _failure(answer, parsed)
        if (
            request.content_type.startswith("image/") and "cannot be decoded as UTF-8" in error
        ):  # the server's own words
            error += ". Its score.py takes JSON, not a picture as it is: send numbers with --format tensor."
    elif isinstance(parsed, Mapping) and parsed.get("error"):
        error = f"The model answered {answer.status} with an error: {_message(parsed)}"
    scores: tuple[Score, ...] = ()
    label: str | None = None
    if error is None:
        scores = _scores(parsed)
        if scores:
            label = scores[0].label
        elif isinstance(parsed, Mapping) and isinstance(parsed.get("label"), str):
            label = clean(parsed["label"])
            notes = (*notes, "The answer has a label without a probability.")
        else:
            error = "The answer holds no scores that footplate knows; see the raw answer."
    steps = parsed.get("steps") if isinstance(parsed, Mapping) and error is None else None
    timings = parsed.get("timings") if isinstance(parsed, Mapping) else None
    model_ms = timings.get("model_ms") if isinstance(timings, Mapping) else None
    return Prediction(
        endpoint=endpoint,
        deployment=answer.deployment,
        status=answer.status,
        label=label,
        probability=scores[0].probability if scores else None,
        scores=scores,
        steps=(*request.steps, *(clean(str(step)) for step in (steps if isinstance(steps, list) else ()))),
        request_bytes=len(request.body),
        preprocess_seconds=request.preprocess_seconds,
        request_seconds=answer.seconds,
        raw=answer.body,
        error=error,
        model_ms=_number(model_ms),
        notes=notes,
    )


def _unwrapped(parsed: Any) -> tuple[Any, int]:
    """What stands behind JSON that was made a JSON text of, twice at most, and how often it was."""
    layers = 0
    while isinstance(parsed, str) and layers < 2:
        try:
            parsed = json.loads(parsed)
        except (ValueError, RecursionError):
            break
        layers += 1
    return parsed, layers


def _scores(parsed: Any) -> tuple[Score, ...]:
    if not isinstance(parsed, Mapping):
        return ()
    listed = parsed.get("scores")
    found = []
    if isinstance(listed, list):
        for item in listed:
            probability = _number(item.get("probability")) if isinstance(item, Mapping) else None
            if probability is not None:
                found.append(Score(clean(str(item.get("label"))), probability))
    if not found and "label" in parsed and "probability" in parsed:  # Microsoft's score.py gives the latter as text
        try:
            found.append(Score(clean(str(parsed["label"])), float(parsed["probability"])))
        except (TypeError, ValueError):
            return ()
    return tuple(sorted(found, key=lambda score: -score.probability))


def _number(value: Any) -> float | None:
    """A number of an answer; None for what is none, and for a whole number beyond what a float holds."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _failure(answer: Answer, parsed: Any) -> str:
    """One sentence for an answer of status 400 and up; the model's own status stands behind Azure's 424."""
    message = _message(parsed)
    if not message and b"<html" not in answer.body[:500].lower():
        message = answer.body[:300].decode("utf-8", "replace").strip()
    own = _own_status(answer)
    if own == answer.status:
        who = f"The endpoint answered {answer.status}"
    else:
        who = f"The model refused the request ({own})" if own < 500 else f"The model failed ({own})"
    return f"{who}: {clean(message)}" if message else f"{who} without a reason."


def _message(parsed: Any) -> str:
    """The reason in an answer's JSON; empty where there is none."""
    if not isinstance(parsed, Mapping):
        return ""
    inner = parsed.get("error", parsed.get("message"))
    return clean(str(inner.get("message", inner) if isinstance(inner, Mapping) else inner or ""))


def _own_status(answer: Answer) -> int:
    """The model's own status where the endpoint tells it behind a 424, else the answer's."""
    for name, value in answer.headers.items():
        if name.lower() == "ms-azureml-model-error-statuscode" and value.isascii() and value.isdigit():
            return int(value)
    return answer.status
