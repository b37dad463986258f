"""The errors of a workspace: one plain sentence, the next step, and the raw text behind them."""

from __future__ import annotations


class WorkspaceError(Exception):
    """Anything a workspace could not do.

    `sentence` says what happened to what, `next_step` what to do now, `raw` what the service or the system said;
    `exit_code` is what a command ends with (1 failed, 2 wrong input, 3 try again, 4 not signed in or not allowed).
    """

    exit_code = 1

    def __init__(self, sentence: str, next_step: str = "", raw: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.next_step = next_step
        self.raw = raw

    def __str__(self) -> str:
        return f"{self.sentence} {self.next_step}".strip()


class NotSignedIn(WorkspaceError):
    """No valid sign-in."""

    exit_code = 4


class NotAllowed(WorkspaceError):
    """Signed in, without the right to do this, or the workspace is read-only."""

    exit_code = 4


class NotFound(WorkspaceError):
    """No object of that name."""

    exit_code = 2


class Invalid(WorkspaceError):
    """The input is wrong; nothing was changed."""

    exit_code = 2


class Unnamed(Invalid):
    """Nothing says which Azure ML workspace `workspace` of the settings is: it can be chosen from a list."""

    def __init__(self, sentence: str, next_step: str = "", raw: str = "", *, workspace: str) -> None:
        super().__init__(sentence, next_step, raw)
        self.workspace = workspace


class Conflict(WorkspaceError):
    """The object is not in a state that allows this, or somebody else changed it."""


class QuotaExceeded(WorkspaceError):
    """More was asked for than there can be."""


class Throttled(WorkspaceError):
    """Too many requests; `retry_after` is in seconds."""

    exit_code = 3

    def __init__(self, sentence: str, next_step: str = "", raw: str = "", *, retry_after: float = 1.0) -> None:
        super().__init__(sentence, next_step, raw)
        self.retry_after = retry_after


class Unreachable(WorkspaceError):
    """The service, or a process of the local workspace, does not answer."""

    exit_code = 3


class Unexpected(WorkspaceError):
    """A fault nobody foresaw; `raw` has what there is."""
