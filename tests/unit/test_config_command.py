"""The commands on the installation itself: settings shown and checked, their schema, completion in a shell."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from tests.commands import COMMAND, Inside

from footplate import settings
from footplate.local.store import Store, now

GOOD = """\
workspace = "prod"  # kept

[local]
nodes = 2

[check.severities]
unknown-cluster = "note"

[workspaces.prod]
kind = "azure"
subscription_id = "00000000-0000-0000-0000-000000000001"
resource_group = "rg"
workspace_name = "ws"
read_only = true
"""


@pytest.fixture
def footplate(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


def test_settings_are_shown_as_they_hold(footplate):
    shown = footplate.json("config", "show")
    assert (shown["file"], shown["exists"], shown["settings"]["workspace"]) == (str(footplate.settings), False, "local")
    footplate.settings.write_text(GOOD)
    shown = footplate.json("config", "show", FOOTPLATE_LOCAL_PYTHON="/usr/bin/python3", FOOTPLATE_WORKSPACE="local")
    assert shown["exists"]
    assert shown["settings"]["local"] == {"python": "/usr/bin/python3", "nodes": 2}
    assert (shown["settings"]["workspace"], shown["environment"]["FOOTPLATE_WORKSPACE"]) == ("local", "local")
    assert shown["settings"]["workspaces"]["prod"]["read_only"] is True
    text = footplate("config", "show").stdout
    assert tomllib.loads(text) == {
        key: value for key, value in footplate.json("config", "show")["settings"].items() if value != {}
    }


def test_sound_settings_have_no_faults(footplate):
    assert footplate.json("config", "validate") == []
    assert "it is not there" in footplate("config", "validate").stdout
    footplate.settings.write_text(GOOD)
    done = footplate("config", "validate")
    assert (done.returncode, done.stdout) == (0, f"{footplate.settings}: no faults\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[local]", "[local"), "not TOML"),
        (("nodes = 2", "noeds = 2"), "local.noeds"),
        (("nodes = 2", "nodes = 'two'"), "local.nodes"),
        (('"note"', '"fatal"'), "severities"),
        (('kind = "azure"', 'kind = "moon"'), "'moon'"),
        (("read_only = true", "read_only = 'yes'"), "workspaces.prod.read_only"),
        (("resource_group", "resource_grupp"), "workspaces.prod"),
        (('workspace = "prod"', 'workspace = "prdo"'), "no workspace 'prdo'"),
    ],
)
def test_each_fault_of_the_settings_is_told_and_ends_with_2(footplate, change, words):
    footplate.settings.write_text(GOOD.replace(*change, 1))
    done = footplate("config", "validate")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    faults = footplate.json("config", "validate", code=2)
    assert words in " ".join(f"{fault['message']} {fault['hint']}" for fault in faults)


def test_faults_of_several_workspaces_are_told_at_once(footplate):
    footplate.settings.write_text("[workspaces.a]\nkind = 'moon'\n[workspaces.b]\nkind = 'azure'\nregion = 'x'\n")
    assert len(footplate.json("config", "validate", code=2)) == 2


def test_the_schema_knows_every_key_that_the_settings_take(footplate):
    done = footplate("config", "schema")
    schema = json.loads(done.stdout)
    assert schema == footplate.json("config", "schema")
    known = schema["properties"]
    for name, section in (("local", settings.LocalSettings), ("serving", settings.ServingSettings)):
        assert set(known[name]["properties"]) == {one.name for one in fields(section)}
    azure, local = known["workspaces"]["additionalProperties"]["anyOf"]
    assert set(azure["properties"]) == {one.name for one in fields(settings.AzureSettings)}
    assert set(local["properties"]) == {"kind", "read_only"}
    assert "unknown-cluster" in known["check"]["properties"]["severities"]["properties"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(footplate, shell):
    done = footplate("completion", shell)
    assert done.returncode == 0, done.stderr
    assert f"_FOOTPLATE_COMPLETE={shell}_complete" in done.stdout
    assert footplate.json("completion", shell)["script"].strip() == done.stdout.strip()


def test_an_unknown_shell_is_refused(footplate):
    assert footplate("completion", "cmd").returncode == 2


def completed(footplate: Inside, line: str) -> list[str]:
    """What a shell gets for a line that ends where the cursor stands."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_FOOTPLATE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, timeout=60, check=True, env={**footplate.environment, **asked}
    )
    assert done.stderr == ""
    return [found.partition(",")[2] for found in done.stdout.splitlines() if found]


def test_commands_and_names_are_completed(footplate):
    assert {"cluster", "clusters"} <= set(completed(footplate, "footplate clus"))
    assert completed(footplate, "footplate job ") == []
    assert not footplate.home.exists()  # a tab makes nothing
    store = Store(footplate.home)
    store.prepare()
    with store.write() as db:
        for name in ("wren-1", "wren-2", "robin"):
            db.execute(
                "INSERT INTO job (name, display_name, type, status, experiment, compute, created, ended, nodes, "
                "ranks_per_node, command, plan) VALUES (?, '', 'command', 'Completed', '', 'local', ?, ?, 1, 1, '', '{}')",
                (name, now(), now()),
            )
    assert completed(footplate, "footplate job wren") == ["wren-2", "wren-1"]
    assert completed(footplate, "footplate logs --follow r") == ["robin"]
    assert completed(footplate, "footplate archive wren-1 w") == ["wren-2"]
    assert completed(footplate, "footplate cluster show ") == ["local"]
    assert completed(footplate, "footplate launch job.yml --compute l") == ["local"]
    footplate.settings.write_text(GOOD)
    assert completed(footplate, "footplate --workspace p") == ["prod"]
    assert completed(footplate, "footplate job --workspace local wren-2") == ["wren-2"]


def test_completion_asks_no_network_and_says_nothing_of_faults(footplate):
    footplate.settings.write_text(GOOD)
    for line in ("footplate cluster show ", "footplate model show ", "footplate endpoint show ", "footplate job "):
        assert completed(footplate, line) == []
    footplate.settings.write_text("[local\n")
    assert completed(footplate, "footplate job ") == []
    assert completed(footplate, "footplate --workspace ") == []


def test_a_tab_loads_nothing_heavy(footplate):
    Store(footplate.home).prepare()
    script = (
        "import sys\nfrom footplate.__main__ import main\nsys.argv = ['footplate']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'azure', 'aiohttp', 'textual', 'pydantic', 'numpy', 'PIL', 'mlflow', 'torch'}))"
    )
    asked = {"COMP_WORDS": "footplate job x", "COMP_CWORD": "2", "_FOOTPLATE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True,
        env={**footplate.environment, **asked},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
