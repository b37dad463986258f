"""Alerts: rules and their faults, what they find, told once by one console, commands and webhooks that are real."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.at_work import until
from tests.commands import Inside

from footplate import settings
from footplate.operations import alert_actions, alert_rules
from footplate.operations.alert_rules import DEFAULTS, Act, Rule, condition, in_cluster, in_endpoint, in_job
from footplate.operations.alert_store import LEASE_SECONDS, QUIET_SECONDS, AlertStore
from footplate.operations.alerts import Alerts, pace_seconds
from footplate.workspace import (
    Cluster,
    Deployment,
    Endpoint,
    Invalid,
    Job,
    LogFile,
    MetricPoint,
    Node,
    NotAllowed,
    NotFound,
    Unexpected,
    Unreachable,
)

NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def now() -> None:
    """The moment of each test: one of when the file was read makes old jobs of all, where other tests ran in between."""
    global NOW
    NOW = datetime.now(UTC)


EVERYTHING = Rule(("failed", "finished", "stalled", "unusable", "unhealthy"), of="all")


def job(name: str, status: str = "Running", **more: object) -> Job:
    ended = NOW if status in ("Completed", "Failed", "Canceled") else None
    given = {
        "experiment": "birds",
        "compute": "local",
        "created": NOW,
        "started": NOW - timedelta(seconds=187),
        "ended": ended,
    } | more
    return Job(name, name, "command", status, **given)


def points(*values: float) -> list[MetricPoint]:
    return [MetricPoint(step, NOW, value) for step, value in enumerate(values)]


# What the settings say


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "config.toml"


def test_rules_of_the_settings_come_beside_the_defaults_or_alone(file):
    assert alert_rules.rules_of(settings.load().alerts) == DEFAULTS
    file.write_text(
        "[[alerts.rules]]\nwhen = ['failed', 'finished']\nof = 'all'\nname = 'night-.*'\ndo = ['ring', 'osc9']\n"
        "command = ['tell', '--me']\nwebhook = 'https://chat.example/T0/secret'\n"
        "[[alerts.rules]]\nwhen = 'metric'\nmetric = 'val_.*'\nabove = 1\n"
    )
    first, second = alert_rules.rules_of(settings.load().alerts)[1:]
    assert [act.kind for act in first.acts] == ["ring", "osc9", "command", "webhook"]
    assert first.holds_for("failed", "night-7", watched=False)
    assert not first.holds_for("failed", "a-night-7", watched=True)
    assert (second.acts, second.condition) == ((Act("toast"),), ">1")
    assert not second.holds_for("metric", "any", watched=False)
    file.write_text("[alerts]\ndefaults = false\n" + file.read_text())
    assert len(alert_rules.rules_of(settings.load().alerts)) == 2
    assert "secret" not in repr(alert_rules.rules_of(settings.load().alerts))


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        ("when = 'fialed'", 4, "no event 'fialed'"),
        ("when = 'failed'\ncomand = ['x']", 5, "Did you mean command"),
        ("when = 'failed'\ncommand = 'x y'", 5, "a list of a program and its words"),
        ("when = 'failed'\nname = '['", 5, "no regular expression"),
        ("when = 'failed'\nabove = 3", 5, "needs when = 'metric'"),
        ("when = 'metric'\nmetric = 'x'\nabove = 1\nbelow = 2", 5, "one of above, below and nan"),
        ("when = 'stalled'\nof = 'all'", 5, "watched things only"),
        ("when = 'stalled'\nminutes = 0", 5, "above 0"),
        ("when = 'failed'\nwebhook = 'http://chat.example/secret'", 5, "must be an https address"),
        ("when = 'failed'\ndo = ['tosat']", 5, "'tosat' is not known"),
        ("do = ['toast']", 3, "when must be text"),
    ],
)
def test_a_fault_of_a_rule_is_told_with_its_line_and_without_secrets(file, lines, line, words):
    file.write_text(f"[[alerts.rules]]\nwhen = 'failed'\n[[alerts.rules]]\n{lines}\n")
    with pytest.raises(Invalid) as refused:
        settings.load()
    assert f"{file}:{line}: rule 2 of alerts: " in refused.value.sentence
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_webhooks_path_is_not_shown_and_the_schema_knows_the_rules(tmp_path):
    footplate = Inside(tmp_path)
    footplate.settings.write_text("[[alerts.rules]]\nwhen = 'failed'\nwebhook = 'https://chat.example/T0/secret'\n")
    assert footplate.json("config", "show")["settings"]["alerts"]["rules"][0]["webhook"] == "https://chat.example/…"
    assert "secret" not in footplate("config", "show").stdout
    rule = footplate.json("config", "schema")["properties"]["alerts"]["properties"]["rules"]["items"]
    assert set(rule["properties"]) == set(alert_rules._KEYS)


@pytest.mark.parametrize(
    ("typed", "event", "said"),
    [
        ("failed", "failed", ""),
        ("stalled=2h", "stalled", "120m"),
        ("val_acc>0.9", "metric", "val_acc>0.9"),
        ("loss < -1e-3", "metric", "loss<-0.001"),
        ("loss=nan", "metric", "loss=nan"),
        ("idle", "idle", "10m"),
    ],
)
def test_conditions_are_read_as_they_are_typed(typed, event, said):
    rule = condition(typed)
    assert (rule.when, rule.detail(event)) == ((event,), said)


@pytest.mark.parametrize(
    "typed", ["", "metric", "val_acc", "val_acc>", "val_acc=0.9", "a>b", "(>1", "stalled=soon", "loss>nan"]
)
def test_what_is_no_condition_is_refused(typed):
    with pytest.raises(Invalid):
        condition(typed)


# What is found


def test_ends_metrics_and_silence_are_found_in_a_job():
    ended = in_job(job("wren", "Failed", error="rank 1: ValueError: \x1b[31mbad\nTraceback"), [EVERYTHING], False)
    assert [one.event for one in ended] == ["failed"]
    assert ended[0].text == "wren failed after 3m07s: rank 1: ValueError: bad"
    assert [one.event for one in in_job(job("wren", "Canceled"), [EVERYTHING], False)] == ["finished"]
    assert in_job(job("wren", "SomethingNew"), [EVERYTHING], False) == []
    metrics = {"val_acc": points(0.5, 0.95, 0.8), "val_loss": points(1.0, math.nan), "lr": points(5.0)}
    rules = [condition("val_.*>0.9"), condition("val_loss=nan"), condition("val_acc<0.1")]
    found = in_job(job("wren"), rules, True, metrics)
    assert [(one.text, one.bad) for one in found] == [
        ("wren: val_acc is 0.950 at step 1, above 0.9", False),
        ("wren: val_loss is 1 at step 0, above 0.9", False),
        ("wren: val_loss is nan at step 1", True),
    ]
    assert json.loads(json.dumps(found[2].document("local"), allow_nan=False))["value"] == "nan"
    assert in_job(job("wren"), [condition("stalled=30m")], True, {}, 1799) == []
    assert (
        in_job(job("wren"), [condition("stalled=30m")], True, {}, 1800)[0].text
        == "wren has made no progress for 30m00s"
    )


def test_trouble_is_found_in_clusters_and_endpoints():
    gpu = Cluster("gpu", "AmlCompute", "NC6", "Succeeded", 0, 4, 1, 6, 1, 120)
    bad = [Node("n0", "running"), Node("n1", "unusable", error="disk full"), Node("n2", "unusable")]
    assert [one.text for one in in_cluster(gpu, bad, [EVERYTHING], True)] == [
        "cluster gpu: 2 nodes unusable: disk full"
    ]
    assert in_cluster(gpu, bad[:1], [EVERYTHING], True) == []
    assert "quota" in in_cluster(replace(gpu, error="no quota"), (), [EVERYTHING], True)[0].text
    idle = in_cluster(gpu, (), [condition("idle=10m")], True, 650)
    assert idle[0].text == "cluster gpu: nodes without a job for 10m50s, and billed"
    blue = Deployment("blue", "birds", "birds:1", "Failed", NOW, error="init() failed\ntrace")
    birds = Endpoint("birds", "Succeeded", NOW, deployments=(blue,))
    assert [one.text for one in in_endpoint(birds, [EVERYTHING], False)] == [
        "endpoint birds: deployment blue is Failed: init() failed"
    ]
    assert in_endpoint(replace(birds, deployments=()), [EVERYTHING], False) == []
    assert in_endpoint(replace(birds, state="Stopped"), [EVERYTHING], False)[0].status == "Stopped"


# Told once


class Things:
    """A workspace that has what a test puts into it."""

    name, kind, reads_left = "prod", "azure", 200

    def __init__(self, *jobs: Job) -> None:
        self.all = {one.name: one for one in jobs}
        self.points: dict[str, list[MetricPoint]] = {}
        self.written = NOW
        self.birds = Endpoint("birds", "Succeeded", NOW)
        self.reads: list[str] = []
        self.away = False
        self.fault: Exception | None = None

    async def job(self, name: str) -> Job:
        self.reads.append(name)
        if self.away:
            raise Unreachable("The workspace does not answer.")
        if name not in self.all:
            raise NotFound(f"no {name}")
        return self.all[name]

    async def jobs(self, _):
        self.reads.append("a page")
        yield list(self.all.values())

    async def metrics(self, name: str):
        return self.points

    async def log_files(self, name: str):
        return [LogFile("user_logs/std_log.txt", 1, self.written)]

    async def endpoint(self, name: str) -> Endpoint:
        if self.fault is not None:
            raise self.fault
        return self.birds


class Desk:
    """One console's alerts, and what they showed."""

    def __init__(self, folder: Path, things: Things, *rules: Rule, clock=time.time) -> None:
        self.shown: list[tuple[str, str, bool]] = []
        self.faults: list[str] = []
        self.alerts = Alerts(
            things, rules or DEFAULTS, AlertStore(folder / "state" / "alerts.db", "prod", clock), self._show,
            self.faults.append, lambda: 0.0,
        )  # fmt: skip

    def _show(self, found, doing: str, *, away: bool) -> None:
        self.shown += [(doing, one.text, away) for one in found]

    async def look(self) -> list[tuple[str, str, bool]]:
        """Look once, wait for all acts, and return what was shown since the last time."""
        await self.alerts.look()
        while self.alerts._acting:
            await asyncio.gather(*self.alerts._acting)
        shown, self.shown = self.shown, []
        return shown


