"""`footplate check` as a program, its page in the docs, and what its settings can change."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.commands import Footplate

from footplate import cli
from footplate.cli.check import counts
from footplate.jobfile import check
from footplate.jobfile.faults import Fault

ROOT = Path(__file__).resolve().parents[2]
GOOD = "command: echo hello\nenvironment: azureml:e:1\n"
FAULTY = "command: echo ${{inputs.lr}}\nenvironment: azureml:e:1\ninputs:\n  rl: 0.1\n  epochs: 1\n"


@pytest.fixture
def footplate(tmp_path):
    """The commands, with a home of their own, in a folder with files."""
    (tmp_path / "good.yml").write_text(GOOD)
    (tmp_path / "faulty.yml").write_text(FAULTY)
    (tmp_path / "warned.yml").write_text(FAULTY.replace("${{inputs.lr}}", "hello"))
    return Footplate(tmp_path)


def test_a_clean_file_says_what_it_is(footplate):
    done = footplate("check", "good.yml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "good.yml: a command job, no faults\n", "")


def test_faults_are_listed_with_place_code_and_next_step(footplate):
    done = footplate("check", "faulty.yml", "good.yml")
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "faulty.yml:1:15: error: `inputs.lr` is not defined. [unbound]",
        "    Did you mean ${{inputs.rl}}?",
        "faulty.yml:5:3: warning: The command never uses the input `epochs`. [unused]",
        "    Name it there, or remove it.",
        "good.yml: a command job, no faults",
        "1 error, 1 warning in 2 files",
    ]


def test_warnings_end_with_0(footplate):
    assert footplate("check", "warned.yml").returncode == 0


def test_json_is_always_a_list(footplate):
    assert footplate.json("check", "good.yml") == []
    faults = footplate.json("check", "faulty.yml", code=2)
    assert [tuple(fault) for fault in faults] == [
        ("file", "line", "column", "path", "severity", "code", "message", "hint")
    ] * 2
    assert [(f["file"], f["line"], f["column"], f["path"], f["code"]) for f in faults] == [
        ("faulty.yml", 1, 15, "command", "unbound"),
        ("faulty.yml", 5, 3, "inputs.epochs", "unused"),
    ]


def test_a_missing_file_does_not_keep_the_others(footplate):
    done = footplate("check", "none.yml", "good.yml")
    assert done.returncode == 2
    assert done.stdout == "good.yml: a command job, no faults\n"
    assert "none.yml cannot be read" in done.stderr
    done = footplate("check", "none.yml", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (2, [])
    assert footplate("check", "none.yml").stdout == ""
    assert footplate("check").returncode == 2


def test_what_cannot_be_read_is_one_fault(footplate):
    (footplate.folder / "list.yml").write_text("- a\n")
    (footplate.folder / "tab.yml").write_text("command: echo\nlimits:\n\ttimeout: 3\n")
    faults = footplate.json("check", "list.yml", "tab.yml", code=2)
    assert [(fault["file"], fault["line"], fault["column"], fault["code"]) for fault in faults] == [
        ("list.yml", 1, 1, "no-mapping"),
        ("tab.yml", 3, 1, "not-yaml"),
    ]


def test_a_template_goes_by_its_bare_name(footplate):
    done = footplate("check", "train")
    assert (done.returncode, done.stdout.count("a command job")) == (0, 1), done.stdout


def test_only_a_named_workspace_is_asked(footplate):
    (footplate.folder / "azure.yml").write_text(f"{GOOD}compute: azureml:gpu-cluster\n")
    assert footplate("check", "azure.yml").returncode == 0
    assert not footplate.home.exists()
    done = footplate("check", "azure.yml", "none.yml", "--workspace", "local")
    assert done.returncode == 2
    assert "azure.yml:3:10: error: Workspace local has no cluster gpu-cluster. [unknown-cluster]" in done.stdout
    assert "none.yml cannot be read" in done.stderr
    assert "no workspace 'prod'" in footplate("check", "azure.yml", "--workspace", "prod").stderr


def test_the_settings_say_what_a_code_counts_as(footplate):
    footplate.settings.write_text('[check.severities]\nunbound = "note"\nunused = "off"\n')
    done = footplate("check", "faulty.yml")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 note in 1 file")
    footplate.settings.write_text('[check.severities]\nunused = "error"\n')
    assert footplate("check", "warned.yml").returncode == 2
    footplate.settings.write_text('[check.severities]\nunusde = "off"\n')
    done = footplate("check", "good.yml")
    assert done.returncode == 2
    assert "Did you mean unused?" in done.stderr


def test_what_a_name_holds_never_reaches_a_terminal_as_a_control_character(footplate):
    (footplate.folder / "evil.yml").write_text('command: echo\nenvironment: azureml:e:1\n"\\e]52;c;aGk=\\a[bold]": 1\n')
    done = footplate("check", "evil.yml")
    assert done.returncode == 2
    assert not {character for character in done.stdout if ord(character) < 32} - {"\n"}
    assert "[bold]" in done.stdout


def test_azures_sdk_and_textual_are_never_loaded(footplate):
    code = (
        "import sys; from footplate.cli import cli\n"
        "try:\n    cli.main(['check', 'faulty.yml', 'good.yml'], prog_name='footplate')\n"
        "except SystemExit as end:\n    print(end.code, *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=footplate.folder,
        env=footplate.environment,
        timeout=60,
        check=True,
    )
    code_and_modules = done.stdout.splitlines()[-1].split()
    assert code_and_modules[0] == "2"
    assert not {"azure", "textual", "torch", "numpy", "PIL", "pydantic", "aiohttp", "asyncio", "msrest"} & set(
        code_and_modules
    )
    assert "yaml" in code_and_modules


def test_every_command_is_found_by_the_module_that_has_it():
    for module, names in cli.COMMANDS.items():
        group = cli.click.Group()
        importlib.import_module(f"footplate.cli.{module}").add_to(group)
        assert tuple(sorted(group.commands)) == tuple(sorted(names)), module


def test_counts_are_in_words():
    def fault(severity):
        return Fault("x", severity, "", "", 1, 1)

    assert counts([fault("error"), fault("note"), fault("error"), fault("warning")]) == "2 errors, 1 warning, 1 note"


def test_the_page_of_the_docs_is_as_the_codes_are():
    spec = importlib.util.spec_from_file_location("make_checks", ROOT / "docs" / "make_checks.py")
    make_checks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_checks)
    assert (ROOT / "docs" / "checks.md").read_text() == make_checks.page(), "run: python docs/make_checks.py"
    assert all(f"\n## {code}\n" in make_checks.page() for code in check.CODES)
    settings = tomllib.loads(make_checks.page().partition("[check.severities]")[2].partition("\n\n")[0])
    assert settings
    assert set(settings) <= set(check.CODES)


@pytest.mark.parametrize("command", [("check",), ("launch", "--dry-run"), ("launch",)])
@pytest.mark.parametrize("name", ["a" * 300, f"{'a' * 300}.yml", f"{'a' * 300}/job.yml"])
def test_a_name_too_long_for_the_system_is_a_sentence(footplate, command, name):
    done = footplate(*command, name)
    assert done.returncode == 2
    # A bare name may also be a template's.
    bare = command[0] == "launch" and name == "a" * 300
    assert ("neither a file nor a template" if bare else "cannot be read: File name too long") in done.stderr


RAY = "command: echo\nenvironment: azureml:e:1\ndistribution:\n  type: ray\n"
SPARK_STEP = "type: pipeline\njobs:\n  one: {type: command, command: echo, environment: 'azureml:e:1', compute: 'azureml:local'}\n"
SPARK_STEP += "  two: {type: spark, entry: {file: a.py}, resources: {instance_type: a, runtime_version: '3.4'}}\n"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (RAY, "4:9", "a job with distribution 'ray', which the local workspace does not run. [refused]"),
        (SPARK_STEP, "1:7", "Step two of job.yml is a spark step, which Azure ML itself runs. [refused]"),
    ],
)
def test_what_this_machine_does_not_run_is_told_where_it_is_asked_and_only_there(footplate, text, place, said):
    (footplate.folder / "job.yml").write_text(text)
    done = footplate("check", "--workspace", "local", "job.yml")
    assert done.returncode == 2
    assert done.stdout.startswith(f"job.yml:{place}: error: ")
    assert said in done.stdout.splitlines()[0]
    assert "refused" not in footplate("check", "job.yml").stdout
    dry = footplate("launch", "job.yml", "--dry-run")
    assert said in dry.stderr
    assert dry.returncode == 0  # the file may be meant for another workspace
