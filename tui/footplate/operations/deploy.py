"""Deploy a model: make the endpoint where it is missing, start the deployment, wait until it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from footplate.workspace import Conflict, Deployment, NotFound, Unreachable, Workspace, WorkspaceError
from footplate.workspace.names import check_name

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
    try:
        await workspace.endpoint(endpoint)
    except NotFound:
        progress(f"creating endpoint {endpoint}")
        try:
            await workspace.create_endpoint(endpoint)
        except Conflict:
            progress(f"endpoint {endpoint} was made by somebody else meanwhile")
    progress(f"deploying {found.reference} as {name} on {endpoint}")
    await workspace.deploy(endpoint, name, found.reference, traffic=traffic)
    return await wait(workspace, endpoint, name)


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
            log = await workspace.deployment_log(endpoint, name, 30)
            raise DeploymentFailed(
                f"Deployment {name!r} of endpoint {endpoint!r} failed: {deployment.error or 'no reason given'}",
                "Its log says more; mend it and deploy again.",
                log,
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
        await asyncio.sleep(POLL_SECONDS)
