"""Write docs/checks.md from the codes of `footplate check`: `python docs/make_checks.py`."""

from __future__ import annotations

from pathlib import Path

from footplate.jobfile.check import CODES
from footplate.jobfile.faults import Code

PAGE = Path(__file__).with_name("checks.md")
SEVERITIES = ("error", "warning", "note")
ASKED = {
    "workspace": "Found against a workspace: with `--workspace NAME`, and at every launch.",
    "files": "Depends on the files beside this one.",
}

HEAD = """\
<!-- Made by docs/make_checks.py; change the codes, not this page. -->

# What `footplate check` finds

    footplate check FILE...

reads job, sweep, pipeline, component, endpoint, deployment and cluster files and lists every fault at once: where it is, what
is wrong, what to write, and the code in brackets. The exit code is 2 where there is an error, else 0. With `--json` it prints a
list of `{file, line, column, path, severity, code, message, hint}`; line and column count from 1.

An **error** stops a launch unless `--force` is given; a **warning** and a **note** never do. With `--workspace NAME` the
file is also checked against what that workspace has; a launch always does that.

The settings can change what a code counts as (`off` leaves it out):

    [check.severities]
    unused = "off"
    fixed-name = "error"

A file whose shape is faulty cannot be launched, whatever the settings say.

In the examples `# here` marks the line that the fault points at; `# next line` stands above it.
"""


def page(codes: tuple[Code, ...] = tuple(CODES.values())) -> str:
    """The page's text."""
    parts = [HEAD, "| code | severity | meaning |", "| --- | --- | --- |"]
    ordered = sorted(codes, key=lambda code: (SEVERITIES.index(code.severity), code.id))
    parts += [f"| [`{code.id}`](#{code.id}) | {code.severity} | {_cell(code.meaning)} |" for code in ordered]
    for code in ordered:
        parts += ["", f"## {code.id}", "", f"{code.severity.capitalize()}. {code.meaning}"]
        if code.needs:
            parts += ["", ASKED[code.needs]]
        if code.example:
            parts += ["", "```yaml", code.example.rstrip("\n"), "```"]
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(CODES)} codes")
