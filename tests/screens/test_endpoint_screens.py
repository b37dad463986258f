"""Endpoints on screen: deployments, traffic, mirror, instances, keys, logs, figures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.screens.conditions import until
from tests.screens.fakes import Fake, deployment, endpoint
from textual.pilot import Pilot
from textual.widgets import Button, Input, Static

from footplate.app import FootplateApp
from footplate.screens.dialogs import ConfirmDialog, FieldsDialog
from footplate.screens.endpoint_keys import KeysDialog
from footplate.screens.endpoints import EndpointsScreen
from footplate.screens.monitor import MonitorScreen
from footplate.screens.server_log import ServerLog
from footplate.widgets.chart import Chart
from footplate.widgets.chrome import KeyLine
from footplate.widgets.log_view import LogView
from footplate.workspace import Deployment, Endpoint

BLUE_AND_GREEN = endpoint(deployment("blue"), deployment("green"), traffic={"blue": 90, "green": 10})


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Fake:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    made = Fake()
    made.endpoint_state = BLUE_AND_GREEN
    return made


@asynccontextmanager
async def on_endpoints(
    fake: Fake, size: tuple[int, int] = (120, 30), read_only: bool = False
) -> AsyncIterator[tuple[FootplateApp, Pilot[None]]]:
    app = FootplateApp(read_only=read_only, view="endpoints")
    if not read_only:
        app.workspace = fake
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, EndpointsScreen))
        await until(pilot, lambda: read_only or app.screen.table.rows)
        yield app, pilot


def cells(app: FootplateApp) -> dict[str, list[str]]:
    return {row.key: [c if isinstance(c, str) else c.text for c in row.cells] for row in app.screen.table.rows}


def said(app: FootplateApp, part: str = "#verdict") -> str:
    return str(app.screen.query_one(part, Static).render())


def log(app: FootplateApp) -> str:
    return app.screen.query_one(LogView).text(0, 9)


def fields(app: FootplateApp) -> list[Input]:
    return list(app.screen.query(Input))


def state(fake: Fake) -> Endpoint:
    assert fake.endpoint_state is not None
    return fake.endpoint_state


async def test_deployments_stand_below_their_endpoint_with_share_mirror_instances_and_state(fake):
    failed = deployment("green", state="Failed", error="init(): [/x] no model.json", instances=3)
    fake.endpoint_state = replace(BLUE_AND_GREEN, deployments=(deployment("blue"), failed), mirror={"green": 5})
    async with on_endpoints(fake, (160, 30)) as (app, pilot):
        shown = cells(app)
        assert list(shown) == ["birds", "birds/blue", "birds/green"]
        assert shown["birds"][1:3] == ["Failed", "blue 90 %, green 10 %"]
        assert "90 %" in shown["birds/blue"][2]
        assert shown["birds/green"][3:6] == ["5 %", "3", "birds:2"]
        await pilot.press("end")
        await until(pilot, lambda: "init(): [/x] no model.json" in said(app, "#explain"))
        await pilot.press("f")
        await until(pilot, lambda: list(cells(app)) == ["birds", "birds/green"])


async def test_a_long_fault_is_one_line_in_the_list_and_whole_above_the_log(fake):
    error = "init() failed: no model.json\nTraceback (most recent call last):\n  [/x] FileNotFoundError"
    fake.endpoint_state = endpoint(deployment("blue", state="Failed", error=error))
    async with on_endpoints(fake, (200, 30)) as (app, pilot):
        assert cells(app)["birds/blue"][-1] == "init() failed: no model.json"
        await until(pilot, lambda: "no model.json   l shows the rest" in said(app, "#explain"))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, ServerLog) and "inference-server of blue" in log(app))
        assert "[/x] FileNotFoundError" in said(app, "#error")


async def test_traffic_is_shifted_only_when_it_sums_to_100_and_old_and_new_are_shown(fake):
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("T")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and len(fields(app)) == 2)
        act = app.screen.query_one("#act", Button)
        await until(pilot, lambda: act.disabled)  # nothing is changed yet
        assert app.focused is not None
        assert app.focused.id == "cancel"  # live traffic: enter at once changes nothing
        blue, green = fields(app)
        blue.focus()
        blue.value = "50"
        await until(pilot, lambda: "sum to 60" in said(app))
        assert act.disabled
        await pilot.press("enter", "enter")
        assert isinstance(app.screen, FieldsDialog)
        assert app.focused.id == "cancel"  # from the last field, too
        assert state(fake).traffic == {"blue": 90, "green": 10}
        green.value = "50"
        await until(pilot, lambda: said(app) == "blue 90 → 50, green 10 → 50 %")
        await pilot.press("right", "enter")
        await until(pilot, lambda: state(fake).traffic == {"blue": 50, "green": 50})
        await until(pilot, lambda: isinstance(app.screen, EndpointsScreen))


async def test_traffic_that_was_changed_meanwhile_is_not_overwritten_and_what_was_typed_stays(fake):
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("T")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and len(fields(app)) == 2)
        first = app.screen
        fields(app)[0].value, fields(app)[1].value = "0", "100"
        fake.endpoint_state = replace(BLUE_AND_GREEN, traffic={"blue": 30, "green": 70})
        await until(pilot, lambda: not app.screen.query_one("#act", Button).disabled)
        await pilot.press("right", "enter")
        await until(pilot, lambda: app.screen is not first and isinstance(app.screen, FieldsDialog) and fields(app))
        assert state(fake).traffic == {"blue": 30, "green": 70}
        assert any("changed meanwhile" in notice.message for notice in app._notifications)
        assert [line.value for line in fields(app)] == ["0", "100"]
        await until(pilot, lambda: said(app) == "blue 30 → 0, green 70 → 100 %")


async def test_requests_are_mirrored_to_a_deployment_without_live_traffic(fake):
    fake.endpoint_state = replace(BLUE_AND_GREEN, traffic={"blue": 100})
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("M")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and fields(app))
        fields(app)[0].value = "80"
        await until(pilot, lambda: "from 0 to 50" in said(app))
        fields(app)[0].value = "20"
        await until(pilot, lambda: said(app) == "none → green 20 %")
        fields(app)[0].focus()
        await pilot.press("enter")
        await until(pilot, lambda: state(fake).mirror == {"green": 20})


async def test_instances_say_how_many_there_are_and_will_be(fake):
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("down", "down", "i")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and fields(app))
        fields(app)[0].value = "0"
        await until(pilot, lambda: "from 1" in said(app))
        fields(app)[0].value = "3"
        await until(pilot, lambda: said(app).startswith("1 → 3"))
        await pilot.press("enter")
        await until(pilot, lambda: fake.acts == [("scale", "green", 3)])


async def test_deleting_a_deployment_starts_on_cancel_and_names_its_live_traffic(fake):
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("down", "x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.focused is not None)
        assert app.focused.id == "cancel"
        text = "\n".join(str(part.render()) for part in app.screen.query(Static))
        assert "Delete deployment blue?" in text
        assert "90 % of the live traffic" in text
        assert "workspace local" in text
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, EndpointsScreen))
        assert fake.acts == []
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.focused is not None)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: fake.acts == [("delete", "blue")])


async def test_keys_are_hidden_until_asked_for_copied_and_made_anew_after_asking(fake):
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("K")
        await until(pilot, lambda: isinstance(app.screen, KeysDialog) and "primary" in said(app, "#keys"))
        assert "first-key" not in said(app, "#keys")
        await pilot.press("s")
        await until(pilot, lambda: "first-key" in said(app, "#keys"))
        await pilot.press("Y")
        assert app.clipboard == "second-key"
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.focused is not None)
        await pilot.press("enter")  # on Cancel
        await until(pilot, lambda: isinstance(app.screen, KeysDialog))
        assert fake.acts == []
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.focused is not None)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(app.screen, KeysDialog) and "new-key" in said(app, "#keys"))
        assert fake.acts == [("regenerate", "primary")]


async def test_the_logs_of_both_containers_can_be_read(fake):
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("down", "l")
        await until(pilot, lambda: isinstance(app.screen, ServerLog) and log(app))
        await until(pilot, lambda: log(app) == "[bold]inference-server of blue")
        await pilot.press("tab")
        await until(pilot, lambda: log(app) == "[bold]storage-initializer of blue")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, EndpointsScreen))


async def test_the_last_hour_is_drawn_with_the_moment_up_to_which_it_was_counted(fake):
    async with on_endpoints(fake) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, MonitorScreen) and len(app.screen.query(Chart)) == 2)
        await until(pilot, lambda: "counted up to" in said(app, "#facts"))
        titles = [str(one.render()) for one in app.screen.query(".figure > Static").results(Static)]
        assert titles == ["requests per minute", "latency ms p95"]
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, EndpointsScreen))


async def test_what_cannot_be_done_is_greyed_as_soon_as_it_is_known_and_says_why(fake):
    async with on_endpoints(fake, (200, 30)) as (app, pilot):
        line = app.screen.query_one(KeyLine)

        def greyed() -> bool:
            shown = line.render()
            at = shown.plain.index(" traffic")
            return any("dim" in str(span.style) and span.start <= at < span.end for span in shown.spans)

        assert not greyed()
        reason = "It needs the role AzureML Data Scientist."
        fake.refused = {"set_traffic": reason}
        await until(pilot, greyed)
        await pilot.press("T")
        await until(pilot, lambda: any(notice.message == reason for notice in app._notifications))
        assert isinstance(app.screen, EndpointsScreen)


async def test_an_endpoint_without_deployments_offers_nothing_to_share_out(fake):
    fake.endpoint_state = endpoint()
    async with on_endpoints(fake, (200, 30)) as (app, pilot):
        await until(pilot, lambda: "no deployments" in said(app, "#explain"))
        keys = str(app.screen.query_one(KeyLine).render())
        assert "traffic" not in keys
        assert "delete" in keys
        await pilot.press("T", "l", "i", "M")
        assert isinstance(app.screen, EndpointsScreen)


async def test_every_list_of_endpoints_fits_80x24(fake):
    fake.endpoint_state = replace(BLUE_AND_GREEN, deployments=(deployment("blue"), _long()))
    async with on_endpoints(fake, (80, 24)) as (app, pilot):
        columns = app.screen.table.shown_columns
        assert columns[:3] == ["name", "status", "traffic"]
        await pilot.press("T")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and len(fields(app)) == 2)
        assert app.screen.query_one("#act", Button).region.bottom <= 24


def _long() -> Deployment:
    return deployment("green-with-a-name-of-thirty-two-c")
