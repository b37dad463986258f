"""The rules of alerts: what they hold for, what is found by them in a job, a cluster or an endpoint, and what is done then."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from footplate import words
from footplate.logs.sanitise import clean
from footplate.operations.stalls import limit_seconds
from footplate.workspace import Cluster, Endpoint, Job, MetricPoint, Node
from footplate.workspace.errors import Invalid
from footplate.workspace.model import iso

if TYPE_CHECKING:
    from footplate.settings import AlertSettings

KINDS: Mapping[str, tuple[str, ...]] = {
    "job": ("failed", "finished", "stalled", "metric"),
    "cluster": ("unusable", "idle"),
    "endpoint": ("unhealthy",),
}
"""What can be watched, and the events that each can have."""

EVENTS: Mapping[str, str] = {event: kind for kind, events in KINDS.items() for event in events}
"""The kind of thing that each event befalls."""

SEEN_IN_LISTS = ("failed", "finished", "unusable", "unhealthy")
"""Events that are seen in what the console reads anyway; the others need reads of their own, so only for what is watched."""

DOINGS = ("toast", "ring", "osc9", "osc777")
"""What is done on the terminal itself."""

_ENDS = {"Completed": "finished", "Canceled": "finished", "Failed": "failed"}
_BAD_NODES = ("unusable", "preempted")
_ILL = ("Failed", "Stopped")
_MOST_TEXT = 300


@dataclass(frozen=True)
class Act:
    """One thing to do: one of DOINGS, or to run a `command`, or to post to a `webhook`."""

    kind: str
    argv: tuple[str, ...] = ()
    url: str = field(default="", repr=False)

    @property
    def id(self) -> str:
        """What it is remembered by, without the address, which may hold a secret."""
        if self.kind in DOINGS:
            return self.kind
        return f"{self.kind} {hashlib.sha256(repr((self.argv, self.url)).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Rule:
    """When something is told, of which things, and what is done. `name` and `metric` are regular expressions for the whole name."""

    when: tuple[str, ...]
    of: str = "watched"
    name: str = ""
    metric: str = ""
    above: float | None = None
    below: float | None = None
    nan: bool = False
    minutes: float = 10.0
    acts: tuple[Act, ...] = (Act("toast"),)

    def holds_for(self, event: str, name: str, watched: bool) -> bool:
        """Whether it tells such an event of a thing of that name."""
        named = not self.name or re.fullmatch(self.name, name) is not None
        return event in self.when and named and (watched or self.of == "all")

    def detail(self, event: str) -> str:
        """What sets two rules on one event apart: the condition of a metric, the minutes; empty where there is nothing."""
        if event == "metric":
            return f"{self.metric}{self.condition}"
        return f"{self.minutes:g}m" if event in ("stalled", "idle") else ""

    @property
    def condition(self) -> str:
        """The condition on a metric, as it is typed: `>0.9`, `<0.1`, `=nan`."""
        if self.nan:
            return "=nan"
        return f">{self.above:g}" if self.above is not None else f"<{self.below or 0:g}"

    def met_by(self, value: float) -> bool:
        """Whether a metric's value meets the condition."""
        if self.nan:
            return math.isnan(value)
        return value > self.above if self.above is not None else value < (self.below or 0)


DEFAULTS = (Rule(("failed", "finished", "stalled", "unusable", "unhealthy")),)
"""Rules that hold unless `defaults = false`: what happens to watched things is shown."""


@dataclass(frozen=True)
class Finding:
    """Something to be told. `key` is what it is told once by; one that is `passing` can be over, and come back."""

    key: str
    event: str
    kind: str
    name: str
    text: str
    status: str = ""
    detail: str = ""
    metric: str = ""
    value: float | None = None
    at: str = ""
    """When it came about, ISO 8601 in UTC; empty where that is not told."""
    url: str = ""
    watched: bool = True
    passing: bool = False

    @property
    def bad(self) -> bool:
        """Whether it is trouble, and not news."""
        return self.event not in ("finished", "metric") or self.detail.endswith("=nan")

    def document(self, workspace: str) -> dict[str, Any]:
        """What a webhook is sent; `text` alone is what most chat services show."""
        finite = self.value is not None and math.isfinite(self.value)
        return {
            "text": self.text,
            "event": self.event,
            "kind": self.kind,
            "name": self.name,
            "workspace": workspace,
            "status": self.status,
            "metric": self.metric or None,
            "value": self.value if finite or self.value is None else str(self.value),
            "time": self.at or None,
            "url": self.url or None,
        }

    def as_fields(self) -> dict[str, Any]:
        """Its fields, to be kept."""
        return asdict(self)


