"""The whole line on the sample birds: train on two ranks, register, deploy, predict; and remove what it left."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from footplate import paths
from footplate.operations import deploy as deploying
from footplate.operations import follow, launch
from footplate.operations import invoke as invoking
from footplate.workspace import Conflict, Job, JobFilter, NotFound, Unexpected, Workspace, WorkspaceError

TEMPLATE = "train-distributed.yml"
TAG = "demo"
MODEL = "birds"
ENDPOINT = "birds"
DESCRIPTION = "Made by footplate demo."


class DemoFailed(WorkspaceError):
    """A stage of the demo came to a bad end."""


@dataclass(frozen=True)
class Result:
    """What the demo made, and what the endpoint said of a picture that was not trained on (`truth` is its folder)."""

    job: Job
    best_val_acc: float
    model: str
    endpoint: str
    deployment: str
    picture: str
    truth: str
    prediction: invoking.Prediction
    label: str
    probability: float
    seconds: float

    def document(self) -> dict[str, Any]:
        """What `demo --json` prints."""
        return {
            "job": self.job.name,
            "status": self.job.status,
            "world_size": self.job.world_size,
            "best_val_acc": self.best_val_acc,
            "model": self.model,
            "endpoint": self.endpoint,
            "deployment": self.deployment,
            "prediction": {"label": self.label, "probability": self.probability},
            "picture": self.picture,
            "truth": self.truth,
            "seconds": round(self.seconds, 1),
        }


@dataclass
class Progress:
    """Who hears of the demo: `stage` gets a line as a stage begins, `job` the job at each look, `log` its log's bytes."""

    stage: Callable[[str], None] = lambda _: None
    job: Callable[[Job], None] = lambda _: None
    log: Callable[[bytes], None] = lambda _: None


async def start(workspace: Workspace) -> Job:
    """Submit the demo's training: the two-process template, tagged, so that `clean` finds it again."""
    job_file = launch.prepare(paths.asset("jobs") / TEMPLATE, [f"tags.{TAG}=yes", "experiment_name=birds"])
    return await workspace.submit(job_file)


async def run(workspace: Workspace, progress: Progress) -> Result:
    """Run the whole line. Raises DemoFailed with the job's reason, and what each stage raises."""
    began = time.monotonic()
    progress.stage("submitting a training on two processes")
    job = await start(workspace)
    progress.stage(f"training: job {job.name}")
    copied = await follow.copy_log(workspace, job.name, progress.log, follow=True, seen=progress.job)
    return await finish(workspace, copied.job, progress, began)


async def finish(workspace: Workspace, job: Job, progress: Progress, began: float) -> Result:
    """From an ended training to the prediction."""
    if job.status != "Completed":
        why = f": {job.error}" if job.error else "."
        raise DemoFailed(
            f"The training {job.name} is {job.status}{why}",
            f"Its log: footplate logs {job.name}",
        )
    points = (await workspace.metrics(job.name)).get("best_val_acc", ())
    progress.stage("registering the model")
    model = await workspace.register(MODEL, job.name, DESCRIPTION)
    endpoint = await deploying.free_endpoint_name(workspace, ENDPOINT)
    await workspace.create_endpoint(endpoint, DESCRIPTION)
    deployment = await deploying.deploy(workspace, model.reference, endpoint, "blue", progress=progress.stage)
    folder = await workspace.data_folder("birds@latest")
    pictures = sorted(folder.glob("val/*/*")) if folder else []
    if not pictures:
        raise Unexpected(
            "The sample birds have no validation pictures.", "Remove the data folder birds and run the demo again."
        )
    picture = pictures[-1]
    progress.stage(f"asking {endpoint} about {picture.parent.name}/{picture.name}, which was not trained on")
    prediction = await invoking.invoke(workspace, endpoint, picture)
    if prediction.label is None or prediction.probability is None:
        raise DemoFailed(
            f"The endpoint {endpoint} gave no prediction: {prediction.error}",
            f"Its log: footplate endpoint logs {endpoint}",
        )
    return Result(
        job=job,
        best_val_acc=points[-1].value if points else float("nan"),
        model=model.reference,
        endpoint=endpoint,
        deployment=deployment.name,
        picture=str(picture),
        truth=picture.parent.name,
        prediction=prediction,
        label=prediction.label,
        probability=prediction.probability,
        seconds=time.monotonic() - began,
    )


async def clean(workspace: Workspace) -> dict[str, list[str]]:
    """Remove the endpoints, models and jobs that demos left, and run none; running jobs are cancelled first.

    An endpoint that by now serves another model too stays, and with it the demo's model behind it.

    Returns what was removed by kind, with empty lists where nothing was left.
    """
    removed: dict[str, list[str]] = {"endpoints": [], "models": [], "jobs": []}
    own = {model.reference for model in await workspace.models() if model.description == DESCRIPTION}
    for endpoint in await workspace.endpoints():
        if endpoint.description == DESCRIPTION and {d.model for d in endpoint.deployments} <= own:
            await workspace.delete_endpoint(endpoint.name)
            removed["endpoints"].append(endpoint.name)
    for model in await workspace.models():
        if model.description == DESCRIPTION:
            with suppress(Conflict):  # an endpoint that is not the demo's serves it by now: it stays
                await workspace.delete_model(model.reference)
                removed["models"].append(model.reference)
    async for page in workspace.jobs(JobFilter(archived=True)):
        for job in page:
            if TAG in job.tags and job.experiment == "birds":
                if job.active:
                    await _cancel(workspace, job.name)
                await workspace.delete_job(job.name)
                removed["jobs"].append(job.name)
    return removed


async def _cancel(workspace: Workspace, name: str) -> None:
    try:
        await workspace.cancel(name)
    except (Conflict, NotFound):
        return  # it ended by itself between the look and the call
    await follow.wait(workspace, name)
