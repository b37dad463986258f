"""Write docs/sweeps.md from the table of the rules by which sweeps run here: `python docs/make_sweeps.py`."""

from __future__ import annotations

from pathlib import Path

from footplate.local.sweep.rules import RULES

PAGE = Path(__file__).with_name("sweeps.md")

HEAD = """\
<!-- Made by docs/make_sweeps.py; change the table, not this page. -->

# Sweeps on this machine

The local workspace runs sweep jobs by Azure's rules where Azure documents them (how-to-tune-hyperparameters,
reference-yaml-job-sweep), and by these where it does not. `user_logs/sweep.log` of a sweep states those that it runs by, and
then says each decision in a line: a trial started with its values, the best changed, a trial stopped with the figures.
"""


def page() -> str:
    """The page's text."""
    rows = [f"| {topic} | {rule.replace('|', chr(92) + '|')} |" for topic, rule in RULES.items()]
    return "\n".join([HEAD, "| what | the rule |", "| --- | --- |", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(RULES)} rules")
