"""What a file names on this machine, endpoints with their scripts and traffic, what is retired, and version 1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from footplate.jobfile import document
from footplate.jobfile.check import check, check_file
from footplate.jobfile.faults import Fault

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason=f"{CASES} is not there")

HEAD = "command: python train.py\nenvironment: azureml:e:1\n"


def faults(folder: Path, text: str) -> list[Fault]:
    """The faults of a file of this text in the folder."""
    (folder / "job.yml").write_text(text)
    return check_file(folder / "job.yml")[1]


def found(folder: Path, text: str) -> list[tuple[str, str, int]]:
    """Code, severity and line of each."""
    return [(fault.code, fault.severity, fault.line) for fault in faults(folder, text)]


# --- code folders and scripts ----------------------------------------------------------------------


def test_a_code_folder_that_is_not_there_names_the_nearest(tmp_path):
    (tmp_path / "src").mkdir()
    (only,) = faults(tmp_path, f"{HEAD}code: ./scr\n")
    assert (only.code, only.line, only.column) == ("code-missing", 3, 7)
    assert only.sentence == "The code folder ./scr is not there. Did you mean `./src`?"
    (tmp_path / "src").rmdir()
    (only,) = faults(tmp_path, f"{HEAD}code: ./scr\n")
    assert str(tmp_path) in only.hint


@pytest.mark.parametrize(
    ("there", "named", "near"),
    [
        ("comp.yml", "nope.yml", ""),
        ("a.yml", "b.yml", ""),
        ("train.yml", "trian.yml", "train.yml"),
        ("conda.yml", "conda.yaml", "conda.yml"),
    ],
)
def test_an_ending_that_two_files_share_does_not_make_them_alike(tmp_path, there, named, near):
    (tmp_path / there).touch()
    text = f"command: echo\nenvironment: {{image: x, conda_file: {named}}}\n"
    (only,) = faults(tmp_path, text)
    assert only.hint.startswith(f"Did you mean `{near}`" if near else "Paths are relative")


def test_paths_are_relative_to_the_file_wherever_check_is_started(tmp_path, monkeypatch):
    (tmp_path / "jobs" / "src").mkdir(parents=True)
    (tmp_path / "jobs" / "src" / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs" / "job.yml").write_text(f"{HEAD}code: src\n")
    assert check_file(Path("jobs/job.yml"))[1] == []


@pytest.mark.parametrize(
    "code",
    ["git+https://example.org/a.git", "azureml:code:1", "https://example.org/a.zip", "${{parent.inputs.code}}", '""'],
)
def test_code_that_lies_elsewhere_is_left_alone(tmp_path, code):
    assert "code-missing" not in [code for code, _, _ in found(tmp_path, f"{HEAD}code: {code}\n")]


@pytest.mark.parametrize("code", ["azureml:./src", "file:./src"])
def test_nothing_stands_before_the_path_of_code(tmp_path, code):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    assert found(tmp_path, f"{HEAD}code: {code}\n") == [("wrong-value", "error", 3)]


def test_one_file_as_code_is_a_warning(tmp_path):
    (tmp_path / "train.py").touch()
    assert ("code-not-folder", "warning", 3) in found(tmp_path, f"{HEAD}code: ./train.py\n")


def test_dangling_links_loops_and_endless_names_are_not_there(tmp_path):
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for code in ("gone", "loop", "a" * 300, "a/" * 2000, "job.yml/src"):
        assert found(tmp_path, f"{HEAD}code: {code}\n")[0][:2] == ("code-missing", "error"), code[:20]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_what_may_not_be_looked_at_is_no_fault(tmp_path):
    (tmp_path / "closed" / "src").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    try:
        assert found(tmp_path, f"{HEAD}code: closed/src\n") == []
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_a_script_that_is_not_in_the_code_folder_names_the_nearest(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    text = "environment: azureml:e:1\ncode: src\ncommand: |\n  pip list\n  python -u trian.py --epochs 1\n"
    (only,) = faults(tmp_path, text)
    assert (only.code, only.severity, only.line, only.column) == ("script-missing", "warning", 5, 13)
    assert only.sentence == "The script trian.py is not in the code folder src. Did you mean train.py?"


@pytest.mark.parametrize(
    "command",
    [
        "python train.py",
        "python -m package.train",
        "python /opt/tool.py",
        "cd deeper && python other.py",
        "git clone address && python other.py",
        "wget address/other.py && python other.py",
        "echo 'print(1)' > other.py && python other.py",
        "python ${{inputs.script}}.py",
        "python $SCRIPT.py",
        "python -c 'print(1)'",
        "mypython other.py",
        "bash run.sh",
    ],
)
def test_only_a_plain_script_is_looked_for(tmp_path, command):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    text = f"environment: azureml:e:1\ncode: src\ncommand: {command}\ninputs: {{script: other}}\n"
    assert "script-missing" not in [code for code, _, _ in found(tmp_path, text)]


def test_a_trial_and_every_step_have_their_code_looked_at(tmp_path):
    sweep = "type: sweep\ntrial:\n  command: echo\n  environment: azureml:e:1\n  code: nope\n"
    assert ("code-missing", "error", 5) in found(tmp_path, sweep)
    steps = (
        "type: pipeline\njobs:\n"
        "  a: {command: echo, environment: azureml:e:1, code: nope}\n"
        "  b:\n    type: sweep\n    trial: {command: echo, environment: azureml:e:1, code: nope}\n"
        "  c:\n    type: parallel\n    task: {code: nope, entry_script: a.py, environment: azureml:e:1}\n"
    )
    missing = [line for code, _, line in found(tmp_path, steps) if code == "code-missing"]
    assert missing == [3, 6, 9]


# --- data and environments -------------------------------------------------------------------------


def test_data_that_is_not_there_or_of_another_kind_is_a_warning(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.csv").touch()
    text = (
        "command: ls ${{inputs.a}} ${{inputs.b}} ${{inputs.c}} ${{inputs.d}} ${{inputs.e}} ${{inputs.f}}\n"
        "environment: azureml:e:1\ninputs:\n"
        "  a: {type: uri_file, path: ./flie.csv}\n"
        "  b: {type: uri_folder, path: file.csv}\n"
        "  c: {type: uri_file, path: folder}\n"
        "  d: {type: uri_file, path: file.csv}\n"
        "  e: {type: uri_folder, path: azureml:birds:1}\n"
        "  f: {type: mltable, path: wasbs://data@account.example/table}\n"
    )
    assert found(tmp_path, text) == [
        ("data-missing", "warning", 4),
        ("data-kind", "warning", 5),
        ("data-kind", "warning", 6),
    ]
    assert faults(tmp_path, text)[0].hint == "Did you mean `./file.csv`?"


def test_the_files_of_an_environment_are_needed(tmp_path):
    (tmp_path / "conda.yml").touch()
    for environment, line in (
        ("\n  image: python\n  conda_file: ./conad.yml", 4),
        ("\n  build:\n    path: docker", 4),
        (" file:./env.yml", 2),
    ):
        text = f"command: echo\nenvironment:{environment}\n"
        assert found(tmp_path, text) == [("environment-file-missing", "error", line)], environment
    assert found(tmp_path, "command: echo\nenvironment: {image: python, conda_file: conda.yml}\n") == []
    assert found(tmp_path, "command: echo\nenvironment: {image: python, conda_file: {dependencies: [pip]}}\n") == []


# --- endpoints and deployments ---------------------------------------------------------------------

DEPLOYMENT = "name: blue\nendpoint_name: birds\ninstance_type: Standard_DS3_v2\ninstance_count: 1\nmodel: azureml:m:1\n"


@needs_cases
def test_case_y34_the_sum_is_shown():
    (only,) = check_file(CASES / "y34_endpoint_traffic_110.yml")[1]
    assert (only.code, only.severity, only.line) == ("traffic-sum", "error", 4)
    assert "60 + 50 = 110" in only.message


@needs_cases
def test_case_y36_the_script_is_found_in_the_files_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_file(CASES / "y36_deployment_code_dot.yml")[1] == []


@pytest.mark.parametrize(
    ("traffic", "wanted"),
    [
        ("{blue: 90, green: 10}", []),
        ("{blue: 0, green: 0}", []),
        ("{}", []),
        ("{blue: 60}", [("traffic-sum", "error", 3)]),
        ("{blue: 60, green: 50}", [("traffic-sum", "error", 3)]),
        ("{blue: 110, green: -10}", [("out-of-range", "error", 3)] * 2),
    ],
)
def test_traffic_adds_up(tmp_path, traffic, wanted):
    assert found(tmp_path, f"name: birds\nauth_mode: key\ntraffic: {traffic}\n") == wanted


def test_traffic_is_mirrored_to_one_deployment_that_takes_no_other(tmp_path):
    head = "name: birds\nauth_mode: key\ntraffic: {blue: 100}\n"
    assert found(tmp_path, f"{head}mirror_traffic: {{green: 10}}\n") == []
    assert found(tmp_path, f"{head}mirror_traffic: {{green: 10, red: 10}}\n") == [("mirror-traffic", "error", 4)]
    assert found(tmp_path, f"{head}mirror_traffic: {{blue: 10}}\n") == [("mirror-traffic", "warning", 4)]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("birds", None),
        ("a-b-c1", None),
        ("a" * 32, None),
        ("ab", "error"),
        ("a" * 33, "error"),
        ("2-birds", "error"),
        ("birds-", "error"),
        ("the_birds", "error"),
        ("'{{NAME}}'", "error"),
        ("a--b", "warning"),
    ],
)
def test_names_are_such_as_azure_takes(tmp_path, name, severity):
    wanted = [("online-name", severity, 1)] if severity else []
    assert found(tmp_path, f"name: {name}\nauth_mode: key\ntraffic: {{}}\n") == wanted


def test_a_deployments_names_are_often_given_on_the_command_line(tmp_path):
    text = DEPLOYMENT.replace("birds", "<endpoint>").replace("name: blue", "name: the_blue", 1)
    assert found(tmp_path, text) == [("online-name", "warning", 1), ("online-name", "warning", 2)]


def test_a_scoring_script_that_is_not_there_names_the_nearest(tmp_path):
    text = f"{DEPLOYMENT}environment: azureml:e:1\ncode_configuration:\n  code: score\n  scoring_script: scroe.py\n"
    assert found(tmp_path, text) == [("code-missing", "error", 8)]
    (tmp_path / "score").mkdir()
    assert found(tmp_path, text) == [("scoring-script", "warning", 9)], "an empty folder is no misspelt name"
    (tmp_path / "score" / "score.py").touch()
    (only,) = faults(tmp_path, text)
    assert (only.severity, only.hint) == ("error", "Did you mean score.py?")
    assert found(tmp_path, text.replace("scroe", "score")) == []
    assert [code for code, _, _ in found(tmp_path, text.partition("  scoring")[0])] == ["scoring-script"]


def test_a_model_from_this_machine_lies_at_its_path(tmp_path):
    text = DEPLOYMENT.replace("model: azureml:m:1", "model:\n  path: ./model")
    assert found(tmp_path, text) == [("data-missing", "error", 6)]
    (tmp_path / "model").mkdir()
    assert found(tmp_path, text) == []


# --- what is over ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "year"),
    [
        ("Standard_NC6", "2023"),
        ("STANDARD_NC24rs_v2", "2023"),
        ("standard_nv12", "2023"),
        ("Standard_ND24rs", "2023"),
        ("Standard_NC6s_v3", "2025"),
        ("Basic_A1", "2024"),
        ("Standard_A8", "2024"),
        ("Standard_NV4as_v4", "2026"),
        ("Standard_DS3_v2", ""),
        ("Standard_A8_v2", ""),
        ("Standard_NC4as_T4_v3", ""),
        ("Standard_NC24ads_A100_v4", ""),
        ("Standard_ND96asr_v4", ""),
        ("Standard_E4s_v3", ""),
    ],
)
def test_retired_sizes_are_told_with_their_year(tmp_path, size, year):
    cluster = f"name: gpu-cluster\ntype: amlcompute\nsize: {size}\nmax_instances: 2\n"
    job = f"{HEAD}resources:\n  instance_type: {size}\n"
    for text, line in ((cluster, 3), (job, 4)):
        told = [fault for fault in faults(tmp_path, text) if fault.code == "retired-size"]
        assert [fault.line for fault in told] == ([line] if year else [])
        assert all(year in fault.message and fault.severity == "warning" for fault in told)


@pytest.mark.parametrize(
    ("environment", "today"),
    [
        ("azureml:AzureML-PyTorch-1.6-CPU@latest", "acpt-pytorch-2"),
        ("azureml:AzureML-pytorch-1.10-ubuntu18.04-py38-cuda11-gpu:3", "acpt-pytorch-2"),
        ("azureml:AzureML-ACPT-pytorch-1.12-py39-cuda11.6-gpu:1", "acpt-pytorch-2"),
        ("azureml:AzureML-TensorFlow-2.2-GPU:1", "tensorflow-2.16"),
        ("azureml:AzureML-Minimal@latest", "sklearn-1.5"),
        ("azureml:AzureML-sklearn-0.24-ubuntu18.04-py37-cpu:9", "sklearn-1.5"),
        ("azureml://registries/azureml/environments/acpt-pytorch-1.13-cuda11.7/versions/3", "acpt-pytorch-2"),
        ("azureml:AzureML-sklearn-1.5@latest", ""),
        ("azureml:AzureML-sklearn-1.0-ubuntu20.04-py38-cpu@latest", ""),
        ("azureml:AzureML-lightgbm-3.3@latest", ""),
        ("azureml:AzureML-acpt-pytorch-2.8-cuda12.6@latest", ""),
        ("azureml://registries/azureml/environments/tensorflow-2.16-cuda12/labels/latest", ""),
        ("azureml:my-pytorch-1.6:4", ""),
    ],
)
def test_retired_environments_say_what_to_write_today(tmp_path, environment, today):
    told = [
        f for f in faults(tmp_path, f"command: echo\nenvironment: {environment}\n") if f.code == "retired-environment"
    ]
    assert [(fault.line, fault.severity, today in fault.hint) for fault in told] == (
        [(2, "warning", True)] if today else []
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "# v1\nscript: train.py\nframework: PyTorch\ncommunicator: Mpi\ntarget: gpu\nnodeCount: 2\n",
            2,
            "`command: python train.py",
        ),
        ("computeType: ACI\ncontainerResourceRequirements: {cpu: 1, memoryInGB: 4}\n", 1, "an online deployment"),
        ("entryScript: score.py\nsourceDirectory: ./src\nenvironment: {name: e}\n", 1, "`code_configuration`"),
        ("pipeline:\n  name: p\n  steps: {a: {type: PythonScriptStep}}\n", 1, "a pipeline job"),
    ],
)
def test_version_1_says_what_to_write_today(tmp_path, text, line, words):
    (only,) = faults(tmp_path, text)
    assert (only.code, only.severity, only.line, only.column) == ("version-1", "error", line, 1)
    assert words in only.hint


def test_a_file_of_faults_alone_ends_soon(tmp_path):
    """Looking for the nearest name is dear: the hundredth fault has none any more."""
    for number in range(1000):
        (tmp_path / f"data-{number:04}").touch()
    inputs = "".join(f"  x{n}: {{path: ./dta-{n}}}\n" for n in range(2000))
    command = " ".join(f"${{{{inputs.x{n}}}}}" for n in range(2000))
    text = f"command: echo {command}\nenvironment: azureml:e:1\ninputs:\n{inputs}"
    job_file = document.parse(text, None, tmp_path)
    missing = [fault for fault in check(job_file) if fault.code == "data-missing"]
    assert len(missing) == 2000
    assert "Did you mean" in missing[0].hint
    assert "Did you mean" not in missing[-1].hint


# --- numbers and names of clusters and deployments ---------------------------------------------------


DEPLOYMENT_OF_A_MODEL = "name: blue\nendpoint_name: birds\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("min_instances: 5\nmax_instances: 2\n", [("instances", "error", 3)]),
        ("min_instances: 2\nmax_instances: 2\n", []),
        ("min_instances: 2\n", []),
        ('min_instances: "x"\nmax_instances: 2\n', [("wrong-type", "error", 3)]),
    ],
)
def test_a_clusters_least_number_of_nodes_is_not_above_the_greatest(tmp_path, text, expected):
    assert found(tmp_path, f"name: cpu\ntype: amlcompute\n{text}") == expected


def test_a_deployments_least_number_of_instances_is_not_above_the_greatest(tmp_path):
    scale = "scale_settings: {type: target_utilization, min_instances: 5, max_instances: 1}\n"
    assert found(tmp_path, f"{DEPLOYMENT_OF_A_MODEL}model: azureml:m:1\n{scale}") == [("instances", "error", 6)]


@pytest.mark.parametrize(
    ("name", "severity"),
    [("c_p u", "error"), ("'[b]c'", "error"), ("cpu_1", "warning"), ("c", "warning"), ("cpu-1", ""), ("CPU", "")],
)
def test_a_clusters_own_name(tmp_path, name, severity):
    told = [fault for fault in faults(tmp_path, f"type: amlcompute\nname: {name}\n") if fault.path == "name"]
    assert [(fault.code, fault.severity, fault.line) for fault in told] == (
        [("own-compute-name", severity, 2)] if severity else []
    )


@pytest.mark.parametrize(
    ("model", "version"),
    [("azureml:m:abc", "abc"), ("azureml:m:1.5", "1.5"), ("azureml:m:2022-02-03", "2022-02-03")],
)
def test_a_models_version_is_a_whole_number(tmp_path, model, version):
    (only,) = faults(tmp_path, f"{DEPLOYMENT_OF_A_MODEL}model: {model}\n")
    assert (only.code, only.severity, only.line) == ("model-version", "warning", 5)
    assert version in only.message


@pytest.mark.parametrize(
    "model", ["azureml:m:12", "azureml:m@latest", "azureml:m", "azureml://registries/r/models/m/versions/1"]
)
def test_other_references_to_models_are_left_alone(tmp_path, model):
    assert "model-version" not in [code for code, _, _ in found(tmp_path, f"{DEPLOYMENT_OF_A_MODEL}model: {model}\n")]


def test_an_environments_version_may_be_any_text(tmp_path):
    assert found(tmp_path, "command: echo\nenvironment: azureml:env:2022-02-03\n") == []


def test_a_model_with_a_version_needs_a_name(tmp_path):
    (tmp_path / "model").mkdir()
    text = f"{DEPLOYMENT_OF_A_MODEL}model: {{path: ./model, version: 1}}\n"
    assert found(tmp_path, text) == [("missing-key", "error", 5)]


@pytest.mark.parametrize(
    ("kind", "wait", "told"),
    [
        ("managed", 180_000, False),
        ("managed", 180_001, True),
        ("kubernetes", 300_000, False),
        ("kubernetes", 300_001, True),
    ],
)
def test_a_request_waits_no_longer_than_an_endpoint_does(tmp_path, kind, wait, told):
    text = (
        f"{DEPLOYMENT_OF_A_MODEL}model: azureml:m:1\ntype: {kind}\nrequest_settings: {{request_timeout_ms: {wait}}}\n"
    )
    assert ("request-timeout" in [code for code, _, _ in found(tmp_path, text)]) == told