async def desk(folder: Path, things: Things, *rules: Rule, clock=time.time) -> Desk:
    made = Desk(folder, things, *rules, clock=clock)
    await made.alerts.begin()
    return made


async def test_an_end_is_told_once_by_one_of_two_consoles_and_by_none_after_a_restart(tmp_path):
    things = Things(job("wren"), job("robin"))
    one, other = await desk(tmp_path, things), await desk(tmp_path, things)
    for name in things.all:
        await one.alerts.watch("job", name)
    assert await one.look() == await other.look() == []
    assert other.alerts.watched == {("job", "wren"), ("job", "robin")}
    late = NOW + timedelta(seconds=60)
    things.all |= {
        "wren": job("wren", "Failed", error="boom", ended=late),
        "robin": job("robin", "Completed", ended=late),
    }
    shown = await asyncio.gather(one.look(), other.look())
    assert sorted(text for _, text, _ in shown[0] + shown[1]) == [
        "robin completed after 4m07s",
        "wren failed after 4m07s: boom",
    ]
    assert await one.look() == await other.look() == await (await desk(tmp_path, things)).look() == []
    assert one.alerts.watched == frozenset()
    assert [told[0].name for told in (await one.alerts.history())[1]] == ["wren", "robin"]


async def test_what_ended_while_no_console_was_open_is_told_at_the_next_start(tmp_path):
    things = Things(job("wren"), job("gone"))
    first = await desk(tmp_path, things)
    for name in things.all:
        await first.alerts.watch("job", name)
    await first.look()
    things.all = {"wren": job("wren", "Failed", ended=datetime.now(UTC))}
    second = await desk(tmp_path, things)
    assert sorted(await second.look()) == [
        ("toast", "job gone is not there any more", False),
        ("toast", f"wren failed after {alert_rules.words.span(things.all['wren'].seconds())}", True),
    ]
    assert await (await desk(tmp_path, things)).look() == []


