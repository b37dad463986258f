"""The commands on endpoints: endpoints, endpoint."""

from __future__ import annotations

from pathlib import Path

import click

from footplate import words
from footplate.cli import names
from footplate.cli.frame import Failed, Frame, columned, common, each
from footplate.operations import probe
from footplate.workspace import Deployment, Endpoint, Figures, Keys, Workspace
from footplate.workspace.model import iso
from footplate.workspace.traffic import shares_text


@click.command("endpoints")
@common
@click.pass_obj
def endpoints_command(frame: Frame) -> None:
    """List endpoints."""
    found = frame.run(lambda workspace: workspace.endpoints())
    frame.table(
        [endpoint.document() for endpoint in found],
        ("ENDPOINT", "STATE", "TRAFFIC", "DEPLOYMENTS", "AGE", "ADDRESS"),
        [
            (
                e.name,
                e.state,
                shares_text(e.traffic),
                ", ".join(f"{d.name} ({d.model}, {d.state})" for d in e.deployments),
                words.age(e.created),
                e.scoring_uri,
            )
            for e in found
        ],
        "No endpoints. footplate deploy --model NAME:VERSION --endpoint NAME makes one.",
    )


@click.group("endpoint")
def endpoint_group() -> None:
    """Create, show, test, scale, start or delete one endpoint; its keys, logs and figures."""


@endpoint_group.command("create")
@click.argument("name")
@common
@click.pass_obj
def create_command(frame: Frame, name: str) -> None:
    """Create an endpoint without a deployment."""
    endpoint = frame.run(lambda workspace: workspace.create_endpoint(name))
    frame.result(endpoint.document(), f"{name} is {endpoint.state}.")


@endpoint_group.command("show")
@click.argument("name", shell_complete=names.endpoints)
@common
@click.pass_obj
def show_command(frame: Frame, name: str) -> None:
    """Show an endpoint and its deployments."""
    endpoint = frame.run(lambda workspace: workspace.endpoint(name))
    frame.result(endpoint.document(), lambda: _details(endpoint))


@endpoint_group.command("keys")
@click.argument("name", shell_complete=names.endpoints)
@click.option(
    "--regenerate",
    type=click.Choice(("primary", "secondary")),
    help="Make this key anew first: the old one is refused from then on.",
)
@common
@click.pass_obj
def keys_command(frame: Frame, name: str, regenerate: str | None) -> None:
    """Print an endpoint's keys, the only command that does."""

    async def work(workspace: Workspace) -> Keys:
        return await (workspace.regenerate_key(name, regenerate) if regenerate else workspace.keys(name))

    keys = frame.run(work)
    if keys.expires is not None:
        until = iso(keys.expires)
        frame.result({"token": keys.primary, "expires": until}, f"token    {keys.primary}\nexpires  {until}")
        return
    frame.result(
        {"primary": keys.primary, "secondary": keys.secondary},
        f"primary    {keys.primary}\nsecondary  {keys.secondary}",
    )


@endpoint_group.command("start")
@click.argument("name", shell_complete=names.endpoints)
@common
@click.pass_obj
def start_command(frame: Frame, name: str) -> None:
    """Start an endpoint of this machine that is Stopped."""
    endpoint = frame.run(lambda workspace: workspace.start_endpoint(name))
    frame.result(endpoint.document(), f"{name} is {endpoint.state}.")


@endpoint_group.command("delete")
@click.argument("name", shell_complete=names.endpoints)
@click.option("--deployment", metavar="NAME", help="Only this deployment; refused while it has traffic.")
@common
@click.pass_obj
def delete_command(frame: Frame, name: str, deployment: str | None) -> None:
    """Delete an endpoint and its deployments, or one deployment."""
    if deployment is None:
        frame.run(lambda workspace: workspace.delete_endpoint(name))
        frame.result({"name": name, "state": "Deleted"}, f"{name} is deleted.")
        return
    frame.run(lambda workspace: workspace.delete_deployment(name, deployment))
    frame.result(
        {"endpoint": name, "name": deployment, "state": "Deleted"}, f"{deployment} of endpoint {name} is deleted."
    )


@endpoint_group.command("scale")
@click.argument("name", shell_complete=names.endpoints)
@click.option("--deployment", metavar="NAME", default="blue", show_default=True, help="Which deployment.")
@click.option("--instances", type=click.IntRange(1), required=True, metavar="N", help="How many instances.")
@common
@click.pass_obj
def scale_command(frame: Frame, name: str, deployment: str, instances: int) -> None:
    """Run so many instances of a deployment."""
    scaled = frame.run(lambda workspace: workspace.scale(name, deployment, instances))
    frame.result(scaled.document(), f"{deployment} of endpoint {name} is {scaled.state}: {scaled.instances} wanted.")


