"""The form of a job file: which fields it has, how values are read, and what an edit does to the text."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footplate.jobfile import document, form, nodes
from footplate.jobfile.document import JobFile, Unreadable
from footplate.jobfile.search_space import spaces_of
from footplate.operations.outlook import look_of, look_out
from footplate.workspace import Invalid

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
needs_corpus = pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="the corpus is not beside the repository")
needs_cases = pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the cases are not beside the repository")

COMMAND = """\
command: python train.py ${{inputs.lr}} ${{inputs.shuffle}} ${{inputs.tag}} ${{inputs.data}}
environment: azureml:e:1  # an image
compute: azureml:gpu
inputs:
  lr: 1e-3   # how fast
  steps: 1.10
  shuffle: no
  tag: " "
  mode: {value: 010}
  data:
    type: uri_folder
    path: ./pictures
    mode: download
  long: |
    one
    two
environment_variables:
  LEVEL: 3
"""

SWEEP = """\
type: sweep
trial:
  command: python train.py ${{search_space.lr}} ${{search_space.bs}}
  environment: azureml:e:1
sampling_algorithm: random  # for now
search_space:
  lr:
    type: uniform  # flat
    min_value: 0.001
    max_value: 0.1
  bs:
    type: choice
    values: [4, 8]
objective: {goal: maximize, primary_metric: val_acc}
limits:
  max_total_trials: 8
  max_concurrent_trials: 3
