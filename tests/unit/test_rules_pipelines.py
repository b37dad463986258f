"""The graph of a pipeline: what bindings, steps and component files name."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import pytest

from footplate.jobfile.check import check_file
from footplate.jobfile.faults import Fault

COMPONENT = """\
name: clean
version: 1
type: command
inputs:
  table: {type: uri_folder}
  share: {type: number, default: 0.5}
  note: {type: string, optional: true}
outputs:
  cleaned: {type: uri_folder}
command: python clean.py ${{inputs.table}} ${{inputs.share}} $[[${{inputs.note}}]] ${{outputs.cleaned}}
environment: azureml:e:1
"""
INLINE = "    command: ls ${{inputs.x}}\n    environment: azureml:e:1\n"
FILE = "    component: ./clean.yml\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "clean.yml").write_text(COMPONENT)
    return tmp_path


def faults(folder: Path, text: str) -> list[Fault]:
    (folder / "pipeline.yml").write_text(f"type: pipeline\n{text}")
    return check_file(folder / "pipeline.yml")[1]


def told(folder: Path, text: str) -> list[tuple[str, str, int]]:
    return [(fault.code, fault.severity, fault.line) for fault in faults(folder, text)]


def test_a_pipeline_that_holds_together_has_no_fault(folder):
    text = (
        "inputs:\n  raw: {type: uri_folder, path: azureml:raw:1}\n  cores: 4\n  share: 0.1\noutputs:\n  result: {}\n"
        "settings: {default_compute: azureml:cpu}\n"
        "jobs:\n"
        f"  clean:\n{FILE}    inputs:\n      table: ${{{{parent.inputs.raw}}}}\n      share: ${{{{ parent.inputs.share }}}}\n"
        "    outputs:\n      cleaned: {mode: upload}\n"
        "    resources: {instance_count: '${{parent.inputs.cores}}'}\n"
        f"  list:\n{INLINE}    inputs:\n      x: ${{{{parent.jobs.clean.outputs.cleaned}}}}/sub\n"
        "  last:\n    command: cp ${{inputs.y}} ${{outputs.z.path}}\n    environment: azureml:e:1\n"
        "    inputs:\n      y: {type: uri_folder, path: '${{parent.jobs.clean.outputs.cleaned}}'}\n"
        "    outputs:\n      z: ${{parent.outputs.result}}\n"
    )
    assert faults(folder, text) == []


@pytest.mark.parametrize(
    ("binding", "words", "hint"),
    [
        ("parent.inputs.tabel", "an input that is not there: tabel", "Did you mean table?"),
        ("parent.outputs.resutl", "an output that is not there: resutl", "Did you mean result?"),
        ("parent.jobs.frist.outputs.o", "a step that is not there: frist", "Did you mean first?"),
        ("parent.jobs.first.outputs.q", "an output of step first that is not there: q", "There is one."),
        ("parent.jobs.first.outputs", "an output of step first that is not there: nothing", "There is one."),
    ],
)
def test_a_binding_that_names_nothing_is_told_with_the_nearest(folder, binding, words, hint):
    text = (
        "inputs: {table: 1}\noutputs: {result: {}}\njobs:\n"
        "  first:\n    command: echo ${{inputs.t}} ${{outputs.one}}\n    environment: azureml:e:1\n"
        "    inputs: {t: '${{parent.inputs.table}}'}\n    outputs: {one: {}}\n"
        f"  second:\n{INLINE}    inputs:\n      x: ${{{{{binding}}}}}\n    outputs: {{r: '${{{{parent.outputs.result}}}}'}}\n"
    )
    (only,) = [fault for fault in faults(folder, text) if fault.code == "unbound-step"]
    assert (only.severity, only.line, only.column) == ("error", 14, 10)
    assert words in only.message
    assert only.hint == hint


def test_what_a_component_file_does_not_declare_is_a_warning(folder):
    text = (
        f"jobs:\n  clean:\n{FILE}    inputs:\n      table: {{path: azureml:raw:1}}\n      shrae: 1\n"
        f"    outputs:\n      claened: {{}}\n"
        f"  list:\n{INLINE}    inputs:\n      x: ${{{{parent.jobs.clean.outputs.cleand}}}}\n"
    )
    found = faults(folder, text)
    assert [(fault.code, fault.severity, fault.line) for fault in found] == [
        ("unknown-step-input", "warning", 7),
        ("unknown-step-input", "warning", 9),
        ("unbound-step", "warning", 14),
    ]
    assert [fault.hint for fault in found] == ["Did you mean share?", "Did you mean cleaned?", "Did you mean cleaned?"]


def test_an_input_that_the_component_needs_is_asked_for(folder):
    assert told(folder, f"jobs:\n  clean:\n{FILE}    inputs: {{share: 1}}\n") == [("missing-step-input", "error", 5)]
    assert told(folder, f"jobs:\n  clean:\n{FILE}") == [("missing-step-input", "error", 3)]
    space = "{table: {type: uniform, min_value: 0, max_value: 1}}"
    sweep = f"jobs:\n  s:\n    type: sweep\n    trial: ./clean.yml\n    search_space: {space}\n"
    assert "missing-step-input" not in [code for code, _, _ in told(folder, sweep)]


def test_a_component_file_that_is_not_there_or_cannot_be_read(folder):
    (folder / "broken.yml").write_text("a: [")
    (folder / "folder").mkdir()
    for text, wanted in (
        ("./claen.yml", ("component-missing", "error", 4)),
        ("file:./claen.yml", ("component-missing", "error", 4)),
        ("./broken.yml", ("component-unreadable", "error", 4)),
        ("./folder", ("component-unreadable", "error", 4)),
    ):
        assert told(folder, f"jobs:\n  clean:\n    component: {text}\n") == [wanted]
    assert "Did you mean `./clean.yml`?" in faults(folder, "jobs:\n  clean:\n    component: ./claen.yml\n")[0].hint
    for elsewhere in ("azureml:clean:1", "azureml://registries/azureml/components/clean/versions/1"):
        text = f"jobs:\n  clean:\n    component: {elsewhere}\n    inputs: {{q: 1}}\n"
        text += f"  list:\n{INLINE}    inputs: {{x: '${{{{parent.jobs.clean.outputs.any}}}}'}}\n"
        assert told(folder, text) == []


def test_the_errors_of_a_component_file_are_told_at_the_step_once(folder):
    (folder / "clean.yml").write_text(COMPONENT + "code: ./nope\n")
    step = f"{FILE}    inputs: {{table: {{path: azureml:raw:1}}}}\n"
    (only,) = faults(folder, f"jobs:\n  clean:\n{step}  again:\n{step}")
    assert (only.code, only.severity, only.line) == ("component-faulty", "warning", 4)
    assert "line 12: The code folder ./nope is not there." in only.message
    assert only.hint.endswith("clean.yml")


def test_pipeline_components_that_name_each_other_end(folder):
    for name, other in (("a", "b"), ("b", "a")):
        (folder / f"{name}.yml").write_text(
            f"$schema: https://azuremlschemas.azureedge.net/latest/pipelineComponent.schema.json\nname: {name}\n"
            f"type: pipeline\nversion: 1\njobs:\n  inner: {{component: ./{other}.yml}}\n"
        )
    assert told(folder, "jobs:\n  outer: {component: ./a.yml}\n") == []
    assert [fault.severity for fault in check_file(folder / "a.yml")[1] if fault.severity == "error"] == []


def test_the_command_of_an_inline_step_names_its_own_inputs(folder):
    text = f"inputs: {{x: 1}}\njobs:\n  list:\n{INLINE}    inputs:\n      y: ${{{{parent.inputs.x}}}}\n"
    (only,) = [fault for fault in faults(folder, text) if fault.severity == "error"]
    assert (only.code, only.line, only.column) == ("unbound", 5, 17)


def test_a_binding_without_parent_says_what_to_write(folder):
    text = f"inputs: {{x: 1}}\njobs:\n  list:\n{INLINE}    inputs:\n      x: ${{{{inputs.x}}}}\n"
    found = [fault for fault in faults(folder, text) if fault.code == "old-binding"]
    assert [(fault.line, fault.hint) for fault in found] == [(8, "Write ${{parent.inputs.x}}.")]


def test_steps_that_wait_for_each_other_are_told_once(folder):
    step = "  {}:\n" + INLINE + "    inputs: {{x: '${{{{parent.jobs.{}.outputs.o}}}}'}}\n    outputs: {{o: {{}}}}\n"
    text = "jobs:\n" + "".join(step.format(*pair) for pair in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")))
    (only,) = [fault for fault in faults(folder, text.replace("{{", "{{")) if fault.code == "step-cycle"]
    assert "a → b → c → a" in only.message


def test_a_pipelines_input_that_no_step_uses_is_a_warning(folder):
    text = f"inputs:\n  x: 1\n  spare: 2\njobs:\n  list:\n{INLINE}    inputs: {{x: '${{{{parent.inputs.x}}}}'}}\n"
    assert told(folder, text) == [("unused", "warning", 4)]


def test_a_long_chain_and_a_broad_graph_end_soon(folder):
    step = "  s{}: {{component: azureml:c:1, inputs: {{x: '${{{{parent.jobs.s{}.outputs.o}}}}'}}}}\n"
    text = "jobs:\n  s0: {component: azureml:c:1}\n" + "".join(step.format(n, n - 1) for n in range(1, 3000))
    assert told(folder, text) == []


@pytest.mark.parametrize(
    ("binding", "words", "hint"),
    [
        (
            "parent.jobs.clean.output.cleaned",
            "names no output of step clean",
            "Write ${{parent.jobs.clean.outputs.cleaned}}.",
        ),
        ("parent.jobs.clean.cleaned", "names no output of step clean", "Write ${{parent.jobs.clean.outputs.cleaned}}."),
        (
            "parent.jobs.clean.inputs.table",
            "names no output of step clean",
            "Write ${{parent.jobs.clean.outputs.cleaned}}.",
        ),
        ("parent.jobs.clean", "names no output of step clean", "Write ${{parent.jobs.clean.outputs.cleaned}}."),
        ("parent.input.raw", "names nothing of a pipeline", "Did you mean parent.inputs?"),
    ],
)
def test_a_binding_without_outputs_names_no_output(folder, binding, words, hint):
    text = (
        "inputs: {raw: {type: uri_folder, path: azureml:r:1}}\njobs:\n"
        f"  clean:\n{FILE}    inputs: {{table: '${{{{parent.inputs.raw}}}}'}}\n"
        f"  list:\n{INLINE}    inputs:\n      x: ${{{{{binding}}}}}\n"
    )
    (only,) = [fault for fault in faults(folder, text) if fault.severity == "error"]
    assert (only.code, only.line, only.column) == ("unbound-step", 11, 10)
    assert words in only.message
    assert only.hint == hint


def test_a_step_that_decides_names_other_steps_whole(folder):
    text = (
        f"jobs:\n  list:\n{INLINE}    inputs: {{x: 1}}\n    outputs: {{o: {{}}}}\n"
        "  choice: {type: if_else, condition: '${{parent.jobs.list.outputs.o}}', true_block: '${{parent.jobs.list}}'}\n"
    )
    assert [fault for fault in faults(folder, text) if fault.code == "unbound-step"] == []


def test_a_component_file_that_is_no_component_is_an_error(folder):
    (folder / "conda.yml").write_text("name: env\nchannels: [conda-forge]\ndependencies: [python=3.11]\n")
    (only,) = faults(folder, "jobs:\n  clean:\n    component: ./conda.yml\n")
    assert (only.code, only.severity, only.line) == ("component-kind", "error", 4)
    assert "is a conda environment file" in only.message


@pytest.mark.parametrize("value", ["3", "1.5", "true", "{value: 3}"])
def test_a_number_for_a_components_data_is_an_error(folder, value):
    text = f"jobs:\n  clean:\n{FILE}    inputs:\n      table: {value}\n"
    (only,) = faults(folder, text)
    assert (only.code, only.severity, only.line) == ("wrong-type", "error", 6)
    assert "takes data as `table`" in only.message


@pytest.mark.parametrize("value", ["abc", "'3'", "azureml:raw:1"])
def test_text_for_a_components_data_is_its_path(folder, value):
    assert faults(folder, f"jobs:\n  clean:\n{FILE}    inputs:\n      table: {value}\n") == []


@pytest.mark.parametrize(
    ("kind", "default", "fits"),
    [
        ("integer", "abc", False),
        ("integer", "'3.0'", True),
        ("integer", "1.5", True),
        ("number", "abc", False),
        ("number", "true", True),
        ("boolean", "'yes'", False),
        ("boolean", "1", False),
        ("boolean", "'True'", True),
        ("string", "3", True),
    ],
)
def test_the_default_of_a_components_input_is_of_its_type_as_azures_client_reads_it(folder, kind, default, fits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from azure.ai.ml import load_component

    text = COMPONENT.replace("{type: number, default: 0.5}", f"{{type: {kind}, default: {default}}}")
    (folder / "clean.yml").write_text(text)
    found = [(fault.code, fault.line) for fault in check_file(folder / "clean.yml")[1] if fault.severity == "error"]
    assert found == ([] if fits else [("wrong-type", 6)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_component(folder / "clean.yml")
    except Exception:  # noqa: BLE001  its faults have no common class
        assert not fits
    else:
        assert fits


def test_inline_steps_are_judged_by_the_rules_of_jobs(folder):
    text = (
        "jobs:\n"
        "  train:\n    command: torchrun --nproc_per_node 2 train.py\n    environment: azureml:e:1\n"
        "    distribution: {type: pytorch, process_count_per_instance: 2}\n"
        "  title:\n    command: echo ${{inputs.t}} {inputs.t}\n    environment: azureml:e\n"
        "    inputs:\n      t: a; b\n      never: 1.10\n    outputs: {o: {}}\n"
    )
    assert told(folder, text) == [
        ("double-launcher", "error", 4),
        ("broken-expression", "warning", 8),
        ("no-version", "warning", 9),
        ("shell-characters", "warning", 11),
        ("unused", "warning", 12),
        ("read-otherwise", "warning", 12),
        ("unused-output", "note", 13),
    ]


def test_a_steps_command_that_names_the_pipeline_says_what_to_bind(folder):
    text = "inputs: {lr: 1}\njobs:\n  a:\n    command: echo ${{parent.inputs.lr}}\n    environment: azureml:e:1\n"
    (only,) = faults(folder, text)
    assert (only.code, only.severity, only.line, only.column) == ("unbound", "error", 5, 19)
    assert "bind lr: ${{parent.inputs.lr}} below `inputs`" in only.hint


def test_an_inline_component_is_judged_with_what_the_step_gives_it(folder):
    text = (
        "jobs:\n  a:\n    component:\n"
        "      command: echo ${{inputs.t}} ${{inputs.u}} ${{inputs.something_of_another_name}} $[[${{inputs.t}}]]\n"
        "      environment: azureml:e:1\n"
        "      inputs:\n        t: {type: string}\n        u: {type: string, default: c; d}\n        v: {type: string}\n"
        "    inputs: {t: a; b, v: x}\n"
    )
    assert told(folder, text) == [
        ("unbound", "error", 5),
        ("shell-characters", "warning", 9),
        ("shell-characters", "warning", 11),
        ("unused", "warning", 11),
    ]


SWEEP_STEP = """\
jobs:
  tune:
    type: sweep
    trial: ./clean.yml
    inputs: {table: {type: uri_folder, path: azureml:raw:1}}
    search_space:
      share: {type: uniform, min_value: 2, max_value: 1}
    objective: {goal: minimize, primary_metric: loss}
    sampling_algorithm: grid
    limits: {max_total_trials: 2, max_concurrent_trials: 5}
