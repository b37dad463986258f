"""Deploy a model: make the endpoint where it is missing, start the deployment, wait until it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from footplate.workspace import (
    Conflict,
    Deployment,
    Endpoint,
    Invalid,
    NotFound,
    Unreachable,
    Workspace,
    WorkspaceError,
)
from footplate.workspace.names import check_name

if TYPE_CHECKING:
    from footplate.jobfile import JobFile

POLL_SECONDS = 0.2


class DeploymentFailed(WorkspaceError):
    """The deployment came to its end without serving; `raw` is the tail of its log."""


async def free_endpoint_name(workspace: Workspace, wanted: str) -> str:
    """`wanted`, or `wanted-2`, `wanted-3`… where it is taken."""
    taken = {endpoint.name for endpoint in await workspace.endpoints()}
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


async def deploy(
    workspace: Workspace,
    model: str,
    endpoint: str,
    name: str,
    *,
    traffic: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Deployment:
    """Deploy `model` as `name` on `endpoint` and wait until it serves; the same call twice changes nothing.

    Raises Invalid for a name and NotFound for the model before anything is made, and what `wait` raises.
    """
    check_name("endpoint", endpoint)
    check_name("deployment", name)
    found = await workspace.model(model)
    await _made(workspace, endpoint, progress)
    progress(f"deploying {found.reference} as {name} on {endpoint}")
    await workspace.deploy(endpoint, name, found.reference, traffic=traffic)
    return await wait(workspace, endpoint, name)


async def deploy_file(
    workspace: Workspace,
    file: JobFile,
    endpoint: str | None = None,
    name: str | None = None,
    *,
    traffic: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Deployment | Endpoint:
    """Make or change what a deployment's or an endpoint's file says, and wait until it serves or is there.

    Names that are given replace the file's. A deployment's endpoint is made where it is missing. Raises Invalid for another
    kind of file and for a file that names no endpoint, and what `deploy` raises.
    """
    if file.kind == "endpoint":
        if name is not None:
            raise Invalid(f"{file.label} is an endpoint: it has no deployment to name.", "Leave --name out.")
        progress(f"making endpoint {endpoint or file.name or ''}".rstrip())
        made = await workspace.create_endpoint_from(file, endpoint)
        return await wait_endpoint(workspace, made.name)
    if file.kind != "deployment":
        from footplate.jobfile import kinds  # reads YAML, which screens that deploy a model need not wait for

        raise Invalid(
            f"{file.label} is {kinds.TITLES.get(file.kind, 'no file of a known kind')}, which is not deployed.",
            "Files of endpoints and deployments are. A job is launched: footplate launch FILE.",
        )
    wanted = endpoint or file.text_at("endpoint_name")
    if not wanted:
        raise Invalid(f"{file.label} names no endpoint.", "Write `endpoint_name`, or add --endpoint NAME.")
    check_name("endpoint", wanted)
    await _made(workspace, wanted, progress)
    progress(f"deploying {file.label} on {wanted}")
    started = await workspace.deploy_from(file, endpoint=endpoint, name=name, traffic=traffic)
    return await wait(workspace, started.endpoint, started.name)


async def _made(workspace: Workspace, endpoint: str, progress: Callable[[str], None]) -> None:
    """Make an endpoint where it is missing."""
    try:
        await workspace.endpoint(endpoint)
    except NotFound:
        progress(f"creating endpoint {endpoint}")
        try:
            await workspace.create_endpoint(endpoint)
        except Conflict:
            progress(f"endpoint {endpoint} was made by somebody else meanwhile")


async def wait_endpoint(workspace: Workspace, name: str) -> Endpoint:
    """Wait until an endpoint is no longer being made or changed. Raises NotFound, DeploymentFailed."""
    while True:
        found = await workspace.endpoint(name)
        if found.state == "Failed":
            raise DeploymentFailed(
                f"Endpoint {name!r} failed: {found.error or 'no reason given'}", "Mend its file and deploy it again."
            )
        if found.state not in ("Creating", "Updating"):
            return found
        await asyncio.sleep(max(POLL_SECONDS, workspace.poll_seconds / 2))


async def wait(workspace: Workspace, endpoint: str, name: str) -> Deployment:
    """Wait until a deployment is Succeeded.

    Raises DeploymentFailed, NotFound when it was deleted meanwhile, Unreachable when its endpoint stopped or is being deleted.
    """
    while True:
        found = await workspace.endpoint(endpoint)
        for deployment in found.deployments:
            if deployment.name == name:
                break
        else:
            raise NotFound(
                f"Deployment {name!r} of endpoint {endpoint!r} is gone.", "Somebody deleted it; deploy again."
            )
        if deployment.state == "Succeeded":
            return deployment
        if deployment.state == "Failed":
            sentence, _, below = deployment.error.partition("\n")
            raise DeploymentFailed(
                f"Deployment {name!r} of endpoint {endpoint!r} failed: {sentence or 'no reason given'}",
                "Its log says more; mend it and deploy again.",
                below or await workspace.deployment_log(endpoint, name, 30),
            )
        if found.state == "Deleting":
            raise Unreachable(
                f"Endpoint {endpoint!r} is being deleted, and its deployment {name!r} with it.",
                "Deploy again when it is gone, or to another endpoint.",
            )
        if "Stopped" in (found.state, deployment.state):
            raise Unreachable(
                f"Endpoint {endpoint!r} stopped before its deployment {name!r} was ready.",
                f"Start it again, which starts the deployment too: footplate endpoint start {endpoint}",
                found.error,
            )
        await asyncio.sleep(max(POLL_SECONDS, workspace.poll_seconds / 2))
