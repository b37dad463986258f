"""Watching from the console: the key, the sign, toasts, the list of what was told; rehearsals by key."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests import metrics_template
from tests.at_work import WAIT, ended
from tests.screens.conditions import drawn, send, until
from tests.screens.fakes import Fake, deployment, endpoint, job
from tests.screens.test_looks import Listed
from textual.widgets import Static

from footplate.app import FootplateApp
from footplate.jobfile.document import parse
from footplate.screens.alerts import AlertsScreen
from footplate.screens.choose import ChooseScreen
from footplate.screens.cluster import ClusterScreen
from footplate.screens.dialogs import ConfirmDialog
from footplate.screens.job import JobScreen
from footplate.screens.jobs import JobsScreen
from footplate.screens.listing import ListScreen
from footplate.widgets.chrome import KeyLine
from footplate.widgets.virtual_table import VirtualTable


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("footplate.screens.alerting._LOOK_SECONDS", 0.05)
    monkeypatch.setattr("footplate.operations.alerts._LOCAL_SECONDS", 0.05)


def toasts(app: FootplateApp) -> list[str]:
    return [notice.message for notice in app._notifications]


def table(app: FootplateApp, name: str) -> VirtualTable:
    return app.screen.query_one(f"#{name}", VirtualTable)


async def test_watched_jobs_have_a_sign_until_their_end_is_told_and_listed(home):
    app = FootplateApp()
    app.workspace = fake = Listed()
    fake.made_up = {name: job(name, status="Running") for name in ("wren", "robin")}
    fake.made_up["done"] = job("done")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, JobsScreen) and len(app.screen.table.rows) == 3)
        await send(pilot, "W")
        await until(pilot, lambda: app.watched == {("job", "wren")})
        await until(pilot, lambda: drawn(app.screen.table)[1].startswith("▸•wren"))
        await send(pilot, "W")
        await until(pilot, lambda: not app.watched)
        await send(pilot, "space", "space", "W")
        await until(pilot, lambda: app.watched == {("job", "wren"), ("job", "robin")})
        app.screen.table.clear_marks()
        app.screen.table.move_to("done")
        await send(pilot, "W")
        await until(pilot, lambda: "Nothing to watch: it has ended." in toasts(app))
        fake.made_up["wren"] = job("wren", status="Failed", error="[b]rank 1[/b] of 2")
        await until(pilot, lambda: any("wren failed: [b]rank 1[/b] of 2" in toast for toast in toasts(app)))
        await until(pilot, lambda: app.watched == {("job", "robin")})
        assert not drawn(app.screen.table)[1].startswith(" •wren")
        await send(pilot, "exclamation_mark")
        await until(pilot, lambda: isinstance(app.screen, AlertsScreen) and table(app, "told").rows)
        assert "wren failed: [b]rank 1[/b] of 2" in drawn(table(app, "told"))[1]
        assert drawn(table(app, "watched"))[1].split()[1:4] == ["robin", "job", "Running"]
        await send(pilot, "tab", "W")
        await until(
            pilot,
            lambda: not app.watched and any("Nothing. W on a job" in line for line in drawn(table(app, "watched"))),
        )
        await send(pilot, "tab", "enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == "wren")


async def test_an_endpoint_that_falls_ill_is_told_and_opened(home):
    app = FootplateApp(view="endpoints")
    app.workspace = fake = Fake()
    fake.endpoint_state = endpoint(deployment("blue"))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen) and app.screen.table.rows)
        await send(pilot, "W")
        await until(pilot, lambda: app.watched == {("endpoint", "birds")})
        fake.endpoint_state = replace(fake.endpoint_state, state="Failed", error="out of quota")
        await until(pilot, lambda: "endpoint birds: Failed: out of quota" in toasts(app))
        await send(pilot, "1", "exclamation_mark")
        await until(pilot, lambda: isinstance(app.screen, AlertsScreen) and table(app, "told").rows)
        await send(pilot, "enter")
        await until(pilot, lambda: app.current_mode == "endpoints" and isinstance(app.screen, ListScreen))
        await until(pilot, lambda: app.screen.table.cursor_key == "birds")


async def test_a_store_that_cannot_be_used_is_told_once_and_stops_nothing_else(home):
    (home / "state").mkdir()
    (home / "state" / "alerts.db").write_bytes(b"x" * 4096)
    app = FootplateApp()
    app.workspace = fake = Listed()
    fake.made_up = {"wren": job("wren", status="Running")}
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: any("Alerts cannot be kept" in toast for toast in toasts(app)))
        await until(pilot, lambda: isinstance(app.screen, JobsScreen) and app.screen.table.rows)
        for _ in range(3):
            await app.alerting._told(app.alerting._look())
        assert sum("Alerts cannot be kept" in toast for toast in toasts(app)) == 1


async def test_a_bad_day_is_rehearsed_by_key_on_a_job_and_its_cluster(home):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        wren = await app.workspace.submit(parse(f"command: {WAIT}\nenvironment: azureml:any@1\n", None, home), "wren")
        try:
            app.open_job("wren", "overview")
            await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None)
            await until(pilot, lambda: app.screen.job.status == "Running")
            await send(pilot, "B")
            await until(pilot, lambda: isinstance(app.screen, ChooseScreen) and app.screen._table.rows)
            assert [row.key for row in app.screen._table.rows][:2] == ["preempt", "kill-rank"]
            hint = app.screen.query_one("#hint", Static)
            await until(pilot, lambda: "On Azure a low-priority node is taken back" in str(hint.render()))
            await send(pilot, "down", "enter")
            await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.focused is not None)
            assert app.focused.id == "cancel"
            await send(pilot, "right", "enter")
            await until(pilot, lambda: any("Rank 0 of job 'wren' was killed" in toast for toast in toasts(app)))
            assert (await ended(app.workspace, "wren")).status == "Failed"
        finally:
            if (await app.workspace.job("wren")).active:
                await app.workspace.cancel(wren.name)
        app.push_screen(ClusterScreen("local"))
        await until(pilot, lambda: isinstance(app.screen, ClusterScreen) and app.screen.cluster is not None)
        await send(pilot, "B")
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen) and app.screen._table.rows)
        assert [row.key for row in app.screen._table.rows] == ["fill-quota", "free-quota"]
        await send(pilot, "enter")
        cluster = app.screen_stack[-1]
        await until(pilot, lambda: any("The quota is full" in toast for toast in toasts(app)))
        await until(pilot, lambda: isinstance(app.screen, ClusterScreen))
        cluster = app.screen
        await until(
            pilot, lambda: "The quota is full (a rehearsal)" in str(cluster.query_one("#facts", Static).render())
        )


async def test_where_nothing_can_be_rehearsed_the_key_is_gone(home):
    app = FootplateApp()
    app.workspace = fake = Fake()
    fake.refused = {"rehearse": "Rehearsals are for the local workspace."}
    fake.made_up = {"wren": job("wren", status="Running")}
    async with app.run_test(size=(200, 24)) as pilot:
        app.open_job("wren", "overview")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None)
        await until(pilot, lambda: "W watch" in str(app.screen.query_one(KeyLine).render()))
        assert "rehearse" not in str(app.screen.query_one(KeyLine).render())
        await send(pilot, "B")
        await until(pilot, lambda: "Rehearsals are for the local workspace." in toasts(app))
