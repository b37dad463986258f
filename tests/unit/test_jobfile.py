"""Job files: read with positions, resolved, edited in place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from footplate.jobfile import plan, read
from footplate.jobfile.check import check
from footplate.jobfile.document import Unreadable, parse
from footplate.workspace import Invalid

SHARED = Path(__file__).resolve().parents[3] / "shared"

JOB = """\
# a comment that stays
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: >-
  python train.py --data ${{inputs.data}}
  --lr ${{ inputs.learning_rate }} --out ${{outputs.model}}
environment: azureml:env:1   # kept
inputs:
  data:
    type: uri_folder
    path: azureml:birds@latest
  learning_rate: 0.00001  # small
  flag: yes
  title: 'quoted'
outputs:
  model:
    type: custom_model
resources: {instance_count: 2}
distribution:
  type: PyTorch
  process_count_per_instance: 2
"""


def job(text: str = JOB):
    return parse(text, Path("job.yml"), Path("/somewhere/job folder"))


def unreadable(text: str) -> str:
    """The sentence with which a text is refused of which nothing can be used."""
    with pytest.raises(Unreadable) as caught:
        job(text)
    return str(caught.value)


def errors(text: str) -> list[str]:
    """The errors that check finds, each with its line; a file that has one is refused by plan too."""
    found = [fault for fault in check(job(text)) if fault.severity == "error"]
    with pytest.raises(Invalid, match=r"line |empty"):
        plan(job(text))
    return [f"line {fault.line}: {fault.sentence}" for fault in found]


def test_values_are_read_by_yaml_1_1_and_rendered_as_azures_client_does():
    inputs = job().inputs
    assert inputs["learning_rate"].literal == "1e-05"
    assert inputs["flag"].literal == "True"
    assert inputs["title"].literal == "quoted"
    assert inputs["data"].literal is None
    assert inputs["data"].path == "azureml:birds@latest"
    assert [inputs[n].type for n in ("learning_rate", "flag", "title")] == ["number", "boolean", "text"]


def test_every_value_has_its_line_and_column():
    file = job()
    place = file.places[("inputs", "learning_rate")]
    assert (place.line, place.column) == (11, 18)
    assert JOB[place.start : place.end] == "0.00001"


def test_an_anchor_is_no_part_of_the_value_it_names():
    text = "lr: &lr 0.1\ntags: &tags  # shared\n  owner: me\nagain: *lr\n"
    places = job(text).places
    assert text[places[("lr",)].start : places[("lr",)].end] == "0.1"
    assert (places[("lr",)].line, places[("lr",)].column) == (1, 9)
    assert (places[("tags",)].line, places[("tags",)].column) == (3, 3)
    assert places[("again",)].name == (4, 1)
    assert text[slice(*places[("again",)].alias)] == "*lr"


def test_plan_resolves_the_command_with_and_without_blanks_in_the_braces():
    planned = plan(job(), {"data": "/data/birds"}, {"model": "/out/model"})
    assert planned.command == "python train.py --data /data/birds --lr 1e-05 --out /out/model"
    assert planned.world_size == 4
    last = planned.ranks("node-0", 1234)[3]
    assert last.node == 1
    assert {k: last.environment[k] for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_PORT")} == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "NODE_RANK": "1",
        "MASTER_PORT": "1234",
    }


def test_plan_survives_json():
    planned = plan(job())
    assert type(planned).from_document(json.loads(json.dumps(planned.document()))) == planned


def test_an_unknown_input_names_the_nearest():
    with pytest.raises(
        Invalid, match=r"job.yml line 3: \$\{\{inputs.learnin_rate\}\} has no value.*inputs.learning_rate"
    ):
        plan(job(JOB.replace("inputs.learning_rate", "inputs.learnin_rate")))


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("inputs.learning_rate", "0.01", "  learning_rate: 0.01  # small"),
        ("inputs.title", "it's", '  title: "it\'s"'),
        ("inputs.title", "plain", "  title: 'plain'"),
        ("inputs.flag", "a: b", '  flag: "a: b"'),
        ("inputs.flag", "", '  flag: ""'),
        ("inputs.data.path", "./my birds", "    path: ./my birds"),
        ("resources.instance_count", 3, "resources: {instance_count: 3}"),
        ("resources.shm_size", "8g", "resources: {instance_count: 2, shm_size: 8g}"),
        ("distribution.process_count_per_instance", 1, "  process_count_per_instance: 1"),
        ("compute", "gpu-cluster", "compute: gpu-cluster"),
        ("outputs.model.mode", "upload", "    mode: upload"),
    ],
)
def test_edit_changes_only_the_characters_of_the_value(path, value, line):
    before, after = JOB.splitlines(), job().edit({path: value}).text.splitlines()
    changed = [new for new in after if new not in before]
    assert changed == [line]
    assert len(after) - len(before) in (0, 1)
    assert [old for old in before if old not in after] == [old for old in before if old not in after][:1]


def test_edit_reads_back_what_was_written():
    for value in (
        "1e-3",
        "x",
        "#",
        "- a",
        "null",
        "a'b\"c",
        "ä 名前",
        "12:30",
        "[1, 2]",
        "tab\there",
        "@x",
        "%",
        "*a",
        "&a",
    ):
        assert job().edit({"inputs.title": value}).inputs["title"].literal == value


def test_edit_adds_below_a_missing_parent():
    edited = job(JOB.replace("resources: {instance_count: 2}\n", "")).edit({"resources.instance_count": 2})
    assert edited.nodes == 2


def test_edit_keeps_crlf_and_the_byte_order_mark():
    text = "\ufeff" + JOB.replace("\n", "\r\n")
    edited = job(text).edit({"inputs.flag": "no", "compute": "local"})
    assert edited.text.startswith("\ufeff")
    assert edited.text.count("\n") == edited.text.count("\r\n") == text.count("\n") + 1


def test_edit_of_a_folded_command_keeps_the_lines_after_it():
    edited = job().edit({"command": "echo done"})
    assert edited.command == "echo done"
    assert edited.environment == "azureml:env:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "job.yml line 1, column 5: is not YAML: the file ends inside a bracket"),
        ("- a\n", "job.yml line 1, column 1: is not a job file: it holds a list, no keys."),
        ("word\n", "job.yml line 1, column 1: is not a job file: it holds one value, no keys."),
        ("", "job.yml is not a job file: it is empty."),
        ("# only a comment\n", "job.yml is not a job file: it is empty."),
    ],
)
def test_a_file_that_holds_no_keys_is_unreadable(text, message):
    assert message in unreadable(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("environment: azureml:x:1\n", "line 1: `command` is missing from a command job."),
        ("command: x\n", "line 1: `environment` is missing from a command job."),
        (
            "comand: x\nenvironment: azureml:y:1\n",
            "line 1: `comand` is no key of a command job. Did you mean `command`?",
        ),
        ("command: x\ncommand: y\nenvironment: azureml:z:1\n", "line 2: The key 'command' stands twice. Remove one"),
        (
            "command: x\nenvironment: azureml:y:1\nresources:\n  instance_count: 0\n",
            "line 4: `instance_count` must be a whole number from 1",
        ),
        (
            "command: x\nenvironment: azureml:y:1\ninputs:\n  d: {type: uri_folder}\n",
            "line 4: `path` is missing from a data input.",
        ),
        (
            "command: x\nenvironment: azureml:y:1\ninputs:\n  d: 2026-01-01\n",
            "line 4: `d` must be a value, or type and path, not a date. Quote it",
        ),
        (
            "command: x\nenvironment: azureml:y:1\ninputs:\n  d: [1]\n",
            "line 4: `d` must be a value, or type and path, not a list.",
        ),
        (
            "command: x\nenvironment: azureml:y:1\ninputs: 3\n",
            "line 3: `inputs` must be keys and values, not the number",
        ),
    ],
)
def test_a_file_that_is_no_command_job_is_refused_with_its_line(text, message):
    assert message in "\n".join(errors(text))


def test_a_job_of_another_kind_is_not_planned_as_a_command():
    with pytest.raises(Invalid, match=r"job.yml line 1: this is a pipeline job"):
        plan(job("type: pipeline\njobs: {}\n"))


START = "command: x\nenvironment: azureml:y:1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inputs:\n  d: 2024-02-30\n", "line 4: '2024-02-30' looks like a YAML timestamp and is none"),
        ("inputs:\n  d: 2024-02-28 25:00:00\n", "line 4: '2024-02-28 25:00:00' looks like a YAML timestamp"),
        ("inputs:\n  n: !!int foo\n", "line 4: 'foo' looks like a YAML int and is none"),
        ("inputs:\n  n: !!int ''\n", "line 4: '' looks like a YAML int"),
        ("inputs:\n  n: !!float foo\n", "line 4: 'foo' looks like a YAML float"),
        ("inputs:\n  n: !!bool zz\n", "line 4: 'zz' looks like a YAML bool"),
        ("inputs:\n  n: !!timestamp zz\n", "line 4: 'zz' looks like a YAML timestamp"),
        pytest.param(
            f"inputs:\n  n: {'9' * 5000}\n",
            "line 4: The number 99999999999999999999… has more than 4,000 digits",
            id="5000 digits",
        ),
    ],
)
def test_a_value_that_only_looks_like_a_date_or_number_is_refused_with_its_line(text, message):
    assert message in "\n".join(errors(START + text))
    # It hides no other fault of the file.
    assert any("`comput` is no key" in error for error in errors(f"comput: x\n{START}{text}"))


def test_an_escape_past_the_end_of_unicode_is_refused_with_its_line():
    text = 'inputs:\n  n: "\\U00110000"\n'
    assert "line 4, column 9: it cannot be read" in unreadable(START + text)


@pytest.mark.parametrize(
    "text",
    [
        "tags: &a {x: *a}\n",
        "tags: &a [*a]\n",
        "tags: &a\n  <<: *a\n",
        f"tags: {'[' * 5000}",
        f"tags: {'[' * 150}{']' * 150}\n",
    ],
    ids=["a mapping in itself", "a list in itself", "merged into itself", "5000 deep", "150 deep"],
)
def test_a_file_without_end_or_bottom_is_refused_with_its_line(text):
    assert re.search(
        r"line \d+, column \d+: it is nested more than 100 deep, or holds itself by an anchor", unreadable(START + text)
    )


def test_anchors_that_multiply_past_memory_are_refused():
    lines = ["tags:", "  a0: &a0 [x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "more than 20000 values" in unreadable(START + "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1: x\n", "line 3: The key '1' is not text: YAML 1.1 reads it as a number. Put it in quotes: '1'"),
        ("inputs:\n  on: y\n", "line 4: The key 'on' is not text: YAML 1.1 reads it as true or false."),
        ("inputs:\n  2024-01-01: y\n", "line 4: The key '2024-01-01' is not text: YAML 1.1 reads it as a date."),
        ("tags:\n  ~: y\n", "line 4: The key '~' is not text: YAML 1.1 reads it as nothing."),
    ],
)
def test_a_key_that_is_not_text_is_refused_with_its_line(text, message):
    assert message in "\n".join(
        f"line {fault.line}: {fault.sentence}" for fault in check(job(START + text)) if fault.severity == "error"
    )


def test_a_key_that_is_a_list_is_refused_with_its_line():
    message = "line 4, column 5: a list or mapping stands where a key belongs"
    assert message in unreadable(f"{START}tags:\n  ? [a]\n  : b\n")


def test_a_quoted_key_is_text_and_merges_still_merge():
    file = parse(f"{START}tags: {{<<: {{a: b}}, 'on': c}}\n", Path("job.yml"), Path("/"))
    assert file.tags == {"a": "b", "on": "c"}


@pytest.mark.parametrize("text", ['code: "a\\0b"\n', 'tags: {"a\\0b": x}\n', 'name: "\\uD800"\n'])
def test_a_character_that_no_path_can_hold_is_refused_with_its_line(text):
    message = r"line 3, column \d: the text .* holds a character that no command or path can hold"
    assert re.search(message, unreadable(START + text))


def test_an_edit_that_no_file_can_hold_is_refused_too():
    for changes in ({"code": "a\0b"}, {"code": "a\0b", "compute": "local"}):
        with pytest.raises(Invalid, match="holds a character that no command or path can hold"):
            job().edit(changes)
    assert job().edit({"inputs.title": "2024-02-30"}).inputs["title"].literal == "2024-02-30"


def test_a_code_folder_behind_links_in_a_circle_is_no_folder(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    code = parse(f"{START}code: ./a\n", None, tmp_path).code
    assert code is not None
    assert not code.exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("resources:\n  instance_count: 4097\n", 4),
        ("resources: {instance_count: 64}\ndistribution:\n  type: pytorch\n  process_count_per_instance: 65\n", 6),
    ],
)
def test_a_count_of_processes_that_no_machine_can_run_is_refused_with_its_line(text, line):
    found = [(fault.code, fault.line) for fault in check(job(START + text)) if fault.severity == "error"]
    assert ("too-many-ranks", line) in found
    with pytest.raises(Invalid, match="4096"):
        plan(job(START + text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"resources: {{instance_count: {10**30}}}\n", "line 3: `instance_count` must be a whole number"),
        (f"limits: {{timeout: {10**30}}}\n", "line 3: `timeout` must be a whole number"),
    ],
)
def test_a_number_that_azures_client_cannot_send_is_refused_with_its_line(text, message):
    assert message in "\n".join(errors(START + text))


def test_the_most_processes_that_a_job_may_have_are_planned():
    text = "resources: {instance_count: 64}\ndistribution: {type: pytorch, process_count_per_instance: 64}\n"
    most = job(START + text)
    assert not [fault for fault in check(most) if fault.code == "too-many-ranks"]
    assert len(plan(most).ranks()) == 4096
    with pytest.raises(Invalid, match="4096"):
        plan(most.edit({"distribution.process_count_per_instance": 65}))


def corpus_command_jobs() -> list[Path]:
    root = SHARED / "corpus"
    if not root.is_dir():
        return []
    return [p for p in sorted(root.rglob("*.y*ml")) if "commandJob.schema" in p.read_text(encoding="utf-8")]


@pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="the corpus of job files is not beside this checkout")
def test_real_command_jobs_read_and_unchanged_edits_change_nothing():
    files = corpus_command_jobs()
    assert len(files) > 20
    for path in files:
        file = read(path)
        for name, given in file.inputs.items():
            # Writing back the very text that stands there must give the same bytes.
            place = file.places[("inputs", name)]
            if place.kind == "scalar" and not place.style:
                source = file.text[place.start : place.end]
                assert file.edit({f"inputs.{name}": source}).text == file.text, (path, name)
            assert given.literal is not None or given.path


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the cases are not beside this checkout")
def test_case_y01_code_lies_beside_the_file_and_y03_keeps_its_three_lines():
    y01 = read(SHARED / "cases/yaml/y01 sub dir/job.yml")
    assert y01.code == SHARED / "cases/yaml/y01 sub dir/src"
    assert len(plan(read(SHARED / "cases/yaml/y03_multiline_pipe.yml")).command.strip().splitlines()) == 3
    y25 = read(SHARED / "cases/yaml/y25_bom_crlf.yml")
    assert y25.command


def test_a_value_for_a_mapping_is_refused_and_nothing_is_spliced():
    for path in ("outputs", "inputs.data", "distribution"):
        with pytest.raises(Invalid, match="It holds keys"):
            job().edit({path: "1"})


def test_a_key_that_is_no_plain_word_is_quoted():
    edited = job().edit({"tags.x: y": "1"})
    assert edited.tags == {"x: y": "1"}


def test_text_with_a_line_break_an_anchor_or_a_tag_stays_text():
    for value in ("a\nb", "&a x", "!!str 5", "!!binary aGk=", " ", " padded "):
        assert job().edit({"inputs.title": value}).inputs["title"].literal == value
        assert job().edit({"inputs.learning_rate": value}).inputs["learning_rate"].literal == value
