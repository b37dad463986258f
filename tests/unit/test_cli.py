"""The commands as programs: exit codes, sentences, and one JSON document on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON_JOB = """\
command: python -c "print('hello', flush=True)"
environment: azureml:env:1
experiment_name: tests
"""


@pytest.fixture
def footplate(tmp_path):
    """Run the command with a home of its own."""
    environment = {
        **os.environ,
        "FOOTPLATE_HOME": str(tmp_path / "home"),
        "FOOTPLATE_CONFIG": str(tmp_path / "config.toml"),
    }

    def run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "footplate", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            env={**environment, **extra},
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("job", "nope"), 2, "no job 'nope'"),
        (("logs", "nope"), 2, "no job 'nope'"),
        (("cancel", "nope"), 2, "no job 'nope'"),
        (("metrics", "nope"), 2, "no job 'nope'"),
        (("register", "nope", "--model", "m"), 2, "no job 'nope'"),
        (("deploy", "--model", "nope:1", "--endpoint", "birds"), 2, "no model 'nope"),
        (("invoke", "nope", "picture.png"), 2, "no endpoint 'nope'"),
        (("endpoint", "delete", "nope"), 2, "no endpoint 'nope'"),
        (("launch", "missing.yml"), 2, "cannot be read"),
        (("launch",), 2, "Missing argument"),
        (("fly",), 2, "No such command"),
        (("jobs", "--workspace", "prod"), 2, "no workspace 'prod'"),
    ],
)
def test_wrong_input_ends_with_its_code_and_a_sentence(footplate, arguments, code, words):
    done = footplate(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_job_file_that_is_not_yaml_or_lacks_command_starts_nothing(footplate, tmp_path):
    for name, text, words in (("a.yml", "a: [", "not YAML: line 1"), ("b.yml", "environment: x\n", "no `command`")):
        (tmp_path / name).write_text(text)
        done = footplate("launch", name)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert json.loads(footplate("jobs", "--json").stdout) == []


def test_json_is_one_document_and_everything_else_goes_to_stderr(footplate, tmp_path):
    (tmp_path / "job.yml").write_text(PYTHON_JOB)
    done = footplate("launch", "job.yml", "--follow", "--json")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    fields = (
        "name display_name type status experiment compute created started ended duration_s parent tags inputs error"
    )
    assert set(fields.split()) <= set(job)
    assert (job["status"], job["experiment"]) == ("Completed", "tests")
    assert "hello" in done.stderr
    for command in (
        ("jobs",),
        ("job", job["name"]),
        ("models",),
        ("endpoints",),
        ("clusters",),
        ("info",),
        ("metrics", job["name"]),
    ):
        json.loads(footplate(*command, "--json").stdout)
        assert footplate(*command).returncode == 0
    assert footplate("logs", job["name"]).stdout == "hello\n"


def test_a_followed_job_that_fails_ends_with_1_and_its_reason(footplate, tmp_path):
    (tmp_path / "job.yml").write_text(
        PYTHON_JOB.replace("print('hello', flush=True)", "raise ValueError('no such bird')")
    )
    done = footplate("launch", "job.yml", "--follow")
    assert done.returncode == 1
    assert "ValueError: no such bird" in done.stdout
    assert "is Failed" in done.stdout


def test_dry_run_shows_every_rank_and_starts_nothing(footplate, tmp_path):
    text = PYTHON_JOB + "distribution: {type: pytorch, process_count_per_instance: 2}\nresources: {instance_count: 1}\n"
    (tmp_path / "job.yml").write_text(text)
    done = footplate("launch", "job.yml", "--dry-run", "--json", "--set", "experiment_name=other")
    document = json.loads(done.stdout)
    assert [c["rank"] for c in document["commands"]] == [0, 1]
    assert document["commands"][1]["environment"]["WORLD_SIZE"] == "2"
    assert document["upload"] == {"files": 0, "bytes": 0, "ignored_by": None}
    assert "experiment_name: other" in document["yaml"]
    assert json.loads(footplate("jobs", "--json").stdout) == []


def test_read_only_is_refused_with_4(footplate, tmp_path):
    (tmp_path / "job.yml").write_text(PYTHON_JOB)
    done = footplate("launch", "job.yml", "--read-only")
    assert done.returncode == 4
    assert "read-only" in done.stderr
    assert footplate("jobs", "--read-only").returncode == 0


def test_the_console_without_a_terminal_says_what_to_do(footplate):
    done = footplate()
    assert done.returncode == 2
    assert "footplate demo" in done.stderr


def test_a_home_that_cannot_be_used_is_a_sentence(footplate, tmp_path):
    (tmp_path / "file").write_text("")
    done = footplate("jobs", FOOTPLATE_HOME=str(tmp_path / "file" / "home"))
    assert done.returncode == 1
    assert "cannot be used" in done.stderr
    assert "FOOTPLATE_HOME" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_settings_name_the_file_and_the_key(footplate, tmp_path):
    (tmp_path / "config.toml").write_text("[local]\npyton = 'x'\n")
    done = footplate("jobs")
    assert done.returncode == 2
    assert "local.pyton" in done.stderr
    (tmp_path / "config.toml").write_text("[local\n")
    assert "not TOML" in footplate("jobs").stderr


def test_logs_of_a_file_that_is_not_there_name_those_that_are(footplate, tmp_path):
    (tmp_path / "job.yml").write_text(PYTHON_JOB)
    job = json.loads(footplate("launch", "job.yml", "--follow", "--json").stdout)
    done = footplate("logs", job["name"], "--file", "nope.txt")
    assert done.returncode == 2
    assert "user_logs/std_log.txt" in done.stderr


def test_output_cut_by_its_reader_is_no_traceback(footplate, tmp_path):
    environment = {**os.environ, "FOOTPLATE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        f"{sys.executable} -m footplate info | true",
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
        cwd=Path(tmp_path),
    )
    assert "Traceback" not in done.stderr
