"""How bash will read a command: what is quoted where, and where its lines end. Nothing is run and nothing is expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from footplate.jobfile.expressions import EXPRESSION

_HEREDOC = re.compile(r"<<-?\s*[\"'\\]?[A-Za-z_]")
_LONG = 1000
"""Only the beginning and the end of a long simple command are kept."""
_PLAIN = re.compile(r"[^\\'\"`()#;&|<>\n$]+")
_RUNS = {
    "": _PLAIN,
    "(": _PLAIN,
    "`": _PLAIN,
    "$": _PLAIN,
    "'": re.compile(r"[^']+"),
    "$'": re.compile(r"[^'\\]+"),
    '"': re.compile(r"[^\"\\`$]+"),
    "#": re.compile(r"[^\n]+"),
}
"""What can neither open nor close anything, by what is open."""
_SEPARATORS = ";&|\n()"


@dataclass(frozen=True)
class Reading:
    """One character, and how bash takes it: `quoting` is `'`, `"`, `#` for a comment, or empty for plain text."""

    character: str
    quoting: str
    escaped: bool
    starts_word: bool


@dataclass
class Reader:
    """Reads a command piece by piece and knows how the next character will be taken.

    `open` holds what is open, innermost last: quotes, `$'`, backticks, `$(`, `(`, and `#` for a comment.
    """

    open: list[str] = field(default_factory=list)
    escaped: bool = False
    starts_word: bool = True
    started_word: bool = True  # the same, before the character that was read last
    head: str = ""  # the simple command so far, to tell what the next word belongs to

    def copy(self) -> Reader:
        """A reader that stands at the same place and goes its own way."""
        return replace(self, open=list(self.open))

    @property
    def quoting(self) -> str:
        """How the next character is quoted: `'`, `"`, `#` for a comment, or empty."""
        innermost = self.open[-1] if self.open else ""
        return "'" if innermost == "$'" else innermost if innermost in ("'", '"', "#") else ""

    def feed(self, text: str) -> list[Reading]:
        """Read on, character by character."""
        return [self._read(text[at], text[at - 1 : at], text[at + 1 : at + 2]) for at in range(len(text))]

    def advance(self, text: str) -> Iterator[int]:
        """Read on, a run of ordinary characters at a time; gives where each character stands that may open or close."""
        at = 0
        while at < len(text):
            run = None if self.escaped else _RUNS[self.open[-1] if self.open else ""].match(text, at)
            if run is None:
                self._read(text[at], text[at - 1 : at], text[at + 1 : at + 2])
                yield at
                at += 1
                continue
            plain = self.quoting == ""
            before = run[0][-2] in " \t" if len(run[0]) > 1 else self.starts_word
            self.started_word, self.starts_word = plain and before, plain and run[0][-1] in " \t"
            self._remember(run[0])
            at = run.end()

    def read(self, text: str) -> None:
        """Read on."""
        for _ in self.advance(text):
            pass

    def skip(self, text: str) -> None:
        """Pass over text of unknown content that is taken as part of a word."""
        self._remember(text)
        self.escaped = self.starts_word = False

    def _remember(self, text: str) -> None:
        self.head += text
        if len(self.head) > _LONG:
            self.head = self.head[: _LONG // 4] + self.head[-_LONG // 4 :]

    def _read(self, character: str, before: str, after: str) -> Reading:
        reading = Reading(character, self.quoting, self.escaped, self.starts_word)
        if self.escaped:
            self.escaped = False
            # A backslash at a line's end is nothing at all: what it stood before begins a word where it did.
            self.starts_word = character == "\n" and self.started_word
            self._remember(character)
            return reading
        self.started_word = self.starts_word
        innermost = self.open[-1] if self.open else ""
        if innermost == "'":
            self._close_at(character, "'")
        elif innermost == "$'":
            self.escaped = character == "\\"
            self._close_at(character, "'")
        elif innermost == "#":
            self._close_at(character, "\n")
        elif innermost == '"':
            self.escaped = character == "\\"
            self._close_at(character, '"')
            if character == "`" or (character == "$" and after == "("):
                self.open.append("`" if character == "`" else "$")
        else:
            self._plain(character, before, innermost)
        plain = self.quoting == "" and reading.quoting == ""
        self.starts_word = (plain and character in " \t" + _SEPARATORS + "<>") or (
            innermost == "#" and character == "\n"
        )
        if self.starts_word and character in _SEPARATORS:
            self.head = ""
        else:
            self._remember(character)
        return reading

    def _plain(self, character: str, before: str, innermost: str) -> None:
        if character == "\\":
            self.escaped = True
        elif character == "'":
            self.open.append("$'" if before == "$" else "'")
        elif character == '"':
            self.open.append('"')
        elif character == "`":
            if "`" in self.open:  # the first backtick ends what one began, whatever is open inside
                del self.open[len(self.open) - 1 - self.open[::-1].index("`") :]
            else:
                self.open.append("`")
        elif character == "(":
            if innermost == "$":  # the `$` of `$(` inside double quotes
                self.open[-1] = "("
            else:
                self.open.append("(")
        elif character == ")" and innermost == "(":
            self.open.pop()
        elif character == "#" and self.starts_word:
            self.open.append("#")

    def _close_at(self, character: str, end: str) -> None:
        if character == end:
            self.open.pop()


@dataclass(frozen=True)
class Line:
    """One line of a command. `inside` says that a quote or bracket was open where it begins, `continued` that the line
    before ended in a backslash."""

    text: str
    inside: bool
    continued: bool


def is_certain(command: str) -> bool:
    """Whether the reading can be relied on: here-documents have rules of their own."""
    return not _HEREDOC.search(command.replace("<<<", ""))


def inert(command: str) -> str:
    """The command with every `${{…}}` as plain letters of the same length."""
    return EXPRESSION.sub(lambda match: "x" * len(match[0]), command)


def lines(command: str) -> Iterator[Line]:
    """The lines as bash gets them."""
    reader = Reader()
    continued = False
    for text, letters in zip(command.split("\n"), inert(command).split("\n"), strict=True):
        yield Line(text, bool(reader.open) and reader.open != ["#"], continued)
        reader.read(letters)
        continued = reader.escaped and reader.quoting == ""
        reader.read("\n")


def left_open(command: str) -> int | None:
    """Where the quote stands that is never closed; None where all are."""
    reader = Reader()
    opened: list[int] = []
    for index in reader.advance(inert(command)):
        del opened[len(reader.open) :]
        opened += [index] * (len(reader.open) - len(opened))
    return next((at for mark, at in zip(reader.open, opened, strict=True) if mark not in ("(", "$", "#")), None)


def simple_commands(command: str) -> Iterator[str]:
    """Each simple command of a command line, without what stands in quotes or comments, and without the assignments and
    words (`exec`, `time`, `then`) that may stand before it."""
    reader = Reader()
    text = ""
    for reading in reader.feed(inert(command)):
        plain = reading.quoting == "" and not reading.escaped
        if plain and reading.character in _SEPARATORS:
            yield _bare(text)
            text = ""
        elif reading.quoting != "#" and not (reading.escaped and reading.character == "\n"):
            # What is quoted is part of a word, but its blanks part no words.
            text += reading.character if plain else "x"
    yield _bare(text)


_BEFORE = re.compile(r"^(?:(?:[A-Za-z_]\w*=\S*|exec|time|nohup|env|sudo|then|do|else|if|!|\{)\s+)+")


def _bare(text: str) -> str:
    return _BEFORE.sub("", text.replace("\\", " ").strip() + " ").strip()