"""


def test_a_sweep_step_is_judged_by_the_rules_of_sweeps(folder):
    assert told(folder, SWEEP_STEP) == [
        ("grid-space", "error", 8),
        ("bounds", "error", 8),
        ("concurrency", "error", 11),
    ]


def test_a_sweep_steps_bounds_may_be_the_pipelines_inputs(folder):
    text = SWEEP_STEP.replace("min_value: 2", "min_value: '${{parent.inputs.low}}'").replace("grid", "random")
    text = text.replace("concurrent_trials: 5", "concurrent_trials: 1")
    assert faults(folder, f"inputs: {{low: 0}}\n{text}") == []


def test_an_inline_trial_names_its_swept_values_as_inputs_too(folder):
    trial = "trial: {{command: 'run ${{{{inputs.share}}}} ${{{{search_space.share}}}} {}', environment: azureml:e:1}}"
    text = SWEEP_STEP.replace("trial: ./clean.yml", trial.format("${{inputs.table}}")).replace("grid", "random")
    text = text.replace("min_value: 2", "min_value: 0").replace("concurrent_trials: 5", "concurrent_trials: 1")
    assert faults(folder, text) == []
    (only,) = faults(folder, text.replace("inputs.table}", "inputs.tabel}"))
    assert (only.code, only.line, only.hint) == ("unbound", 5, "Did you mean ${{inputs.table}}?")


def test_a_component_files_command_names_what_it_declares(folder):
    (folder / "clean.yml").write_text(
        COMPONENT.replace("${{inputs.share}}", "${{inputs.shaer}} ${{inputs.table.path}}")
    )
    found = check_file(folder / "clean.yml")[1]
    assert [(fault.code, fault.severity, fault.line) for fault in found] == [("unbound", "error", 10)]
    assert found[0].hint == "Did you mean ${{inputs.share}}?"


def test_many_inline_steps_are_judged_in_bounded_time(folder):
    step = (
        "  s{}: {{command: 'run ${{{{inputs.x}}}} ${{{{inputs.q}}}}', environment: 'azureml:e:1', inputs: {{x: 1}}}}\n"
    )
    text = "jobs:\n" + "".join(step.format(number) for number in range(2400))
    started = time.process_time()
    assert len([fault for fault in faults(folder, text) if fault.code == "unbound"]) == 2400
    assert time.process_time() - started < 20


def test_a_parallel_steps_script_and_input_are_there(folder):
    (folder / "src").mkdir()
    (folder / "src" / "score.py").write_text("")
    text = (
        "jobs:\n  a:\n    type: parallel\n    mini_batch_size: '1'\n    input_data: ${{inputs.data}}\n"
        "    inputs: {data: {type: uri_folder, path: azureml:d:1}}\n"
        "    task:\n      type: run_function\n      code: ./src\n      entry_script: score.py\n      environment: azureml:e:1\n"
    )
    assert faults(folder, text) == []
    found = faults(folder, text.replace("inputs.data", "inputs.date").replace("score.py", "scroe.py"))
    assert [(fault.code, fault.line, fault.hint) for fault in found] == [
        ("unbound", 6, "Did you mean ${{inputs.data}}?"),
        ("script-missing", 11, "Did you mean score.py?"),
    ]


LIMITED = COMPONENT.replace(
    "share: {type: number, default: 0.5}", "share: {type: number, default: 0.5, min: 0, max: 1}"
).replace("note: {type: string, optional: true}", "note: {type: string, optional: true, enum: [short, long]}")


@pytest.mark.parametrize(
    ("given", "line", "said"),
    [
        ("share: 1.5", 6, "Input `share` of step clean is '1.5', which is above the most, 1."),
        ("share: '-1'", 6, "Input `share` of step clean is '-1', which is below the least, 0."),
        ("note: lnog", 6, "Input `note` of step clean is 'lnog', which is none of the values that it may have."),
        ("share: '${{parent.inputs.s}}'", 2, "Input `share` of step clean is '2', which is above the most, 1."),
        ("share: 1", 0, ""),
        ("note: long", 0, ""),
        ("share: {type: number, path: azureml:x:1}", 0, ""),
    ],
)
def test_what_a_step_gives_lies_within_the_limits_of_its_component(folder, given, line, said):
    (folder / "clean.yml").write_text(LIMITED)
    text = f"inputs: {{s: 2, raw: 1}}\njobs:\n  clean:\n{FILE}    inputs: {{table: {{path: ./clean.yml}}, {given}}}\n"
    found = [fault for fault in faults(folder, text) if fault.code == "beyond-limits"]
    assert [(fault.line, fault.message) for fault in found] == ([(line, said)] if said else [])


@pytest.mark.parametrize("wrong", ["default: 2", "default: -0.1", "min: 2"])
def test_a_components_own_default_and_limits_fit_each_other(folder, wrong):
    key = wrong.partition(":")[0]
    (folder / "clean.yml").write_text(
        "\n".join(
            line.replace(f"{key}: {'0.5' if key == 'default' else '0'}", wrong) if "share:" in line else line
            for line in LIMITED.split("\n")
        )
    )
    _, found = check_file(folder / "clean.yml")
    assert [fault.code for fault in found] == ["beyond-limits"]
