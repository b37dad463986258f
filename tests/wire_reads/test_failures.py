"""The failure card of a job on Azure: from the logs of all ranks, by ranges, and from what the service itself says."""

from __future__ import annotations

from tests.screens.failing import LOST, RAISED, rank_log, steps

from footplate.operations import stalls
from footplate.operations.failure import HEAD, TAIL, failure
from footplate.operations.stalls import limit_seconds, quiet_seconds


async def test_the_ranks_logs_are_read_by_their_ends_and_the_true_exception_is_found(wire, azure):
    wire.seed.job("wren", "Failed")
    noise = steps(0, 20_000).encode()
    assert len(noise) > HEAD + TAIL
    for rank in range(3):
        wire.seed.log("wren", rank_log(rank), noise + (RAISED if rank == 1 else LOST).encode())
    card = (await failure(azure, "wren")).card
    assert (card.rank, card.exception, card.file) == (1, "ValueError", rank_log(1))
    assert card.line is None, "what stands before was not read"
    assert card.anchor == "ValueError: cannot decode 'data/class_b/007.png'"
    read = [seen for seen in wire.requests if "std_log" in seen.path and seen.path.startswith("/blob/")]
    assert len(read) == 6


async def test_a_job_that_never_ran_tells_what_the_service_says(wire, azure):
    wire.seed.job("wren", "Failed")
    wire.state.runs["wren"]["error"] = {
        "error": {"code": "UserError", "message": "Image build failed. No such package."}
    }
    wire.seed.log(
        "wren", "azureml-logs/20_image_build_log.txt", b"Step 3/40 : RUN conda install\nERROR: no such package: tmim\n"
    )
    card = (await failure(azure, "wren")).card
    assert card.kind == "image"
    assert "Image build failed" in card.message


async def test_a_log_that_stands_still_is_noticed_by_its_size(wire, azure, monkeypatch):
    monkeypatch.setattr(stalls, "PROBE_SECONDS", 0.0)
    moments = iter(range(0, 10_000, 700))
    monkeypatch.setattr(stalls, "monotonic", lambda: float(next(moments)))
    wire.seed.job("wren", "Running")
    wire.state.runs["wren"]["startTimeUtc"] = "2026-01-01T00:00:00Z"
    wire.seed.log("wren", "user_logs/std_log.txt", b"epoch 1\n")
    job = await azure.job("wren")
    assert await quiet_seconds(azure, job, {}) == 0.0, "nobody knows what was before this console looked"
    assert await quiet_seconds(azure, job, {}) == 700.0
    wire.seed.log("wren", "user_logs/std_log.txt", b"epoch 1\nepoch 2\n")
    assert await quiet_seconds(azure, job, {}) == 0.0
    assert limit_seconds(10, {}) == 600.0