def acts_of(found: Finding, rules: Iterable[Rule]) -> tuple[Act, ...]:
    """What the rules have done for a finding, each thing once."""
    acts: dict[str, Act] = {}
    for rule in rules:
        if rule.holds_for(found.event, found.name, found.watched) and rule.detail(found.event) == found.detail:
            acts.update((act.id, act) for act in rule.acts)
    return tuple(acts.values())


# What is found


def in_job(
    job: Job,
    rules: Iterable[Rule],
    watched: bool,
    metrics: Mapping[str, Sequence[MetricPoint]] | None = None,
    quiet_seconds: float | None = None,
) -> list[Finding]:
    """What rules find in a job; `metrics` and how long it was quiet are given where they were read."""
    found: list[Finding] = []
    key = f"job/{job.name}@{job.created.timestamp():.0f}"  # a name may come again when old jobs are removed
    common = {"kind": "job", "name": job.name, "status": job.status, "url": job.studio_url, "watched": watched}
    for rule in rules:
        held = [event for event in rule.when if rule.holds_for(event, job.name, watched)]
        if (event := _ENDS.get(job.status, "")) in held:
            ended = iso(job.ended) or ""
            found.append(Finding(f"{key}/{event}", event, text=_ended(job), at=ended, **common))  # type: ignore[arg-type]
        if "metric" in held:
            for metric, points in (metrics or {}).items():
                point = next((p for p in points if rule.met_by(p.value)), None)
                if point is None or not re.fullmatch(rule.metric, metric):
                    continue
                detail = rule.detail("metric")
                text = clean(f"{job.name}: {metric} is {words.number(point.value)} at step {point.step}")
                if not rule.nan:
                    side = "above" if rule.above is not None else "below"
                    text += f", {side} {rule.condition[1:]}"
                measured = {"metric": metric, "value": point.value, "at": iso(point.time) or ""}
                found.append(
                    Finding(f"{key}/metric/{metric}/{detail}", "metric", text=text, detail=detail, **common, **measured)  # type: ignore[arg-type]
                )
        if (
            "stalled" in held
            and quiet_seconds is not None
            and quiet_seconds >= limit_seconds(rule.minutes, metrics or {})
        ):
            detail = rule.detail("stalled")
            text = clean(f"{job.name} has made no progress for {words.span(quiet_seconds)}")
            found.append(
                Finding(f"{key}/stalled/{detail}", "stalled", text=text, detail=detail, passing=True, **common)  # type: ignore[arg-type]
            )
    return found


def in_cluster(
    cluster: Cluster, nodes: Sequence[Node], rules: Iterable[Rule], watched: bool, idle_seconds: float | None = None
) -> list[Finding]:
    """What rules find in a cluster and its nodes; `idle_seconds`: how long nodes that are billed held no job."""
    found: list[Finding] = []
    bad = [node for node in nodes if node.error or node.state in _BAD_NODES]
    common = {"kind": "cluster", "name": cluster.name, "status": cluster.state, "watched": watched, "passing": True}
    for rule in rules:
        held = [event for event in rule.when if rule.holds_for(event, cluster.name, watched)]
        if "unusable" in held and (cluster.error or cluster.state == "Failed" or bad):
            why = cluster.error or next((n.error for n in bad if n.error), "") or cluster.state
            many = f"{len(bad)} node{'s' * (len(bad) != 1)} {bad[0].state}" if bad else "unusable"
            text = _short(f"cluster {cluster.name}: {many}: {why}")
            found.append(Finding(f"cluster/{cluster.name}/unusable", "unusable", text=text, **common))  # type: ignore[arg-type]
        if "idle" in held and idle_seconds is not None and idle_seconds >= rule.minutes * 60:
            detail = rule.detail("idle")
            text = clean(f"cluster {cluster.name}: nodes without a job for {words.span(idle_seconds)}, and billed")
            key = f"cluster/{cluster.name}/idle/{detail}"
            found.append(Finding(key, "idle", text=text, detail=detail, **common))  # type: ignore[arg-type]
    return found


def in_endpoint(endpoint: Endpoint, rules: Iterable[Rule], watched: bool) -> list[Finding]:
    """What rules find in an endpoint and its deployments."""
    if not any(rule.holds_for("unhealthy", endpoint.name, watched) for rule in rules):
        return []
    why = ailment(endpoint)
    if not why:
        return []
    text = _short(f"endpoint {endpoint.name}: {why}")
    key = f"endpoint/{endpoint.name}/unhealthy"
    return [
        Finding(key, "unhealthy", "endpoint", endpoint.name, text, endpoint.state, watched=watched, passing=True),
    ]


