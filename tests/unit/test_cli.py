"""The commands as programs: exit codes, sentences, and one JSON document on stdout."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from tests.commands import COMMAND, Footplate

PYTHON_JOB = """\
command: python -c "print('hello', flush=True)"
environment: azureml:env:1
experiment_name: tests
"""


@pytest.fixture
def footplate(tmp_path, metrics_store):
    """The commands, with a home of their own, in which metrics have their store already: to make it takes seconds."""
    commands = Footplate(tmp_path)
    commands.home.mkdir()
    shutil.copy(metrics_store, commands.home / "mlflow.db")
    return commands


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
    for name, text, words in (
        ("a.yml", "a: [", "a.yml line 1, column 5: is not YAML"),
        ("b.yml", "environment: azureml:x:1\n", "`command` is missing"),
    ):
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


def cut(footplate: Footplate, *arguments: str) -> tuple[int, str]:
    """Run a command whose reader leaves after the first byte: its exit code and what it says on stderr."""
    command = [*COMMAND, *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Unbuffered, Python takes a write that the pipe cut for a whole one.
        env={**footplate.environment, "PYTHONUNBUFFERED": ""},
        cwd=footplate.folder,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert len(process.stdout.read(1)) == 1
        process.stdout.close()
        said = process.stderr.read().decode()
        return process.wait(60), said


def test_output_cut_by_its_reader_is_no_traceback(footplate, tmp_path):
    many = "distribution: {type: pytorch, process_count_per_instance: 2000}\n"
    (tmp_path / "job.yml").write_text(PYTHON_JOB.replace("'hello'", "'x' * 1_000_000") + many)
    assert len(footplate("launch", "job.yml", "--dry-run").stdout) > 1 << 17  # more than a pipe holds
    assert cut(footplate, "launch", "job.yml", "--dry-run") == (1, "")
    assert cut(footplate, "launch", "job.yml", "--dry-run", "--json") == (1, "")
    (tmp_path / "job.yml").write_text(PYTHON_JOB.replace("'hello'", "'x' * 1_000_000"))
    name = footplate.json("launch", "job.yml", "--follow")["name"]
    assert len(footplate("logs", name).stdout) == 1_000_001
    assert cut(footplate, "logs", name) == (1, "")


def test_read_only_in_the_settings_refuses_with_4(footplate, tmp_path):
    footplate.settings.write_text("[workspaces.local]\nread_only = true\n")
    (tmp_path / "job.yml").write_text(PYTHON_JOB)
    done = footplate("launch", "job.yml")
    assert done.returncode == 4
    assert "[workspaces.local]" in done.stderr
    assert footplate.json("info")["read_only"] is True
    assert footplate.json("jobs") == []


def test_a_workspace_of_an_unknown_kind_leaves_the_local_one_usable(footplate):
    footplate.settings.write_text("[workspaces.prod]\nkind = 'moon'\nsubscription_id = '0'\nread_only = true\n")
    assert footplate.json("jobs") == []
    done = footplate("jobs", "--workspace", "prod")
    assert done.returncode == 2
    assert "'moon', which this version cannot open" in done.stderr


def test_a_settings_file_that_cannot_be_read_is_a_sentence(footplate):
    footplate.settings.mkdir()
    done = footplate("jobs")
    assert done.returncode == 2
    assert "cannot be read: Is a directory" in done.stderr
    assert "did not foresee" not in done.stderr


def test_following_a_fresh_job_prints_its_log_and_names_the_file_read(footplate, tmp_path):
    (tmp_path / "job.yml").write_text(PYTHON_JOB.replace("flush=True", "end=''"))
    name = footplate.json("launch", "job.yml")["name"]
    done = footplate("logs", name, "--follow")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello", "")
    found = footplate.json("logs", name, "--follow")
    assert found == {
        "job": name,
        "status": "Completed",
        "file": "user_logs/std_log.txt",
        "files": ["user_logs/std_log.txt", "system_logs/supervisor.log"],
    }
    other = "system_logs/supervisor.log"
    assert footplate.json("logs", name, "--file", other)["file"] == other


def test_a_job_with_a_supervisors_log_only_shows_that_and_says_so(footplate, tmp_path):
    (tmp_path / "home" / "data").write_text("a file in the place of the folder")
    more = "inputs: {data: {type: uri_folder, path: 'azureml:birds@latest'}}\n"
    (tmp_path / "job.yml").write_text(f"command: ls ${{{{inputs.data}}}}\nenvironment: azureml:env:1\n{more}")
    name = footplate.json("launch", "job.yml", "--follow", code=1)["name"]
    done = footplate("logs", name)
    assert done.returncode == 0
    assert "could not be drawn" in done.stdout
    assert "its command has written no log. This is system_logs/supervisor.log:" in done.stderr
    assert footplate.json("logs", name)["file"] == "system_logs/supervisor.log"


def test_cancel_goes_on_after_a_fault_and_ends_with_the_highest_code(footplate, tmp_path):
    (tmp_path / "job.yml").write_text("command: while true; do sleep 0.1; done\nenvironment: azureml:env:1\n")
    (tmp_path / "short.yml").write_text(PYTHON_JOB)
    done_before = footplate.json("launch", "short.yml", "--follow")["name"]
    one, two = (footplate.json("launch", "job.yml")["name"] for _ in range(2))
    found = footplate.json("cancel", one, "nope", done_before, two, code=2)
    assert [job["name"] for job in found] == [one, "nope", done_before, two]
    assert ["error" in job and bool(job["error"]) for job in found] == [False, True, True, False]
    for name in (one, two):
        assert footplate("logs", name, "--follow").returncode == 1  # until it has ended
        assert footplate.json("job", name)["status"] == "Canceled"
    again = footplate("cancel", one, done_before, two)
    assert again.returncode == 1
    assert again.stdout == f"{one} is Canceled\n{two} is Canceled\n"
    assert again.stderr.startswith(f"footplate: {done_before}: ")
    assert again.stderr.count("\n") == 1


def test_metrics_are_json_with_moments_in_utc_and_null_for_what_is_no_number(footplate, tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed: a job cannot log metrics")
    script = "import mlflow; mlflow.log_metric('accuracy', 0.5); mlflow.log_metric('loss', float('nan'))"
    (tmp_path / "job.yml").write_text(f'command: python -c "{script}"\nenvironment: azureml:env:1\n')
    name = footplate.json("launch", "job.yml", "--follow")["name"]
    found = footplate.json("metrics", name)
    assert found["accuracy"][0]["value"] == 0.5
    assert found["loss"][0]["value"] is None
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["accuracy"][0]["time"])
    assert "nan" in footplate("metrics", name).stdout


def test_jobs_are_filtered_as_in_the_console(footplate, tmp_path):
    (tmp_path / "job.yml").write_text(PYTHON_JOB)
    (tmp_path / "bad.yml").write_text(PYTHON_JOB.replace("print('hello', flush=True)", "exit(3)"))
    footplate.json("launch", "job.yml", "--name", "good", "--follow")
    footplate.json("launch", "bad.yml", "--name", "bad", "--follow", code=1)

    def names(expression: str) -> list[str]:
        return [job["name"] for job in footplate.json("jobs", "--filter", expression)]

    assert names("") == ["bad", "good"]
    assert names("TESTS") == ["bad", "good"]
    assert names("status:FAIL,running") == ["bad"]
    assert names("!bad") == ["good"]
    assert names("tests !status:failed") == ["good"]
    assert names("exit code 3") == ["bad"]  # the note, as it is shown
    assert "No job passes the filter." in footplate("jobs", "--filter", "nothing-like-it").stdout
    done = footplate("jobs", "--filter", "status:")
    assert (done.returncode, done.stdout) == (2, "")
    assert "names no status" in done.stderr


def test_templates_end_in_yml_or_yaml_and_go_by_their_bare_name(footplate, tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "mine.yaml").write_text(PYTHON_JOB)
    for name in ("mine", "mine.yaml", "train", "train.yml"):
        assert footplate.json("launch", name, "--dry-run", "--compute", "local")["commands"]
    assert footplate("launch", "mine.yml", "--dry-run").returncode == 2


def test_demo_clean_with_nothing_left_says_so_and_runs_nothing(footplate):
    done = footplate("demo", "--clean")
    assert (done.returncode, done.stdout, done.stderr) == (0, "There is nothing to remove.\n", "")
    assert footplate.json("demo", "--clean") == {"removed": {"endpoints": [], "models": [], "jobs": []}}
    assert footplate.json("jobs") == []
    assert "Run none" in footplate("demo", "--help").stdout


COMMANDS = [
    ("jobs",),
    ("jobs", "--json"),
    ("check", "job.yml"),
    ("launch", "job.yml", "--dry-run"),
    ("--help",),
    ("--version",),
]


def redirected(footplate: Footplate, arguments: tuple[str, ...], to: str, **extra: str) -> tuple[int, str]:
    """Run a command by a shell that sends its output elsewhere: its exit code and what it says on stderr."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {to}', "sh", *COMMAND, *arguments],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        cwd=footplate.folder, env={**footplate.environment, **extra},
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [*COMMANDS, ("launch", "job.yml"), ()])
def test_a_closed_output_is_a_sentence_before_anything_is_done(footplate, tmp_path, arguments):
    (tmp_path / "job.yml").write_text(PYTHON_JOB)
    code, said = redirected(footplate, arguments, ">&-")
    assert code == 1
    assert said == "footplate: The output is closed, so there is nowhere to write.\nCall it without >&-.\n"
    assert footplate.json("jobs") == []


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_full_output_is_a_sentence(footplate, tmp_path, arguments, buffered):
    (tmp_path / "job.yml").write_text(PYTHON_JOB)
    code, said = redirected(footplate, arguments, ">/dev/full", PYTHONUNBUFFERED=buffered)
    assert code == 1
    assert "footplate: The output cannot be written: No space left on device.\n" in said
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("to", ["2>&-", "2>/dev/full"])
def test_a_stderr_that_cannot_be_written_changes_no_exit_code(footplate, tmp_path, to):
    (tmp_path / "job.yml").write_text(f"{PYTHON_JOB}inputs: {{never: 1}}\n")
    assert redirected(footplate, ("launch", "job.yml", "--dry-run"), to)[0] == 0
    assert redirected(footplate, ("fly",), to)[0] == 2
    assert redirected(footplate, ("job", "nope"), to)[0] == 2


def test_an_interruption_while_commands_are_loaded_is_a_sentence(footplate):
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'footplate.cli.frame':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.argv = ['footplate', 'jobs']\n"
        "from footplate.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", program], capture_output=True, text=True, check=False, env=footplate.environment
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Interrupted. Jobs and endpoints that were started go on.\n"
