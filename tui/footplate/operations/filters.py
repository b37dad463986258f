"""The filter expression of lists and commands: words, `!word`, and `status:failed,running`."""

from __future__ import annotations

from dataclasses import dataclass

_STATUS_FIELDS = ("status", "state")


@dataclass(frozen=True)
class Filter:
    """An expression, parsed: all of its terms must hold; upper and lower case are the same.

    A word must occur in the text; a `!word` must not. `status:failed,running` (or `state:…`) holds where the status begins
    with one of the names, `!status:…` where it begins with none. `error` is a sentence on the first term that says nothing
    (which is passed over, as while it is still being typed), else empty.
    """

    words: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    statuses: tuple[tuple[str, ...], ...] = ()
    other_statuses: tuple[str, ...] = ()
    error: str = ""

    @classmethod
    def parse(cls, expression: str) -> Filter:
        """Read an expression; never raises."""
        words: list[str] = []
        absent: list[str] = []
        statuses: list[tuple[str, ...]] = []
        others: list[str] = []
        error = ""
        for written in expression.split():
            negated, term = written.startswith("!"), written.lower().removeprefix("!")
            field, colon, listed = term.partition(":")
            if colon and field in _STATUS_FIELDS:
                names = tuple(name for name in listed.split(",") if name)
                if not names:
                    error = error or f"{written!r} names no status; write it as in {field}:failed,running."
                elif negated:
                    others.extend(names)
                else:
                    statuses.append(names)
            elif not term:
                error = error or "'!' stands before the word that must not occur, as in !birds."
            else:
                (absent if negated else words).append(term)
        return cls(tuple(words), tuple(absent), tuple(statuses), tuple(others), error)

    def passes(self, text: str, status: str) -> bool:
        """Whether something with this text and this status is kept."""
        status = status.lower()
        if not all(status.startswith(names) for names in self.statuses) or (
            self.other_statuses and status.startswith(self.other_statuses)
        ):
            return False
        text = text.lower()
        return all(word in text for word in self.words) and not any(word in text for word in self.absent)
