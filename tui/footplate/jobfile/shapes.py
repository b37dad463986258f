"""Shapes of a file's parts: what may stand where. Each checks a value and reports every fault with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from footplate.jobfile import nodes
from footplate.jobfile.faults import Report, Severity, known_names, nearest
from footplate.jobfile.scalar_shapes import (
    CODES,
    Anything,
    Flag,
    Number,
    Scalar,
    Shape,
    Text,
    Whole,
    as_number,
    called,
    is_bound,
    shortened,
    snake,
)

__all__ = [
    "CODES",
    "Anything",
    "By",
    "Either",
    "Flag",
    "Items",
    "Keys",
    "Number",
    "Scalar",
    "Shape",
    "Table",
    "Text",
    "Whole",
    "as_number",
    "called",
    "is_bound",
    "shortened",
    "snake",
]


@dataclass(frozen=True)
class Items(Shape):
    """A list of at least `least` items, all of one shape."""

    item: Shape
    wanted: str = "a list"
    least: int = 0
    null: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if not isinstance(value, Sequence) or isinstance(value, str):
            self._wrong(value, place, report, "Write it as a list: [a, b].")
            return
        if len(value) < self.least:
            report.add("out-of-range", place, f"`{place[-1]}` is an empty list.", "Give at least one value.")
        for index, item in enumerate(value):
            self.item.check(item, (*place, index), report)


@dataclass(frozen=True)
class Table(Shape):
    """Keys of the user's own with values of one shape. `name` may judge a key: it returns a sentence, or nothing."""

    value: Shape
    wanted: str = "keys and values"
    name: Callable[[str], str] | None = None
    null: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if not isinstance(value, Mapping):
            self._wrong(value, place, report, "Write one `key: value` a line, indented below it.")
            return
        for key, item in value.items():
            if self.name and (fault := self.name(str(key))):
                report.add("wrong-value", (*place, str(key)), fault, key=True)
            self.value.check(item, (*place, str(key)), report)


@dataclass(frozen=True)
class Keys(Shape):
    """A mapping with known keys. `title` names it in messages (`a command job`); `advice` says more of some unknown keys.

    `read_only` are keys that Azure writes into what it shows and leaves out when it reads. `unknown` is how grave an
    unknown key is: a warning where Azure's client takes any, `off` where not all keys are known here.
    """

    title: str
    keys: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    advice: Mapping[str, str] = field(default_factory=dict)
    null: bool = False
    read_only: tuple[str, ...] = ()
    unknown: Literal["error", "warning", "off"] = "error"

    @property
    def wanted(self) -> str:  # type: ignore[override]
        """`keys and values`, with what they make."""
        return f"the keys of {self.title}"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if not isinstance(value, Mapping):
            self._wrong(value, place, report, f"Its keys: {known_names(k for k in self.keys if k[0] != '$')}.")
            return
        present = {str(key) for key in value}
        misspelt: set[str] = set()
        for key, item in value.items():
            name = str(key)
            if name in self.keys:
                if item is not None or name not in self.required:
                    self.keys[name].check(item, (*place, name), report)
            elif name in self.read_only and item is not None:
                report.add(
                    "read-only",
                    (*place, name),
                    f"`{name}` is what Azure writes; it is not read.",
                    "Remove it.",
                    key=True,
                )
            elif self.unknown != "off":
                misspelt.add(self._unknown_key(name, place, present, report))
        for name in self.required:
            if value.get(name) is None and name not in misspelt:
                _missing(name, value, self.title, place, report, "Add it.")

    def _unknown_key(self, name: str, place: nodes.Path, present: set[str], report: Report) -> str:
        """Report an unknown key; the key that was meant, where one is near and does not stand there."""
        below = self._holder(name)
        near = "" if below else nearest(name, self.keys)
        # The nearest may stand there too: then one of the two is too much.
        also, near = (near, "") if near in present else ("", near)
        hint = self.advice.get(name) or (
            f"That stands below `{below}`."
            if below
            else f"Did you mean `{near}`?"
            if near
            else f"`{also}` is there already; remove this."
            if also
            else f"Known: {known_names((k for k in self.keys if k[0] != '$'), 12)}."
        )
        message = f"`{name}` is no key of {self.title}."
        # A key that must be there and is misspelt is missing, also where Azure's client takes any others.
        needed = near in self.required
        severity: Severity | None = "warning" if self.unknown == "warning" and not needed else None
        report.add("unknown-key", (*place, name), message, hint, key=True, severity=severity, unreadable=needed)
        return near

    def _holder(self, name: str) -> str:
        """The one key below which an unknown key belongs; empty where there is none, or more than one."""
        holders = [key for key, shape in self.keys.items() if name in _keys_of(shape)]
        return holders[0] if len(holders) == 1 else ""


