"""The list that belongs to a field of a job file: its words, the clusters with their room, data, paths of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.jobfile import JobFile, document
from footplate.jobfile.form import Field
from footplate.screens import choose
from footplate.screens.picker import PathPicker
from footplate.widgets.path_list import Pick
from footplate.widgets.virtual_table import Column, Row

if TYPE_CHECKING:
    from footplate.screens.base import ConsoleScreen


async def choose_value(screen: ConsoleScreen, job_file: JobFile, field: Field, now: str) -> str | None:
    """Let one choose a field's value from its list; None when it was left, or there is no list. Call it in a worker."""
    if field.kind == "choice":
        return await _one_of(screen, field.label, "VALUE", [(word, word) for word in field.choices], now)
    if field.kind == "cluster":
        return await choose.choose_cluster(screen, now)
    if field.kind in ("path", "asset"):
        return await _data(screen, job_file, field, now)
    screen.console.notify("There is no list for this field: type its value.", markup=False, timeout=4)
    return None


async def _one_of(screen: ConsoleScreen, title: str, head: str, of: list[tuple[str, str]], now: str) -> str | None:
    rows = [Row(key, (words,)) for key, words in of]
    return await screen.app.push_screen_wait(choose.ChooseScreen(title, (Column("it", head, None),), rows, "", now))


async def _data(screen: ConsoleScreen, job_file: JobFile, field: Field, now: str) -> str | None:
    """An asset of the workspace, or a path of this machine, written as the file would write it."""
    kind = "uri_folder"
    if field.path[0] == "inputs":
        kind = job_file.text_at(*field.path[:-1], "type") or "uri_folder"
        model = kind.endswith("_model")
        asset = "A model of the workspace" if model else "A data asset of the workspace"
        sources = [("asset", asset), ("path", "A file or folder of this machine")]
        source = await _one_of(screen, field.label, "FROM WHERE", sources, field.kind)
        if source == "asset":
            return await (choose.choose_model if model else choose.choose_data_asset)(screen, now)
        if source is None:
            return None
    start = job_file.base / now if now and not document.is_remote(now) else job_file.base
    pick: Pick = "file" if kind == "uri_file" else "folder" if kind in ("uri_folder", "mltable") else "any"
    picked: Path | None = await screen.app.push_screen_wait(PathPicker(start, field.label, pick=pick))
    if picked is None:
        return None
    # Code is moved along with its file, data stays where it is.
    relative = picked.is_relative_to(job_file.base) or field.path[-1] == "code"
    return os.path.relpath(picked, job_file.base) if relative else str(picked)
