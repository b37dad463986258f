"""Write docs/differences.md from the table of what differs on Azure: `python docs/make_differences.py`."""

from __future__ import annotations

from pathlib import Path

from footplate.local.differences import TABLE, Row

PAGE = Path(__file__).with_name("differences.md")

HEAD = """\
<!-- Made by docs/make_differences.py; change the table, not this page. -->

# What differs on Azure

The local workspace runs the same files by the same rules. These are the things that it does otherwise; a launch and a
deployment show the rows that apply to the file at hand.
"""

PARTS = (
    ("Jobs", ("command", "sweep", "pipeline")),
    ("Deployments and endpoints", ("deployment", "endpoint")),
)


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for title, kinds in PARTS:
        parts += [f"## {title}\n", "| topic | here | on Azure | files with |", "| --- | --- | --- | --- |"]
        parts += [
            f"| {row.topic} | {row.here} | {row.azure} | {_where(row)} |"
            for row in TABLE
            if set(row.kinds) & set(kinds)
        ]
        parts.append("")
    return "\n".join(parts)


def _where(row: Row) -> str:
    if row.unless:
        return f"no `{row.unless}`"
    kinds = ", ".join(row.kinds)
    return f"{kinds}: " + ", ".join(f"`{key}`" for key in row.keys) if row.keys else f"{kinds}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(TABLE)} rows")
