"""What is asked before models are deployed or deleted, and done then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from footplate import words
from footplate.operations import deploy as deploying
from footplate.operations import download as downloading
from footplate.screens.dialogs import ConfirmDialog, Field, FieldsDialog, expanded
from footplate.workspace import Model

if TYPE_CHECKING:
    from footplate.app import FootplateApp


async def deploy(console: FootplateApp, model: Model) -> None:
    """Ask for endpoint and deployment, then deploy and say when it serves."""
    if console.cannot("deploy"):
        return
    suggested = await console.attempt(deploying.free_endpoint_name(console.workspace, model.name))
    if suggested is None:
        return
    differs = await console.attempt(_differs(console, model)) or ""
    size = console.workspace.deployment_size
    cost = f"\nIt runs 1 × {size}, which is billed by the hour until it is deleted." if size else ""
    asked = FieldsDialog(
        f"Deploy {model.reference} in workspace {console.workspace_name}",
        f"The endpoint is made where it is missing. The first deployment takes all traffic.{cost}{differs}",
        "Deploy",
        (Field("endpoint", "Endpoint", suggested), Field("name", "Deployment", "blue")),
    )
    answer = await console.push_screen_wait(asked)
    if not answer:
        return
    await console.switch("endpoints")
    name = answer["endpoint"]
    done = await console.attempt(deploying.deploy(console.workspace, model.reference, name, answer["name"]))
    if done is None:
        return
    endpoint = await console.attempt(console.workspace.endpoint(name))
    if endpoint is not None and endpoint.traffic.get(answer["name"], 0):
        says = f"{name} serves {model.reference}; enter on it tests it with a picture."
    else:
        says = (
            f"{answer['name']} of {name} serves {model.reference}, with no traffic yet: its other deployments answer. "
            "T shifts traffic."
        )
    console.notify(says, markup=False)


async def _differs(console: FootplateApp, model: Model) -> str:
    """What such a deployment would do otherwise on Azure, a line each; empty on Azure."""
    from footplate.jobfile.document import parse  # reads YAML, which a list need not wait for

    file = parse(f"name: blue\nendpoint_name: one\nmodel: azureml:{model.reference}\n", None, Path.cwd())
    rows = [f"{one.topic}: {one.azure}" for one in await console.workspace.contrasts(file)]
    return "\n".join(["", "On Azure this would differ:", *rows]) if rows else ""


async def download(console: FootplateApp, model: Model) -> None:
    """Ask for a folder, then fetch the model's files into it."""
    if console.cannot("download_model"):
        return
    asked = FieldsDialog(
        f"Download {model.reference}",
        f"Its files ({words.size(model.size)}); one that is there already is not fetched again.",
        "Download",
        (Field("folder", "Folder", f"{model.name}-{model.version}"),),
    )
    answer = await console.push_screen_wait(asked)
    if not answer:
        return
    folder = expanded(answer["folder"])
    with console.transfer("downloading") as progress:
        done = await console.attempt(downloading.model(console.workspace, model.reference, folder, progress))
    if done is not None:
        console.notify(f"{done.files} files of {done.name} are in {words.path(done.folder)}.", markup=False)


async def delete(console: FootplateApp, model: Model) -> None:
    """Ask, then delete; what serves it is named."""
    if console.cannot("delete_model"):
        return
    used = [
        f"{endpoint.name}/{deployment.name}"
        for endpoint in await console.attempt(console.workspace.endpoints()) or ()
        for deployment in endpoint.deployments
        if deployment.model == model.reference
    ]
    text = f"Its files are gone for good; the job that made it stays.\nWorkspace {console.workspace_name}."
    if used:
        text = f"It is served by {', '.join(used)}: while it is, it cannot be deleted.\n{text}"
    if await console.push_screen_wait(ConfirmDialog(f"Delete model {model.reference}?", text, "Delete")):
        await console.attempt(console.workspace.delete_model(model.reference))
