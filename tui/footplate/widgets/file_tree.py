"""The log files of a job by folder and rank, with sizes and ages: which is shown, which ranks are muted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from footplate import words
from footplate.logs import names
from footplate.widgets.virtual_table import Cell, CellStyle, Column, Row, VirtualTable
from footplate.workspace import Job, LogFile

ALL = "all"
"""The key of all ranks interleaved; of other rows it is a log's path, `job:NAME`, or begins with `#` for a heading."""
JOB = "job:"

_SHOWN = "●"


@dataclass(frozen=True)
class Seen:
    """What is known of a file's size beyond what the workspace lists: bytes, and when it was last seen to grow."""

    size: int
    changed: datetime | None = None


def tag_of(path: str) -> str:
    """The tag of a rank's lines among those of others: `r3`."""
    rank = names.rank_of(path)
    return names.label_of(path) if rank is None else f"r{rank}"


class FileTree(VirtualTable):
    """The files as a list in groups: ranks first, what the service wrote last; the children of a sweep or pipeline below."""

    DEFAULT_CSS = """
    FileTree { scrollbar-size-vertical: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(
            (
                Column("file", "FILES", None, minimum=10, priority=100),
                Column("size", "SIZE", 7, "right", priority=50),
                Column("age", "AGE", 4, "right", priority=40),
            ),
            marking=False,
            empty="None yet.",
            id=id,
        )
        self.paths: Sequence[str] = ()
        """The log files in the order they stand here."""

    def show(
        self,
        files: Sequence[LogFile],
        *,
        shown: str,
        muted: Collection[str] = (),
        children: Sequence[Job] = (),
        seen: Mapping[str, Seen] | None = None,
        failed: str = "",
        now: datetime | None = None,
    ) -> None:
        """Show the files. `shown` is the key of what is in the log view, `failed` the path of the log that tells a failure."""
        now, seen = now or datetime.now(UTC), seen or {}
        ranks = names.rank_files(file.path for file in files)
        by_path = {file.path: file for file in files}
        rows: list[Row] = []
        if len(ranks) > 1:
            label = f"all {len(ranks)} ranks"
            rows.append(Row(ALL, (_name(label, "", shown == ALL, "plain"), "", "")))
        self.paths = tuple(path for _, group in _groups(files, ranks) for path in group)
        for title, group in _groups(files, ranks):
            rows.append(Row(f"#{title}", (Cell(title, "muted"), "", "")))
            for path in group:
                silent = path in ranks and tag_of(path) in muted and len(ranks) > 1
                within = shown == path or (shown == ALL and path in ranks and not silent)
                note = "failed" if path == failed else "muted" if silent else ""
                style: CellStyle = "error" if path == failed else "muted" if silent else "plain"
                cells = _figures(by_path[path], seen.get(path), now)
                rows.append(Row(path, (_name(names.label_of(path), note, within, style), *cells)))
        if children:
            rows.append(Row("#children", (Cell("logs of", "muted"), "", "")))
            rows += [Row(f"{JOB}{child.name}", (f"  {child.name}", child.status[:7], "")) for child in children]
        self.set_rows(rows)


def _groups(files: Sequence[LogFile], ranks: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The files by folder: ranks of the newest attempt, what else the job wrote, earlier attempts, what the service wrote."""
    groups: dict[tuple[int, str], list[str]] = {}
    for file in files:
        path, folder = file.path, file.path.rpartition("/")[0] or "logs"
        build = names.is_image_build(path)
        earlier = names.attempt_of(path) is not None and names.group_of(path) == names.USER and path not in ranks
        place = 0 if path in ranks else 3 if earlier else {names.USER: 1, names.OTHER: 2}.get(names.group_of(path), 4)
        if build and not ranks:
            place = -1  # what there is to see before the job runs
        title = "system_logs" if folder.startswith("system_logs") else folder
        groups.setdefault((place, title), []).append(path)
    order = {path: i for i, path in enumerate(ranks)}
    merged: dict[str, list[str]] = {}
    for (_, title), paths in sorted(groups.items(), key=lambda group: group[0]):
        merged.setdefault(title, []).extend(sorted(paths, key=lambda path: order.get(path, -1)))
    return list(merged.items())


def _name(label: str, note: str, shown: bool, style: CellStyle) -> Cell:
    sign = f"{_SHOWN} " if shown else "  "
    return Cell(f"{sign}{label}{f' {note}' if note else ''}", style)


def _figures(file: LogFile, seen: Seen | None, now: datetime) -> tuple[Cell, Cell]:
    size = max((n for n in (file.size, seen.size if seen else None) if n is not None), default=None)
    changed = file.changed or (seen.changed if seen else None)
    return (
        Cell("" if size is None else words.size(size), "muted"),
        Cell("" if changed is None else words.age(changed, now), "muted"),
    )
