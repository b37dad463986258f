"""Which files of a code folder a job takes along, and why others stay behind."""

from __future__ import annotations

import errno
import heapq
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from footplate.workspace.errors import Invalid

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_STORE = "footplate.db"
"""By this file the home of a local workspace is known."""

IGNORE_FILES = (".amlignore", ".gitignore")
"""The first that the code folder has is the one that rules."""

MOST_FILES = 100_000
"""So many files are counted before a folder is called too large to list."""

_MOST_LOOKED_AT = 1_000_000
_LINK_COUNTS_AS = 200
"""A link to a folder has to be led back to what it means; folders that link to each other are a maze without end."""
MOST_IGNORED = 200
LARGEST = 10
_SNAPSHOT_BYTES, _SNAPSHOT_FILES = 300 << 20, 2000
"""Azure ML v1's limits of a snapshot; its pages on v2 name none."""


@dataclass(frozen=True)
class Ignored:
    """What stays behind: its path (a folder's ends in `/`), the rule, and where that stands (`.amlignore:2`)."""

    path: str
    rule: str
    where: str


@dataclass(frozen=True)
class Upload:
    """Files relative to the code folder, their bytes together, and the ignore file that ruled (or None).

    `more` says that the folder holds more than was looked at: the list is not whole. Of `ignored`, which names the topmost
    folder or file that a rule leaves out, there are `ignored_count` in all; `links_to_nothing` are left out too.
    """

    files: tuple[Path, ...]
    bytes: int
    ignored_by: str | None
    more: bool = False
    largest: tuple[tuple[str, int], ...] = ()
    ignored: tuple[Ignored, ...] = ()
    ignored_count: int = 0
    links_to_nothing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def upload_files(code: Path, leave_out: Path | None = None, most: int | None = MOST_FILES) -> Upload:
    """List a code folder by Azure's rules: `.amlignore`, else `.gitignore`, only in its root; `__pycache__` stays behind.

    What vanishes while it is listed, and links to nothing, stay behind too; so do homes of local workspaces below it, of
    which `leave_out` is one: a job would take all earlier jobs along. After `most` files the count ends. Raises Invalid for
    what cannot be read, and for a code folder that is such a home itself.

    Source: azure-ai-ml's own lister, measured: git's wildcards, the last rule that matches wins, nested ignore files have no
    effect, links are followed (a link back to a folder above ends there). A folder that a rule ignores is never opened,
    unless a later `!` rule leads into it by its name: Azure's client takes what that names, where git would not.
    """
    try:
        return _Listing(code, leave_out, most).upload()
    except OSError as error:
        raise Invalid(
            f"The code folder {code} cannot be listed: {error.filename or code}: {error.strerror or error}.",
            "Mend its permissions, or name what cannot be read in .amlignore.",
            repr(error),
        ) from error


@dataclass(frozen=True)
class _Rule:
    """One line of an ignore file that can match something."""

    text: str
    line: int
    regex: re.Pattern[str]
    ignores: bool

    @property
    def prefix(self) -> str:
        """The folder names that its paths begin with, up to the first wildcard; empty where it holds at any depth."""
        text = self.text.removeprefix("!")
        if "/" not in text.rstrip("/"):
            return ""
        literal: str = re.split(r"[*?\[\\]", text.lstrip("/"), maxsplit=1)[0]
        return literal


class _Rules:
    """The rules of the ignore file in a folder's root."""

    def __init__(self, code: Path) -> None:
        self.file = next((name for name in IGNORE_FILES if _is_file(code / name)), None)
        text = (code / self.file).read_text(encoding="utf-8-sig", errors="replace") if self.file else ""
        self._rules = [rule for number, line in enumerate(text.splitlines(), 1) if (rule := _rule(line, number))]

    def of(self, path: str) -> tuple[int, _Rule] | None:
        """The last rule that matches a path, and its number; a folder's path ends in `/`."""
        for number in range(len(self._rules) - 1, -1, -1):
            if self._rules[number].regex.search(path):
                return number, self._rules[number]
        return None

    def back(self, folder: str, after: int) -> tuple[bool, list[_Rule]]:
        """Whether a later `!` rule leads into an ignored folder by its name, and those that hold at any depth."""
        later = [rule for rule in self._rules[after + 1 :] if not rule.ignores]
        leads = any(
            rule.prefix and (rule.prefix.startswith(folder) or folder.startswith(rule.prefix)) for rule in later
        )
        return leads, [rule for rule in later if not rule.prefix]


