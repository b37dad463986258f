"""Open a past job in the form again, with the differences to it shown."""

from __future__ import annotations

from footplate.operations.clone import clone
from footplate.screens.base import ConsoleScreen


async def open_clone(screen: ConsoleScreen, name: str) -> None:
    """Fetch a job's file and open its form above a screen; what had to be changed is said. Call it in a worker."""
    made = await screen.guarded(clone(screen.workspace, name))
    if made is None or not screen.is_current:
        return
    if made.job_file.kind == "pipeline":
        from footplate.screens.pipeline import PipelineScreen

        screen.app.push_screen(PipelineScreen(made.job_file, made.past))
    else:
        from footplate.screens.launch import LaunchScreen

        screen.app.push_screen(LaunchScreen(made.job_file, made.past))
    for note in made.notes:
        screen.console.notify(note, title=f"Clone of {name}", markup=False, timeout=10)