async def test_rules_for_all_jobs_tell_new_ends_only(tmp_path):
    things = Things()
    console = await desk(tmp_path, things, Rule(("failed",), of="all"))
    new = datetime.now(UTC) + timedelta(seconds=1)
    console.alerts.saw_jobs(
        [job("old", "Failed", ended=NOW - timedelta(days=3)), job("new", "Failed", ended=new), job("runs")]
    )
    assert [text.split()[0] for _, text, _ in await console.look()] == ["new"]
    console.alerts.saw_jobs([job("new", "Failed", ended=new)])
    assert await console.look() == []
    assert things.reads == []  # nothing is read for it


async def test_metrics_and_silence_of_watched_jobs_are_told_once_and_silence_again_after_a_while(tmp_path):
    things, moment = Things(job("wren", started=NOW - timedelta(hours=1))), [time.time()]
    rules = (condition("val_acc>0.9"), condition("stalled=10m"))
    console = await desk(tmp_path, things, *rules, clock=lambda: moment[0])
    await console.alerts.watch("job", "wren")
    things.points = {"val_acc": points(0.95)}
    assert [text for _, text, _ in await console.look()] == ["wren: val_acc is 0.950 at step 0, above 0.9"]
    for step in range(2):
        things.points = {"val_acc": [MetricPoint(0, NOW - timedelta(hours=1), 0.95)]}
        things.written = datetime.now(UTC) - timedelta(minutes=20)
        assert [text for _, text, _ in await console.look()] == ["wren has made no progress for 20m00s"]
        assert await console.look() == []
        things.written = datetime.now(UTC)
        moment[0] += 1
        assert await console.look() == []
        things.written = datetime.now(UTC) - timedelta(minutes=20)
        assert await console.look() == []  # it came back too soon to be told anew
        things.written = datetime.now(UTC)
        moment[0] += QUIET_SECONDS + 1 + step
        assert await console.look() == []


