"""The list of jobs with the local index: fewer requests, the same jobs, and nothing old that is told as new."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.screens.conditions import until
from tests.wire import faults

from footplate import settings
from footplate.app import FootplateApp
from footplate.azure import known_jobs
from footplate.azure.workspace import AzureWorkspace
from footplate.screens.listing import ListScreen
from footplate.widgets.chrome import TopLine
from footplate.workspace import JobFilter
from footplate.workspace.open import open_workspace


async def listed(workspace, matching: JobFilter | None = None, most: int | None = None) -> list:
    found: list = []
    async for page in workspace.jobs(matching or JobFilter()):
        found += page
        if most is not None and len(found) >= most:
            break
    return found


def asked(wire) -> list[str]:
    """What was asked of jobs: a list's page as `list`, one job by its name."""
    paths = [seen.path for seen in wire.requests if "/jobs" in seen.path and seen.path.startswith("/subscriptions")]
    return ["list" if path.endswith("/jobs") else path.rpartition("/")[2] for path in paths]


def names(jobs) -> list[str]:
    return [job.name for job in jobs]


async def test_a_second_list_asks_for_its_young_end_only_and_is_the_same(wire, azure):
    wire.seed.jobs(450)
    first = await listed(azure)
    assert asked(wire) == ["list"] * 5
    wire.requests.clear()
    wire.seed.job("new", "Running", age=1)
    second = await listed(azure)
    assert asked(wire) == ["list"]
    assert names(second) == ["new", *names(first)]
    assert second[1:] == first


async def test_more_new_jobs_than_a_page_holds_are_all_listed(wire, azure):
    wire.seed.jobs(150)
    first = names(await listed(azure))
    wire.seed.jobs(250, prefix="new", every=0.1)
    second = names(await listed(azure))
    assert [name for name in second if name.startswith("seed")] == first
    assert len([name for name in second if name.startswith("new")]) == 250


async def test_old_jobs_that_go_on_are_asked_for_one_by_one(wire, azure):
    wire.seed.jobs(250)
    wire.seed.job("long", "Running", age=200 * 600)
    wire.seed.job("gone", "Running", age=201 * 600)
    await listed(azure)
    with wire.lock:
        wire.state.jobs["long"]["properties"]["status"] = "Completed"
        del wire.state.jobs["gone"]
    wire.requests.clear()
    found = {job.name: job.status for job in await listed(azure)}
    assert sorted(asked(wire)) == ["gone", "list", "long"]
    assert found["long"] == "Completed"
    assert "gone" not in found
    wire.requests.clear()
    await listed(azure)
    assert asked(wire) == ["list"]  # now it has ended too


async def test_of_very_many_old_jobs_that_go_on_the_pages_are_asked_for(wire, azure):
    wire.seed.jobs(200)
    for number in range(known_jobs.MOST_ACTIVE + 1):
        wire.seed.job(f"long-{number}", "Running", age=150 * 600 + number)
    first = await listed(azure)
    wire.requests.clear()
    assert names(await listed(azure)) == names(first)
    assert asked(wire) == ["list"] * 2  # the second has them all; what comes then is known


async def test_what_was_archived_elsewhere_goes_with_the_next_whole_look(wire, azure, monkeypatch):
    wire.seed.jobs(350)
    first = await listed(azure)
    with wire.lock:
        for name in (first[3].name, first[330].name):
            wire.state.jobs[name]["properties"]["isArchived"] = True
    assert names(await listed(azure)) == [name for name in names(first) if name != first[3].name]
    monkeypatch.setattr(known_jobs, "FULL_SECONDS", 0.0)
    wire.requests.clear()
    whole = [name for name in names(first) if name not in (first[3].name, first[330].name)]
    assert names(await listed(azure)) == whole
    assert asked(wire) == ["list"] * 4
    monkeypatch.undo()
    kept, _ = await azure.cached_jobs()
    assert names(kept) == whole


