"""One field of a form: its label, what it is changed with, how the value was read, and below it what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.widget import Widget
from textual.widgets import Input

from footplate.jobfile import nodes
from footplate.jobfile.faults import Fault
from footplate.jobfile.form import OFF, Field, visible
from footplate.logs.sanitise import clean
from footplate.widgets.choice import Choice
from footplate.widgets.columns import fit
from footplate.widgets.fault_list import MARKS, fault_lines
from footplate.widgets.flag import Flag

LABEL = 17
"""Cells of a label, with the sign of a changed value before it."""
_NOTE, _NARROW_NOTE, _NARROW = 20, 15, 64
"""Cells for how a value was read; fewer in a form of less than so many cells."""

Typed = Callable[[nodes.Path], str | None]
"""What was typed in a field and is not in the file yet; None for nothing."""

PICKED = ("path", "asset", "cluster")
"""Kinds of field whose value can be picked from a list."""


class ValueInput(Input):
    """A line to type a value into, whose size does not hang on what is in it: a key lays nothing out anew."""

    virtual_size = Reactive(Size(0, 0), layout=False)


class FieldLine(Widget):
    """A label, an editor, a note; the editor is a child, all else is drawn here."""

    DEFAULT_CSS = f"""
    FieldLine {{ layout: horizontal; height: auto; width: 1fr; }}
    FieldLine > .editor {{ height: 1; width: 16; margin: 0 0 0 {LABEL}; border: none; background: $panel; }}
    FieldLine > Input.editor {{ padding: 0 1; }}
    FieldLine > Input.editor:focus {{ border: none; background: $primary-muted; background-tint: transparent; }}
    FieldLine > Input.editor:disabled {{ background: $surface; color: $text-muted; opacity: 100%; }}
    """

    class Edited(Message):
        """Another value was typed or chosen."""

        def __init__(self, line: FieldLine, path: nodes.Path, value: str) -> None:
            super().__init__()
            self.line, self.path, self.value = line, path, value

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__()
        self.fields = tuple(fields)
        self.faults: tuple[Fault, ...] = ()
        self.changed: frozenset[nodes.Path] = frozenset()
        self.told = ""
        self.editors: dict[nodes.Path, Widget] = {field.path: editor_of(field) for field in self.fields}

    @property
    def field(self) -> Field:
        """The field, or the first of several."""
        return self.fields[0]

    def compose(self) -> list[Widget]:
        """The editors; the label is drawn."""
        return list(self.editors.values())

    @property
    def worst(self) -> str:
        """The gravest severity of its faults; empty for none."""
        return min((fault.severity for fault in self.faults), key=tuple(MARKS).index, default="")

    def value(self, path: nodes.Path) -> str:
        """What a field holds now."""
        return value_of(self.editors[path])

    @property
    def _note_width(self) -> int:
        return _NOTE if self.size.width >= _NARROW else _NARROW_NOTE

    def on_resize(self) -> None:
        """The editor has what label and note leave."""
        for editor in self.query_children(".editor"):
            editor.styles.width = max(10, self.size.width - LABEL - self._note_width)

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """A field that was left shows the beginning of its value."""
        if isinstance(event.widget, Input):
            event.widget.cursor_position = 0

    async def set_fields(self, fields: Sequence[Field], typed: Typed, afresh: bool) -> None:
        """Put the fields' values into the editors, where they hold others; as of the form."""
        self.fields = tuple(fields)
        for field in fields:
            editor, not_yet = self.editors[field.path], typed(field.path)
            if afresh or not (isinstance(editor, Input) and editor.has_focus):
                put_value(editor, field if not_yet is None else replace(field, value=not_yet))
        self.refresh(layout=True)

    def put(self, path: nodes.Path, value: str) -> None:
        """Show a value that was chosen elsewhere; nobody is told."""
        field = next(field for field in self.fields if field.path == path)
        put_value(self.editors[path], replace(field, value=value))

    def path_of(self, editor: Widget) -> nodes.Path | None:
        """The field that an editor changes."""
        return next((path for path, widget in self.editors.items() if widget is editor), None)

    def show(
        self, fields: Sequence[Field], faults: Sequence[Fault], changed: frozenset[nodes.Path], told: str = ""
    ) -> None:
        """Show how the values are read now, and what is wrong with them; `told` stands in place of how it was read."""
        before = (self.fields, self.faults, self.changed, self.told)
        lines = len(self._below(self.size.width)) if self.size.width else 0
        self.fields, self.faults, self.changed, self.told = tuple(fields), tuple(faults), changed, told
        if before != (self.fields, self.faults, self.changed, self.told):
            self.refresh(layout=lines != len(self._below(self.size.width)))

    # Messages of the editors become one of the line

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell what was typed."""
        event.stop()
        self._tell(event.input, event.value)

    def on_flag_changed(self, event: Flag.Changed) -> None:
        """Tell how the switch stands."""
        event.stop()
        self._tell(event.flag, "true" if event.value else "false")

    def on_choice_changed(self, event: Choice.Changed) -> None:
        """Tell what was chosen."""
        event.stop()
        self._tell(event.choice, event.value)

    def _tell(self, editor: Widget, value: str) -> None:
        path = self.path_of(editor)
        if (
            path is not None and not editor.disabled
        ):  # a new editor tells of its first value too, which is not as it stands
            self.post_message(self.Edited(self, path, value))

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One line, and those below it."""
        return 1 + len(self._below(width))

    def render(self) -> Content:
        """Label and note; the editor lies between them."""
        width = self.size.width
        mark = Content.styled("• " if self.changed else "  ", "$text-accent")
        label = Content(fit(clean(visible(self.field.label)), LABEL - 3))
        head = Content.assemble(mark, label, " " * max(1, width - LABEL - self._note_width + 1), self._note())
        return Content("\n").join([head.truncate(width), *self._below(width)])

    def _note(self) -> Content:
        field = self.field
        picked = Content.styled(" ▾", "$text-muted") if field.kind in PICKED else Content("")
        sign, style = MARKS[self.worst] if self.worst else ("", "")
        room = self._note_width - 2 - picked.cell_length - (len(sign) + 1 if sign else 0)
        if self.told or field.fixed or not (field.literal or field.surprise):
            said = Content.styled(fit(clean(self.told or field.fixed), room).rstrip(), "$text-muted")
        else:
            loud = bool(field.surprise)
            said = Content.styled(
                fit(clean(visible(field.read_as)), room).rstrip(), "$text-warning" if loud else "$text-muted"
            )
        return Content.assemble(" ", said, (f" {sign}" if sign else "", style), picked)

    def _below(self, width: int) -> list[Content]:
        """What is wrong, each in as many lines as it takes, and what surprises."""
        room = max(20, width - 4)
        lines = [line for fault in self.faults for line in fault_lines(fault, room, numbered=False)]
        if self.field.surprise and not self.faults:
            lines = [Content.styled(fit(clean(f"⚠ {self.field.surprise}"), room).rstrip(), "$text-warning")]
        return [Content.assemble("  ", line) for line in lines]


