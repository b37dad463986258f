"""The list of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from footplate import words
from footplate.logs.sanitise import clean
from footplate.screens import model_acts
from footplate.screens.base import bindings
from footplate.screens.listing import ListScreen
from footplate.widgets.virtual_table import Column, Row
from footplate.workspace import Model


class ModelsScreen(ListScreen):
    """Model versions, newest first."""

    where = "models"
    BINDINGS = bindings("models")
    every_seconds = 2.0
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "MODEL", None, minimum=16, priority=100),
        Column("type", "TYPE", 13, priority=40),
        Column("metric", "METRIC", 19, "right", priority=80),
        Column("size", "SIZE", 8, "right", priority=60),
        Column("age", "AGE", 4, "right", priority=90),
        Column("job", "JOB", None, minimum=16, priority=70),
        Column("classes", "CLASSES", None, minimum=16, priority=50),
    )
    empty = "No models yet.\n\nR on a completed job registers the model that it wrote."

    def __init__(self) -> None:
        super().__init__()
        self._models: dict[str, Model] = {}

    async def fetch(self) -> Sequence[Row]:
        """All model versions."""
        self._models = {model.reference: model for model in await self.workspace.models()}
        return [
            Row(
                reference,
                (
                    reference,
                    m.type,
                    _metric(m),
                    words.size(m.size),
                    words.age(m.created),
                    m.job or "",
                    ", ".join(m.class_names),
                ),
            )
            for reference, m in self._models.items()
        ]

    def explain(self, key: str) -> Content:
        """What it is and where it comes from."""
        model = self._models[key]
        parts = [str(model.metadata.get("architecture", model.type)), "×".join(map(str, model.input_shape))]
        if model.job:
            parts.append(f"from job {model.job}")
        known = model.lineage
        parts += [f"{name} {known[name]}" for name in ("trial", "commit") if known.get(name)]
        parts.append(model.description)
        return Content.assemble(
            (f"{key}  ", "bold"), (clean(" · ".join(part for part in parts if part)), "$text-muted")
        )

    def not_now(self, key: str | None) -> frozenset[str]:
        """Nothing can be done without a model."""
        return frozenset() if key else frozenset({"open", "deploy", "delete", "download", "copy"})

    def action_open(self) -> None:
        """Open the job that made it."""
        model = self._models.get(self.table.cursor_key or "")
        if model and model.job:
            self.console.open_job(model.job, "overview")
        elif model:
            self.console.notify(f"{model.reference} was registered from a folder; no job made it.", markup=False)

    def action_deploy(self) -> None:
        """Deploy the model under the cursor."""
        if model := self._models.get(self.table.cursor_key or ""):
            self.console.act(model_acts.deploy(self.console, model))

    def action_download(self) -> None:
        """Fetch the files of the model under the cursor."""
        if model := self._models.get(self.table.cursor_key or ""):
            self.console.act(model_acts.download(self.console, model))

    def action_delete(self) -> None:
        """Delete the model under the cursor, after asking."""
        if model := self._models.get(self.table.cursor_key or ""):
            self.console.act(model_acts.delete(self.console, model))


def _metric(model: Model) -> str:
    return f"{model.best_metric[0]} {words.metric(model.best_metric[1])}" if model.best_metric else ""
