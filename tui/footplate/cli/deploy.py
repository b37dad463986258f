"""The commands that bring a model to its users: deploy, traffic, invoke."""

from __future__ import annotations

from pathlib import Path

import click

from footplate import words
from footplate.cli import names
from footplate.cli.frame import Failed, Frame, common, each
from footplate.cli.progress import with_upload
from footplate.operations import deploy as deploying
from footplate.operations import invoke as invoking
from footplate.operations import traffic as shifting
from footplate.workspace import Deployment, Endpoint, Invalid, Workspace
from footplate.workspace.traffic import shares_text


@click.command("deploy")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--model", metavar="NAME:VERSION", help="The model, where no FILE is given.", shell_complete=names.models)
@click.option(
    "--endpoint", metavar="NAME", help="The endpoint; made where it is missing.", shell_complete=names.endpoints
)
@click.option("--name", metavar="NAME", help="The deployment's name; without a FILE blue.")
@click.option("--no-traffic", is_flag=True, help="Give it no traffic, though it is the endpoint's first.")
@click.option("--force", is_flag=True, help="Go on whatever errors the check of FILE finds.")
@common
@click.pass_obj
def deploy_command(
    frame: Frame,
    file: Path | None,
    model: str | None,
    endpoint: str | None,
    name: str | None,
    no_traffic: bool,
    force: bool,
) -> None:
    """Deploy a model, or what the FILE of a deployment or an endpoint says, and wait until it serves.

    A FILE is checked first, as `footplate check` does; what exists already is changed to what it says. --endpoint and --name
    replace the file's own.
    """
    if (file is None) == (model is None):
        raise Invalid("Give the FILE of a deployment or an endpoint, or --model, and not both.")

    def progress(text: str) -> None:
        frame.note(f"▸ {text}")

    async def by_model(workspace: Workspace, reference: str) -> Deployment:
        if endpoint is None:
            raise Invalid("Where to is missing.", "Add --endpoint NAME; it is made where it is missing.")
        return await deploying.deploy(
            workspace, reference, endpoint, name or "blue", traffic=not no_traffic, progress=progress
        )

    async def by_file(workspace: Workspace, path: Path) -> Deployment | Endpoint:
        from footplate.cli import launching  # with all rules of the check, which --model need not wait for

        given = await launching.checked_file(frame, workspace, path, force)
        return await deploying.deploy_file(workspace, given, endpoint, name, traffic=not no_traffic, progress=progress)

    async def work(workspace: Workspace) -> tuple[Deployment | Endpoint, int]:
        work = by_file(workspace, file) if file is not None else by_model(workspace, model or "")
        made: Deployment | Endpoint = await with_upload(workspace, work)
        if isinstance(made, Endpoint):
            return made, 0
        return made, (await workspace.endpoint(made.endpoint)).traffic.get(made.name, 0)

    made, share = frame.run(work)
    if isinstance(made, Endpoint):
        frame.result(made.document(), f"{made.name} is {made.state}. {made.scoring_uri}".rstrip())
        return
    asked = f"footplate invoke {made.endpoint} IMAGE" + ("" if share else f" --deployment {made.name}")
    traffic = f"with {share} % of the traffic" if share else "with no traffic"
    frame.result(made.document(), f"{made.name} serves {made.model} {traffic}. Test it: {asked}")


@click.command("traffic")
@click.argument("endpoint", shell_complete=names.endpoints)
@click.argument("shares", nargs=-1, metavar="[NAME=PERCENT]...")
@click.option("--mirror", metavar="NAME=PERCENT", help="Send copies of so many requests to it; NAME=0 ends that.")
@common
@click.pass_obj
def traffic_command(frame: Frame, endpoint: str, shares: tuple[str, ...], mirror: str | None) -> None:
    """Share out an ENDPOINT's requests, as in blue=90 green=10; without shares, say what each has.

    The shares sum to 100, or to 0 for none at all; a deployment that is not named gets none.
    """
    wanted = shifting.parse(shares) if shares else None
    copied = shifting.parse([mirror]) if mirror is not None else None

    async def work(workspace: Workspace) -> tuple[Endpoint, Endpoint]:
        if wanted is None and copied is None:
            found = await workspace.endpoint(endpoint)
            return found, found
        return await shifting.shift(workspace, endpoint, wanted, copied)

    before, after = frame.run(work)
    lines = [f"{endpoint}: {shares_text(after.traffic)}"]
    if wanted is not None:
        lines[0] += f" (was {shares_text(before.traffic)})"
    if copied is not None or any(after.mirror.values()):
        lines.append(f"mirrored: {shares_text(after.mirror)}")
    frame.result(after.document(), "\n".join(lines))


@click.command("invoke")
@click.argument("endpoint", shell_complete=names.endpoints)
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
    for command in (deploy_command, traffic_command, invoke_command):
        group.add_command(command)


def _answer_text(image: Path, prediction: invoking.Prediction) -> str:
    widest = max((len(score.label) for score in prediction.scores), default=0)
    sure = f", {words.percent(prediction.probability)}" if prediction.probability is not None else ""
    lines = [f"{image.name}: {prediction.label}{sure}"]
    for score in prediction.scores:
        bar = "█" * round(min(score.probability, 1) * 40) if score.probability > 0 else ""
        lines.append(f"  {score.label:<{widest}}  {words.percent(score.probability):>7}  {bar}")
    asked = f"answered by {prediction.deployment} · {prediction.status} · {prediction.request_seconds * 1000:.0f} ms"
    lines.append(f"  {asked} · sent {words.size(prediction.request_bytes)}")
    if prediction.steps:
        lines.append(f"  {', '.join(prediction.steps)}")
    lines += [f"  {note}" for note in prediction.notes]
    return "\n".join(lines)
