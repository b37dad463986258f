"""The virtual table: what it draws, how little it draws again, and where its cursor stays."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from tests.screens.conditions import drawn, until
from textual.app import App, ComposeResult
from textual.strip import Strip

from footplate.widgets.columns import fit, lay_out
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable

COLUMNS = [
    Column("name", "NAME", minimum=16),
    Column("status", "STATUS", 11),
    Column("experiment", "EXPERIMENT", 12, priority=20),
    Column("cluster", "CLUSTER", 12, priority=30),
    Column("age", "AGE", 6, align="right"),
    Column("metric", "best_val_acc", 14, align="right", priority=80),
]


def row(number: int, status: str = "Running") -> Row:
    style = "error" if status == "Failed" else "ok"
    return Row(f"job{number}", (f"job-{number:05}", Cell(status, style), "birds", "gpu-cluster", f"{number}m", "0.871"))


class CountingTable(VirtualTable):
    """A table that notes which of its lines were drawn."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, empty="No jobs yet.\n5 launches one.")
        self.lines_drawn: list[int] = []

    def render_line(self, y: int) -> Strip:
        self.lines_drawn.append(y)
        return super().render_line(y)


class TableApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.highlighted: list[str | None] = []
        self.selected: list[str] = []
        self.marked: list[frozenset[str]] = []
        self.ran: list[str] = []

    def compose(self) -> ComposeResult:
        yield CountingTable()

    def on_virtual_table_highlighted(self, message: VirtualTable.Highlighted) -> None:
        self.highlighted.append(message.key)

    def on_virtual_table_selected(self, message: VirtualTable.Selected) -> None:
        self.selected.append(message.key)

    def on_virtual_table_marked(self, message: VirtualTable.Marked) -> None:
        self.marked.append(message.keys)

    def action_boom(self) -> None:
        self.ran.append("boom")

    @property
    def table(self) -> CountingTable:
        return self.query_one(CountingTable)


async def test_the_empty_text_is_shown_until_there_are_rows() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        lines = [line.strip() for line in drawn(app.table) if line]
        assert lines[1:] == ["No jobs yet.", "5 launches one."]
        app.table.set_rows([row(1)])
        await pilot.pause()
        assert "No jobs yet." not in " ".join(drawn(app.table))
        app.table.set_rows([])
        app.table.empty = "No jobs match [/]."
        await pilot.pause()
        assert "  No jobs match [/]." in drawn(app.table)
        assert app.table.cursor_key is None


async def test_keys_move_the_cursor_and_the_owner_is_told() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_rows([row(number) for number in range(1000)])
        await pilot.press("down", "j", "k")
        assert app.table.cursor_key == "job1"
        await pilot.press("pagedown")
        assert app.table.cursor_key == "job23"
        await pilot.press("pageup", "G")
        assert app.table.cursor_key == "job999"
        assert drawn(app.table)[-1].startswith("▸ job-00999")
        await pilot.press("g")
        assert app.table.cursor_key == "job0"
        await pilot.press("end", "up", "enter")
        assert app.selected == ["job998"]
        assert app.highlighted == [
            "job0",
            "job1",
            "job2",
            "job1",
            "job23",
            "job1",
            "job999",
            "job0",
            "job999",
            "job998",
        ]


async def test_the_cursor_stays_on_its_key_and_its_line_when_rows_come_and_go() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = [row(number) for number in range(500)]
        app.table.set_rows(rows)
        await pilot.press("G", *["up"] * 10)
        line = next(y for y, text in enumerate(drawn(app.table)) if text.startswith("▸"))
        app.table.set_rows([*(row(number) for number in range(900, 907)), *rows])
        await pilot.pause()
        assert app.table.cursor_key == "job489"
        assert drawn(app.table)[line].startswith("▸ job-00489")
        app.table.set_rows(rows[:100])
        await pilot.pause()
        assert app.table.cursor_key == "job99", "its row is gone: the nearest"
        assert drawn(app.table)[-1].startswith("▸ job-00099")


async def test_new_rows_at_the_top_come_into_sight() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = [row(number) for number in range(50)]
        app.table.set_rows(rows)
        await pilot.press("down")
        app.table.set_rows([row(77), *rows])
        await pilot.pause()
        lines = drawn(app.table)
        assert lines[1].startswith("  job-00077")
        assert lines[3].startswith("▸ job-00001")


async def test_only_lines_that_differ_are_drawn_again() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = [row(number) for number in range(10_000)]
        app.table.set_rows(rows)
        await pilot.pause()
        app.table.lines_drawn.clear()
        changed = [row(number, "Failed") if number in (3, 7, 5000) else row(number) for number in range(10_000)]
        app.table.set_rows(changed)
        await until(pilot, lambda: app.table.lines_drawn)
        await pilot.pause()
        assert set(app.table.lines_drawn) == {4, 8}
        app.table.lines_drawn.clear()
        await pilot.press("down")
        assert set(app.table.lines_drawn) == {1, 2}


async def test_marks_show_a_sign_and_follow_their_keys() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = [row(number) for number in range(10)]
        app.table.set_rows(rows)
        await pilot.press("space", "j", "space")
        assert app.table.marks == {"job0", "job2"}
        assert [line[:3] for line in drawn(app.table)[1:5]] == [" *j", "  j", " *j", "▸ j"]
        app.table.set_rows(rows[1:])
        await pilot.pause()
        assert app.table.marks == {"job2"}, "a row out of sight of the list must not be acted on"
        app.table.clear_marks()
        await pilot.pause()
        assert app.marked == [{"job0"}, {"job0", "job2"}, {"job2"}, frozenset()]


