"""Which workspace and which cloud: settings, environment, config.json, and the sentences on what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from footplate import settings
from footplate.azure import clouds, place
from footplate.settings import AzureSettings
from footplate.workspace import Invalid
from footplate.workspace.open import open_workspace

CONFIG = {"subscription_id": "s", "resource_group": "r", "workspace_name": "w"}


def names(found: place.Place) -> tuple[str, str, str]:
    return found.subscription_id, found.resource_group, found.workspace_name


def test_the_settings_go_before_all_else(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    given = AzureSettings(subscription_id="1", resource_group="my group", workspace_name="3")
    found = place.find(given, "prod", tmp_path, {"SUBSCRIPTION_ID": "x"})
    assert names(found) == ("1", "my group", "3")
    assert (
        found.path
        == "/subscriptions/1/resourceGroups/my%20group/providers/Microsoft.MachineLearningServices/workspaces/3"
    )


@pytest.mark.parametrize("inside", ["config.json", ".azureml/config.json", "aml_config/project.json"])
def test_config_json_is_found_upward_as_azures_client_finds_it(tmp_path, inside):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    file = tmp_path / inside
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(CONFIG))
    found = place.find(AzureSettings(), "prod", deep, {})
    assert (names(found), found.said_by) == (("s", "r", "w"), str(file))
    scope = "/subscriptions/1/resourceGroups/2/providers/Microsoft.MachineLearningServices/workspaces/3"
    file.write_text(json.dumps({"Scope": scope}), encoding="utf-8-sig")
    assert names(place.find(AzureSettings(), "prod", deep, {})) == ("1", "2", "3")


def test_a_config_json_of_another_program_is_passed_over(tmp_path):
    (tmp_path / "config.json").write_text('{"compilerOptions": {}}')
    environment = {"SUBSCRIPTION_ID": "a", "RESOURCE_GROUP": "b", "WORKSPACE_NAME": "c"}
    assert names(place.find(AzureSettings(), "prod", tmp_path, environment)) == ("a", "b", "c")


def test_the_environment_counts_where_it_has_all_three(tmp_path):
    job = {"AZUREML_ARM_SUBSCRIPTION": "1", "AZUREML_ARM_RESOURCEGROUP": "2", "AZUREML_ARM_WORKSPACE_NAME": "3"}
    found = place.find(AzureSettings(), "prod", tmp_path, {"SUBSCRIPTION_ID": "a", "RESOURCE_GROUP": "b", **job})
    assert names(found) == ("1", "2", "3")
    assert names(place.find(AzureSettings(workspace_name="mine"), "prod", tmp_path, job)) == ("1", "2", "mine")


def test_no_place_and_broken_files_are_sentences(tmp_path):
    with pytest.raises(Invalid, match="does not say which") as refused:
        place.find(AzureSettings(), "prod", tmp_path, {})
    assert "[workspaces.prod]" in refused.value.next_step
    (tmp_path / ".azureml").mkdir()
    for content, words in (("{", "cannot be read"), ("[]", "has no subscription_id"), ('{"Scope": "/x"}', "has no")):
        (tmp_path / ".azureml" / "config.json").write_text(content)
        with pytest.raises(Invalid, match=words):
            place.find(AzureSettings(), "prod", tmp_path, {})


def test_the_three_clouds_have_their_addresses():
    for name, host in (
        ("AzureCloud", "management.azure.com"),
        ("AzureChinaCloud", "management.chinacloudapi.cn"),
        ("AzureUSGovernment", "management.usgovcloudapi.net"),
    ):
        cloud = clouds.find(AzureSettings(cloud=name), "prod", Path())
        assert cloud.scope == f"https://{host}/.default"
        assert not cloud.custom


def test_a_custom_cloud_takes_its_addresses_and_certificate_from_the_settings(tmp_path):
    (tmp_path / "ca.pem").write_text("")
    given = AzureSettings(cloud="custom", resource_manager="https://management.localhost:8443/", ca_file="ca.pem")
    cloud = clouds.find(given, "prod", tmp_path)
    assert (cloud.resource_manager, cloud.ca_file) == ("https://management.localhost:8443", tmp_path / "ca.pem")
    assert cloud.custom


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cloud": "Azure"}, "workspaces.prod.cloud is 'Azure'"),
        ({"cloud": "custom"}, "workspaces.prod.resource_manager is missing"),
        ({"cloud": "custom", "resource_manager": "http://x"}, "no https address"),
        ({"cloud": "custom", "resource_manager": "https://x", "ca_file": "no.pem"}, "no such file"),
        ({"resource_manager": "https://x"}, "for a custom cloud only"),
    ],
)
def test_a_faulty_cloud_names_its_key(tmp_path, given, words):
    with pytest.raises(Invalid, match=words):
        clouds.find(AzureSettings(**given), "prod", tmp_path)


def test_an_unknown_key_of_an_azure_table_is_named(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("[workspaces.prod]\nkind = 'azure'\nsubscription = '1'\n")
    with pytest.raises(Invalid, match=r"unknown key workspaces\.prod\.subscription"):
        open_workspace("prod", settings.load(file))


def test_without_settings_azure_is_the_workspace_that_the_folder_names(tmp_path, monkeypatch):
    for name in ("SUBSCRIPTION_ID", "AZUREML_ARM_SUBSCRIPTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="does not say which"):
        open_workspace("azure", settings.load(tmp_path / "none.toml"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    opened = open_workspace("azure", settings.load(tmp_path / "none.toml"))
    assert (opened.kind, opened.name, opened.read_only) == ("azure", "azure", False)
    file = tmp_path / "config.toml"
    file.write_text("[workspaces.azure]\nkind = 'local'\n")
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    assert open_workspace("azure", settings.load(file)).kind == "local"


def test_opening_an_azure_workspace_loads_nothing_of_azures(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(
        "[workspaces.prod]\nkind = 'azure'\nsubscription_id = '1'\nresource_group = '2'\nworkspace_name = '3'\n"
    )
    script = (
        "import sys; from pathlib import Path; from footplate import settings;"
        "from footplate.workspace.open import open_workspace;"
        f"w = open_workspace('prod', settings.load(Path({str(file)!r})));"
        "loaded = {m.partition('.')[0] for m in sys.modules};"
        "print(w.kind, w.read_only, sorted(loaded & {'azure', 'aiohttp', 'textual', 'requests'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "azure False []\n"
