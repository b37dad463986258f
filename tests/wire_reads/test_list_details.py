"""What a list shows of a job that its record lacks: when it ran, why it failed, its metric; asked for once."""

from __future__ import annotations

import pytest
from tests.wire import faults

from footplate import settings
from footplate.azure import list_details
from footplate.workspace import JobFilter
from footplate.workspace.open import open_workspace


async def listed(workspace, **given) -> dict:
    return {job.name: job async for page in workspace.jobs(JobFilter(**given)) for job in page}


def asked(wire) -> list[str]:
    """What was asked of run history and MLflow."""
    services = ("/batchrundata", "/runs/get")
    return [service for seen in wire.requests for service in services if seen.path.endswith(service)]


async def test_a_list_tells_how_long_jobs_took_why_they_failed_and_their_metric(wire, azure):
    wire.seed.job("wren", "Completed", took=90.0)
    wire.seed.job("finch", "Failed", took=30.0)
    wire.seed.job("robin", "Running", age=100)
    wire.seed.job("waits", "Queued", age=50)
    for name in ("wren", "robin"):
        wire.seed.metrics(name)
    jobs = await listed(azure)
    assert (jobs["wren"].seconds(), jobs["finch"].seconds()) == (90.0, 30.0)
    assert (jobs["robin"].started is not None, jobs["robin"].ended, jobs["waits"].started) == (True, None, None)
    assert "CUDA out of memory" in jobs["finch"].error
    history = (await azure.metrics("wren"))["best_val_acc"]
    assert jobs["wren"].headline == ("best_val_acc", history[-1].value)
    assert jobs["robin"].headline is not None
    assert jobs["finch"].headline is jobs["waits"].headline is None
    assert asked(wire).count("/batchrundata") == 1


async def test_what_ended_is_asked_once_and_kept_for_the_next_console(wire, azure, config, monkeypatch):
    wire.seed.jobs(150)
    first = await listed(azure)
    assert all(job.started is not None for job in first.values())
    assert asked(wire).count("/batchrundata") == 2
    monkeypatch.setattr(list_details, "MOST_METRICS", 100)
    await listed(azure)
    wire.requests.clear()
    assert (await listed(azure)).keys() == first.keys()
    assert asked(wire) == []
    again = open_workspace("wire", settings.load(config))
    assert {name: job.seconds() for name, job in (await listed(again)).items() if not job.active} == {
        name: job.seconds() for name, job in first.items() if not job.active
    }
    assert len(asked(wire)) <= 2  # of the one that goes on
    await again.close()


async def test_metrics_are_asked_for_a_few_at_a_time_until_all_are_known(wire, azure, monkeypatch):
    monkeypatch.setattr(list_details, "MOST_METRICS", 2)
    for number in range(5):
        wire.seed.job(f"job-{number}", "Completed", age=1000 + number)
        wire.seed.metrics(f"job-{number}")
    seen = []
    for _ in range(4):
        wire.requests.clear()
        jobs = await listed(azure)
        seen.append((asked(wire).count("/runs/get"), sum(job.headline is not None for job in jobs.values())))
    assert seen == [(2, 2), (2, 4), (1, 5), (0, 5)]


async def test_a_job_that_goes_on_is_asked_again_and_whole_when_it_ended(wire, azure, monkeypatch):
    monkeypatch.setattr(list_details, "LIVE_SECONDS", 0.0)
    wire.seed.job("robin", "Running", age=100)
    wire.seed.metrics("robin", epochs=3)
    first = (await listed(azure))["robin"]
    with wire.lock:
        wire.state.metrics["robin"]["best_val_acc"].append(wire.state.metrics["robin"]["best_val_acc"][-1])
        wire.life.log_metric("robin", "best_val_acc", 0.99, 9)
    second = (await listed(azure))["robin"]
    assert (second.started, second.headline) == (first.started, ("best_val_acc", 0.99))
    assert asked(wire).count("/batchrundata") == 1  # when it started is known
    with wire.lock:
        wire.state.jobs["robin"]["properties"]["status"] = "Running"
        wire.life.set_status("robin", "Completed")
    third = (await listed(azure))["robin"]
    assert (third.status, third.ended is not None, third.headline) == ("Completed", True, ("best_val_acc", 0.99))


@pytest.mark.parametrize("fault", [503, "role", 429, "html"])
async def test_without_run_history_the_list_is_there_and_it_is_left_alone_for_a_while(wire, azure, fault):
    wire.seed.job("wren", "Completed")
    wire.faults.add("POST", "batchrundata", faults.fail(fault), times=None)
    jobs = await listed(azure)
    assert (jobs["wren"].status, jobs["wren"].started) == ("Completed", None)
    wire.requests.clear()
    await listed(azure)
    assert asked(wire) == []