def ailment(endpoint: Endpoint) -> str:
    """What is wrong with an endpoint, in a few words; empty for a sound one."""
    ill = next((d for d in endpoint.deployments if d.state == "Failed" or d.error), None)
    if endpoint.state in _ILL or endpoint.error:
        return f"{endpoint.state}{f': {endpoint.error}' if endpoint.error else ''}"
    return "" if ill is None else f"deployment {ill.name} is {ill.state}{f': {ill.error}' if ill.error else ''}"


def gone(kind: str, name: str) -> Finding:
    """That a watched thing is not there any more."""
    at = iso(datetime.now(UTC)) or ""
    return Finding(f"{kind}/{name}/gone", "gone", kind, name, f"{kind} {clean(name)} is not there any more", at=at)


def _ended(job: Job) -> str:
    took = f" after {words.span(seconds)}" if (seconds := job.seconds()) is not None else ""
    how = {"Completed": "completed", "Canceled": "was canceled", "Failed": "failed"}.get(job.status, job.status)
    return _short(f"{job.name} {how}{took}{f': {job.error}' if job.error else ''}")


def _short(text: str) -> str:
    """One line of text from outside: what a toast or a chat has room for."""
    line = clean(text.strip().splitlines()[0] if text.strip() else "")
    return line if len(line) <= _MOST_TEXT else f"{line[: _MOST_TEXT - 1]}…"


# What is typed on a command line

_METRIC = re.compile(r"(?P<metric>[^<>=]+)(?P<sign>[<>=])(?P<bound>[^<>=]+)")


def condition(typed: str) -> Rule:
    """A condition as it is typed: `failed`, `finished`, `stalled=10m`, `unusable`, `unhealthy`, `val_acc>0.9`, `loss=nan`.

    Raises Invalid.
    """
    text = typed.strip()
    event, _, minutes = text.partition("=")
    if event in ("stalled", "idle"):
        return Rule((event,), of="all", minutes=duration(minutes) / 60 if minutes else Rule.minutes)
    if text in EVENTS and text != "metric":
        return Rule((text,), of="all")
    found = _METRIC.fullmatch(text)
    if found is None:
        known = ", ".join(event for event in EVENTS if event != "metric")
        raise Invalid(f"{typed!r} is no condition.", f"Write one of {known}, or METRIC>0.9, METRIC<0.1, METRIC=nan.")
    metric, sign, bound = (part.strip() for part in found.groups())
    _check_expression(metric, f"the metric of {typed!r}")
    try:
        number = float(bound)
    except ValueError:
        number = math.nan if bound.lower() == "nan" else math.inf
    if sign == "=" and math.isnan(number):
        return Rule(("metric",), of="all", metric=metric, nan=True)
    if sign == "=" or not math.isfinite(number):
        raise Invalid(f"{typed!r} is no condition.", "A metric is compared as in val_acc>0.9, loss<0.1 or loss=nan.")
    above, below = (number, None) if sign == ">" else (None, number)
    return Rule(("metric",), of="all", metric=metric, above=above, below=below)