@endpoint_group.command("test")
@click.argument("name", shell_complete=names.endpoints)
@click.option("--deployment", metavar="NAME", help="Only this deployment.")
@click.option(
    "--request-file",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Send this file as it is, as request.json.",
)
@common
@click.pass_obj
def test_command(frame: Frame, name: str, deployment: str | None, file: Path | None) -> None:
    """Send a drawn picture, or a FILE, to each deployment, whatever its traffic, and say what each answered.

    What the picture is taken for does not matter; a model that takes none needs a FILE that it takes. The command ends as
    `invoke` does: with the highest exit code of those that gave no answer.
    """

    sent = probe.request(file)

    async def work(workspace: Workspace) -> list[tuple[str, probe.Probed | Failed]]:
        deployments = probe.asked(await workspace.endpoint(name), deployment)
        answers = await each(deployments, lambda one: probe.probe(workspace, name, one, sent))
        return list(zip((one.name for one in deployments), answers, strict=True))

    found = frame.run(work)
    frame.results(
        [
            {"deployment": one, "error": answer.error} if isinstance(answer, Failed) else answer.document()
            for one, answer in found
        ],
        lambda: (
            columned(
                [
                    ("DEPLOYMENT", "STATUS", "TIME", "ANSWER"),
                    *(
                        (one, str(answer.status), f"{answer.seconds * 1000:.0f} ms", answer.said)
                        for one, answer in found
                        if not isinstance(answer, Failed)
                    ),
                ]
            )
            if any(not isinstance(answer, Failed) for _, answer in found)
            else ""
        ),
        [Failed(one, answer.error, answer.exit_code) for one, answer in found if answer.error],
    )


@endpoint_group.command("monitor")
@click.argument("name", shell_complete=names.endpoints)
@common
@click.pass_obj
def monitor_command(frame: Frame, name: str) -> None:
    """Print the last hour's figures of each deployment: the latest values, or every point with --json."""
    found = frame.run(lambda workspace: workspace.monitor(name))
    latest = [
        (one.deployment, figure, words.number(points[-1][1]), words.age(points[-1][0]))
        for one in found
        for figure, points in one.series.items()
        if points
    ]
    frame.table(
        [_figures(one) for one in found],
        ("DEPLOYMENT", "FIGURE", "LATEST", "AGE"),
        latest,
        f"Endpoint {name} has no figures yet.",
    )


@endpoint_group.command("logs")
@click.argument("name", shell_complete=names.endpoints)
@click.option("--deployment", metavar="NAME", default="blue", show_default=True, help="Which deployment.")
@click.option("--tail", type=click.IntRange(1), default=100, show_default=True, help="How many lines.")
@click.option(
    "--container",
    type=click.Choice(("inference-server", "storage-initializer")),
    default="inference-server",
    show_default=True,
    help="Which container: the storage-initializer fetches the model before the server starts.",
)
@common
@click.pass_obj
def logs_command(frame: Frame, name: str, deployment: str, tail: int, container: str) -> None:
    """Print the end of a deployment's log."""
    text = frame.run(lambda workspace: workspace.deployment_log(name, deployment, tail, container))
    frame.result({"endpoint": name, "deployment": deployment, "container": container, "log": text}, text.rstrip("\n"))


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (endpoints_command, endpoint_group):
        group.add_command(command)


def _figures(one: Figures) -> dict[str, object]:
    return {
        "deployment": one.deployment,
        "until": iso(one.until),
        "series": {
            name: [{"time": iso(moment), "value": value} for moment, value in points]
            for name, points in one.series.items()
        },
    }


def _details(endpoint: Endpoint) -> str:
    rows = [
        (d.name, d.model, d.state, _share(endpoint, d), str(d.instances), words.age(d.created), _note(d))
        for d in endpoint.deployments
    ]
    columns = ("DEPLOYMENT", "MODEL", "STATE", "TRAFFIC", "INSTANCES", "AGE", "NOTE")
    table = columned([columns, *rows]) if rows else "No deployments."
    below = [f"\n{d.name}: {d.error}" for d in endpoint.deployments if "\n" in d.error]
    return "\n".join((f"{endpoint.name}  {endpoint.state}  {endpoint.scoring_uri}", table, *below))


def _note(deployment: Deployment) -> str:
    """Its error's sentence, below which a script's traceback may stand, else its note."""
    return deployment.error.partition("\n")[0] or deployment.note


def _share(endpoint: Endpoint, deployment: Deployment) -> str:
    mirrored = endpoint.mirror.get(deployment.name)
    share = f"{endpoint.traffic.get(deployment.name, 0)} %"
    return f"{share}, {mirrored} % mirrored" if mirrored else share