def _keys_of(shape: Shape) -> frozenset[str]:
    """The keys that a mapping of this shape may have."""
    if isinstance(shape, Keys):
        return frozenset(shape.keys)
    if isinstance(shape, By):
        return frozenset().union(*(_keys_of(each) for each in shape.shapes.values()))
    return frozenset()


def _missing(key: str, value: Mapping[Any, Any], title: str, place: nodes.Path, report: Report, hint: str) -> None:
    """Report a key without a value: an empty one at the key itself, an absent one at what should hold it."""
    where, said = ((*place, key), "is empty in") if key in value else (place, "is missing from")
    report.add("missing-key", where, f"`{key}` {said} {title}.", hint, key=True)


@dataclass(frozen=True)
class By(Shape):
    """A mapping whose shape depends on one of its keys, as `type`.

    `camel`: the word may be written `MedianStopping` too. `exact`: in no other letter case. `other` is the shape under a
    word that Azure's client takes without knowing it, `absent` the one without the key.
    """

    key: str
    shapes: Mapping[str, Shape]
    title: str
    default: str = ""
    null: bool = False
    camel: bool = False
    exact: bool = False
    other: Shape | None = None
    absent: Shape | None = None

    @property
    def wanted(self) -> str:  # type: ignore[override]
        """`keys and values`, with what they make."""
        return f"the keys of {self.title}"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if not isinstance(value, Mapping):
            self._wrong(value, place, report, f"It needs `{self.key}`: {known_names(self.shapes)}.")
            return
        given = value.get(self.key)
        if given is None and self.default and self.key not in value:
            given = self.default
        if given is None and self.absent is not None and self.key not in value:
            self.absent.check(value, place, report)
            return
        if given is None and (slip := self._misspelt(value)):
            message, hint = f"`{slip}` is no key of {self.title}.", f"Did you mean `{self.key}`?"
            report.add("unknown-key", (*place, slip), message, hint, key=True, unreadable=True)
            given = value[slip]
            value = {self.key: given, **{key: item for key, item in value.items() if key != slip}}
        if given is None:
            _missing(self.key, value, self.title, place, report, f"Use {known_names(self.shapes, 12)}.")
            return
        word = str(given)
        shape = self.shapes.get(snake(word) if self.camel else word if self.exact else word.lower())
        if shape is None:
            near = nearest(word, self.shapes)
            hint = f"Did you mean {near!r}?" if near else f"Use {known_names(self.shapes, 12)}."
            milder: Severity | None = "warning" if self.other else None
            message = f"{shortened(word)} is no type of {self.title}."
            report.add("wrong-value", (*place, self.key), message, hint, severity=milder)
            # The rest is judged as what was meant, where that is plain: a wrong letter case hides no other fault.
            shape = self.other or self.shapes.get(word.lower())
        if shape is not None:
            shape.check(value, place, report)

    def _misspelt(self, value: Mapping[Any, Any]) -> str:
        """The key that stands for the one which tells the shape; empty where that one is there, or none is near."""
        known = _keys_of(self)
        unknown = [str(key) for key in value if key not in known] if self.key not in value else []
        return next((key for key in unknown if nearest(key, [self.key])), "")


@dataclass(frozen=True)
class Either(Shape):
    """One shape for a scalar, one for a mapping, one for a list; None where that may not stand here."""

    scalar: Shape | None = None
    mapping: Shape | None = None
    sequence: Shape | None = None
    wanted: str = "something else"
    hint: str = ""
    null: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if isinstance(value, Mapping):
            shape = self.mapping
        elif isinstance(value, list | tuple):
            shape = self.sequence
        else:
            shape = self.scalar
        if shape is None:
            self._wrong(value, place, report, self.hint)
        else:
            shape.check(value, place, report)
