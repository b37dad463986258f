"""The demo from the console: the training's log, then the invoke panel on what the model says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.operations import demo, follow
from footplate.screens.dialogs import ConfirmDialog
from footplate.screens.invoke import InvokeScreen
from footplate.screens.job import JobScreen

if TYPE_CHECKING:
    from footplate.app import FootplateApp


async def run(console: FootplateApp, ask: bool) -> None:
    """The whole line: start the training, show its log, and open the invoke panel on the prediction when it serves."""
    if console.cannot("demo"):
        return
    if console.demo_runs:
        console.notify("The demo is under way; its job is in the list (1).", markup=False)
        return
    if ask:
        text = "It trains for about two minutes on this machine, then registers, deploys and asks the model."
        if not await console.push_screen_wait(ConfirmDialog("Run the demo?", text, "Run it")):
            return
    console.demo_runs = True
    try:
        await console.attempt(_whole_line(console))
    finally:
        console.demo_runs = False


async def _whole_line(console: FootplateApp) -> None:
    began = time.monotonic()
    job = await demo.start(console.workspace)
    console.open_job(job.name, "logs")
    job = await follow.wait(console.workspace, job.name)
    progress = demo.Progress(stage=lambda text: console.notify(text, title="demo", markup=False, timeout=4))
    result = await demo.finish(console.workspace, job, progress, began)
    endpoint = await console.workspace.endpoint(result.endpoint)
    if isinstance(console.screen, JobScreen) and console.screen.job_name == job.name:
        await console.switch("invoke")
        if isinstance(console.screen, InvokeScreen):
            console.screen.show_asked(endpoint, Path(result.picture), result.prediction)
            return
    seen = (
        f"{result.endpoint} says {result.label} {result.probability:.1%} of {result.truth}/{Path(result.picture).name}."
    )
    console.notify(f"{seen} 6 opens the invoke panel.", title="demo", markup=False, timeout=10)
