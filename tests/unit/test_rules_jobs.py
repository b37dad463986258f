"""The rules for command and sweep jobs; and every code's own example, whichever module it belongs to."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from footplate.jobfile import check, document, shell_text
from footplate.jobfile.faults import Code, Fault
from footplate.jobfile.rules import policies, scalars
from footplate.workspace.errors import Invalid

NEEDS = {"", "files", "workspace"}
NO_EXAMPLE = {"too-large"}
"""Files of a megabyte are no examples; test_check_cases makes one."""

EXAMPLES = [code for code in check.CODES.values() if code.example and not code.needs]


def checked(text: str) -> list[Fault]:
    """The faults of a text that is in no file."""
    return check.check(document.parse(text, None, Path("/nowhere")))


def lines(text: str, code: str) -> list[int]:
    return [fault.line for fault in checked(text) if fault.code == code]


def test_each_code_without_an_example_of_its_own_says_why() -> None:
    assert {code.id for code in check.CODES.values() if not code.example and not code.needs} == NO_EXAMPLE
    assert {code.needs for code in check.CODES.values()} <= NEEDS


@pytest.mark.parametrize("code", EXAMPLES, ids=[code.id for code in EXAMPLES])
def test_the_example_has_its_fault_at_its_line(code: Code, tmp_path: Path) -> None:
    texts = code.example.splitlines()
    here = [number for number, text in enumerate(texts, 1) if text.endswith("# here")]
    here += [number + 1 for number, text in enumerate(texts, 1) if text.strip() == "# next line"]
    assert len(here) == 1, f"{code.id}: the example marks {len(here)} lines"
    path = tmp_path / "job.yml"
    path.write_text(code.example)
    faults = [fault for fault in check.check_file(path)[1] if fault.code == code.id]
    assert [(fault.line, fault.severity) for fault in faults] == [(here[0], code.severity)]
    fault = faults[0]
    assert fault.message.endswith((".", "?")), fault.message
    assert fault.message[0] == "`" or not fault.message[0].islower(), fault.message
    assert 1 <= fault.column <= len(texts[here[0] - 1])


def command(text: str, inputs: str = "", more: str = "") -> str:
    """A command job with this command; `inputs` are lines, indented."""
    return f"environment: azureml:e:1\n{more}command: {text}\n" + (f"inputs:\n{inputs}" if inputs else "")


def sweep(
    space: str = "{type: choice, values: [1, 2]}",
    *,
    algorithm: str = "random",
    limits: str = "max_total_trials: 4, max_concurrent_trials: 2",
    metric: str = "accuracy",
    more: str = "",
    options: str = "",
) -> str:
    """A sweep over `x`, which stands on line 4, the limits on line 7 and `more` from line 8."""
    return (
        f"type: sweep\ntrial: {{command: 'python train.py --x ${{{{search_space.x}}}}{options}', environment: azureml:e:1}}\n"
        f"search_space:\n  x: {space}\nobjective: {{goal: maximize, primary_metric: {metric}}}\n"
        f"sampling_algorithm: {algorithm}\nlimits: {{{limits}}}\n{more}"
    )


def found(text: str) -> list[tuple[str, str, str]]:
    """Severity, code and path of every fault."""
    return [(fault.severity, fault.code, fault.path) for fault in checked(text)]


# --- bindings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("${{inputs.learnin_rate}}", "Did you mean ${{inputs.learning_rate}}?"),
        ("${{ inputs.Learning_Rate }}", "Did you mean ${{inputs.learning_rate}}?"),
        ("${{input.learning_rate}}", "Did you mean ${{inputs.learning_rate}}?"),
        ("${{learning_rate}}", "Did you mean ${{inputs.learning_rate}}?"),
        ("${{outputs.learning_rate}}", "Did you mean ${{inputs.learning_rate}}?"),
        ("${{parent.inputs.learning_rate}}", "`parent` belongs to the steps of a pipeline; write ${{inputs.learning_rate}}."),
        ("${{search_space.momentum}}", "A command job has no search space: make it a sweep, or name an input."),
        ("${{inputs.zzz}}", "Known: inputs.learning_rate."),
    ],
)  # fmt: skip
def test_what_is_not_defined_is_named_with_what_was_meant(expression: str, hint: str) -> None:
    text = command(f"python train.py --first 1 {expression}", "  learning_rate: 0.1\n")
    faults = [fault for fault in checked(text) if fault.code == "unbound"]
    assert [(fault.severity, fault.line, fault.column, fault.hint) for fault in faults] == [("error", 2, 36, hint)]


def test_a_misspelt_input_is_not_also_unused() -> None:
    assert [
        code for _, code, _ in found(command("python a.py ${{inputs.learnin_rate}}", "  learning_rate: 0.1\n"))
    ] == ["unbound"]


@pytest.mark.parametrize(
    "text",
    ["${inputs.lr}", "{{inputs.lr}}", "{{ inputs.lr }}", "$(inputs.lr)", "${{inputs.lr}", "${{inputs.lr"],
)
def test_text_that_is_nearly_an_expression(text: str) -> None:
    faults = checked(command(f"'python train.py --lr {text}'", "  lr: 0.1\n"))
    assert [(fault.severity, fault.code, fault.column, fault.hint) for fault in faults] == [
        ("warning", "broken-expression", 32, "Write ${{inputs.lr}}.")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --lr ${{inputs.lr}}",
        "python train.py --lr ${{ inputs.lr }}",
        "python train.py --lr $AZURE_ML_INPUT_lr",
        'python train.py --lr "${HOME}/${{inputs.lr}}" $(date)',
    ],
)
def test_what_names_an_input(text: str) -> None:
    assert found(command(f"'{text}'", "  lr: 0.1\n")) == []


def test_an_input_that_another_key_names_is_used() -> None:
    text = command("python train.py", "  lr: 0.1\n", 'environment_variables: {RATE: "${{inputs.lr}}"}\n')
    assert found(text) == []
    assert found(text.replace('RATE: "${{inputs.lr}}"', "RATE: low # ${{inputs.lr}}\n  ")) == [
        ("warning", "unused", "inputs.lr")
    ]


def test_a_key_of_an_input_that_stands_beside_it() -> None:
    faults = checked(
        command("python a.py ${{inputs.iris}}", "  iris: https://example.org/iris.csv\n  type: uri_file\n")
    )
    assert [(fault.code, fault.line) for fault in faults] == [("unused", 5)]
    assert "indent it below the input whose type it is" in faults[0].hint


def test_the_sweep_of_microsofts_article_passes_nothing_on() -> None:
    """Its command line names neither of the two values that it tunes."""
    text = (
        "type: sweep\ntrial:\n  command: python pytorch_train.py --num_epochs 30 --output_dir ./outputs\n"
        "  environment: azureml:e:1\nsearch_space:\n"
        "  learning_rate: {type: uniform, min_value: 0.0005, max_value: 0.005}\n"
        "  momentum: {type: uniform, min_value: 0.9, max_value: 0.99}\n"
        "sampling_algorithm: random\nobjective: {goal: maximize, primary_metric: best_val_acc}\n"
        "limits: {max_total_trials: 8, max_concurrent_trials: 4}\n"
        "early_termination: {type: bandit, slack_factor: 0.15, evaluation_interval: 1, delay_evaluation: 10}\n"
    )
    faults = checked(text)
    assert [(fault.code, fault.line, fault.column) for fault in faults] == [
        ("unused-sweep", 6, 3),
        ("unused-sweep", 7, 3),
    ]
    assert "AZUREML_SWEEP_learning_rate" in faults[0].hint
    used = text.replace("--output_dir ./outputs", "$AZUREML_SWEEP_learning_rate ${{search_space.momentum}}")
    assert checked(used) == []


def test_a_file_without_a_command_is_not_told_of_unused_inputs() -> None:
    assert [
        code for _, code, _ in found("comand: python a.py ${{inputs.a}}\nenvironment: azureml:e:1\ninputs: {a: 1}\n")
    ] == ["unknown-key"]


# --- how the shell reads a value --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "codes"),
    [
        ("${{inputs.x}}", "plain", []),
        ("${{inputs.x}}", "a-b_c.d/e:f,g=h%i@j+k", []),
        ("${{inputs.x}}", "[64,64]", []),
        ("${{inputs.x}}", "costs 5$", ["words-split"]),
        ("${{inputs.x}}", "two words", ["words-split"]),
        ("${{inputs.x}}", "--a 1 --b 2", []),
        ("${{inputs.x}}", "a;b", ["shell-characters"]),
        ("${{inputs.x}}", "a & b", ["shell-characters"]),
        ("${{inputs.x}}", "$HOME", ["shell-characters"]),
        ("${{inputs.x}}", "`date`", ["shell-characters"]),
        ("${{inputs.x}}", "*.py", ["shell-characters"]),
        ("${{inputs.x}}", "https://example.org/a?b=1&c=2", ["shell-characters"]),
        ("${{inputs.x}}", "#1", ["shell-characters"]),
        ("${{inputs.x}}", "a#1", []),
        ("--y=${{inputs.x}}", "#1", []),
        ("${{inputs.x}}", "C:\\data", ["shell-characters"]),
        ("${{inputs.x}}", "{a,b}", ["shell-characters"]),
        ("${{inputs.x}}", "it's", ["broken-quotes"]),
        ("${{inputs.x}}", '{"lr": 0.1}', ["broken-quotes"]),
        ("${{inputs.x}}", "'two words'", []),
        ("${{inputs.x}}", " ", ["blank-input"]),
        ("${{inputs.x}}", "", ["empty-input"]),
        ('"${{inputs.x}}"', "", ["empty-input"]),
        ('"${{inputs.x}}"', " ", []),
        ('"${{inputs.x}}"', "two words; *.py & it's", []),
        ('"${{inputs.x}}"', "$HOME", ["shell-characters"]),
        ('"${{inputs.x}}"', "5$", []),
        ('"${{inputs.x}}"', 'a "b"', ["broken-quotes"]),
        ('"${{inputs.x}}"', "C:\\data", []),
        ('"${{inputs.x}}"', "C:\\data\\", ["broken-quotes"]),
        ("'${{inputs.x}}'", '$HOME; "a" `b` \\', []),
        ("'${{inputs.x}}'", "it's", ["broken-quotes"]),
        ("# ${{inputs.x}}", "it's; rm", []),
        ('"$(cat "${{inputs.x}}")"', "two words", []),
    ],
)
def test_a_value_where_the_command_has_it(place: str, value: str, codes: list[str]) -> None:
    text = command(json.dumps(f"python train.py --x {place}"), f"  x: {json.dumps(value)}\n")
    faults = checked(text)
    assert [fault.code for fault in faults] == codes
    assert all((fault.line, fault.column, fault.path) == (4, 6, "inputs.x") for fault in faults)


def test_a_value_that_is_the_command_or_is_only_printed_is_left_alone() -> None:
    assert found(command("${{inputs.x}}", "  x: python a.py && echo 'done'\n")) == []
    assert found(command("cd a && ${{inputs.x}}", "  x: python a.py; echo\n")) == []
    assert found(command("echo ${{inputs.x}}", "  x: hello world\n")) == []


def test_what_to_write_instead() -> None:
    def hint(place: str, value: str) -> str:
        return checked(command(json.dumps(f"python a.py {place}"), f"  x: {json.dumps(value)}\n"))[0].hint

    assert hint("${{inputs.x}}", "a;b") == "Write '${{inputs.x}}' in the command, in single quotes."
    assert hint("${{inputs.x}}", "it's;") == 'Write "${{inputs.x}}" in the command, in double quotes.'
    assert hint("'${{inputs.x}}'", "it's") == 'Write "${{inputs.x}}" in the command, in double quotes.'
    assert hint("'${{inputs.x}}'", "it's $HOME") == "No quotes take it as it is: change the value."


def test_paths_of_data_are_judged_where_the_command_gets_them() -> None:
    local = command("python a.py ${{inputs.d}}", "  d: {type: uri_folder, path: 'a$b'}\n")
    assert ("warning", "shell-characters", "inputs.d.path") in found(local)
    remote = command("python a.py ${{inputs.d}}", "  d: {type: uri_file, path: 'https://example.org/a?b&c'}\n")
    assert found(remote) == []
    direct = remote.replace("type: uri_file", "type: uri_file, mode: direct")
    assert found(direct) == [("warning", "shell-characters", "inputs.d.path")]


def test_a_swept_value_is_judged_at_its_place_in_the_list() -> None:
    faults = checked(sweep("{type: choice, values: [adam, 'a;b', \"it's\"]}"))
    assert [(fault.code, fault.column, fault.path) for fault in faults] == [
        ("shell-characters", 36, "search_space.x.values.1"),
        ("broken-quotes", 43, "search_space.x.values.2"),
    ]


BASH = shutil.which("bash") or ""
QUOTED = st.text(alphabet="ab'\"\\$ ;&|<>()*?#`!~=-\n", min_size=1, max_size=8)


@pytest.mark.skipif(not BASH, reason="no bash on this machine")
@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=QUOTED, quotes=st.sampled_from(["", "'", '"']))
def test_a_value_without_a_fault_reaches_the_program_as_it_is(value: str, quotes: str, tmp_path: Path) -> None:
    """bash itself is asked, where the rules find nothing: the program gets one argument, the value."""
    text = command(json.dumps(f"program x{quotes}${{{{inputs.x}}}}{quotes}"), f"  x: {json.dumps(value)}\n")
    assume(not found(text))
    assume(
        quotes or not set(value) & set("'\" \n")
    )  # quotes of the value's own are meant, and options are many arguments
    line = f"program() {{ printf '%s\\0' \"$@\"; }}; program x{quotes}{value}{quotes}"
    ran = subprocess.run(
        [BASH, "-c", line], capture_output=True, cwd=tmp_path, env={"PATH": ""}, timeout=20, check=False
    )
    assert ran.stdout.decode().split("\0")[:-1] == [f"x{value}"]


COMMANDS = st.text(alphabet="ab'\"\\$() #\n", max_size=14)


@pytest.mark.skipif(not BASH, reason="no bash on this machine")
@settings(max_examples=150, deadline=None, derandomize=True)
@given(text=COMMANDS)
def test_an_open_quote_is_one_for_bash_too(text: str) -> None:
    """`bash -n` reads and runs nothing. Brackets are another matter, and what stands in backticks it reads later."""
    ran = subprocess.run([BASH, "-n", "-c", text], capture_output=True, timeout=20, check=False)
    complaint = ran.stderr.decode()
    assume("syntax error near" not in complaint and "matching `)'" not in complaint)
    at = shell_text.left_open(text)
    assert (at is not None) == ("unexpected EOF while looking for matching" in complaint), complaint


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=st.text(alphabet="ab'\"\\$() #`;\n<", max_size=30))
def test_reading_in_runs_is_reading_by_characters(text: str) -> None:
    by_characters, in_runs = shell_text.Reader(), shell_text.Reader()
    by_characters.feed(text)
    in_runs.read(text)
    assert in_runs == by_characters
    assert in_runs.copy() == by_characters


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|\n  python train.py\n  --lr 1\n  --epochs 2", [("broken-continuation", 4, 3)]),
        ("|\n  python train.py \\\n  --lr 1\n  --epochs 2", [("broken-continuation", 5, 3)]),
        ("|\n  python train.py \\\n\n  --lr 1", [("broken-continuation", 5, 3)]),
        ("|\n  python train.py \\\n  --lr 1  # the rate \\\n  --epochs 2", [("broken-continuation", 5, 3)]),
        ("|\n  echo a\n  python train.py\n  -v", [("broken-continuation", 5, 3)]),
        (">-\n  python train.py\n    --lr 1\n    --epochs 2", [("broken-continuation", 4, 5)]),
        ("|\n  python train.py \\  \n  --lr 1", [("blank-after-backslash", 3, 19)]),
        (">-\n  python train.py \\\n  --lr 1 \\\n  --epochs 2", [("folded-backslash", 3, 19)]),
        ("python train.py \\\n  --lr 1", [("folded-backslash", 2, 26)]),
        (">\n  source activate\n  python train.py\n  --lr 1", [("joined-commands", 4, 3)]),
        (">-\n  pip install -r requirements.txt\n  python train.py --lr 1", [("joined-commands", 4, 3)]),
        (">-\n  python prepare.py --a 1\n  python -m train", [("joined-commands", 4, 3)]),
        ('"echo a\\r\\necho b"', [("carriage-return", 2, 10)]),
        ('|\n  echo "one\n  python train.py', [("unbalanced-quotes", 3, 8)]),
        ("echo it's", [("unbalanced-quotes", 2, 17)]),
    ],
)
def test_lines_that_do_not_run_as_they_look(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert [(fault.code, fault.line, fault.column) for fault in checked(command(text))] == expected


@pytest.mark.parametrize(
    "text",
    [
        "|\n  pip list\n  python train.py --lr 1\n  echo finished",
        "|\n  python train.py \\\n    --lr 1 \\\n    --epochs 2",
        '|\n  python train.py --a "\n  --b"',
        '|\n  options=(\n    --lr 1\n  )\n  python train.py "${options[@]}"',
        "|\n  cat > a.txt <<EOF\n  it's\n  --lr 1\n  EOF\n  python train.py",
        "|\n  for i in 1 2; do\n    python train.py --seed $i\n  done",
        '|\n  case $RANK in\n    0) echo first ;;\n    *) echo "$(hostname)" ;;\n  esac',
        "|\n  # don't worry\n  python train.py",
        "|\n  python - <<< \"print('a')\"",
        ">-\n  python train.py\n  --lr 1\n  --epochs 2",
        ">-\n  pip install -r requirements.txt &&\n  python train.py",
        ">-\n  pip install\n  torch torchvision papermill",
        ">-\n  mpirun -n 2\n  python train.py",
        ">-\n  conda run -n birds\n  python train.py",
        ">-\n  bash in_environment.sh\n  python train.py",
        ">-\n  python run.py --then\n  python train.py",
        ">-\n  if [ -d data ]; then\n    ls data;\n  fi",
        '"python train.py \\\n  --lr 1"',
        'julia -e "include(\\"run.jl\\")"',
        "python -c 'print(\"it is\")' && echo \"$(python -c 'print(1)')\"",
        "echo $'it\\'s' $# ${#a}",
    ],
)
def test_lines_that_are_right(text: str) -> None:
    assert found(command(text)) == []


# --- launchers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "launcher"),
    [
        ("torchrun --nproc_per_node 2 train.py", "torchrun"),
        ("cd src && torchrun train.py", "torchrun"),
        ("NCCL_DEBUG=INFO exec /opt/conda/bin/torchrun train.py", "torchrun"),
        ("python -m torch.distributed.launch train.py", "torch.distributed.launch"),
        ("python3 -u -m torch.distributed.run train.py", "torch.distributed.run"),
        ("accelerate launch train.py", "accelerate launch"),
        ("deepspeed train.py", "deepspeed"),
        ("mpirun -n 2 python train.py", "mpirun"),
    ],
)
def test_a_launcher_inside_a_distribution(text: str, launcher: str) -> None:
    more = "distribution: {type: PyTorch, process_count_per_instance: %s}\n"
    for count, severity in (("4", "error"), ("1", "note")):
        faults = checked(command(text, more=more % count))
        place = (3, len("command: ") + text.index(launcher) + 1)
        assert [(f.severity, f.code, (f.line, f.column)) for f in faults] == [(severity, "double-launcher", place)]
    assert found(command(text)) == []
    assert found(command(text, more="distribution: {type: mpi, process_count_per_instance: 4}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --launcher torchrun --deepspeed",
        "pip install deepspeed && python train.py",
        "echo 'torchrun a'",
        "echo a # torchrun",
    ],
)
def test_a_launchers_name_elsewhere_is_no_launcher(text: str) -> None:
    assert found(command(f'"{text}"', more="distribution: {type: pytorch, process_count_per_instance: 4}\n")) == []


def test_more_ranks_than_a_plan_can_list() -> None:
    more = "distribution: {type: pytorch, process_count_per_instance: %s}\nresources: {instance_count: %s}\n"
    assert found(command("python a.py", more=more % (8, 512))) == []
    assert found(command("python a.py", more=more % (8, 513))) == [
        ("error", "too-many-ranks", "resources.instance_count")
    ]
    assert found(command("python a.py", more=more % (4097, 1))) == [
        ("error", "too-many-ranks", "distribution.process_count_per_instance")
    ]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["my run", "-a", "_a", "a/b", "[red]a[/red]", "naïve", "a" * 256, "a\\x1b[31m"])
def test_names_that_azure_refuses(name: str) -> None:
    faults = checked(command("python a.py", more=f'name: "{name}"\n'))
    assert [(fault.severity, fault.code) for fault in faults] == [("error", "bad-name")]
    assert faults[0].message.isprintable()


def test_a_fixed_name_is_a_note() -> None:
    assert found(command("python a.py", more="name: my-run_1\n")) == [("note", "fixed-name", "name")]


@pytest.mark.parametrize("name", ["learning-rate", "1st", "a.b", "a b", "[bold]", "naïve"])
def test_names_of_inputs_that_azure_refuses(name: str) -> None:
    text = command(f"python a.py ${{{{inputs.{name}}}}}", f'  "{name}": 1\n')
    assert ("error", "bad-input-name", f"inputs.{name}") in found(text)


def test_reserved_names() -> None:
    assert found(command("python a.py ${{inputs.Home}}", "  Home: 1\n")) == [
        ("warning", "reserved-name", "inputs.Home")
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("azureml:birds:1", None),
        ("azureml:birds:2022-02-03", None),
        ("azureml:birds@latest", None),
        ("azureml://registries/azureml/environments/sklearn-1.5/labels/latest", None),
        ("azureml:birds", "no-version"),
        ("'azureml:birds:'", "environment-name"),
        ("'azureml:'", "environment-name"),
    ],
)
def test_references_to_environments(given: str, code: str | None) -> None:
    assert [name for _, name, _ in found(f"command: python a.py\nenvironment: {given}\n")] == ([code] if code else [])


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("compute: azureml:cpu-cluster", []),
        ("compute: cpu-cluster", []),
        ("compute: local", []),
        ("compute: my cluster", ["compute-name"]),
        ("compute: '<your cluster>'", ["compute-name"]),
        ("experiment_name: birds-2_b", []),
        ("experiment_name: birds / two", ["experiment-name"]),
    ],
)
def test_names_of_clusters_and_experiments(line: str, codes: list[str]) -> None:
    assert [code for _, code, _ in found(command("python a.py", more=f"{line}\n"))] == codes


# --- scalars ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "severity", "words"),
    [
        ("no", "warning", "read as false, and sent as False"),
        ("On", "warning", "read as true, and sent as True"),
        ("1.10", "warning", "read as the number 1.1"),
        ("010", "warning", "read as the number 8 (a 0 in front makes it octal)"),
        ("007", "warning", "read as the number 7 (a 0 in front makes it octal)"),
        ("12:30", "warning", "read as the number 750 (YAML counts in sixties at a colon)"),
        ("1_000", "note", "read as the number 1000"),
        ("0x10", "note", "read as the number 16"),
        ("1e-3", "note", "read as the text 1e-3, not as a number"),
        ("1e5", "note", "read as the text 1e5, not as a number"),
        ("0.00001", None, "read as the number 1e-05"),
        ("0.10", None, "read as the number 0.1"),
        ("5.0e+3", None, "read as the number 5000.0"),
        ("true", None, ""),
        ("False", None, ""),
        ("1.0", None, ""),
        ("+5", None, ""),
        ("-3", None, ""),
        ("0", None, ""),
        ("plain", None, ""),
        ("2022-02-03-a", None, ""),
        ("'010'", None, ""),
        ('"no"', None, ""),
        ("!!str 010", None, ""),
    ],
)
def test_what_a_scalar_is_read_as(written: str, severity: str | None, words: str) -> None:
    value = yaml.safe_load(written)
    assert scalars.surprise(written, value) == words
    faults = [
        fault for fault in checked(command("echo ${{inputs.x}}", f"  x: {written}\n")) if fault.code in SCALAR_CODES
    ]
    assert [fault.severity for fault in faults] == ([severity] if severity else [])
    assert all(words in fault.message and (fault.line, fault.column) == (4, 6) for fault in faults)


SCALAR_CODES = {code.id for code in scalars.CODES}


@pytest.mark.parametrize(
    ("written", "number"),
    [("1e-3", "1.0e-3"), ("1e5", "1.0e+5"), ("-2.5E3", "-2.5e+3"), ("09", "9")],
)
def test_a_number_in_text_is_shown_as_yaml_takes_it(written: str, number: str) -> None:
    assert isinstance(yaml.safe_load(written), str)
    assert float(yaml.safe_load(number)) == float(written)
    faults = [
        fault for fault in checked(command("echo ${{inputs.x}}", f"  x: {written}\n")) if fault.code in SCALAR_CODES
    ]
    assert [(fault.code, fault.hint) for fault in faults] == [("number-in-text", f"Write {number} to have a number.")]


def test_nothing_and_dates_are_surprises_too() -> None:
    assert scalars.surprise("~", None) == "read as nothing"
    assert scalars.surprise("2022-02-03", yaml.safe_load("2022-02-03")) == "read as a date"


def test_scalars_are_judged_wherever_a_program_gets_them() -> None:
    text = command(
        "python a.py ${{inputs.v}} ${{outputs.o}}",
        "  v: {value: 1.10}\n",
        "environment_variables: {A: yes, B: 1.10, C: true, D: 4, E: '1.10', F: 0}\n"
        "outputs: {o: {type: uri_folder, name: model, version: 1.10}}\n",
    )
    assert found(text) == [
        ("warning", "read-otherwise", "environment_variables.A"),
        ("warning", "read-otherwise", "environment_variables.B"),
        ("warning", "variable-type", "environment_variables.C"),
        ("warning", "read-otherwise", "outputs.o.version"),
        ("warning", "read-otherwise", "inputs.v.value"),
    ]
    assert ("warning", "read-otherwise", "search_space.x.values.1") in found(sweep("{type: choice, values: [1, 010]}"))


# --- sweeps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (sweep(), []),
        (
            sweep(limits="max_total_trials: 4, max_concurrent_trials: 5"),
            [("error", "concurrency", "limits.max_concurrent_trials")],
        ),
        (sweep(limits="max_total_trials: 1001"), [("error", "out-of-range", "limits.max_total_trials")]),
        (
            sweep(limits="max_total_trials: 4, timeout: 60, trial_timeout: 61"),
            [("warning", "trial-timeout", "limits.trial_timeout")],
        ),
        (sweep(metric="'accuracy '"), [("warning", "metric-blanks", "objective.primary_metric")]),
        (sweep(metric="''"), [("warning", "metric-blanks", "objective.primary_metric")]),
        (sweep(algorithm="Grid", limits="max_total_trials: 2"), []),
        (sweep(algorithm="grid"), [("note", "grid-trials", "limits.max_total_trials")]),
        (
            sweep(algorithm="{type: grid}", limits="max_total_trials: 1"),
            [("warning", "grid-trials", "limits.max_total_trials")],
        ),
        (sweep("{type: randint, upper: 4}", algorithm="grid"), [("error", "grid-space", "search_space.x.type")]),
        (
            sweep("{type: choice, values: [{a: {type: normal, mu: 0, sigma: 1}}]}", algorithm="grid"),
            [("error", "grid-space", "search_space.x.type")],
        ),
        (
            sweep(
                "{type: quniform, min_value: 0, max_value: 9, q: 3}",
                algorithm="bayesian",
                limits="max_total_trials: 20",
            ),
            [],
        ),
        (
            sweep("{type: lognormal, mu: 0, sigma: 1}", algorithm="bayesian", limits="max_total_trials: 20"),
            [("error", "bayesian-space", "search_space.x.type")],
        ),
        (sweep(algorithm="bayesian"), [("note", "bayesian-trials", "limits.max_total_trials")]),
    ],
)
def test_numbers_and_sampling_of_a_sweep(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ("{type: uniform, min_value: 2, max_value: 1}", [("error", "bounds", "min_value")]),
        ("{type: uniform, min_value: 1, max_value: 1.0}", [("note", "bounds", "min_value")]),
        ("{type: loguniform, min_value: -3, max_value: -7}", [("error", "bounds", "min_value")]),
        ("{type: quniform, min_value: 1, max_value: 9, q: 0}", [("error", "step", "q")]),
        ("{type: quniform, min_value: 1, max_value: 9, q: 20}", [("warning", "step", "q")]),
        ("{type: quniform, min_value: 1, max_value: 9, q: 8.5}", [("warning", "step", "q")]),
        ("{type: qnormal, mu: 0, sigma: 1, q: -1}", [("error", "step", "q")]),
        ("{type: normal, mu: 0, sigma: -1}", [("error", "sigma", "sigma")]),
        ("{type: lognormal, mu: 0, sigma: 0}", [("warning", "sigma", "sigma")]),
        ("{type: loguniform, min_value: 0.0001, max_value: 0.1}", [("warning", "log-bounds", "min_value")]),
        ("{type: loguniform, min_value: 1e-4, max_value: 1e-1}", [("warning", "log-bounds", "min_value")]),
        ("{type: loguniform, min_value: 0.01, max_value: 10}", [("warning", "log-bounds", "min_value")]),
        ("{type: qloguniform, min_value: 16, max_value: 256, q: 1}", [("warning", "log-bounds", "min_value")]),
        ("{type: loguniform, min_value: -9.21, max_value: 0}", []),
        ("{type: loguniform, min_value: -7, max_value: -3}", []),
        ("{type: qloguniform, min_value: 0, max_value: 6, q: 1}", []),
        ("{type: qloguniform, min_value: 2, max_value: 5.5, q: 1}", []),
        ("{type: choice, values: [a, b, a]}", [("warning", "duplicate-choice", "values.2")]),
        ("{type: choice, values: [1, '1']}", [("warning", "duplicate-choice", "values.1")]),
        ("{type: choice, values: [1, 1.0]}", []),
        ("{type: choice, values: ['${{inputs.a}}']}", [("warning", "bound-expression", "values.0")]),
        (
            "{type: choice, values: [{lr: {type: uniform, min_value: 2, max_value: 1}}]}",
            [("error", "bounds", "values.0.lr.min_value")],
        ),
    ],
)
def test_spaces(space: str, expected: list[tuple[str, str, str]]) -> None:
    assert found(sweep(space)) == [(severity, code, f"search_space.x.{key}") for severity, code, key in expected]


def test_log_bounds_say_what_they_give_and_what_to_write() -> None:
    fault = checked(sweep("{type: loguniform, min_value: 0.0001, max_value: 0.1}"))[0]
    assert "0.0001 to 0.1 gives 1 to 1.105" in fault.message
    assert fault.hint == "For values from 0.0001 to 0.1 write min_value: -9.21 and max_value: -2.303."


def test_a_bound_that_names_an_input_is_told_the_number() -> None:
    text = sweep("{type: uniform, min_value: '${{inputs.low}}', max_value: 1}", more="inputs: {low: 0.001}\n")
    faults = [fault for fault in checked(text) if fault.code == "bound-expression"]
    assert [(fault.line, fault.hint) for fault in faults] == [(4, "Write its value: 0.001.")]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("type: bandit, slack_factor: 0.1, evaluation_interval: 1, delay_evaluation: 2", []),
        ("type: bandit, slack_amount: 0.1, evaluation_interval: 1", []),
        ("type: bandit, evaluation_interval: 1", [("error", "slack", "")]),
        ("type: bandit, slack_factor: 0, evaluation_interval: 1", [("error", "slack", ".slack_factor")]),
        ("type: bandit, slack_amount: -1, evaluation_interval: 1", [("error", "slack", ".slack_amount")]),
        ("type: bandit, slack_factor: 1, slack_amount: 1, evaluation_interval: 1", [("warning", "slack", ".slack_amount")]),
        ("type: bandit, slack_factor: 0.1, slack_amount: 0, evaluation_interval: 1", []),
        ("type: median_stopping", [("note", "evaluation-interval", "")]),
        ("type: MedianStopping", [("note", "evaluation-interval", "")]),
        ("type: Bandit, evaluation_interval: 1", [("error", "slack", "")]),
        ("type: median_stopping, evaluation_interval: 1, delay_evaluation: 50",
         [("warning", "policy-too-late", ".delay_evaluation")]),
        ("type: median_stopping, evaluation_interval: 4", [("warning", "policy-too-late", ".evaluation_interval")]),
        ("type: median_stopping, evaluation_interval: 2, delay_evaluation: 3",
         [("warning", "policy-too-late", ".delay_evaluation")]),
        ("type: median_stopping, evaluation_interval: 3", []),
        ("type: truncation_selection, truncation_percentage: 20, evaluation_interval: 1", []),
        ("type: truncation_selection, truncation_percentage: 100, evaluation_interval: 1",
         [("error", "out-of-range", ".truncation_percentage")]),
        ("type: truncation_selection, truncation_percentage: 20, evaluation_interval: 1, exclude_finished_jobs: true",
         [("error", "unknown-key", ".exclude_finished_jobs")]),
    ],
)  # fmt: skip
def test_policies(policy: str, expected: list[tuple[str, str, str]]) -> None:
    text = sweep(options=" --num_epochs 3", more=f"early_termination: {{{policy}}}\n")
    assert found(text) == [(severity, code, f"early_termination{key}") for severity, code, key in expected]


LATE = "early_termination: {type: median_stopping, evaluation_interval: 1, delay_evaluation: 50}\n"


@pytest.mark.parametrize(
    ("options", "more", "late"),
    [
        (" --epochs=3", "", True),
        (" --epochs 60", "", False),
        (" --e ${{inputs.max_epochs}}", "inputs: {max_epochs: 3}\n", True),
        (" --e ${{inputs.max_epochs}}", "inputs: {max_epochs: 3.5}\n", False),
        (" --steps 3", "", False),
        (" --warmup_epochs_of 3", "", False),
    ],
)
def test_a_policy_is_too_late_only_where_the_file_says_how_long_a_trial_is(options: str, more: str, late: bool) -> None:
    codes = [code for _, code, _ in found(sweep(options=options, more=more + LATE))]
    assert codes == (["policy-too-late"] if late else [])


def test_bayesian_sampling_with_a_policy() -> None:
    policy = "early_termination: {type: median_stopping, evaluation_interval: 1}\n"
    text = sweep(algorithm="bayesian", limits="max_total_trials: 20, max_concurrent_trials: 2", more=policy)
    assert found(text) == [("warning", "bayesian-policy", "early_termination")]


@pytest.mark.parametrize(
    ("limits", "stopped", "noted"),
    [
        ("max_total_trials: 4, max_concurrent_trials: 1", (3, 4), False),
        ("max_total_trials: 4, max_concurrent_trials: 4", (0, 4), True),
        ("max_total_trials: 4", (0, 4), True),
        ("max_total_trials: 1", (0, 1), False),
    ],
)
def test_how_many_trials_can_be_stopped_early(limits: str, stopped: tuple[int, int], noted: bool) -> None:
    text = sweep(limits=limits, more="early_termination: {type: median_stopping, evaluation_interval: 1}\n")
    assert policies.most_stopped(document.parse(text, None, Path("/nowhere"))) == stopped
    assert (("note", "nothing-to-stop", "early_termination") in found(text)) == noted


def test_a_command_of_a_megabyte_is_checked_in_time() -> None:
    """A loop over all lines for each line, or over all text for each character, would take minutes."""
    text = command(
        "|\n" + "  python train.py --lr ${{inputs.lr}} 'a' \\\n  --epochs 2\n  --x\n" * 14_000, "  lr: 0.1\n"
    )
    started = time.process_time()
    assert len(found(text)) == 14_000
    assert time.process_time() - started < 30


@pytest.mark.parametrize("piece", [" ", "a ", "${{", "$[["])
def test_an_expression_without_an_end_is_checked_in_time(piece: str) -> None:
    """Looking on from each character of it, or for each blank once more, would take hours."""
    started = time.process_time()
    found(command(json.dumps(f"echo ${{{{{piece * 30_000}")))
    assert time.process_time() - started < 30


# --- any file ---------------------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(
        ["", " ", "${{inputs.x}}", "it's", "bandit", "grid", "choice", "loguniform", "pytorch", "1e-3", "|\n", "a\r\nb", "\\"]
    ) | st.text(alphabet="ab'\"\\$;{}[] \n#", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["x", "type", "values", "min_value", "max_value", "q", "sigma", "mu", "upper", "command", "path", "value", "mode", "a b"]
    ), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
KEYS = (
    "trial", "command", "environment", "inputs", "outputs", "search_space", "sampling_algorithm", "limits", "early_termination",
    "objective", "name", "experiment_name", "compute", "distribution", "resources", "environment_variables", "tags",
)  # fmt: skip


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    base=st.sampled_from([command("python a.py ${{inputs.x}}", "  x: 1\n"), sweep()]),
    changes=st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=4),
)
def test_any_value_anywhere_is_checked_and_placed(base: str, changes: dict[str, object]) -> None:
    text = yaml.safe_dump({**yaml.safe_load(base), **changes}, allow_unicode=True)
    last = text.count("\n") + 1
    for fault in checked(text):
        assert 1 <= fault.line <= last
        assert fault.column >= 1
        assert fault.message
        assert fault.code in check.CODES


# --- shapes -----------------------------------------------------------------------------------------------------------


REST = "command: python train.py\nenvironment: azureml:e:1\n"


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ("{}", "neither"),
        ("{conda_file: {dependencies: [a]}}", "neither"),
        ("{name: a, version: 1}", "neither"),
        ("{image: a, build: {path: b}}", "has an `image` and a `build`"),
        ("{image: a}", ""),
        ("{build: {path: b}}", ""),
    ],
)
def test_an_environment_is_made_of_an_image_or_a_build(environment: str, told: str) -> None:
    for head, place, severity in [
        ("command: echo\nenvironment: ", "environment", "error"),
        ("type: sweep\ntrial:\n  command: echo\n  environment: ", "trial.environment", "warning"),
        ("type: pipeline\njobs:\n  a:\n    command: echo\n    environment: ", "jobs.a.environment", "warning"),
        ("name: blue\nendpoint_name: birds\ninstance_type: a\nenvironment: ", "environment", "warning"),
    ]:
        faults = [fault for fault in checked(f"{head}{environment}\n") if fault.code == "image-or-build"]
        assert [(fault.path, fault.severity) for fault in faults] == ([(place, severity)] if told else [])
        assert all(told in fault.message for fault in faults)


def test_a_misspelt_image_is_told_once() -> None:
    assert found("command: echo\nenvironment: {imge: a}\n") == [("error", "unknown-key", "environment.imge")]


@pytest.mark.parametrize(
    ("size", "severity", "hint"),
    [
        ("8g", "", ""),
        ("512M", "", ""),
        ("2gb", "warning", "Write 2g."),
        ("2 g", "warning", "Write 2g."),
        ("1.5g", "warning", "Write it as 8g or 512m."),
        ("2 gigs", "error", "Write 2g."),
        ("'8'", "error", "Write 8g."),
        ("0g", "error", "Write it as 8g or 512m."),
        ("big", "error", "Write it as 8g or 512m."),
    ],
)
def test_a_size_of_shared_memory_has_a_unit(size: str, severity: str, hint: str) -> None:
    faults = [fault for fault in checked(f"{REST}resources: {{shm_size: {size}}}\n") if fault.code == "shm-size"]
    assert [(fault.severity, fault.hint) for fault in faults] == ([(severity, hint)] if severity else [])


def test_the_nodes_of_a_service_are_all_of_them() -> None:
    for nodes in ("2", "'2'", "All"):
        faults = checked(f"{REST}services: {{s: {{type: vs_code, nodes: {nodes}}}}}\n")
        assert [(fault.severity, fault.path) for fault in faults] == [("error", "services.s.nodes")]
        assert "quotes" not in faults[0].hint
    assert found(f"{REST}services: {{s: {{type: vs_code, nodes: all}}}}\n") == []


@pytest.mark.parametrize("text", ['""', "'  '"])
def test_an_empty_command_is_an_error(text: str) -> None:
    assert ("error", "missing-key", "command") in found(f"command: {text}\nenvironment: azureml:e:1\n")


@pytest.mark.parametrize("value", ["2020-01-01", "2020-01-01 10:00:00"])
def test_a_variable_that_is_a_date_is_a_warning(value: str) -> None:
    text = f"{REST}environment_variables: {{BUILD: {value}}}\n"
    assert found(text) == [("warning", "variable-type", "environment_variables.BUILD")]


@pytest.mark.parametrize(
    "code", ["azureml://datastores/d/paths/src", "wasbs://a@b/c", "git@github.com:a/b", "s3://a/b"]
)
def test_code_does_not_come_from_a_store_of_data(code: str) -> None:
    faults = checked(f"{REST}code: {code}\n")
    assert [(fault.severity, fault.code, fault.path) for fault in faults] == [("error", "wrong-value", "code")]
    assert "git+https" in faults[0].hint


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        (f"{REST}resources: {{instance_count: 2, instance_cuont: 2}}\n", "resources.instance_cuont",
         "`instance_count` is there already; remove this."),
        (f"{REST}resources: {{instance_cuont: 2}}\n", "resources.instance_cuont", "Did you mean `instance_count`?"),
        (f"{REST}instance_count: 2\n", "instance_count", "That stands below `resources`."),
        (f"{REST}process_count_per_instance: 2\n", "process_count_per_instance", "That stands below `distribution`."),
        (f"{sweep()}max_total_trials: 3\n", "max_total_trials", "That stands below `limits`."),
        (f"{sweep()}primary_metric: a\n", "primary_metric", "That stands below `objective`."),
    ],
)  # fmt: skip
def test_an_unknown_key_says_where_it_belongs(text: str, place: str, hint: str) -> None:
    assert [fault.hint for fault in checked(text) if fault.path == place] == [hint]


def test_what_stands_in_the_trial_and_belongs_at_the_top_is_told_there_alone() -> None:
    text = (
        "type: sweep\ntrial:\n  command: python train.py ${{search_space.lr}}\n  environment: azureml:e:1\n"
        "  search_space: {lr: {type: choice, values: [1, 2]}}\nsampling_algorithm: random\n"
        "objective: {goal: minimize, primary_metric: a}\nlimits: {max_total_trials: 2}\n"
    )
    faults = checked(text)
    assert [(fault.code, fault.path) for fault in faults] == [
        ("missing-key", ""),
        ("unknown-key", "trial.search_space"),
    ]
    assert "at the top of the sweep" in faults[1].hint


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{REST}inputs: {{n: null}}\n", "inputs.n"),
        (f"{REST}inputs: {{n: {{value: 3, path: x}}}}\n", "inputs.n.path"),
        (f"{REST}outputs: {{o: x}}\n", "outputs.o"),
        (f"{REST}outputs: {{o p: null}}\n", "outputs.o p"),
    ],
)
def test_what_comes_of_a_fault_at_the_same_place_is_not_told_too(text: str, place: str) -> None:
    assert [severity for severity, _, where in found(text) if where == place] == ["error"]


@pytest.mark.parametrize(
    "text",
    [
        "command: python train.py\nenviroment: azureml:e:1\n",
        "comand: python train.py\nenvironment: azureml:e:1\n",
        "type: pipeline\njobs: {a: {comand: echo, environment: azureml:e:1}}\n",
        sweep().replace("primary_metric", "primary_metrik"),
    ],
)
def test_a_misspelt_key_that_must_be_there_cannot_be_forced_through(text: str) -> None:
    job_file = document.parse(text, None, Path("/nowhere"))
    assert [fault.code for fault in check.check(job_file) if check.unreadable(fault)] == ["unknown-key"]
    with pytest.raises(Invalid, match="no key of"):
        check.require_shape(job_file)


def test_a_misspelt_key_that_need_not_be_there_can_be_forced_through() -> None:
    job_file = document.parse(f"{REST}displayname: a\n", None, Path("/nowhere"))
    assert [fault.code for fault in check.check(job_file)] == ["unknown-key"]
    check.require_shape(job_file)


def test_a_misspelt_command_in_a_component_is_an_error() -> None:
    text = "name: c1\ntype: command\nversion: 1\ncomand: echo\nenvironment: azureml:e:1\n"
    assert found(text) == [("error", "unknown-key", "comand")]
    assert found(text.replace("comand", "tagz: {}\ncommand")) == [("warning", "unknown-key", "tagz")]


def test_a_key_that_a_clusters_ssh_needs() -> None:
    for text in ("type: amlcompute\n", "type: virtualmachine\nresource_id: /x\n"):
        assert ("error", "missing-key", "ssh_settings") in found(
            f"name: cpu\n{text}ssh_settings: {{admin_password: x}}\n"
        )


def test_values_of_a_parallel_step_are_checked() -> None:
    step = (
        "type: pipeline\njobs:\n  a:\n    type: parallel\n    inputs: {d: {type: mltable, path: azureml:a:1}}\n"
        "    input_data: ${{inputs.d}}\n    task: {type: run_function, entry_script: a.py, environment: azureml:e:1}\n"
    )
    assert not [fault for fault in checked(step) if fault.severity == "error"]
    for key in ("logging_level: {}", "error_threshold: x", "retry_settings: {timeout: []}", "partition_keys: a"):
        errors = [fault.path for fault in checked(f"{step}    {key}\n") if fault.severity == "error"]
        assert len(errors) == 1
        assert errors[0].startswith(f"jobs.a.{key.partition(':')[0]}")