"""


def parse(text: str) -> JobFile:
    return document.parse(text, None, Path("/nowhere"))


def field(job_file: JobFile, *path: str | int) -> form.Field:
    return next(field for field in form.fields(job_file) if field.path == path)


def put(job_file: JobFile, typed: str, *path: str | int) -> JobFile:
    return form.apply(job_file, {path: typed})


def test_each_input_has_a_fitting_field_that_says_how_it_was_read():
    job_file = parse(COMMAND)
    found = {f.label: (f.kind, f.value, f.read_as) for f in form.fields(job_file) if f.section == "Inputs"}
    assert found == {
        "lr": ("text", "1e-3", "text"),
        "steps": ("number", "1.10", "number 1.1"),
        "shuffle": ("flag", "false", "boolean False"),
        "tag": ("text", " ", 'text " "'),
        "mode": ("whole", "010", "integer 8"),
        "data": ("path", "./pictures", "uri_folder, download"),
        "long": ("long text", "one\ntwo\n", "text"),
    }
    assert "text" in field(job_file, "inputs", "lr").surprise
    assert "8" in field(job_file, "inputs", "mode", "value").surprise
    assert field(job_file, "inputs", "tag").surprise == ""
    assert field(job_file, "inputs", "long").fixed == "2 lines"


def test_a_field_changes_its_own_characters_and_no_others():
    job_file = parse(COMMAND)
    assert put(job_file, "1.0e-3", "inputs", "lr").text == COMMAND.replace("1e-3", "1.0e-3")
    assert put(job_file, "true", "inputs", "shuffle").text == COMMAND.replace("shuffle: no", "shuffle: true")
    assert put(job_file, "cpu", "compute").text == COMMAND.replace("azureml:gpu", "azureml:cpu")
    assert put(job_file, "azureml:birds@latest", "inputs", "data", "path").text == COMMAND.replace(
        "./pictures", "azureml:birds@latest"
    )
    assert put(job_file, "4", "environment_variables", "LEVEL").text == COMMAND.replace("LEVEL: 3", "LEVEL: 4")


def test_what_was_not_changed_leaves_the_file_as_it_is():
    job_file = parse(COMMAND)
    assert form.apply(job_file, {f.path: f.value for f in form.fields(job_file)}) is job_file


def test_an_empty_input_stays_an_empty_text_and_an_empty_option_goes():
    job_file = parse(COMMAND)
    assert put(job_file, "", "inputs", "tag").get("inputs", "tag") == ""
    without = put(job_file, "", "compute")
    assert "compute" not in without.values
    assert without.text == COMMAND.replace("compute: azureml:gpu\n", "")
    assert put(put(job_file, "900", "limits", "timeout"), "", "limits", "timeout").get("limits") is None


def test_zero_and_false_survive():
    job_file = parse(COMMAND)
    assert put(job_file, "0", "inputs", "steps").get("inputs", "steps") == 0
    assert put(job_file, "0.0", "inputs", "lr").inputs["lr"].literal == "0.0"
    changed = put(put(job_file, "true", "inputs", "shuffle"), "false", "inputs", "shuffle")
    assert changed.inputs["shuffle"].literal == "False"


def test_without_compute_there_are_fields_for_serverless():
    job_file = parse("command: echo\nenvironment: azureml:e:1\n")
    labels = [f.label for f in form.fields(job_file) if f.section == "Where"]
    assert labels == ["cluster", "nodes", "distribution", "instance type", "job tier", "shared memory"]
    made = form.apply(
        job_file, {("resources", "instance_type"): "Standard_NC24ads", ("queue_settings", "job_tier"): "spot"}
    )
    assert made.get("resources", "instance_type") == "Standard_NC24ads"
    assert made.get("queue_settings", "job_tier") == "spot"
    assert "instance type" not in [f.label for f in form.fields(parse(COMMAND))]


def test_a_distribution_brings_its_numbers_and_takes_them_along():
    job_file = parse("command: echo\nenvironment: azureml:e:1\n")
    made = put(job_file, "pytorch", "distribution", "type")
    assert made.get("distribution") == {"type": "pytorch", "process_count_per_instance": 1}
    assert put(made, "tensorflow", "distribution", "type").get("distribution") == {"type": "tensorflow"}
    assert put(made, "off", "distribution", "type").text == job_file.text


def test_a_policy_brings_its_numbers():
    job_file = parse(SWEEP)
    bandit = put(job_file, "bandit", "early_termination", "type")
    wanted = {"type": "bandit", "slack_factor": 0.1, "evaluation_interval": 1, "delay_evaluation": 0}
    assert bandit.get("early_termination") == wanted
    truncation = put(bandit, "truncation_selection", "early_termination", "type")
    assert truncation.get("early_termination", "truncation_percentage") == 20
    assert truncation.get("early_termination", "slack_factor") is None
    assert put(truncation, "off", "early_termination", "type").text == job_file.text


def test_another_kind_of_space_keeps_about_the_same_values():
    job_file = parse(SWEEP)
    log = put(job_file, "loguniform", "search_space", "lr", "type")
    assert math.exp(log.get("search_space", "lr", "min_value")) == pytest.approx(0.001, rel=1e-3)
    assert math.exp(log.get("search_space", "lr", "max_value")) == pytest.approx(0.1, rel=1e-3)
    assert "# flat" in log.text
    back = put(log, "uniform", "search_space", "lr", "type")
    assert back.get("search_space", "lr", "max_value") == pytest.approx(0.1, rel=1e-3)
    assert put(job_file, "choice", "search_space", "lr", "type").get("search_space", "lr") == {
        "type": "choice",
        "values": [0.001, 0.1],
    }
    assert put(job_file, "randint", "search_space", "bs", "type").get("search_space", "bs") == {
        "type": "randint",
        "upper": 9,
    }


@pytest.mark.parametrize("kind", list(form.PARAMETERS))
def test_every_kind_of_space_can_be_chosen_and_is_whole(kind):
    job_file = put(parse(SWEEP), kind, "search_space", "lr", "type")
    assert set(job_file.mapping("search_space", "lr")) == {"type", *form.PARAMETERS[kind]}
    assert [space.kind for space in spaces_of(job_file)] == [kind, "choice"]


def test_a_list_of_values_is_typed_with_commas():
    job_file = parse(SWEEP)
    assert field(job_file, "search_space", "bs", "values").value == "4, 8"
    shorter = put(job_file, "4", "search_space", "bs", "values")
    assert shorter.text == SWEEP.replace("[4, 8]", "[4]")
    assert put(job_file, "1.0e-3, adam, '8'", "search_space", "bs", "values").get("search_space", "bs", "values") == [
        0.001,
        "adam",
        "8",
    ]
    with pytest.raises(Invalid, match="values of bs cannot be"):
        put(job_file, "4, {", "search_space", "bs", "values")
    with pytest.raises(Invalid, match="values of bs cannot be"):
        put(job_file, "4], [1", "search_space", "bs", "values")


def test_a_line_break_cannot_be_typed_into_a_value():
    with pytest.raises(Invalid, match="line break"):
        put(parse(COMMAND), "a\nb: c", "inputs", "tag")


def test_control_characters_are_shown_and_left_alone():
    job_file = parse('command: echo\nenvironment: azureml:e:1\ninputs: {evil: "\\e]0;title\\a"}\n')
    evil = field(job_file, "inputs", "evil")
    assert evil.fixed == "control characters"
    assert form.visible(evil.value) == "\\x1b]0;title\\x07"


def test_a_pipeline_has_fields_for_its_inputs_and_other_kinds_have_none():
    pipeline = parse(
        "type: pipeline\ninputs: {n: 3}\nsettings: {default_compute: azureml:cpu}\njobs: {a: {type: command}}\n"
    )
    assert [f.path for f in form.fields(pipeline)][:2] == [("inputs", "n"), ("settings", "default_compute")]
    assert form.fields(parse("name: e\nauth_mode: key\n")) == ()


def test_what_cannot_stand_is_a_fault_at_its_field_and_the_rest_is_put_in():
    job_file = parse(SWEEP)
    typed = {("search_space", "bs", "values"): "4, {", ("limits", "max_total_trials"): "9"}
    outlook = look_out(job_file, typed, job_file)
    assert [fault.place for fault in outlook.refused] == [("search_space", "bs", "values")]
    assert outlook.impossible
    assert outlook.job_file.get("limits", "max_total_trials") == 9


def test_a_number_that_became_text_is_a_warning():
    job_file = parse(COMMAND)
    outlook = look_out(job_file, {("inputs", "steps"): "2abc"}, job_file)
    assert [fault.message for fault in outlook.refused] == ["steps is number in the file and is now text."]
    assert not outlook.impossible


def test_the_policy_says_how_many_trials_it_can_stop():
    job_file = put(parse(SWEEP), "median_stopping", "early_termination", "type")
    assert look_out(job_file, {}, job_file).stoppable == (5, 8)
    assert look_out(parse(SWEEP), {}, parse(SWEEP)).stoppable is None


def test_the_real_range_of_a_log_space_is_drawn_on_a_log_axis():
    log = put(parse(SWEEP), "loguniform", "search_space", "lr", "type")
    look = look_of(next(iter(spaces_of(log))))
    assert look is not None
    assert look.log
    assert look.text.startswith("0.001 to 0.1")
    assert sum(look.shares) == 600
    assert min(look.shares) > 5  # flat where the axis is logarithmic
    assert len(look.draws) == 5


@needs_corpus
def test_every_job_of_the_corpus_becomes_a_form_and_comes_back_byte_for_byte():
    seen = 0
    for path in sorted((SHARED / "corpus").rglob("*.yml")):
        job_file = document.read(path)
        found = form.fields(job_file)
        assert (len(found) > 0) == (job_file.kind in ("command", "sweep", "pipeline")), path
        assert form.apply(job_file, {f.path: f.value for f in found}).text == job_file.text
        seen += bool(found)
    assert seen >= 60


@needs_corpus
def test_every_field_of_the_corpus_takes_another_value_and_changes_nothing_else():
    changed = 0
    for path in sorted((SHARED / "corpus").rglob("*.yml")):
        job_file = document.read(path)
        of_each_kind = {one.kind: one for one in form.fields(job_file) if not one.fixed}
        for one in of_each_kind.values():
            if one.kind == "choice":
                continue
            typed = {"flag": "true" if one.value == "false" else "false", "list": "7"}.get(one.kind, "7")
            after = form.put(job_file, one, typed)
            now, before = without(after, one.path), without(job_file, one.path)
            assert now == before, (path, one.path)
            changed += 1
    assert changed > 150


def without(job_file: JobFile, path: nodes.Path) -> object:
    """The values of a file without one, and without mappings that hold nothing."""
    leaves = {}

    def walk(value: object, at: nodes.Path) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, (*at, key))
        elif at[: len(path)] != path:
            leaves[at] = value

    walk(job_file.values, ())
    return leaves


@needs_cases
def test_every_case_that_can_be_read_becomes_a_form():
    for path in sorted((SHARED / "cases" / "yaml").rglob("*.yml")):
        try:
            job_file = document.read(path)
        except Unreadable:
            continue
        look_out(job_file, {}, job_file)


TYPED = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="\ufeff\x85"), max_size=20
)


@settings(max_examples=150, deadline=None)
@given(TYPED)
def test_any_text_typed_into_a_text_input_is_that_text_and_nothing_else_moves(typed):
    job_file = parse('command: echo ${{inputs.a}}\nenvironment: azureml:e:1\ninputs:\n  a: "x"  # here\n  b: 010\n')
    after = put(job_file, typed, "inputs", "a")
    assert after.get("inputs", "a") == typed
    assert without(after, ("inputs", "a")) == without(job_file, ("inputs", "a"))
    assert after.text.startswith(job_file.text[: job_file.text.index('"x"')])
    assert after.text.endswith("  # here\n  b: 010\n")


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(list(form.PARAMETERS)))
def test_any_number_typed_into_a_space_is_that_number(number, kind):
    written = repr(number)
    written = written.replace("e", ".0e") if "e" in written and "." not in written else written
    job_file = put(parse(SWEEP), kind, "search_space", "lr", "type")
    key = form.PARAMETERS[kind][0]
    if key == "values":
        assert put(job_file, f"{written}, 1", "search_space", "lr", key).get("search_space", "lr", key) == [number, 1]
    else:
        assert put(job_file, written, "search_space", "lr", key).get("search_space", "lr", key) == number


def test_a_pipelines_cluster_is_written_as_azures_client_takes_it(tmp_path):
    text = "type: pipeline\njobs:\n  a:\n    command: echo\n    environment: azureml:e:1\n"
    file = document.parse(text, None, tmp_path)
    path = ("settings", "default_compute")
    assert form.apply(file, {path: "gpu"}).get(*path) == "azureml:gpu"
    assert form.apply(file, {path: "serverless"}).get(*path) == "serverless"