def editor_of(field: Field) -> Widget:
    """The widget that changes a field."""
    if field.kind == "choice" and not field.fixed:
        made: Widget = Choice(field.choices, field.value or (OFF if field.choices else field.hint), classes="editor")
    elif field.kind == "flag" and not field.fixed:
        made = Flag(field.value == "true", classes="editor")
    else:
        shown = visible(field.value) if field.fixed else field.value
        made = ValueInput(shown, placeholder=clean(field.hint), disabled=bool(field.fixed), classes="editor")
        made.cursor_blink = False
        made.cursor_position = 0
    return made


def put_value(editor: Widget, field: Field) -> None:
    """Show a field's value in its editor; nobody is told."""
    if isinstance(editor, Choice):
        editor.show(field.value or OFF if field.choices else field.value or field.hint)
    elif isinstance(editor, Flag):
        editor.value = field.value == "true"
        editor.refresh()
    elif isinstance(editor, Input):
        editor.placeholder = clean(field.hint)
        shown = visible(field.value) if field.fixed else field.value
        if editor.value != shown:
            with editor.prevent(Input.Changed):
                editor.value = shown


def value_of(editor: Widget) -> str:
    """The value that an editor holds, as it would be typed."""
    if isinstance(editor, Flag):
        return "true" if editor.value else "false"
    assert isinstance(editor, Choice | Input)
    return editor.value