async def test_the_mouse_moves_chooses_and_scrolls() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_rows([row(number) for number in range(100)])
        await pilot.pause()
        await pilot.click(CountingTable, offset=(5, 4))
        assert app.table.cursor_key == "job3"
        await pilot.click(CountingTable, offset=(5, 0))
        assert app.table.cursor_key == "job3", "the header is no row"
        await pilot.click(CountingTable, offset=(5, 6), times=2)
        assert app.selected == ["job5"]
        app.table.scroll_to(y=40, animate=False)
        await pilot.pause()
        assert drawn(app.table)[1].startswith("  job-00040")
        app.table.set_rows([row(number, "Failed") for number in range(100)])
        await pilot.pause()
        assert drawn(app.table)[1].startswith("  job-00040"), "scroll stays where the reader is"


async def test_move_to_finds_a_key_anywhere() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_rows([row(number) for number in range(1000)])
        assert app.table.move_to("job700")
        assert not app.table.move_to("job1000")
        await pilot.pause()
        assert any(line.startswith("▸ job-00700") for line in drawn(app.table))


async def test_cells_are_data() -> None:
    app = TableApp()
    async with app.run_test(size=(160, 24)) as pilot:
        names = ["[@click=app.boom]click[/]", "[/x]", "two\nlines", "osc\x1b]52;c;QUJD\x07 gone", "rtl\u202e!"]
        app.table.set_rows([Row(name, (name, "[/]")) for name in names])
        await pilot.click(CountingTable, offset=(5, 1))
        shown = [line[2:].split("  ")[0].strip() for line in drawn(app.table)[1:6]]
        assert shown == ["[@click=app.boom]click[/]", "[/x]", "two lines", "osc gone", "rtl!"]
        assert app.ran == []


@pytest.mark.parametrize("width", [80, 120, 160])
async def test_columns_stay_straight_with_wide_letters(width: int) -> None:
    app = TableApp()
    async with app.run_test(size=(width, 24)) as pilot:
        names = [
            "plain",
            "学習率-損失-画像-分類-" * 3,
            "🚀 👨‍👩‍👧 ❤️ ⚠️",
            "مرحبا",
            "e\u0301a\u0308",
            "x" * 200,
        ]
        app.table.set_rows([Row(name, (name, "Running", "birds", "gpu", "1m", "0.5")) for name in names])
        await pilot.pause()
        starts = set()
        for y in range(1, len(names) + 1):
            strip = app.table.render_line(y)
            assert strip.cell_length == app.table.scrollable_content_region.width
            starts.add(cell_len(strip.text.split("Running")[0]))
        assert len(starts) == 1


async def test_narrow_tables_drop_the_least_important_columns_first() -> None:
    app = TableApp()
    async with app.run_test(size=(76, 24)) as pilot:
        assert app.table.shown_columns == ["name", "status", "cluster", "age", "metric"]
        await pilot.resize_terminal(60, 24)
        assert app.table.shown_columns == ["name", "status", "age", "metric"]
        await pilot.resize_terminal(40, 24)
        assert app.table.shown_columns == ["name", "status", "age"]
        await pilot.resize_terminal(160, 24)
        assert app.table.shown_columns == [column.key for column in COLUMNS]


async def test_the_cursor_stays_in_sight_when_the_terminal_shrinks() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 40)) as pilot:
        app.table.set_rows([row(number) for number in range(100)])
        await pilot.press(*["down"] * 35)
        await pilot.resize_terminal(80, 10)
        await until(pilot, lambda: any(line.startswith("▸ job-00035") for line in drawn(app.table)))


async def test_states_differ_in_colour_from_plain_text_on_and_off_the_cursor() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_rows([row(0, "Failed"), row(1, "Failed")])
        await pilot.pause()
        for y in (1, 2):
            styles = {segment.text.strip(): segment.style for segment in app.table.render_line(y)}
            assert styles["Failed"].color != styles[f"job-0000{y - 1}"].color
        assert (
            app.table.render_line(1)._segments[0].style.bgcolor != app.table.render_line(2)._segments[0].style.bgcolor
        )


@pytest.mark.parametrize(
    ("text", "width", "align", "shown"),
    [
        ("abc", 5, "left", "abc  "),
        ("abc", 5, "right", "  abc"),
        ("abcdef", 5, "left", "abcd…"),
        ("学習率", 5, "left", "学習…"),
        ("学習率", 4, "left", "学 …"),
        ("abc", 1, "left", "…"),
        ("abc", 0, "left", ""),
    ],
)
def test_fit(text: str, width: int, align: str, shown: str) -> None:
    assert fit(text, width, align) == shown


def test_flexible_columns_share_what_is_left_to_the_last_cell() -> None:
    placed, gap = lay_out([Column("a", "A", minimum=5), Column("b", "B", 10), Column("c", "C", minimum=6)], 50)
    assert gap == 1
    assert sum(width for _, _, width in placed) + 2 * gap == 50
    assert lay_out([Column("a", "A", 30)], 10)[0][0].width == 30, "the first column always stays"
