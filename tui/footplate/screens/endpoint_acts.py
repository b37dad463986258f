"""What is asked before endpoints and deployments are changed, and done then: traffic, mirror, instances, end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from footplate.operations import traffic as sharing
from footplate.screens.dialogs import ConfirmDialog, Field, FieldsDialog, Verdict
from footplate.workspace import Deployment, Endpoint, WorkspaceError
from footplate.workspace.traffic import MOST_MIRRORED, check_mirror, check_traffic, shares_text

if TYPE_CHECKING:
    from footplate.app import FootplateApp


async def set_traffic(console: FootplateApp, endpoint: Endpoint) -> None:
    """Ask for the share of each deployment, showing old and new; where it was changed meanwhile, show that and ask again."""
    if console.cannot("set_traffic"):
        return
    if not endpoint.deployments:
        console.notify(f"{endpoint.name} has no deployment to share out to.", markup=False, timeout=5)
        return
    typed: Mapping[str, str] = {}
    while True:
        shown = endpoint
        names = {f"d{number}": deployment.name for number, deployment in enumerate(shown.deployments)}
        answer = await console.push_screen_wait(
            FieldsDialog(
                f"Traffic of {shown.name} in workspace {console.workspace_name}",
                f"Now {shares_text(shown.traffic)}. Per cent of the requests; they sum to 100, or to 0 for none at all.",
                "Shift",
                tuple(
                    Field(key, _label(shown, name), typed.get(name, str(shown.traffic.get(name, 0))))
                    for key, name in names.items()
                ),
                lambda given, shown=shown, names=names: judge_traffic(
                    shown, {names[key]: v for key, v in given.items()}
                ),  # type: ignore[misc]
                dangerous=True,
            )
        )
        if not answer:
            return
        typed = {names[key]: value for key, value in answer.items()}
        wanted = {name: int(value) for name, value in typed.items()}
        done = await console.attempt(sharing.shift(console.workspace, shown.name, wanted, seen=shown.traffic))
        if done is not None:
            console.notify(f"Traffic of {shown.name}: {shares_text(done[1].traffic)}.", markup=False, timeout=6)
            return
        again = await console.attempt(console.workspace.endpoint(shown.name))
        if again is None:
            return
        endpoint = again


def judge_traffic(endpoint: Endpoint, given: Mapping[str, str]) -> Verdict:
    """What shares as typed come to: each old and new, or what is wrong with them."""
    shares: dict[str, int] = {}
    for name, typed in given.items():
        if not (typed.isascii() and typed.isdecimal()):
            return f"{name}: a whole number from 0 to 100 is needed.", False
        shares[name] = int(typed)
    try:
        check_traffic(endpoint, shares)
    except WorkspaceError as error:
        return str(error), False
    changes = [
        f"{name} {endpoint.traffic.get(name, 0)} → {share}"
        for name, share in shares.items()
        if share != endpoint.traffic.get(name, 0)
    ]
    if not changes:
        return "Nothing is changed yet.", False
    none = (
        ""
        if any(shares.values())
        else "\nWith no traffic at all, every request without a deployment's name is refused."
    )
    return f"{', '.join(changes)} %{none}", True


def _label(endpoint: Endpoint, name: str) -> str:
    state = next((d.state for d in endpoint.deployments if d.name == name), "")
    return name if state == "Succeeded" else f"{name} ({state})"


async def set_mirror(console: FootplateApp, endpoint: Endpoint) -> None:
    """Ask for the deployment that gets copies of requests, and for their share."""
    if console.cannot("set_mirror"):
        return
    names = tuple(d.name for d in endpoint.deployments if not endpoint.traffic.get(d.name))
    if not names:
        said = f"{endpoint.name} has no deployment without live traffic, and only such a one can get copies."
        console.notify(said, markup=False, timeout=6)
        return
    now = next(((name, share) for name, share in endpoint.mirror.items() if share), (names[0], 0))
    values = {"name": now[0], "share": str(now[1])}

    def judge(given: Mapping[str, str]) -> Verdict:
        if not (given["share"].isascii() and given["share"].isdecimal()):
            return f"A whole number from 0 to {MOST_MIRRORED} is needed.", False
        wanted = _mirror(given)
        try:
            check_mirror(endpoint, wanted)
        except WorkspaceError as error:
            return str(error), False
        if wanted == {name: share for name, share in endpoint.mirror.items() if share}:
            return "Nothing is changed yet.", False
        return f"{shares_text(endpoint.mirror)} → {shares_text(wanted)}", True

    while True:
        answer = await console.push_screen_wait(
            FieldsDialog(
                f"Mirrored requests of {endpoint.name} in workspace {console.workspace_name}",
                "Copies of so many per cent of the requests go to it too; nobody gets its answers. 0 ends it.",
                "Mirror",
                (Field("name", "Deployment", values["name"], names), Field("share", "Per cent", values["share"])),
                judge,
            )
        )
        if not answer:
            return
        values = answer
        done = await console.attempt(sharing.shift(console.workspace, endpoint.name, mirror=_mirror(answer)))
        if done is not None:
            console.notify(f"Mirrored by {endpoint.name}: {shares_text(done[1].mirror)}.", markup=False, timeout=6)
            return


def _mirror(given: Mapping[str, str]) -> dict[str, int]:
    return {given["name"]: int(given["share"])} if int(given["share"]) else {}


async def scale(console: FootplateApp, deployment: Deployment) -> None:
    """Ask for the number of instances, saying what they are, then run that many."""
    if console.cannot("scale"):
        return
    what = deployment.size or "this machine's processes"
    billed = " Each is billed by the hour while it is there." if deployment.size else ""

    def judge(given: Mapping[str, str]) -> Verdict:
        if not (given["instances"].isascii() and given["instances"].isdecimal()) or int(given["instances"]) < 1:
            return "A whole number from 1 is needed.", False
        wanted = int(given["instances"])
        said = f"{deployment.instances} → {wanted} × {what}.{billed}"
        return (said, True) if wanted != deployment.instances else ("Nothing is changed yet.", False)

    value = str(deployment.instances)
    while True:
        answer = await console.push_screen_wait(
            FieldsDialog(
                f"Instances of {deployment.name} of {deployment.endpoint} in workspace {console.workspace_name}",
                f"It runs {deployment.instances} now.",
                "Scale",
                (Field("instances", "Instances", value),),
                judge,
            )
        )
        if not answer:
            return
        value = answer["instances"]
        done = await console.attempt(console.workspace.scale(deployment.endpoint, deployment.name, int(value)))
        if done is not None:
            console.notify(f"{done.name} of {done.endpoint} is {done.state}.", markup=False, timeout=5)
            return


async def delete(console: FootplateApp, endpoint: Endpoint) -> None:
    """Ask for the name, then delete an endpoint with all its deployments."""
    if console.cannot("delete_endpoint"):
        return
    each = ", ".join(f"{d.name} ({d.model}, {d.state})" for d in endpoint.deployments) or "no deployments"
    text = (
        f"With it end {each}.\nLive traffic: {shares_text(endpoint.traffic)}.\n"
        f"Its address and keys are gone for good. Workspace {console.workspace_name}."
    )
    asked = ConfirmDialog(f"Delete endpoint {endpoint.name}?", text, "Delete", endpoint.name)
    if await console.push_screen_wait(asked):
        await console.attempt(console.workspace.delete_endpoint(endpoint.name))


async def delete_deployment(console: FootplateApp, endpoint: Endpoint, deployment: Deployment) -> None:
    """Ask, then delete one deployment."""
    if console.cannot("delete_deployment"):
        return
    live, copies = endpoint.traffic.get(deployment.name, 0), endpoint.mirror.get(deployment.name, 0)
    lines = [f"It serves {deployment.model} with {deployment.instances} instance{'s' * (deployment.instances != 1)}."]
    if live:
        lines.append(f"It has {live} % of the live traffic: while it has, it is not deleted. T shifts it.")
    if copies:
        lines.append(f"Copies of {copies} % of the requests go to it.")
    if not live and not copies:
        lines.append("It has no traffic.")
    text = "\n".join([*lines, f"Endpoint {endpoint.name}, workspace {console.workspace_name}."])
    if await console.push_screen_wait(ConfirmDialog(f"Delete deployment {deployment.name}?", text, "Delete")):
        await console.attempt(console.workspace.delete_deployment(endpoint.name, deployment.name))
