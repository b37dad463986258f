"""Every job of the corpus that Azure's client loads is submitted by footplate's own workspace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.azure_client import KINDS, MANIFEST, copy_corpus, needs_corpus
from tests.wire import WireServer
from tests.wire_writes.corpus import NOT_THERE, make_missing

from footplate.azure.workspace import AzureWorkspace
from footplate.jobfile import read
from footplate.workspace import WorkspaceError

pytestmark = [needs_corpus, pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

NOT_LOADED = r"^Azure's SDK refuses job .* Validation for CommandSchema failed"
"""Two files that the client does not load."""


async def submit(azure: AzureWorkspace, wire: WireServer, path: Path, name: str) -> str:
    """Submit a file, with the compute and data that it names made where they are missing; why not, or nothing."""
    why = ""
    for _ in range(4):
        try:
            await azure.submit(read(path), name)
        except WorkspaceError as error:
            why = " ".join(f"{error} {error.raw}".split())
        else:
            return ""
        if not make_missing(wire, why):
            break
    return why


async def test_every_job_of_the_corpus_is_submitted_by_the_workspace(azure, wire, folder, tmp_path):
    root = copy_corpus(tmp_path)
    for inner in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        (inner / "made_up.py").write_text("1")  # an empty folder is no code
    jobs = [entry for entry in MANIFEST if KINDS[entry["kind"]] in ("command", "sweep", "pipeline")]
    refused, submitted = {}, set()
    for number, entry in enumerate(jobs):
        if why := await submit(azure, wire, root / entry["path"], f"job{number}"):
            refused[entry["path"]] = why
        else:
            submitted.add(f"job{number}")
    assert submitted <= set(wire.state.jobs)
    known = (*NOT_THERE, NOT_LOADED)
    assert {path: why for path, why in refused.items() if not any(re.search(one, why) for one in known)} == {}
    assert len(submitted) > 70
