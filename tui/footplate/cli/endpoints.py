"""The commands on endpoints: deploy, endpoints, endpoint, invoke."""

from __future__ import annotations

from pathlib import Path

import click

from footplate import words
from footplate.cli.frame import Failed, Frame, columned, common, each
from footplate.operations import deploy as deploying
from footplate.operations import invoke as invoking
from footplate.workspace import Deployment, Endpoint, Workspace


@click.command("deploy")
@click.option("--model", metavar="NAME:VERSION", required=True, help="The model.")
@click.option("--endpoint", metavar="NAME", required=True, help="The endpoint; made where it is missing.")
@click.option("--name", metavar="NAME", default="blue", show_default=True, help="The deployment's name.")
@click.option("--no-traffic", is_flag=True, help="Give it no traffic, though it is the endpoint's first.")
@common
@click.pass_obj
def deploy_command(frame: Frame, model: str, endpoint: str, name: str, no_traffic: bool) -> None:
    """Deploy a model and wait until it serves."""

    async def work(workspace: Workspace) -> tuple[Deployment, int]:
        deployment = await deploying.deploy(
            workspace,
            model,
            endpoint,
            name,
            traffic=not no_traffic,
            progress=lambda text: frame.note(f"▸ {text}"),
        )
        return deployment, (await workspace.endpoint(endpoint)).traffic.get(name, 0)

    deployment, share = frame.run(work)
    asked = f"footplate invoke {endpoint} IMAGE" + ("" if share else f" --deployment {name}")
    traffic = f"with {share} % of the traffic" if share else "with no traffic"
    frame.result(deployment.document(), f"{name} serves {deployment.model} {traffic}. Test it: {asked}")


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
                " ".join(f"{name}={weight}" for name, weight in e.traffic.items()),
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
    """Create, show, start or delete one endpoint; its keys and logs."""


@endpoint_group.command("create")
@click.argument("name")
@common
@click.pass_obj
def create_command(frame: Frame, name: str) -> None:
    """Create an endpoint without a deployment."""
    endpoint = frame.run(lambda workspace: workspace.create_endpoint(name))
    frame.result(endpoint.document(), f"{name} is {endpoint.state}.")


@endpoint_group.command("show")
@click.argument("name")
@common
@click.pass_obj
def show_command(frame: Frame, name: str) -> None:
    """Show an endpoint and its deployments."""
    endpoint = frame.run(lambda workspace: workspace.endpoint(name))
    frame.result(endpoint.document(), lambda: _details(endpoint))


@endpoint_group.command("keys")
@click.argument("name")
@common
@click.pass_obj
def keys_command(frame: Frame, name: str) -> None:
    """Print an endpoint's keys."""
    keys = frame.run(lambda workspace: workspace.keys(name))
    frame.result(
        {"primary": keys.primary, "secondary": keys.secondary},
        f"primary    {keys.primary}\nsecondary  {keys.secondary}",
    )


@endpoint_group.command("start")
@click.argument("name")
@common
@click.pass_obj
def start_command(frame: Frame, name: str) -> None:
    """Start an endpoint of this machine that is Stopped."""
    endpoint = frame.run(lambda workspace: workspace.start_endpoint(name))
    frame.result(endpoint.document(), f"{name} is {endpoint.state}.")


@endpoint_group.command("delete")
@click.argument("name")
@common
@click.pass_obj
def delete_command(frame: Frame, name: str) -> None:
    """Delete an endpoint and its deployments."""
    frame.run(lambda workspace: workspace.delete_endpoint(name))
    frame.result({"name": name, "state": "Deleted"}, f"{name} is deleted.")


@endpoint_group.command("logs")
@click.argument("name")
@click.option("--deployment", metavar="NAME", default="blue", show_default=True, help="Which deployment.")
@click.option("--tail", type=click.IntRange(1), default=100, show_default=True, help="How many lines.")
@common
@click.pass_obj
def logs_command(frame: Frame, name: str, deployment: str, tail: int) -> None:
    """Print the end of a deployment's log."""
    text = frame.run(lambda workspace: workspace.deployment_log(name, deployment, tail))
    frame.result({"endpoint": name, "deployment": deployment, "log": text}, text.rstrip("\n"))


@click.command("invoke")
@click.argument("endpoint")
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--deployment", metavar="NAME", help="Ask this deployment, whatever the traffic.")
@click.option(
    "--format", "form", type=click.Choice(invoking.FORMATS), default="auto", show_default=True, help="What is sent."
)
@common
@click.pass_obj
def invoke_command(frame: Frame, endpoint: str, images: tuple[Path, ...], deployment: str | None, form: str) -> None:
    """Test an ENDPOINT with one or more pictures.

    A picture that fails does not keep the others. The command ends with the highest exit code of those that failed: 1 the
    model or the endpoint failed, 2 no usable picture, 3 try again (busy, or too slow), 4 the endpoint refused the key.
    """

    async def work(workspace: Workspace) -> list[invoking.Prediction | Failed]:
        spec = await invoking.preprocessing(workspace, await workspace.endpoint(endpoint), deployment)
        return await each(images, lambda image: invoking.ask(workspace, endpoint, image, spec, deployment, form))

    answers = list(zip(images, frame.run(work), strict=True))
    frame.results(
        [
            {"image": str(image), **({"error": answer.error} if isinstance(answer, Failed) else answer.document())}
            for image, answer in answers
        ],
        lambda: "\n\n".join(
            _answer_text(image, answer)
            for image, answer in answers
            if not isinstance(answer, Failed) and not answer.error
        ),
        [Failed(str(image), answer.error, answer.exit_code) for image, answer in answers if answer.error],
    )


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (deploy_command, endpoints_command, endpoint_group, invoke_command):
        group.add_command(command)


def _details(endpoint: Endpoint) -> str:
    rows = [
        (d.name, d.model, d.state, f"{endpoint.traffic.get(d.name, 0)} %", words.age(d.created), d.error)
        for d in endpoint.deployments
    ]
    table = (
        columned([("DEPLOYMENT", "MODEL", "STATE", "TRAFFIC", "AGE", "ERROR"), *rows]) if rows else "No deployments."
    )
    return f"{endpoint.name}  {endpoint.state}  {endpoint.scoring_uri}\n{table}"


def _answer_text(image: Path, prediction: invoking.Prediction) -> str:
    widest = max(len(score.label) for score in prediction.scores)
    lines = [f"{image.name}: {prediction.label}, {words.percent(prediction.probability or 0)}"]
    for score in prediction.scores:
        bar = "█" * round(min(score.probability, 1) * 40) if score.probability > 0 else ""
        lines.append(f"  {score.label:<{widest}}  {words.percent(score.probability):>7}  {bar}")
    asked = f"answered by {prediction.deployment} · {prediction.status} · {prediction.request_seconds * 1000:.0f} ms"
    lines.append(f"  {asked} · sent {words.size(prediction.request_bytes)}")
    if prediction.steps:
        lines.append(f"  {', '.join(prediction.steps)}")
    return "\n".join(lines)
