"""The command demo: the whole line on drawn birds."""

from __future__ import annotations

import click

from footplate import words
from footplate.cli.following import log_output, status_lines
from footplate.cli.frame import Frame, common
from footplate.operations import demo as demos
from footplate.workspace import Workspace


@click.command("demo")
@click.option(
    "--clean", "cleans", is_flag=True, help="Run none; remove the jobs, models and endpoints that demos left."
)
@common
@click.pass_obj
def demo_command(frame: Frame, cleans: bool) -> None:
    """Run the whole line on drawn birds: train on two processes, register, deploy, predict. Under two minutes."""
    if cleans:
        removed = frame.run(demos.clean)
        gone = [name for names in removed.values() for name in names]
        frame.result({"removed": removed}, f"Removed {', '.join(gone)}." if gone else "There is nothing to remove.")
        return

    async def work(workspace: Workspace) -> demos.Result:
        with log_output(frame) as log:
            return await demos.run(
                workspace,
                demos.Progress(stage=lambda text: frame.note(f"▸ {text}"), job=status_lines(frame.note), log=log),
            )

    result = frame.run(work)
    right = "right" if result.label == result.truth else f"wrong, it is a {result.truth}"
    frame.result(
        result.document(),
        f"\n{result.label}, {words.percent(result.probability)} ({right}). best_val_acc {words.number(result.best_val_acc)}, "
        f"{result.job.world_size} ranks, {words.span(result.seconds)} in all.\n"
        "footplate opens the console on what it made; footplate demo --clean removes it.",
    )


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(demo_command)