def _rule(line: str, number: int) -> _Rule | None:
    """A line as a rule; None for blanks, comments and what git passes over without a word (`!` alone, `[z-a]`)."""
    from pathspec import GitIgnoreSpec

    try:
        patterns = list(GitIgnoreSpec.from_lines([line]).patterns)
    except (ValueError, re.error):
        return None
    if not patterns or patterns[0].include is None or patterns[0].regex is None:
        return None
    return _Rule(line.rstrip(), number, patterns[0].regex, patterns[0].include)


@dataclass
class _Listing:
    """One walk through a code folder."""

    code: Path
    leave_out: Path | None
    most: int | None
    files: list[Path] = field(default_factory=list)
    total: int = 0
    looked_at: int = 0
    ignored: list[Ignored] = field(default_factory=list)
    ignored_count: int = 0
    dangling: list[str] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    _largest: list[tuple[int, str]] = field(default_factory=list)
    _by_top: dict[str, tuple[int, int]] = field(default_factory=dict)  # bytes and files

    def upload(self) -> Upload:
        """Walk, and tell what was found."""
        self._home = None if self.leave_out is None else os.path.realpath(self.leave_out)
        root = os.path.realpath(self.code)
        if root == self._home or _is_file(self.code / _STORE):
            raise Invalid(
                f"The code folder {self.code} is the home of a local workspace, with all its jobs.",
                "Name the folder of the job's own scripts, or another home in FOOTPLATE_HOME.",
            )
        self._rules = _Rules(self.code)
        # A stack of folders still to be listed, each with the real folders it lies in.
        stack: list[tuple[str, tuple[str, ...]]] = [("", (root,))]
        more = False
        while stack and not more:
            prefix, above = stack.pop()
            below = []
            for entry in _entries(self.code / prefix):
                if self._full():
                    more = True
                    break
                self.looked_at += 1
                path = f"{prefix}{entry.name}"
                if _is_folder(entry):
                    if (real := self._open(entry, path, above)) is not None:
                        below.append((f"{path}/", (*above, real)))
                else:
                    self._take(entry, path)
            stack += reversed(below)
        self._note_size(more)
        for note in _unread_rules(self.code, self._rules.file):
            self.notes[note] = None
        largest = sorted(self._largest, key=lambda found: (-found[0], found[1]))
        return Upload(
            files=tuple(self.files),
            bytes=self.total,
            ignored_by=self._rules.file,
            more=more,
            largest=tuple((path, size) for size, path in largest),
            ignored=tuple(self.ignored),
            ignored_count=self.ignored_count,
            links_to_nothing=tuple(self.dangling),
            notes=tuple(self.notes),
        )

    def _full(self) -> bool:
        return self.looked_at >= _MOST_LOOKED_AT or (self.most is not None and len(self.files) >= self.most)

    def _open(self, entry: os.DirEntry[str], path: str, above: tuple[str, ...]) -> str | None:
        """The real path of a folder that is to be listed; None for one that stays behind."""
        folder = f"{path}/"
        found = self._rules.of(folder)
        if found is not None and found[1].ignores:
            number, rule = found
            leads, anywhere = self._rules.back(folder, number)
            if not leads:
                for exception in anywhere:
                    self.notes[
                        f"`{exception.text}` ({self._rules.file}:{exception.line}) takes nothing back from folders that are "
                        f"ignored whole, as {folder}: they are not opened. Azure's own client would look there."
                    ] = None
                self._leave(folder, rule.text, f"{self._rules.file}:{rule.line}")
                return None
        if entry.name == "__pycache__":
            self._leave(folder, "compiled Python", "footplate")
            return None
        if entry.is_symlink():
            self.looked_at += _LINK_COUNTS_AS
        real = os.path.realpath(self.code / path) if entry.is_symlink() else os.path.join(above[-1], entry.name)  # noqa: PTH118
        if real in above:
            self._leave(folder, "a link back to a folder above it", "footplate")
            return None
        if real == self._home or _is_file(self.code / path / _STORE):
            self._leave(folder, "the home of a local workspace", "footplate")
            return None
        return real

    def _take(self, entry: os.DirEntry[str], path: str) -> None:
        """Count a file, or leave it behind."""
        found = self._rules.of(path)
        if found is not None and found[1].ignores:
            self._leave(path, found[1].text, f"{self._rules.file}:{found[1].line}")
            return
        status = _status(self.code / path)
        if status is None:
            if entry.is_symlink() and len(self.dangling) < MOST_IGNORED:
                self.dangling.append(path)
        elif not stat.S_ISREG(status.st_mode):
            self._leave(path, "a pipe, socket or device", "footplate")
        else:
            self.files.append(Path(path))
            self.total += status.st_size
            (heapq.heappush if len(self._largest) < LARGEST else heapq.heappushpop)(
                self._largest, (status.st_size, path)
            )
            top = path.partition("/")
            name = f"{top[0]}{top[1]}"
            size, count = self._by_top.get(name, (0, 0))
            self._by_top[name] = (size + status.st_size, count + 1)
            if "/" in path and entry.name in IGNORE_FILES:
                self.notes[f"{path} has no effect: only an ignore file in the code folder itself counts."] = None

    def _leave(self, path: str, rule: str, where: str) -> None:
        self.ignored_count += 1
        if len(self.ignored) < MOST_IGNORED:
            self.ignored.append(Ignored(path, rule, where))

    def _note_size(self, more: bool) -> None:
        if not (more or self.total > _SNAPSHOT_BYTES or len(self.files) > _SNAPSHOT_FILES):
            return
        unit = 0 if self.total > _SNAPSHOT_BYTES else 1
        biggest = max(self._by_top, key=lambda name: self._by_top[name][unit], default="")
        self.notes[
            "Azure ML v1 took no more than 300 MB and 2,000 files; for v2 no limit is documented. "
            f"Most of it lies in {biggest}: a line `/{biggest}` in .amlignore leaves that out."
        ] = None