async def test_an_endpoint_that_falls_ill_is_told_and_a_workspace_that_does_not_answer_is_spared(tmp_path):
    things = Things(job("wren"))
    console = await desk(tmp_path, things)
    await console.alerts.watch("endpoint", "birds")
    assert await console.look() == []
    things.birds = replace(things.birds, state="Failed", error="quota")
    assert [text for _, text, _ in await console.look()] == ["endpoint birds: Failed: quota"]
    await console.alerts.watch("job", "wren")
    things.away = True
    for _ in range(3):
        await console.look()
    console.alerts._pace = lambda: 60.0
    console.alerts._due = 0.0
    for _ in range(5):
        await console.look()
    assert len(things.reads) <= 4
    assert pace_seconds(things, alone=True) > pace_seconds(things, alone=False)


async def test_what_cannot_be_read_keeps_no_other_thing_from_being_told(tmp_path):
    things = Things(job("wren", "Failed"))
    console = await desk(tmp_path, things)
    await console.alerts.watch("endpoint", "birds")
    await console.alerts.watch("job", "wren")
    things.fault = NotAllowed("You may not.")
    assert len(await console.look()) == 1
    things.fault = ZeroDivisionError("a fault of our own")
    things.all["wren"] = job("wren", "Failed", created=NOW + timedelta(seconds=1))
    await console.alerts.watch("job", "wren")
    with pytest.raises(ZeroDivisionError):
        await console.look()
    assert [text.split()[0] for _, text, _ in console.shown] == ["wren"]
    await console.alerts.close()


async def test_many_watched_jobs_cost_one_read(tmp_path):
    things = Things(*(job(f"wren-{number}") for number in range(12)))
    console = await desk(tmp_path, things)
    for name in things.all:
        await console.alerts.watch("job", name)
    console.alerts._pace = lambda: 30.0
    await console.look()
    assert things.reads == ["a page"]


