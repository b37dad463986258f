"""The launch command and its operation: what is refused before anything starts, what a dry run shows, templates."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.commands import Footplate

from footplate.cli.dry_run import dry_run_text
from footplate.jobfile.changes import marked
from footplate.jobfile.check import check
from footplate.jobfile.document import parse
from footplate.operations import launch
from footplate.workspace import Conflict, Invalid, Unexpected

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"

JOB = """\
# A comment stays.
command: >-
  python train.py --lr ${{inputs.lr}}
  --name "${{inputs.name}}"
environment: azureml:env:1
experiment_name: tests
inputs:
  lr: 0.1
  name: birds
"""
SWEEP = """\
type: sweep
trial:
  command: python train.py --lr ${{search_space.lr}} --bs ${{search_space.bs}} --epochs ${{inputs.epochs}}
  environment: azureml:env:1
inputs: {epochs: 3}
sampling_algorithm: random
search_space:
  lr: {type: uniform, min_value: 0.001, max_value: 0.1}
  bs: {type: choice, values: [4, 8]}
objective: {goal: maximize, primary_metric: val_accuracy}
limits: {max_total_trials: 4, max_concurrent_trials: 1}
"""


@pytest.fixture
def footplate(tmp_path, metrics_store):
    """The commands, with a home of their own, in which metrics have their store already: to make it takes seconds."""
    commands = Footplate(tmp_path)
    commands.home.mkdir()
    shutil.copy(metrics_store, commands.home / "mlflow.db")
    return commands


def written(folder: Path, text: str, name: str = "job.yml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_an_error_stops_a_launch_before_anything_starts(footplate, tmp_path):
    written(tmp_path, JOB.replace("inputs.lr}", "inputs.lrr}"))
    for arguments in ((), ("--json",)):
        done = footplate("launch", "job.yml", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "job.yml:3:24: error:" in done.stderr
        assert "[unbound]" in done.stderr
        assert "inputs.lr" in done.stderr
        assert "--force" in done.stderr
        assert "Traceback" not in done.stderr
    assert footplate.json("jobs") == []


def test_a_warning_is_said_on_stderr_and_stops_nothing(footplate, tmp_path):
    written(tmp_path, "command: 'true'\nenvironment: azureml:env:1\ninputs: {never: 1}\n")
    done = footplate("launch", "job.yml", "--follow", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "Completed"
    assert "warning:" in done.stderr
    assert "[unused]" in done.stderr


def test_force_goes_on_in_spite_of_an_error(footplate, tmp_path):
    written(tmp_path, "command: 'true'\nenvironment: azureml:env:1\nnonsense: 1\n")
    assert footplate("launch", "job.yml").returncode == 2
    done = footplate("launch", "job.yml", "--force", "--follow", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "Completed"
    assert "[unknown-key]" in done.stderr


def test_severities_of_the_settings_hold_for_a_launch(footplate, tmp_path):
    written(tmp_path, "command: 'true'\nenvironment: azureml:env:1\ninputs: {never: 1}\n")
    footplate.settings.write_text('[check.severities]\nunused = "error"\n')
    assert footplate("launch", "job.yml").returncode == 2
    footplate.settings.write_text('[check.severities]\nunused = "off"\n')
    assert "[unused]" not in footplate("launch", "job.yml", "--dry-run").stderr


def test_a_dry_run_shows_what_would_run_with_the_errors_and_ends_with_2(footplate, tmp_path):
    written(tmp_path, f"{JOB}nonsense: 1\n")
    done = footplate("launch", "job.yml", "--dry-run", "--json")
    assert done.returncode == 2
    assert [fault["code"] for fault in json.loads(done.stdout)["faults"]] == ["unknown-key"]
    assert footplate.json("launch", "job.yml", "--dry-run", "--force")["commands"]


def test_a_dry_run_of_a_file_for_another_workspace_says_so_and_is_no_error(footplate, tmp_path):
    written(tmp_path, f"{JOB}compute: azureml:gpu-cluster\n")
    done = footplate("launch", "job.yml", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert "gpu-cluster" in done.stderr
    assert footplate("launch", "job.yml").returncode == 2


def test_a_dry_runs_document_keeps_its_fields_and_names_the_changes(footplate, tmp_path):
    code = tmp_path / "src"
    code.mkdir()
    (code / "train.py").write_text("x" * 2000)
    (code / "old.ckpt").write_text("x" * 9000)
    (code / ".amlignore").write_text("*.ckpt\n")
    written(tmp_path, f"{JOB}code: ./src\n")
    document = footplate.json("launch", "job.yml", "--dry-run", "--set", "inputs.lr=0.25")
    assert document["commands"] == [
        {"rank": 0, "node": 0, "environment": {}, "command": 'python train.py --lr 0.25 --name "birds"'}
    ]
    upload = document["upload"]
    assert (upload["files"], upload["bytes"], upload["ignored_by"]) == (2, 2007, ".amlignore")
    assert upload["largest"][0] == {"path": "train.py", "bytes": 2000}
    assert upload["ignored"] == [{"path": "old.ckpt", "rule": "*.ckpt", "where": ".amlignore:1"}]
    assert document["yaml"] == (tmp_path / "job.yml").read_text().replace("lr: 0.1", "lr: 0.25")
    (change,) = document["changes"]
    assert (change["line"], change["before"]) == (8, ["  lr: 0.1"])
    assert [change["text"][a:b] for a, b in change["spans"]] == ["0.25"]


def test_a_dry_run_for_readers_shows_line_breaks_rules_and_marks(tmp_path):
    path = written(tmp_path, JOB.replace("command: >-", "command: |"))
    job_file = launch.prepare(path, ["inputs.lr=0.25"])
    text = dry_run_text(launch.dry_run(job_file), launch.marked_lines(job_file))
    lines = text.splitlines()
    assert "  python train.py --lr 0.25⏎" in lines
    at = lines.index("  +   lr: 0.25")
    assert lines[at - 1] == "  -   lr: 0.1"
    assert lines[at + 1] == "          ^^^^"
    assert "    # A comment stays." in lines


def test_a_dry_run_of_a_sweep_shows_ranges_and_three_trials(footplate, tmp_path):
    written(tmp_path, SWEEP, "sweep.yml")
    document = footplate.json("launch", "sweep.yml", "--dry-run")
    assert document["search_space"] == {"lr": ["uniform", [0.001, 0.1]], "bs": ["choice", [[4, 8]]]}
    assert document["commands"][0]["command"].startswith("python train.py --lr ${{search_space.lr}}")
    assert len(document["trials"]) == 3
    for trial in document["trials"]:
        lr, bs = trial["values"]["lr"], trial["values"]["bs"]
        assert trial["command"] == f"python train.py --lr {lr} --bs {bs} --epochs 3"
        assert trial["environment"] == {"AZUREML_SWEEP_lr": lr, "AZUREML_SWEEP_bs": bs}
    text = footplate("launch", "sweep.yml", "--dry-run").stdout
    assert "0.001 to 0.1" in text
    assert "trial 3: lr " in text


def test_a_templates_misspelt_name_is_told_the_nearest(footplate):
    for typed, hint in (("trian", "Did you mean train?"), ("zzzzz", "The templates are ")):
        done = footplate("launch", typed)
        assert (done.returncode, hint in done.stderr) == (2, True), done.stderr
    assert "cannot be read" in footplate("launch", "trian.yml").stderr


def test_what_the_local_workspace_does_not_run_is_a_sentence(footplate, tmp_path):
    written(tmp_path, f"{JOB}distribution: {{type: ray}}\n")
    assert footplate("launch", "job.yml", "--dry-run").returncode == 0
    done = footplate("launch", "job.yml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "distribution 'ray', which the local workspace does not run" in done.stderr
    assert "with distribution pytorch, mpi, tensorflow or none" in done.stderr
    assert footplate.json("jobs") == []


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ("input.epochs=1", "Did you mean inputs.epochs?"),
        ("epochs=1", "Did you mean inputs.epochs?"),
        ("inputs.epoch=1", "Did you mean inputs.epochs?"),
        ("lr=1", "Did you mean search_space.lr?"),
        ("command=x", "Did you mean trial.command?"),
        ("trial.comand=x", "Did you mean trial.command?"),
        ("limits.max_trials=3", "Did you mean limits.max_total_trials?"),
        ("search_space.lr.max=1", "Did you mean search_space.lr.max_value?"),
        ("search_space.bs.values=4", r"search_space\.bs\.values=\[4\]"),
        ("search_space.bs.values=[4", r"\[4, 8\]"),
        ("zzz=1", "Known: "),
        ("..=1", "names nothing"),
    ],
)
def test_a_key_that_is_not_there_names_the_nearest(tmp_path, change, hint):
    with pytest.raises(Invalid, match=hint):
        launch.prepare(written(tmp_path, SWEEP), [change])


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ("search_space.bs.values=[4]", ("search_space", "bs", "values"), [4]),
        ("search_space.bs.values.1=16", ("search_space", "bs", "values", 1), 16),
        ("search_space.lr.max_value=0.5", ("search_space", "lr", "max_value"), 0.5),
        (
            "sampling_algorithm={type: random, rule: sobol}",
            ("sampling_algorithm",),
            {"type": "random", "rule": "sobol"},
        ),
        ("early_termination.type=bandit", ("early_termination", "type"), "bandit"),
        ("trial.resources.shm_size=8g", ("trial", "resources", "shm_size"), "8g"),
        ("limits.max_total_trials=8", ("limits", "max_total_trials"), 8),
        ("tags.owner=me", ("tags", "owner"), "me"),
        ("tags.demo=yes", ("tags", "demo"), "yes"),
        ("experiment_name=2024", ("experiment_name",), "2024"),
        ("trial.environment_variables.DEBUG=1", ("trial", "environment_variables", "DEBUG"), 1),
        ("inputs.epochs=1e-3", ("inputs", "epochs"), "1e-3"),
        ("inputs.epochs=yes", ("inputs", "epochs"), True),
        ("inputs.epochs=[a", ("inputs", "epochs"), "[a"),
    ],
)
def test_any_key_of_a_sweep_can_be_set(tmp_path, change, path, value):
    assert launch.prepare(written(tmp_path, SWEEP), [change]).get(*path) == value


def test_a_data_input_is_set_by_its_path_or_whole(tmp_path):
    path = written(tmp_path, f"{JOB}  data: {{type: uri_folder, path: ./a}}\n  held: {{value: 3}}\n")
    assert launch.prepare(path, ["inputs.data=./b"]).inputs["data"].path == "./b"
    assert launch.prepare(path, ["inputs.data={type: uri_file, path: c.csv}"]).inputs["data"].type == "uri_file"
    assert launch.prepare(path, ["inputs.data.mode=download"]).inputs["data"].mode == "download"
    assert launch.prepare(path, ["inputs.held=4"]).inputs["held"].literal == "4"


def test_the_cluster_of_a_pipeline_is_that_of_all_steps_that_name_none(tmp_path):
    text = "type: pipeline\njobs:\n  a: {command: echo, environment: 'azureml:e:1'}\n"
    made = launch.prepare(written(tmp_path, text), compute="gpu", name="p1")
    assert (made.get("settings", "default_compute"), made.name) == ("azureml:gpu", "p1")
    assert launch.prepare(written(tmp_path, JOB), compute="gpu").compute == "gpu"


def test_templates_are_offered_from_here_and_from_beside_the_settings(tmp_path, monkeypatch):
    here, own = tmp_path / "here", tmp_path / "settings"
    for folder in (here / "jobs", own / "jobs"):
        folder.mkdir(parents=True)
    written(here / "jobs", JOB, "mine.yml")
    written(here / "jobs", JOB, ".hidden.yml")
    written(here / "jobs", "x", "notes.txt")
    written(own / "jobs", JOB, "ours.yaml")
    os.mkfifo(here / "jobs" / "pipe.yml")
    (here / "jobs" / "gone.yml").symlink_to("nowhere")
    (here / "jobs" / "folder.yml").mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(own / "config.toml"))
    names = [path.name for path in launch.templates()]
    assert names[-2:] == ["mine.yml", "ours.yaml"]
    assert {"train.yml", "train-distributed.yml", "sweep.yml"} <= set(names)
    assert not {"pipe.yml", "gone.yml", "folder.yml", ".hidden.yml"} & set(names)
    assert launch.find("ours") == (own / "jobs" / "ours.yaml").resolve()
    assert [str(folder) for folder in launch.own_folders()] == [str(here / "jobs"), str(own / "jobs")]


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not there")
def test_the_preview_of_a_distributed_job_lists_every_ranks_variables(footplate):
    document = footplate.json("launch", str(CASES / "y18_distributed_ok.yml"), "--dry-run")
    assert [rank["environment"]["RANK"] for rank in document["commands"]] == ["0", "1", "2", "3"]
    assert {rank["environment"]["WORLD_SIZE"] for rank in document["commands"]} == {"4"}
    assert "shm_size: 8g" in document["yaml"]


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not there")
def test_the_preview_of_an_upload_names_what_stays_behind(footplate):
    done = footplate("launch", str(CASES / "y33_ignore_and_links" / "job.yml"), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "Upload: 2 files, 54 B, by .amlignore" in done.stdout
    assert "*.ckpt" in done.stdout
    assert ".amlignore:2" in done.stdout
    assert "../.gitignore has no effect" in done.stdout


def test_what_the_form_and_the_command_mark_is_the_same(tmp_path):
    path = written(tmp_path, JOB)
    job_file = launch.prepare(path, ["inputs.lr=0.25"])
    assert launch.marked_lines(job_file) == marked(JOB, job_file.text)
    assert launch.changes_of(launch.prepare(path)) == []


def test_a_saved_template_means_the_same_in_its_new_folder(tmp_path):
    (tmp_path / "work" / "src").mkdir(parents=True)
    path = written(tmp_path / "work", f"{JOB}code: ./src\n")
    job_file = launch.prepare(path, ["inputs.lr=0.25"])
    saved = launch.save_template(job_file, "mine", tmp_path / "other" / "jobs")
    assert saved == tmp_path / "other" / "jobs" / "mine.yml"
    again = launch.prepare(saved)
    assert again.code == tmp_path / "work" / "src"
    assert again.inputs["lr"].literal == "0.25"
    assert "# A comment stays." in saved.read_text()
    assert [one.name for one in saved.parent.iterdir()] == ["mine.yml"]
    assert saved.stat().st_mode & 0o777 == path.stat().st_mode & 0o777


def test_a_template_is_never_overwritten(tmp_path):
    job_file = launch.prepare(written(tmp_path, JOB))
    launch.save_template(job_file, "mine.yml", tmp_path / "jobs")
    before = (tmp_path / "jobs" / "mine.yml").read_bytes()
    with pytest.raises(Conflict, match=r"There is a mine\.yml"):
        launch.save_template(launch.change_values(job_file, {"inputs.lr": "9"}), "mine", tmp_path / "jobs")
    assert (tmp_path / "jobs" / "mine.yml").read_bytes() == before
    (tmp_path / "jobs" / "gone.yml").symlink_to("nowhere")
    with pytest.raises(Conflict):
        launch.save_template(job_file, "gone", tmp_path / "jobs")
    assert sorted(one.name for one in (tmp_path / "jobs").iterdir()) == ["gone.yml", "mine.yml"]


@pytest.mark.parametrize("name", ["", " ", ".hidden", "a/b", "../up", "x" * 300, "a\nb", "\x1b[31m", ".yml"])
def test_what_is_no_files_name_is_no_templates_name(tmp_path, name):
    with pytest.raises(Invalid, match="cannot be a template's name"):
        launch.save_template(launch.prepare(written(tmp_path, JOB)), name, tmp_path / "jobs")
    assert not (tmp_path / "jobs").exists()


def test_a_template_that_cannot_be_written_is_a_sentence(tmp_path):
    written(tmp_path, "", "jobs")
    with pytest.raises(Unexpected, match="could not be written"):
        launch.save_template(launch.prepare(written(tmp_path, JOB)), "mine", tmp_path / "jobs")


@pytest.mark.parametrize(
    ("typed", "written_as"), [("local", "azureml:local"), ("azureml:gpu", "azureml:gpu"), ("serverless", "serverless")]
)
def test_a_pipelines_cluster_is_written_as_azures_client_reads_it(tmp_path, typed, written_as):
    text = "type: pipeline\nsettings: {default_compute: azureml:cpu}\njobs:\n  a: {command: echo, environment: 'azureml:e:1'}\n"
    made = launch.prepare(written(tmp_path, text), compute=typed)
    assert made.get("settings", "default_compute") == written_as


def test_the_compute_of_a_pipeline_is_that_of_every_step(tmp_path):
    text = "type: pipeline\njobs:\n  a: {command: echo, compute: azureml:gpu}\n  b: {command: echo}\n"
    made = launch.changed(parse(text, None, tmp_path), compute="local")
    assert made.get("jobs", "a", "compute") == "azureml:local"
    assert made.get("jobs", "b", "compute") is None
    assert made.get("settings", "default_compute") == "azureml:local"
    assert [fault.message for fault in check(made)] == []


def test_a_file_that_is_never_launched_is_not_to_be_forced(footplate, tmp_path):
    written(tmp_path, "name: blue\nendpoint_name: birds\nmodel: azureml:m:1\nscale_settings: {type: nope}\n")
    for arguments in ((), ("--dry-run",)):
        done = footplate("launch", "job.yml", *arguments)
        assert done.returncode == 2
        assert "an online deployment, which is not launched" in done.stderr
        assert "--force" not in done.stderr


def test_a_word_set_for_a_text_says_how_yaml_read_it(footplate, tmp_path):
    written(tmp_path, JOB)
    done = footplate("launch", "job.yml", "--set", "inputs.name=no", "--dry-run", "--json")
    assert json.loads(done.stdout)["commands"][0]["command"].endswith('--name "False"')
    assert "`name` is written no and read as false, and sent as False. [read-otherwise]" in done.stderr
    assert "quote it: 'no'" in done.stderr


def test_code_that_is_one_file_is_uploaded_alone(tmp_path):
    (tmp_path / "train.py").write_text("print()")
    (tmp_path / "other.py").write_text("print()")
    document = launch.dry_run(launch.prepare(written(tmp_path, f"{JOB}code: train.py\n")))
    assert (document["upload"]["files"], document["upload"]["bytes"]) == (1, 7)
    assert document["upload"]["largest"] == [{"path": "train.py", "bytes": 7}]


def test_a_dry_run_and_a_launch_say_what_azure_would_do_otherwise(footplate, tmp_path):
    written(tmp_path, f"{JOB}resources: {{shm_size: 2g}}\n")
    rows = footplate.json("launch", "job.yml", "--dry-run")["differs_on_azure"]
    assert [row["topic"] for row in rows if row["topic"] == "machine"] == ["machine"]
    assert all(set(row) == {"topic", "here", "azure"} for row in rows)
    assert "On Azure this would differ\n  start" in footplate("launch", "job.yml", "--dry-run").stdout
    assert "On Azure this would differ: start, " in footplate("launch", "job.yml").stderr
