"""A job file while its form is filled in: the file, what was typed over it, and how both differ from what was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from footplate.jobfile import JobFile, form, nodes
from footplate.jobfile.form import OFF, Field
from footplate.operations.outlook import REFUSED, Outlook, look_out


@dataclass(frozen=True)
class State:
    """What a draft was at one moment: threads work on it while more is typed."""

    base: JobFile
    typed: Mapping[nodes.Path, str]


class Draft:
    """A file and what was typed over it. `outlook` is what both came to when it was worked out last.

    `opened` is the file as it was opened, `past` that of a past job from which it was cloned. `one_job` is what a sweep was
    before it was made one.
    """

    def __init__(self, opened: JobFile, past: JobFile | None = None) -> None:
        self.opened, self.past, self.base = opened, past, opened
        self.one_job: JobFile | None = None
        self.outlook: Outlook | None = None
        self._typed: dict[nodes.Path, str] = {}
        self._last: nodes.Path = ()  # the field that was typed in last
        self._covered: State | None = None  # what the outlook was made of
        self._before = form.fields(opened)
        self._values_before = {_name(field): field.value for field in self._before}

    @property
    def state(self) -> State:
        """What it is now."""
        return State(self.base, dict(self._typed))

    def put(self, path: nodes.Path, value: str) -> None:
        """Take what was typed in a field."""
        self._fold(path)
        self._typed.pop(path, None)  # what was typed last is put in last
        self._typed[path] = value

    def _fold(self, path: nodes.Path) -> None:
        """When another field is begun, what was typed before goes into the file for good: it need not be put in at each key."""
        if self.outlook is not None and path != self._last and self._covered == self.state:
            refused = _refused(self.outlook)
            self.base = self.outlook.job_file
            self._typed = {p: v for p, v in self._typed.items() if p in refused}
            self._covered = self.state
        self._last = path

    def work_out(self, state: State) -> Outlook:
        """All that a form shows of a state. Reads the code folder, once; call it in a thread."""
        return look_out(state.base, state.typed, self.opened, self.outlook, self.past)

    def accept(self, state: State, outlook: Outlook) -> bool:
        """Take what was worked out; False where another file came meanwhile."""
        if state.base is not self.base:
            return False
        self.outlook, self._covered = outlook, state
        return True

    def typed(self, path: nodes.Path) -> str | None:
        """What was typed in a field and is not in the file yet; None for nothing."""
        return self._typed.get(path)

    def settle(self, state: State, outlook: Outlook) -> None:
        """Put into the file what was typed, as far as it can stand there."""
        refused = _refused(outlook)
        self.base = outlook.job_file
        self._typed = {p: v for p, v in self._typed.items() if state.typed.get(p) != v or p in refused}

    def replace(self, job_file: JobFile) -> None:
        """Go on with another state of the file; what was typed before is in it, or is gone."""
        self.base, self._typed, self.outlook, self._covered = job_file, {}, None, None

    def changed_fields(self) -> frozenset[nodes.Path]:
        """The fields whose values are others than in the file that was opened."""
        if self.outlook is None:
            return frozenset()
        was = self._values_before
        return frozenset(field.path for field in self.outlook.fields if was.get(_name(field), "") != field.value)

    def changes(self) -> int:
        """How many values were changed since the file was opened."""
        before = {field.path: field.value or OFF for field in self._before}
        now = {field.path: field.value or OFF for field in form.fields(self.base)}
        now |= {path: value or OFF for path, value in self._typed.items()}
        count = sum(before.get(path) != now.get(path) for path in {*before, *now})
        return count or int(self.base.text != self.opened.text)


def _refused(outlook: Outlook) -> set[nodes.Path]:
    return {fault.place for fault in outlook.refused if fault.code == REFUSED}


def _name(field: Field) -> tuple[str, str, str]:
    """What a field is called, which it keeps where its place moves, as when a job becomes a sweep."""
    return field.section, field.group, field.label
