"""What demos, templates and deployments must not take, make or mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.at_work import ended, log

from footplate.operations import demo, deploy, launch
from footplate.workspace import Invalid, Workspace


async def test_an_endpoint_that_serves_another_model_too_stays(workspace: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "weights.txt").write_text("1")
    made = await workspace.register("birds", folder, demo.DESCRIPTION)
    mine = await workspace.register("birds", folder)
    for name in ("birds", "birds-2"):
        await workspace.create_endpoint(name, demo.DESCRIPTION)
        await workspace.deploy(name, "blue", made.reference)
    await workspace.deploy("birds", "green", mine.reference, traffic=False)
    try:
        removed = await demo.clean(workspace)
        assert removed == {"endpoints": ["birds-2"], "models": [], "jobs": []}
        assert [d.name for d in (await workspace.endpoint("birds")).deployments] == ["blue", "green"]
        assert {model.reference for model in await workspace.models()} == {made.reference, mine.reference}
    finally:
        for endpoint in await workspace.endpoints():
            await workspace.delete_endpoint(endpoint.name)


async def test_the_demo_runs_its_own_template_whatever_lies_in_the_current_folder(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / demo.TEMPLATE).write_text("command: echo SHADOW\nenvironment: x\n")
    monkeypatch.chdir(tmp_path)
    job = await demo.start(workspace)
    assert "train.py" in job.command


async def test_a_deployment_name_that_cannot_be_makes_no_endpoint(workspace: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "weights.txt").write_text("1")
    model = await workspace.register("birds", folder)
    with pytest.raises(Invalid, match="cannot be the name of a deployment"):
        await deploy.deploy(workspace, model.reference, "fine-name", "x y")
    assert list(await workspace.endpoints()) == []


async def test_data_in_a_folder_with_blanks_and_quotes_reaches_the_templates(
    workspace: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "my 'own' data"
    folder.mkdir()
    for template in ("train.yml", "train-distributed.yml"):
        job_file = launch.prepare(
            launch.find(template), [f"inputs.data={folder}", "command=printf '%s' \"${{inputs.data}}\""]
        )
        job = await ended(workspace, (await workspace.submit(job_file)).name)
        files = [file.path for file in await workspace.log_files(job.name) if file.path.startswith("user_logs/")]
        assert await log(workspace, job.name, files[0]) == str(folder)
        assert '"${{inputs.data}}"' in launch.prepare(launch.find(template)).command


async def test_a_folder_that_holds_the_home_is_not_copied_into_itself(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="holds footplate's own home"):
        await workspace.register("birds", tmp_path)
