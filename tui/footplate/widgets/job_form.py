"""The form of a job file: its fields in foldable parts, each with what is wrong with it while it is typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.css.query import NoMatches
from textual.message import Message
from textual.widget import Widget

from footplate.jobfile import nodes
from footplate.jobfile.faults import Fault
from footplate.jobfile.form import OFF, SECTIONS, Field
from footplate.operations.outlook import SpaceLook, field_of
from footplate.widgets.choice import Choice
from footplate.widgets.field_line import FieldLine, Typed
from footplate.widgets.section_head import SectionHead
from footplate.widgets.space_editor import SpaceEditor

_GRADES = ("error", "warning", "note")
SWEEP: nodes.Path = ("sweep",)
"""The path of the line which makes a sweep of a command job; no key of the file."""


_MOST_FIELDS = 100
"""Of one part: nobody scrolls through more, and each is a widget."""


def shown_fields(fields: Sequence[Field], local: bool) -> list[Field]:
    """The fields that matter in a workspace, up to so many a part; what is beyond them the editor changes."""
    found: list[Field] = []
    for title, of in _parts(fields).items():
        # This machine has no serverless sizes and tiers; what a file says of them is shown all the same.
        kept = [f for f in of if not local or f.value or f.path[-1] not in ("instance_type", "job_tier")]
        found += [
            replace(f, hint="local: this machine") if local and f.path == ("compute",) else f
            for f in kept[:_MOST_FIELDS]
        ]
        if len(kept) > _MOST_FIELDS:
            found.append(Field((title,), "…", title, value=f"{len(kept) - _MOST_FIELDS} more", fixed="^e changes them"))
    return found


class FormSection(Vertical):
    """One part: a heading and its lines."""

    DEFAULT_CSS = """
    FormSection { height: auto; width: 1fr; margin: 0 0 1 0; }
    FormSection > Vertical { height: auto; width: 1fr; }
    FormSection.folded > Vertical { display: none; }
    """

    def __init__(self, title: str, fields: Sequence[Field], folded: bool) -> None:
        super().__init__(classes="folded" if folded else "")
        self.title = title
        self.head = SectionHead(title, folded)
        self._lines = [_line(of) for of in _groups(fields)]
        self._body = Vertical(*self._lines)

    def compose(self) -> ComposeResult:
        """Heading and lines."""
        yield self.head
        yield self._body

    @property
    def lines(self) -> list[FieldLine]:
        """The lines of this part."""
        return self._lines

    def on_section_head_folded(self) -> None:
        """Hide or show the lines."""
        self.set_class(self.head.folded, "folded")

    def unfold(self) -> None:
        """Show the lines."""
        self.head.action_fold(False)
        self.remove_class("folded")

    async def set_fields(self, fields: Sequence[Field], typed: Typed, afresh: bool) -> None:
        """Have these fields: a line that stays keeps its place and the focus, and shows the values as they are now."""
        had = {_key(line.fields): line for line in self._lines}
        wanted = [had.get(_key(of)) or _line(of) for of in _groups(fields)]
        for line in self._lines:
            if line not in wanted:
                await line.remove()
        before: FieldLine | None = None
        for line, of in zip(wanted, _groups(fields), strict=True):
            if line in self._lines:
                await line.set_fields(of, typed, afresh)
            elif before is None:
                await self._body.mount(line, before=0 if self._body.children else None)
            else:
                await self._body.mount(line, after=before)
            before = line
        self._lines = wanted


class JobForm(VerticalScroll, can_focus=False, inherit_bindings=False):
    """All parts of a form. `show` brings it up to date; fields that come or go are put in place, the focus stays."""

    DEFAULT_CSS = """
    JobForm { width: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    """

    class Edited(Message):
        """A value was typed or chosen."""

        def __init__(self, path: nodes.Path, value: str) -> None:
            super().__init__()
            self.path, self.value = path, value

    class Wanted(Message):
        """The list of a field is wanted: of a choice, or of what can be picked."""

        def __init__(self, field: Field) -> None:
            super().__init__()
            self.field = field

    def __init__(self, fields: Sequence[Field], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sections: dict[str, FormSection] = {
            title: FormSection(title, of, title == "Name" or (title == "Limits" and len(of) == 1))
            for title, of in _parts(fields).items()
        }

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from self._sections.values()

    # What the owner asks

    @property
    def lines(self) -> list[FieldLine]:
        """The lines of all parts."""
        return [line for section in self._sections.values() for line in section.lines]

    def editor(self, *path: str | int) -> Widget:
        """The widget which changes a value. Raises NoMatches where the form has none."""
        return self.line_of(path).editors[path]

    def line_of(self, path: nodes.Path) -> FieldLine:
        """The line of a field. Raises NoMatches where the form has none."""
        for line in self.lines:
            if path in line.editors:
                return line
        raise NoMatches(f"no field {'.'.join(map(str, path))}")

    def section(self, title: str) -> FormSection:
        """A part by its title."""
        return self._sections[title]

    def focused_field(self) -> Field | None:
        """The field that has the focus."""
        focused = self.screen.focused
        for line in self.lines:
            path = line.path_of(focused) if focused is not None else None
            if path is not None:
                return next(field for field in line.fields if field.path == path)
        return None

    def go_to(self, path: nodes.Path) -> bool:
        """Put the focus on a field, unfolding its part; False where there is none."""
        for section in self._sections.values():
            for line in section.lines:
                if path in line.editors:
                    section.unfold()
                    editor = line.editors[path]
                    self.call_after_refresh(editor.focus)
                    return True
        return False

    def next_section(self, step: int) -> None:
        """Put the focus on the heading of the next part, or the one before."""
        heads = [section.head for section in self._sections.values()]
        at = next((n for n, s in enumerate(self._sections.values()) if self.screen.focused in s.walk_children()), 0)
        heads[(at + step) % len(heads)].focus()

    # What the owner tells

    async def set_fields(self, fields: Sequence[Field], typed: Typed, afresh: bool) -> None:
        """Have these fields. Typing goes on meanwhile: `typed` tells what stands in a field but not in the file yet.

        The line that is being typed in keeps what it holds, except `afresh`, when another file has come.
        """
        had = self.focused_field()
        for title, of in _parts(fields).items():
            section = self._sections.get(title)
            if section is None:
                after = [t for t in self._sections if SECTIONS.index(t) < SECTIONS.index(title)]
                section = self._sections[title] = FormSection(title, of, False)
                await self.mount(section, after=self._sections[after[-1]] if after else None)
                self._sections = {t: self._sections[t] for t in SECTIONS if t in self._sections}
            else:
                await section.set_fields(of, typed, afresh)
        for title in [t for t in self._sections if t not in _parts(fields)]:
            await self._sections.pop(title).remove()
        if had is not None and self.screen.focused is None:
            self.go_to(had.path)

    def show(
        self,
        fields: Sequence[Field],
        faults: Sequence[Fault],
        changed: frozenset[nodes.Path],
        told: Mapping[nodes.Path, str],
        spaces: Mapping[str, SpaceLook],
    ) -> None:
        """Show how the values are read, and the faults at their fields."""
        now = {field.path: field for field in fields}
        at: dict[nodes.Path, list[Fault]] = {}
        for fault in faults:
            place = field_of(fault.place, now)
            if place is not None:
                at.setdefault(place, []).append(fault)
        for section in self._sections.values():
            found: list[Fault] = []
            for line in section.lines:
                its = [now.get(field.path, field) for field in line.fields]
                wrong = [fault for field in its for fault in at.get(field.path, ())]
                found += wrong
                mine = frozenset(field.path for field in its) & changed
                line.show(its, wrong, mine, told.get(line.field.path, ""))
                if isinstance(line, SpaceEditor):
                    line.show_look(spaces.get(line.field.group))
            worst = min((fault.severity for fault in found), key=_GRADES.index, default="")
            section.head.show(_summary(section), worst)

    # Messages

    def on_field_line_edited(self, event: FieldLine.Edited) -> None:
        """Tell the owner."""
        event.stop()
        self.post_message(self.Edited(event.path, event.value))

    def on_choice_opened(self, event: Choice.Opened) -> None:
        """Tell the owner that the list is wanted."""
        event.stop()
        for line in self.lines:
            path = line.path_of(event.choice)
            if path is not None:
                self.post_message(self.Wanted(next(field for field in line.fields if field.path == path)))


def _parts(fields: Sequence[Field]) -> dict[str, list[Field]]:
    return {title: found for title in SECTIONS if (found := [field for field in fields if field.section == title])}


def _groups(fields: Sequence[Field]) -> list[list[Field]]:
    """The fields of each line: those of one search space share theirs."""
    made: list[list[Field]] = []
    for field in fields:
        if field.group and made and made[-1][0].group == field.group:
            made[-1].append(field)
        else:
            made.append([field])
    return made


def _line(fields: list[Field]) -> FieldLine:
    return SpaceEditor(fields) if fields[0].group else FieldLine(fields)


def _key(fields: Sequence[Field]) -> tuple[object, ...]:
    """What a line is known by: one whose editor would be of another kind is another line."""
    first = fields[0]
    return first.path, first.kind in ("choice", "flag") and first.kind, first.choices, bool(first.fixed)


def _summary(section: FormSection) -> str:
    """What a folded part holds."""
    said = []
    for line in section.lines:
        for path, field in zip(line.editors, line.fields, strict=True):
            value = line.value(path)
            if value and value != OFF:
                said.append(f"{field.label} {value}")
    return " · ".join(said) or "nothing set"
