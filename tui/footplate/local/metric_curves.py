"""What was read of runs, kept: a look at a live run reads only the values that are new in MLflow's table."""

from __future__ import annotations

import math
import sqlite3
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from footplate.workspace import MetricPoint
from footplate.workspace.points import Points

_KEPT_RUNS = 64
_AT_ONCE = 200_000
_NEW = """
SELECT rowid, "key", step, timestamp, value, is_nan FROM metrics
WHERE run_uuid = ? AND rowid > ? AND typeof("key") = 'text' AND typeof(value) = 'real'
AND typeof(step) = 'integer' AND typeof(timestamp) = 'integer' ORDER BY rowid
"""  # rows are only ever added; scripts can write to the file, and SQLite keeps any type in any column


@dataclass
class _Run:
    store: object
    last_row: int = -1
    points: dict[str, Points] = field(default_factory=dict)


class Curves:
    """The values of the runs that were looked at last, in arrays; may be asked in any thread."""

    def __init__(self, seconds: Callable[[int], float], value: Callable[[float], float]) -> None:
        """`seconds` reads a timestamp of the table, `value` a value of it."""
        self._seconds, self._value = seconds, value
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, db: sqlite3.Connection, store: object, run_id: str) -> Mapping[str, Sequence[MetricPoint]]:
        """All metrics of a run; `store` is another object where the file is another one than before."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None or run.store != store:
                run = self._runs[run_id] = _Run(store)
            self._runs.move_to_end(run_id)
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)
            rows = db.execute(_NEW, (run_id, run.last_row))
            while some := rows.fetchmany(_AT_ONCE):
                self._add(run, some)
            return dict(sorted(run.points.items()))

    def _add(self, run: _Run, rows: Sequence[tuple[Any, ...]]) -> None:
        new: dict[str, Points] = {}
        seconds, finite = self._seconds, self._value
        for _, key, step, timestamp, value, is_nan in rows:
            own = new.get(key)
            if own is None:
                own = new[key] = Points(array("q"), array("d"), array("d"))
            own.steps.append(step)
            own.times.append(seconds(timestamp))
            own.values.append(math.nan if is_nan else finite(value))
        for key, added in new.items():
            run.points[key] = run.points[key].joined(added) if key in run.points else _NONE.joined(added)
        run.last_row = rows[-1][0]


_NONE = Points(array("q"), array("d"), array("d"))
