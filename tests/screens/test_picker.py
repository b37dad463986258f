"""The path picker and the lists to choose from, driven by keys."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import pytest
from tests import metrics_template
from tests.screens.conditions import drawn, until
from textual import events
from textual.widgets import Input, Static

from footplate.app import FootplateApp
from footplate.operations.pictures import SUFFIXES
from footplate.screens.choose import (
    SERVERLESS,
    ChooseScreen,
    choose_cluster,
    choose_data_asset,
    choose_model,
    cluster_row,
)
from footplate.screens.picker import PathPicker
from footplate.widgets.path_list import PathList
from footplate.widgets.virtual_table import Column, Row, VirtualTable
from footplate.workspace import Cluster, Unreachable


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setattr(PathPicker, "last_folder", None)


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "train" / "owl").mkdir(parents=True)
    (folder / "val").mkdir()
    for name in ("img1.png", "img2.png", "notes.txt", ".hidden.png"):
        (folder / name).write_bytes(b"x")
    (folder / "train" / "owl" / "a.png").write_bytes(b"x")
    return folder


class Asked:
    """A picker on screen, and what it gave."""

    def __init__(self, app: FootplateApp, pilot) -> None:
        self.app, self.pilot = app, pilot
        self.given: list[object] = []

    @property
    def picker(self) -> PathPicker:
        assert isinstance(self.app.screen, PathPicker)
        return self.app.screen

    @property
    def names(self) -> list[str]:
        return [row.key for row in self.picker.query_one(PathList).rows]

    @property
    def cursor(self) -> str | None:
        return self.picker.query_one(PathList).cursor_key

    @property
    def line(self) -> str:
        return self.picker.query_one(Input).value

    @property
    def said(self) -> str:
        return str(self.picker.query_one("#said", Static).render())

    async def at(self, folder: Path) -> None:
        await until(self.pilot, lambda: self.picker.folder == folder)

    async def type(self, text: str) -> None:
        line = self.picker.query_one(Input)
        line.insert_text_at_cursor(text)
        await self.pilot.pause()


@asynccontextmanager
async def picking(start: Path | None, size: tuple[int, int] = (80, 24), **kind):
    app = FootplateApp()
    async with app.run_test(size=size) as pilot:
        asked = Asked(app, pilot)
        app.push_screen(PathPicker(start, "Pick", **kind), asked.given.append)
        await until(pilot, lambda: isinstance(app.screen, PathPicker) and app.screen.folder is not None)
        yield asked


async def test_one_enter_opens_a_folder_and_one_picks_a_file(pictures):
    async with picking(pictures, suffixes=SUFFIXES) as asked:
        assert asked.names == ["..", "train", "val", "img1.png", "img2.png"]
        assert asked.cursor == "train"
        await asked.pilot.press("enter")
        await asked.at(pictures / "train")
        await asked.pilot.press("enter")
        await asked.at(pictures / "train" / "owl")
        await asked.pilot.press("enter")
        await until(asked.pilot, lambda: asked.given == [pictures / "train" / "owl" / "a.png"])
        assert PathPicker.last_folder == pictures / "train" / "owl"


async def test_the_cursor_starts_on_the_file_it_was_opened_with(pictures):
    async with picking(pictures / "img2.png") as asked:
        assert asked.cursor == "img2.png"


async def test_what_is_typed_narrows_and_esc_clears_then_leaves(pictures):
    async with picking(pictures) as asked:
        await asked.pilot.press(*"IMG")
        assert asked.names == ["img1.png", "img2.png"]
        await asked.pilot.press("down", "escape")
        assert asked.line == ""
        assert "train" in asked.names
        await asked.pilot.press("escape")
        await until(asked.pilot, lambda: asked.given == [None])


async def test_a_pasted_path_goes_there_and_enter_picks_it(pictures):
    async with picking(pictures) as asked:
        await asked.type(str(pictures / "train" / "owl" / "a.png"))
        await asked.pilot.press("enter")
        await until(asked.pilot, lambda: asked.given == [pictures / "train" / "owl" / "a.png"])


async def test_a_path_dropped_on_the_terminal_comes_without_its_quotes(pictures):
    (pictures / "val" / "a b.png").touch()
    async with picking(None) as asked:
        asked.picker.query_one(Input).post_message(events.Paste(f"'{pictures / 'val' / 'a b.png'}'"))
        await asked.at(pictures / "val")
        assert asked.line == "a b.png"
        await asked.pilot.press("enter")
        await until(asked.pilot, lambda: asked.given == [pictures / "val" / "a b.png"])


async def test_a_typed_path_that_is_not_there_picks_nothing(pictures):
    async with picking(pictures) as asked:
        await asked.type("nosuch/img1.png")
        await until(asked.pilot, lambda: "There is no folder" in asked.said)
        await asked.pilot.press("enter")
        assert asked.names == []
        assert asked.given == []
        assert asked.picker.folder == pictures


async def test_tab_completes_as_a_shell_does(pictures):
    async with picking(pictures) as asked:
        await asked.pilot.press("i", "tab")
        assert asked.line == "img"
        await asked.pilot.press("tab")
        assert "2 names fit" in asked.said
        await asked.pilot.press("escape", "t", "tab")
        await asked.at(pictures / "train")
        assert asked.line == ""


async def test_backspace_on_an_empty_line_goes_up_to_where_one_came_from(pictures):
    async with picking(pictures / "val") as asked:
        await asked.pilot.press("backspace")
        await asked.at(pictures)
        assert asked.cursor == "val"


async def test_a_folder_is_picked_by_its_own_row_or_by_f5(pictures):
    async with picking(pictures, pick="folder") as asked:
        assert asked.cursor == "."
        await asked.pilot.press("enter")
        await until(asked.pilot, lambda: asked.given == [pictures])
    async with picking(pictures, pick="folder") as asked:
        await asked.pilot.press(*"val", "f5")
        await until(asked.pilot, lambda: asked.given == [pictures / "val"])


async def test_a_file_is_no_folder(pictures):
    async with picking(pictures, pick="folder") as asked:
        await asked.pilot.press(*"img1", "enter")
        assert "is a file" in asked.said
        await asked.pilot.press("f5")
        assert "is no folder" in asked.said
        assert asked.given == []


async def test_either_is_picked_where_either_is_wanted(pictures):
    async with picking(pictures, pick="any") as asked:
        await asked.pilot.press(*"img1", "enter")
        await until(asked.pilot, lambda: asked.given == [pictures / "img1.png"])


async def test_control_t_shows_hidden_files_and_other_kinds(pictures):
    async with picking(pictures, suffixes=SUFFIXES) as asked:
        assert "2 not shown" in asked.said
        await asked.pilot.press("ctrl+t")
        assert {".hidden.png", "notes.txt"} < set(asked.names)


async def test_without_a_start_it_opens_where_the_last_pick_was_made(pictures):
    async with picking(pictures / "val") as asked:
        await asked.pilot.press("backspace")
        await asked.at(pictures)
        await asked.pilot.press(*"img1", "enter")
        await until(asked.pilot, lambda: asked.given)
    async with picking(None) as asked:
        await asked.at(pictures)


async def test_odd_names_are_data_and_odd_files_are_not_picked(tmp_path):
    folder = tmp_path / "x[/b] [@click=app.exit]y"
    folder.mkdir(parents=True)
    for name in ("[bold]a.png", "b\x1b[31m\n.png"):
        (folder / name).touch()
    (folder / "broken").symlink_to("gone")
    os.mkfifo(folder / "pipe")
    os.close(os.open(os.fsencode(folder) + b"/latin-\xe9.png", os.O_CREAT))
    async with picking(folder, size=(160, 45)) as asked:
        shown = "\n".join(drawn(asked.picker.query_one(PathList)))
        assert "[bold]a.png" in shown
        assert "\x1b" not in shown
        assert "leads nowhere" in shown
        for name, why in (("broken", "not there"), ("pipe", "not a file")):
            await asked.type(name)
            await asked.pilot.press("enter")
            assert why in asked.said
            await asked.pilot.press("escape")
        await asked.pilot.press(*"lat", "enter")
        await until(asked.pilot, lambda: asked.given)
        assert os.fsencode(asked.given[0]).endswith(b"latin-\xe9.png")


async def test_a_folder_that_may_not_be_read_is_said_and_left_again(pictures, monkeypatch):
    real = os.scandir

    def scandir(path):  # as root, permissions stop nobody
        if str(path).endswith("val"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    async with picking(pictures) as asked:
        await asked.pilot.press(*"val", "enter")
        await until(asked.pilot, lambda: "may not be read" in asked.said)
        assert asked.picker.folder == pictures
    async with picking(pictures / "val") as asked:
        assert asked.names == [".."]
        assert "may not be read" in asked.said
        await asked.pilot.press("enter")
        await asked.at(pictures)


async def test_ten_thousand_names_are_narrowed_at_a_key(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"img{number}.png").touch()
    async with picking(folder) as asked:
        assert len(asked.names) == 10_001
        began = perf_counter()
        asked.picker.query_one(PathList).narrow("999")
        assert perf_counter() - began < 0.5  # 0.02 on the slowest machine seen
        await asked.pilot.press(*"img9999")
        assert asked.names == ["img9999.png"]


# Choosing from a list


def cell_texts(row: Row) -> list[str]:
    return [cell if isinstance(cell, str) else cell.text for cell in row.cells]


def said_in_list(app: FootplateApp) -> str:
    """What stands in place of rows; empty until the list is there."""
    tables = app.screen.query(VirtualTable) if isinstance(app.screen, ChooseScreen) else None
    return tables.first().empty if tables else ""


async def chosen(ask, keys: list[str], size: tuple[int, int] = (80, 24)) -> tuple[object, list[list[str]]]:
    """What a choice gave after these keys, and the rows that were offered."""
    app = FootplateApp()
    async with app.run_test(size=size) as pilot:
        worker = app.run_worker(ask(app.screen))
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen) and app.screen._table.rows)
        offered = [cell_texts(row) for row in app.screen.query_one(VirtualTable).rows]
        await pilot.press(*keys)
        return await worker.wait(), offered


async def test_a_cluster_is_chosen_by_its_room():
    given, offered = await chosen(choose_cluster, ["enter"])
    assert given == "local"
    assert offered[0][1] == "4 of 4 free"
    assert (await chosen(choose_cluster, ["down", "enter"]))[0] == SERVERLESS
    assert offered[-1][0] == "this machine"  # this workspace has no serverless
    assert (await chosen(choose_cluster, [*"this", "enter"]))[0] == SERVERLESS
    assert (await chosen(choose_cluster, ["escape"]))[0] is None


def test_a_clusters_row_says_free_nodes_queue_cores_and_gpus():
    cluster = Cluster("gpu", "AmlCompute", "Standard_NC24", "Resizing", 0, 4, 2, 24, 4, 120, queued_jobs=3)
    assert cell_texts(cluster_row(cluster)) == ["gpu", "2 of 4 free", "3 jobs", "24 cores, 4 GPUs", "Resizing"]


async def test_a_data_asset_is_chosen_as_a_reference():
    given, offered = await chosen(choose_data_asset, ["enter"])
    assert given == "azureml:birds:1"
    assert offered[0][:2] == ["birds:1", "uri_folder"]


async def test_without_models_the_list_says_so():
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        worker = app.run_worker(choose_model(app.screen))
        await until(pilot, lambda: "no models yet" in said_in_list(app))
        await pilot.press("enter", "escape")
        assert await worker.wait() is None


async def test_a_workspace_that_does_not_answer_is_said_in_the_list():
    async def rows():
        raise Unreachable("The workspace does not answer.", "Try again.")

    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(ChooseScreen("Data", (Column("name", "NAME"),), rows))
        await until(pilot, lambda: "does not answer" in said_in_list(app))
