"""The small job files that real users stumbled over, run for real on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.at_work import ended, log

from footplate.jobfile import read

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside this checkout")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("y01 sub dir/job.yml", ["args: ['--epochs', '1']"]),
        ("y03_multiline_pipe.yml", ["args: ['--lr', '0.01']", "finished"]),
        ("y06_empty_string_input.yml", ["args: ['--tag', '', '--note']"]),
        ("y25_bom_crlf.yml", ["args: ['--epochs', '1']"]),
    ],
)
async def test_the_case_runs_and_its_script_gets_its_arguments(workspace, tmp_path, monkeypatch, name, lines):
    monkeypatch.chdir(tmp_path)  # where it is started does not matter
    job = await workspace.submit(read(CASES / name).edit({"compute": "local"}))
    finished = await ended(workspace, job.name)
    shown = (await log(workspace, job.name, "user_logs/std_log.txt")).splitlines()
    assert finished.status == "Completed", shown
    assert [line for line in shown if line in lines] == lines, shown
    if name.startswith("y03"):
        assert any(line.startswith("pip ") for line in shown), "pip list is the first of the three"
