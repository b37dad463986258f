"""Run the benches: all groups, or the one named. Ends with 1 when a figure is over its budget."""

from __future__ import annotations

import sys
from importlib import import_module

from tests.bench.figures import publish

GROUPS = ("start", "table", "logs", "check", "azure", "local", "trainer", "score")
MODULES = {"score": "scoring", "trainer": "training"}
"""Modules that are not named as their group."""


def main() -> None:
    wanted = sys.argv[1:] or list(GROUPS)
    unknown = [group for group in wanted if group not in GROUPS]
    if unknown:
        sys.exit(f"There is no bench group {unknown[0]!r}; known: {', '.join(GROUPS)}.")
    results = [publish(group, import_module(f"tests.bench.{MODULES.get(group, group)}").measure()) for group in wanted]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
