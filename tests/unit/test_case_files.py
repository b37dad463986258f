"""The small files that real users stumbled over: what `check` says of each, to the line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from footplate.jobfile import check, kinds, search_space
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Fault
from footplate.jobfile.rules import policies

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside this checkout")

Expected = tuple[str, str, str, int, int]

FAULTS: dict[str, list[Expected]] = {
    "y01 sub dir/job.yml": [],
    "y02_code_local_path.yml": [("error", "wrong-type", "code", 3, 1)],
    "y03_multiline_pipe.yml": [],
    "y05_optional_input_in_job.yml": [
        ("warning", "optional-brackets", "command", 6, 3),
        ("warning", "optional-brackets", "command", 7, 3),
        ("error", "component-syntax", "inputs.data", 9, 3),
        ("error", "component-syntax", "inputs.lr", 12, 3),
    ],
    "y06_empty_string_input.yml": [
        ("warning", "empty-input", "inputs.tag", 6, 8),
        ("warning", "blank-input", "inputs.note", 7, 9),
    ],
    "y08_typo_and_unused_inputs.yml": [
        ("error", "unbound", "command", 4, 31),
        ("warning", "unused", "inputs.never_used", 8, 3),
    ],
    "y11_shell_metacharacters.yml": [
        ("warning", "shell-characters", "inputs.title", 6, 10),
        ("warning", "shell-characters", "inputs.glob", 7, 9),
        ("warning", "broken-quotes", "inputs.label", 8, 10),
    ],
    "y12_sweep_ok.yml": [],
    "y13_sweep_metric_misspelt.yml": [],
    "y16_sweep_bad_space.yml": [
        ("error", "bounds", "search_space.lr.min_value", 12, 16),
        ("error", "missing-key", "search_space.momentum", 14, 3),
        ("error", "wrong-value", "search_space.bs.type", 19, 11),
        ("error", "out-of-range", "search_space.bs.values", 20, 5),
        ("error", "wrong-value", "objective.goal", 22, 9),
        ("note", "bayesian-trials", "limits.max_total_trials", 25, 21),
    ],
    "y18_distributed_ok.yml": [],
    "y19_instance_count_over_cluster.yml": [],
    "y22_retired_environment.yml": [("warning", "retired-environment", "environment", 5, 14)],
    "y23_tab_and_duplicate_key.yml": [("error", "not-yaml", "", 6, 1)],
    "y25_bom_crlf.yml": [],
    "y26_bad_name_and_unknown_keys.yml": [
        ("error", "bad-name", "name", 3, 7),
        ("error", "unknown-key", "comand", 5, 1),
        ("error", "unknown-key", "enviroment", 6, 1),
        ("error", "unknown-key", "resources.instance_cuont", 9, 3),
    ],
    "y29_pipeline_given_to_command_form.yml": [],
    "y33_ignore_and_links/job.yml": [],
    "y34_endpoint_traffic_110.yml": [("error", "traffic-sum", "traffic", 4, 1)],
    "y36_deployment_code_dot.yml": [],
}


def checked(name: str) -> tuple[JobFile, list[Fault]]:
    job_file, faults = check.check_file(CASES / name)
    assert job_file is not None
    return job_file, faults


def test_every_case_is_here() -> None:
    assert {str(path.relative_to(CASES)) for path in CASES.rglob("*.yml")} == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_what_check_says(name: str) -> None:
    _, faults = check.check_file(CASES / name)
    assert [(f.severity, f.code, f.path, f.line, f.column) for f in faults] == FAULTS[name]
    assert all(fault.file == str(CASES / name) for fault in faults)
    assert all(len(fault.sentence) < 250 for fault in faults), "a sentence, not the wall of alternatives"


def test_y01_the_code_lies_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job_file, _ = checked("y01 sub dir/job.yml")
    assert job_file.code == CASES / "y01 sub dir" / "src"


def test_y02_says_what_to_write() -> None:
    _, (fault,) = checked("y02_code_local_path.yml")
    assert fault.message == "`code` must be a path, not a mapping."
    assert "`code: ./src`" in fault.hint


def test_y03_has_three_commands() -> None:
    job_file, _ = checked("y03_multiline_pipe.yml")
    assert job_file.command.splitlines() == ["pip list", "python train.py --lr ${{inputs.lr}}", "echo finished"]


def test_y05_names_the_inputs_and_their_keys() -> None:
    _, faults = checked("y05_optional_input_in_job.yml")
    said = [fault.message for fault in faults if fault.code == "component-syntax"]
    assert "`data`" in said[0]
    assert "`optional`" in said[0]
    assert "`lr`" in said[1]
    assert "`default`" in said[1]


def test_y06_quotes_what_is_blank_and_names_its_option() -> None:
    job_file, faults = checked("y06_empty_string_input.yml")
    assert job_file.inputs["tag"].literal == ""
    assert "`tag`" in faults[0].message
    assert "' '" in faults[1].message
    assert "`--note` gets no value" in faults[1].message


def test_y08_names_what_was_meant() -> None:
    _, faults = checked("y08_typo_and_unused_inputs.yml")
    assert faults[0].message == "`inputs.learnin_rate` is not defined."
    assert faults[0].hint == "Did you mean ${{inputs.learning_rate}}?"


def test_y11_names_the_characters() -> None:
    _, faults = checked("y11_shell_metacharacters.yml")
    assert "`;`, `&` and `$`" in faults[0].message
    assert "`*`" in faults[1].message
    assert faults[2].hint == 'Write "${{inputs.label}}" in the command, in double quotes.'


def test_y12_is_a_sweep_of_four_trials_two_at_once() -> None:
    job_file, _ = checked("y12_sweep_ok.yml")
    assert job_file.kind == "sweep"
    assert (job_file.get("limits", "max_total_trials"), job_file.get("limits", "max_concurrent_trials")) == (4, 2)
    assert [(space.name, space.kind) for space in search_space.spaces_of(job_file)] == [
        ("lr", "uniform"),
        ("bs", "choice"),
    ]
    assert policies.most_stopped(job_file) == (2, 4)


def test_y16_lists_all_five_faults_with_what_to_do() -> None:
    _, faults = checked("y16_sweep_bad_space.yml")
    errors = [fault for fault in faults if fault.severity == "error"]
    assert len(errors) == 5
    assert "`min_value` 0.1 is above `max_value` 0.001" in errors[0].message
    assert "`q` is missing" in errors[1].message
    assert "Did you mean 'choice'?" in errors[2].hint
    assert "empty list" in errors[3].message
    assert "Did you mean 'maximize'?" in errors[4].hint


def test_y18_runs_four_processes_on_two_nodes() -> None:
    job_file, _ = checked("y18_distributed_ok.yml")
    assert (job_file.nodes, job_file.ranks_per_node, job_file.distribution) == (2, 2, "pytorch")
    assert job_file.resources["shm_size"] == "8g"


def test_y23_names_the_tab() -> None:
    job_file, (fault,) = check.check_file(CASES / "y23_tab_and_duplicate_key.yml")
    assert job_file is None
    assert "tab" in fault.message


def test_y25_reads_through_mark_and_line_ends() -> None:
    job_file, _ = checked("y25_bom_crlf.yml")
    assert job_file.command == "python train.py --epochs ${{inputs.epochs}}"


def test_y26_offers_the_nearest_names() -> None:
    _, faults = checked("y26_bad_name_and_unknown_keys.yml")
    assert "'my run / number 1'" in faults[0].message
    assert [fault.hint for fault in faults[1:]] == [
        "Did you mean `command`?",
        "Did you mean `environment`?",
        "Did you mean `instance_count`?",
    ]


def test_y29_is_known_for_a_pipeline() -> None:
    job_file, _ = checked("y29_pipeline_given_to_command_form.yml")
    assert kinds.TITLES[job_file.kind] == "a pipeline job"


def test_y34_says_the_sum() -> None:
    _, (fault,) = checked("y34_endpoint_traffic_110.yml")
    assert "110" in fault.message


def test_y36_is_a_deployment_whose_script_lies_beside_the_file() -> None:
    job_file, _ = checked("y36_deployment_code_dot.yml")
    assert job_file.kind == "deployment"
    folder = job_file.base / job_file.text_at("code_configuration", "code")
    assert (folder / job_file.text_at("code_configuration", "scoring_script")).is_file()