def duration(typed: str) -> float:
    """A length of time as it is typed: `90` or `90s`, `30m`, `12h`, `2d`. Raises Invalid."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhd]?)", typed.strip().lower(), re.ASCII)
    if found is None or not float(found[1]):
        raise Invalid(f"{typed!r} is no length of time.", "Write it as in 90s, 30m, 12h or 2d.")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def _check_expression(expression: str, where: str) -> None:
    try:
        re.compile(expression)
    except re.error as error:
        raise Invalid(
            f"{where} is no regular expression: {error}.", r"A dot or star meant as itself is written \. or \*."
        ) from error


# What the settings say

_KEYS = ("when", "of", "name", "metric", "above", "below", "nan", "minutes", "do", "command", "shell", "webhook")


def read_rule(table: Mapping[str, Any]) -> Rule:
    """A table `[[alerts.rules]]` as a rule. Raises Invalid, whose sentence begins with the key that is wrong."""
    for key in table:
        if key not in _KEYS:
            from footplate.jobfile.faults import nearest

            near = nearest(key, _KEYS)
            raise Invalid(
                f"{key} is no key of a rule.", f"Did you mean {near}?" if near else f"Known: {', '.join(_KEYS)}."
            )
    when = _texts(table, "when", required=True)
    for event in when:
        if event not in EVENTS:
            raise Invalid(f"when: there is no event {event!r}.", f"Known: {', '.join(EVENTS)}.")
    of = table.get("of", "watched")
    if of not in ("watched", "all"):
        raise Invalid(f"of must be 'watched' or 'all', not {of!r}.", "")
    unseen = [event for event in when if event not in SEEN_IN_LISTS]
    if of == "all" and unseen:
        raise Invalid(
            f"of cannot be 'all' for {unseen[0]}, which is looked for in watched things only.",
            f"Leave it out, or take one of {', '.join(SEEN_IN_LISTS)}.",
        )
    name, metric = (_text(table, key) for key in ("name", "metric"))
    _check_expression(name, "name")
    _check_expression(metric, "metric")
    bounds = [key for key in ("above", "below", "nan") if key in table]
    if "metric" in when and (not metric or len(bounds) != 1):
        raise Invalid(
            "metric: its name and one of above, below and nan are needed.", "As in metric = 'val_acc', above = 0.9."
        )
    if "metric" not in when and (metric or bounds):
        raise Invalid(f"{bounds[0] if bounds else 'metric'} needs when = 'metric'.", "")
    if "nan" in table and table["nan"] is not True:
        raise Invalid(f"nan can only be true, not {table['nan']!r}.", "Leave it out otherwise.")
    minutes = _number(table, "minutes", Rule.minutes)
    if minutes is None or minutes <= 0:
        raise Invalid("minutes must be a number above 0.", "")
    above, below = _number(table, "above"), _number(table, "below")
    return Rule(when, str(of), name, metric, above, below, "nan" in table, minutes, _acts(table))


def _acts(table: Mapping[str, Any]) -> tuple[Act, ...]:
    command, shell, webhook = _texts(table, "command"), _text(table, "shell"), _text(table, "webhook")
    if command and shell:
        raise Invalid("command and shell cannot both be given.", "Write two rules.")
    if "command" in table and (isinstance(table["command"], str) or not command or not command[0]):
        raise Invalid(
            "command must be a list of a program and its words.",
            "As in ['notify-send', 'footplate']; a line is for shell.",
        )
    acts = []
    if command or shell:
        acts.append(Act("command", command or ("/bin/sh", "-c", shell)))
    if webhook:
        check_webhook(webhook)
        acts.append(Act("webhook", url=webhook))
    doing = _texts(table, "do") if "do" in table else () if acts else ("toast",)
    for one in doing:
        if one not in DOINGS:
            raise Invalid(
                f"do: {one!r} is not known.",
                f"Known: {', '.join(DOINGS)}; a command and a webhook have keys of their own.",
            )
    return (*(Act(one) for one in doing), *acts)


def schema(description: str) -> dict[str, Any]:
    """The JSON schema of the settings' table `[alerts]`."""
    text, number = {"type": "string"}, {"type": "number"}
    texts = {"type": "array", "items": text, "minItems": 1}
    doing, event = {"enum": list(DOINGS)}, {"enum": list(EVENTS)}
    keys = {
        "when": {"anyOf": [event, {"type": "array", "items": event, "minItems": 1}]},
        "of": {"enum": ["watched", "all"], "default": "watched"},
        "name": text,
        "metric": text,
        "above": number,
        "below": number,
        "nan": {"const": True},
        "minutes": {"type": "number", "exclusiveMinimum": 0, "default": Rule.minutes},
        "do": {"anyOf": [doing, {"type": "array", "items": doing}]},
        "command": texts,
        "shell": text,
        "webhook": text,
    }
    rule = {"type": "object", "additionalProperties": False, "required": ["when"], "properties": keys}
    return {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": {"defaults": {"type": "boolean", "default": True}, "rules": {"type": "array", "items": rule}},
    }


def rules_of(settings: AlertSettings) -> tuple[Rule, ...]:
    """The rules that hold: those of the settings, and the defaults unless they are turned off. Raises Invalid."""
    return (*(DEFAULTS if settings.defaults else ()), *(read_rule(table) for table in settings.rules))


def check_webhook(url: str) -> None:
    """Raise Invalid for an address that is not https, nor http on this machine. It is not in the sentence: it may hold a secret."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    near = host in ("localhost", "127.0.0.1", "::1") or host.endswith(".localhost")
    if not host or parts.scheme not in ("https", "http") or (parts.scheme == "http" and not near):
        raise Invalid(
            "webhook must be an https address, or an http one on this machine.", "Its answer is not followed elsewhere."
        )


def masked(url: str) -> str:
    """A webhook's address as it may be shown: who gets it, and no path or query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{clean(parts.hostname or '')}/…"
    except ValueError:
        return "…"


def _text(table: Mapping[str, Any], key: str) -> str:
    given = table.get(key, "")
    if not isinstance(given, str):
        raise Invalid(f"{key} must be text in quotes.", "")
    return given


def _texts(table: Mapping[str, Any], key: str, *, required: bool = False) -> tuple[str, ...]:
    given = table.get(key, [])
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed) or (required and not listed):
        raise Invalid(f"{key} must be text in quotes, or a list of such.", "")
    return tuple(listed)


def _number(table: Mapping[str, Any], key: str, otherwise: float | None = None) -> float | None:
    given = table.get(key, otherwise)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise Invalid(f"{key} must be a number.", "")
    return float(given)
