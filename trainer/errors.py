"""What ends a training with a sentence instead of a traceback."""

from __future__ import annotations


class BadInput(Exception):
    """The arguments or the data are wrong: one plain sentence that names the thing and the next step; exit code 2."""


class LostRanks(Exception):
    """Another rank could not be reached or went away: one plain sentence; exit code 1."""


class Diverged(Exception):
    """The loss is no number any more: one plain sentence; exit code 1."""


class Preempted(Exception):
    """SIGTERM came, and what was trained so far is kept: one plain sentence; exit code 143."""