async def test_what_cannot_be_kept_is_a_sentence(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "alerts.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(Unexpected, match=r"Alerts cannot be kept: .*alerts\.db cannot be used"):
        await desk(tmp_path, Things())
    store = AlertStore(tmp_path / "new.db", "prod")
    store.watch("job", "wren")
    with closing(sqlite3.connect(store.file)) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(Unexpected, match="a newer footplate wrote it"):
        store.watched()


CONSOLE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.unit.test_alerts import Desk, Things, job, Rule, Act
async def main():
    things = Things(job("wren", "Failed"))
    console = Desk(Path({folder!r}), things, Rule(("failed",), acts=({acts})))
    await console.alerts.begin()
    await console.alerts.watch("job", "wren")
    await console.look()
asyncio.run(main())
"""


async def test_a_console_killed_between_claim_and_act_has_another_do_what_is_left(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    blocks = f"echo {second.name} >> {second}; [ -e {tmp_path}/go ] || exec sleep 600"
    lines = (f"echo done >> {first}", blocks)
    acts = tuple(Act("command", ("/bin/sh", "-c", line)) for line in lines)
    root = str(Path(__file__).parents[2])
    text = CONSOLE.format(
        root=root, folder=str(tmp_path), acts="".join(f"Act('command', {act.argv!r})," for act in acts)
    )
    process = subprocess.Popen([sys.executable, "-c", text])  # noqa: ASYNC220  it is to be killed
    try:
        until(second.exists)
    finally:
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.kill()
        process.wait()
        for pid in children:
            os.kill(pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    rule = Rule(("failed",), acts=acts)
    early = await desk(tmp_path, Things(), rule)
    await early.look()
    assert second.read_text().splitlines() == ["second"]  # the one that claimed it may still be at it
    late = await desk(tmp_path, Things(), rule, clock=lambda: time.time() + LEASE_SECONDS + 1)
    await late.look()
    assert first.read_text().splitlines() == ["done"]  # what was done is not done again
    assert second.read_text().splitlines() == ["second", "second"]
    assert late.faults == []
    later = await desk(tmp_path, Things(), rule, clock=lambda: time.time() + 3 * LEASE_SECONDS)
    await later.look()
    assert len(second.read_text().splitlines()) == 2


# Acts


FOUND = alert_rules.Finding(
    "k", "failed", "job", "wren", "wren failed; 1 rank \x1b]52;c;QQ==\a", "Failed", url="https://studio"
)


async def test_a_command_gets_the_fields_in_its_environment_and_no_shell(tmp_path):
    out = tmp_path / "out"
    script = (
        "import os, sys\n"
        "found = {k: v for k, v in os.environ.items() if k.startswith('FOOTPLATE_ALERT_')}\n"
        f"open({str(out)!r}, 'w').write(repr((sys.argv[1:], found)))"
    )
    argv = (sys.executable, "-c", script, "$(touch x)", "*")
    assert await alert_actions.run(argv, alert_actions.variables(FOUND, "prod")) == ""
    words, variables = eval(out.read_text())
    assert words == ["$(touch x)", "*"]
    assert variables["FOOTPLATE_ALERT_NAME"] == "wren"
    assert variables["FOOTPLATE_ALERT_WORKSPACE"] == "prod"
    assert variables["FOOTPLATE_ALERT_METRIC"] == ""


async def test_a_command_that_fails_or_is_missing_or_takes_too_long_is_told(tmp_path):
    failing = ("/bin/sh", "-c", "echo first >&2; echo 'no such \x1b[31mroom' >&2; exit 4")
    assert await alert_actions.run(failing, {}) == "The command /bin/sh of an alert ended with 4: no such room"
    assert "cannot be run: No such file" in await alert_actions.run(("/no/such/program",), {})
    pids = tmp_path / "pids"
    lasting = ("/bin/sh", "-c", f"sleep 600 & echo $$ $! > {pids}; wait")
    assert "took more than 0.5 s and was ended" in await alert_actions.run(lasting, {}, 0.5)
    until(lambda: not any(_runs(int(pid)) for pid in pids.read_text().split()))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Hook(ThreadingHTTPServer):
    """A webhook that answers with the statuses it is given, one after the other, and keeps what it got."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.statuses = list(statuses)
        self.got: list[tuple[str, dict[str, object]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/T0/secret?token=secret"


class _Post(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers["Content-Type"], json.loads(body)))
        self.send_response(self.server.statuses.pop(0))
        self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("statuses", "posts", "fault"),
    [
        ([204], 1, ""),
        ([503, 429, 200], 3, ""),
        ([500, 500, 500], 3, "The webhook http://127.0.0.1/… of an alert answered 500. It was tried 3 times."),
        ([404], 1, "The webhook http://127.0.0.1/… of an alert answered 404."),
        ([302], 1, "The webhook http://127.0.0.1/… of an alert answered 302."),
    ],
)
async def test_a_webhook_is_posted_json_and_tried_again_only_where_that_may_help(hook, statuses, posts, fault):
    hook.statuses = list(statuses)
    assert await alert_actions.post(hook.url, FOUND.document("prod"), 0) == fault
    assert len(hook.got) == posts
    kind, body = hook.got[0]
    assert kind == "application/json"
    assert body == {
        "text": FOUND.text, "event": "failed", "kind": "job", "name": "wren", "workspace": "prod", "status": "Failed",
        "metric": None, "value": None, "time": None, "url": "https://studio",
    }  # fmt: skip


async def test_a_webhook_that_is_not_there_is_told_without_its_secret(hook):
    url = hook.url
    hook.server_close()
    fault = await alert_actions.post(url, {}, 0)
    assert fault.startswith("The webhook http://127.0.0.1/… of an alert does not answer (ClientConnectorError).")
    assert "secret" not in fault


def test_a_notice_of_the_terminal_carries_no_sequence_of_its_text():
    osc9, osc777 = (alert_actions.sequence(kind, FOUND) for kind in ("osc9", "osc777"))
    assert osc9 == "\x1b]9;footplate: wren failed; 1 rank \a"
    assert osc777 == "\x1b]777;notify;footplate;wren failed, 1 rank \a"
