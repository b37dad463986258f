"""Every job of the corpus that the SDK loads is submitted to the wire server by the SDK."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.azure_client import KINDS, MANIFEST, copy_corpus, needs_corpus
from tests.wire import WireServer, running_server
from tests.wire.client import real_client

pytestmark = [needs_corpus, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
_MISSING: tuple[tuple[str, Callable[[WireServer, str], Any]], ...] = (
    (r"Unknown compute target '(.+?)'", lambda wire, name: wire.seed.cluster(name)),
    (r"/computes/(\S+?)' under", lambda wire, name: wire.seed.cluster(name)),
    (r"Asset (\S+) does not exist", lambda wire, name: wire.seed.data(name)),
)
NOT_THERE = (
    r"Asset my_train does not exist",  # a registered component
    r"Entry \S+ doesn't exist",  # a file of the code folder that is made up here
)


def submit(ml: Any, wire: WireServer, job: Any) -> str:
    """Submit a job, with the compute and data that it names made where they are missing; why not, or nothing."""
    why = ""
    for _ in range(4):
        try:
            ml.jobs.create_or_update(job)
        except Exception as error:  # noqa: BLE001 - the SDK fails in many ways, all of which are of interest
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            return ""
        known = [(found[1], make) for pattern, make in _MISSING if (found := re.search(pattern, why))]
        if not known:
            return why
        name, make = known[0]
        make(wire, name)
    return why


def test_every_job_of_the_corpus_can_be_submitted(tmp_path: Path) -> None:
    pytest.importorskip("azure.ai.ml")
    root = copy_corpus(tmp_path)
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        (folder / "made_up.py").write_text("1")  # an empty folder is no code
    submitted, refused = set(), {}
    with running_server() as wire, real_client(wire) as ml, contextlib.redirect_stdout(io.StringIO()):
        from azure.ai.ml import load_job

        for number, entry in enumerate(
            one for one in MANIFEST if KINDS[one["kind"]] in ("command", "sweep", "pipeline")
        ):
            with contextlib.suppress(Exception):
                job = load_job(root / entry["path"])
                job.name = f"job{number}"
                if why := submit(ml, wire, job):
                    refused[entry["path"]] = why
                else:
                    submitted.add(job.name)
        assert submitted <= set(wire.state.jobs)
    assert {path: why for path, why in refused.items() if not any(re.search(one, why) for one in NOT_THERE)} == {}
    assert len(submitted) > 70
