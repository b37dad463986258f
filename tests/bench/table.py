"""Keys in a table of 10,000 rows of which 120 change a second: ours against Textual's, and against a hello-world."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.figures import Figure
from tests.bench.keys import HEAD, HELLO, ROUNDS, latencies, open_app, percentile

ROWS = """
import random, threading, time
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable
from textual.widgets import DataTable
TITLES = ["NAME", "STATUS", "EXPERIMENT", "CLUSTER", "NODES", "AGE", "TOOK", "METRIC"]
COUNT, CHANGED = 10_000, 120
def cells(number, version):
    return (f"job-{number:05}", "Running", "birds", "gpu-cluster", "2x4", f"{version}m", "6m", f"0.{version:04}")
def row(number, version=0):
    return Row(str(number), cells(number, version))
"""

OURS = (
    HEAD
    + ROWS
    + """
class Ours(Told):
    def compose(self):
        yield VirtualTable([Column(title, title, minimum=6) for title in TITLES])
    def on_mount(self):
        rows = [row(number) for number in range(COUNT)]
        self.query_one(VirtualTable).set_rows(rows)
        threading.Thread(target=self.refresh_rows, args=(rows,), daemon=True).start()
    def refresh_rows(self, rows):
        for version in range(10_000):
            time.sleep(1)
            rows = list(rows)
            for number in [*range(40), *random.sample(range(COUNT), CHANGED - 40)]:
                rows[number] = row(number, version)
            self.call_from_thread(self.query_one(VirtualTable).set_rows, rows)
Ours().run()
"""
)

TEXTUALS = (
    HEAD
    + ROWS
    + """
class Textuals(Told):
    def compose(self):
        yield DataTable(cursor_type="row")
    def on_mount(self):
        table = self.query_one(DataTable)
        self.columns = table.add_columns(*TITLES)
        for number in range(COUNT):
            table.add_row(*cells(number, 0), key=str(number))
        threading.Thread(target=self.refresh_rows, daemon=True).start()
    def refresh_rows(self):
        for version in range(10_000):
            time.sleep(1)
            self.call_from_thread(self.change, version)
    def change(self, version):
        table = self.query_one(DataTable)
        for number in [*range(40), *random.sample(range(COUNT), CHANGED - 40)]:
            for column, text in zip((self.columns[5], self.columns[7]), cells(number, version)[5::2]):
                table.update_cell(str(number), column, text)
Textuals().run()
"""
)


# Only the cursor's line is written so: our sign before the name, the cursor's colours of Textual's dark theme.
EFFECTS: dict[str, Callable[[int], str]] = {
    "hello": "<{}>".format,
    "ours": "▸[^j]*job-{:05}".format,
    "DataTable": r"48;2;1;120;212m job-{:05}".format,
}


def measure() -> list[Figure]:
    """Rounds take turns, so that a busy moment of the machine meets all."""
    times: dict[str, list[float]] = {name: [] for name in EFFECTS}
    for _ in range(ROUNDS):
        for name, code in (("hello", HELLO), ("ours", OURS), ("DataTable", TEXTUALS)):
            with open_app(code) as terminal:
                terminal.read_until(b"<0>" if name == "hello" else b"job-00039", 60)
                times[name] += latencies(terminal, EFFECTS[name])
    figures = []
    for share in (50, 99):
        ours, hello, theirs = (percentile(times[name], share) for name in ("ours", "hello", "DataTable"))
        judged = share == 99
        figures.append(Figure(f"key p{share}, to a hello-world's", ours, "ms", hello, 4.0 if judged else None))
        figures.append(Figure(f"key p{share}, to DataTable's", ours, "ms", theirs, 0.3 if judged else None))
    return figures