def _unread_rules(code: Path, ruling: str | None) -> Iterator[str]:
    """Sentences on ignore files that a reader could think to have an effect: beside the one that rules, and above the code."""
    if ruling == IGNORE_FILES[0] and _is_file(code / IGNORE_FILES[1]):
        yield f"{IGNORE_FILES[1]} has no effect: beside it stands {IGNORE_FILES[0]}, which alone counts."
    for above in _folders_above(code):
        for name in IGNORE_FILES:
            if _is_file(above / name):
                shown = os.path.relpath(above / name, os.path.realpath(code))
                yield f"{shown} has no effect: only an ignore file in the code folder itself counts."


def _folders_above(code: Path) -> Sequence[Path]:
    """The folders above a code folder up to the root of its git repository; outside of one the next only."""
    real = Path(os.path.realpath(code))
    if (real / ".git").exists():
        return ()
    parents = list(real.parents)
    for number, folder in enumerate(parents):
        if os.path.lexists(folder / ".git"):
            return parents[: number + 1]
    return parents[:1]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """A folder's entries by name; none for one that is gone."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        _raise_unless_gone(error)
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or leads to one."""
    try:
        return entry.is_dir()
    except OSError as error:
        _raise_unless_gone(error)
        return False


def _is_file(path: Path) -> bool:
    status = _status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def _status(path: Path) -> os.stat_result | None:
    """What a path leads to; None where it leads nowhere, or to what has just gone."""
    try:
        return path.stat()
    except OSError as error:
        _raise_unless_gone(error)
        return None


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in _GONE:
        raise error