async def test_what_this_console_archives_restores_or_renames_is_seen_at_once(wire, azure):
    wire.seed.jobs(250)
    first = names(await listed(azure))
    await azure.archive(first[240])
    assert first[240] not in names(await listed(azure))
    await azure.restore(first[240])
    assert names(await listed(azure)) == first


async def test_a_list_that_was_read_in_part_goes_on_where_the_index_ends(wire, azure):
    wire.seed.jobs(500)
    first = await listed(azure, most=250)
    wire.requests.clear()
    assert names(await listed(azure, most=250)) == names(first)
    assert asked(wire) == ["list"]
    whole = names(await listed(azure))
    assert len(whole) == len(set(whole)) == 500
    assert whole == sorted(whole, reverse=True)


@pytest.mark.parametrize(
    "order",
    [lambda jobs: jobs[::-1], lambda jobs: [*jobs[:80], *jobs[150:170], *jobs[80:150], *jobs[170:]]],
    ids=["oldest first", "in order but between two pages"],
)
async def test_a_list_in_another_order_is_asked_for_whole_each_time(wire, azure, monkeypatch, order):
    wire.seed.jobs(250)
    given = order(list(wire.state.newest_jobs()))
    monkeypatch.setattr(wire.state, "newest_jobs", lambda: given)
    for _ in range(2):
        wire.requests.clear()
        assert names(await listed(azure)) == [body["name"] for body in given]
        assert asked(wire) == ["list"] * 3


async def test_a_filter_and_archived_jobs_are_of_the_whole_list(wire, azure):
    wire.seed.jobs(300)
    first = await listed(azure)
    failed = JobFilter(status=("Failed",))
    assert names(await listed(azure, failed)) == [job.name for job in first if job.status == "Failed"]
    await azure.archive(first[0].name)
    assert first[0].name in names(await listed(azure, JobFilter(archived=True)))
    assert first[0].name not in names(await listed(azure))


async def test_jobs_that_were_seen_are_there_without_a_request(wire, azure, config):
    assert await azure.cached_jobs() == ([], None)
    wire.seed.jobs(30)
    first = await listed(azure)
    wire.requests.clear()
    again = open_workspace("wire", settings.load(config))
    kept, as_of = await again.cached_jobs()
    assert names(kept) == names(first)
    assert as_of is not None
    assert wire.requests == []
    await again.close()


async def test_the_index_is_read_without_azures_libraries(wire, azure, config):
    wire.seed.jobs(3)
    await listed(azure)
    code = (
        "import asyncio, json, sys\n"
        "from footplate.workspace.open import open_workspace\n"
        "jobs, as_of = asyncio.run(open_workspace('wire').cached_jobs())\n"
        "heavy = ('azure', 'aiohttp', 'pydantic', 'numpy', 'PIL', 'requests')\n"
        "print(json.dumps([len(jobs), [name for name in heavy if name in sys.modules]]))\n"
    )
    out = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", code], text=True)
    assert json.loads(out) == [3, []]


# On screen


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(AzureWorkspace, "poll_seconds", 0.05)


def top(app: FootplateApp) -> str:
    return str(app.screen.query_one(TopLine).render())


async def test_the_console_shows_what_it_saw_last_with_its_age_until_the_workspace_answers(wire, azure, config):
    wire.seed.jobs(20)
    await listed(azure)
    wire.seed.job("fresh", "Running", age=1)
    rule = wire.faults.add("GET", r"/jobs\?", faults.fail(503), times=None)
    app = FootplateApp()
    async with app.run_test(size=(140, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen) and len(app.screen.table.rows) == 20)
        await until(pilot, lambda: "as of " in top(app))
        rule.times = 0
        await until(pilot, lambda: app.screen.table.rows[0].key == "fresh")
        assert len(app.screen.table.rows) == 21
        assert "as of" not in top(app)
        wire.faults.add("GET", r"/jobs\?", faults.fail(503), times=None)
        await until(pilot, lambda: "as of " in top(app))
        assert len(app.screen.table.rows) == 21
