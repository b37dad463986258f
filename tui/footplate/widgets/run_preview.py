"""What will run, beside the form: command, ranks, inputs, upload, and the file as it will be submitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from footplate import words
from footplate.jobfile.changes import MarkedLine
from footplate.jobfile.plan import visible_lines
from footplate.logs.sanitise import clean
from footplate.operations.outlook import Outlook
from footplate.widgets.columns import fit
from footplate.workspace import Contrast

_HEAD = "bold $text-accent"
_MUTED = "$text-muted"
_LABEL = 15
_TOPIC = 20  # the longest: early termination
_MOST_RANKS = 8
_MOST_CHARACTERS = 4000
"""Of one line: a command of a megabyte is no help to look at."""


class RunPreview(ScrollView, can_focus=False):
    """The text of one `Outlook`, line by line: only lines in sight are drawn, and again only where they changed."""

    DEFAULT_CSS = """
    RunPreview { height: 1fr; width: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines = [Content.styled("reading …", _MUTED)]

    @property
    def room(self) -> int:
        """The cells that a line of the text can have beside the scroll bar."""
        return self.outer_size.width - 4

    @property
    def text(self) -> str:
        """All of the text, without its colours."""
        return "\n".join(line.plain for line in self._lines)

    def show(self, text: Content) -> None:
        """Show a text that was made elsewhere; where one has scrolled to stays."""
        before, self._lines = self._lines, text.split("\n", allow_blank=True)
        if len(before) != len(self._lines):
            self.virtual_size = Size(0, len(self._lines))
        width, top = self.size.width, self.scroll_offset.y
        for y in range(top, min(top + self.size.height, max(len(before), len(self._lines)))):
            if before[y : y + 1] != self._lines[y : y + 1] or before[y].spans != self._lines[y].spans:
                self.refresh(Region(0, y - top, width, 1))

    def on_mount(self) -> None:
        """What it says before anything is known has a height too."""
        self.virtual_size = Size(0, len(self._lines))

    def render_line(self, y: int) -> Strip:
        """One line of the text."""
        width, at = self.size.width, y + self.scroll_offset.y
        if not 0 <= at < len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[at].truncate(width, ellipsis=True)
        return Visual.to_strips(self, line, width, 1, self.visual_style)[0]


def preview(
    outlook: Outlook, stand_in: bool, width: int, most_lines: int = 400, contrasts: Sequence[Contrast] = ()
) -> Content:
    """All that is known of what will run, for lines of `width` cells.

    With `stand_in`, this machine's Python stands for the environment. Of the file at most `most_lines` are shown.
    `contrasts` are what would be otherwise on Azure.
    """
    parts = (
        _command(outlook),
        _differences(outlook),
        _ranks(outlook),
        _inputs(outlook),
        _taken(outlook, stand_in),
        _contrasted(contrasts),
        _yaml(outlook, most_lines),
    )
    blocks = [Content("\n").join(_hung(rows, max(30, width))) for part in parts if (rows := list(part))]
    return Content("\n\n").join(blocks)


class _Row(NamedTuple):
    """A line of text and what stands before it; where it breaks, it goes on below its own beginning."""

    before: Content
    text: Content


def _hung(rows: list[_Row], width: int) -> list[Content]:
    lines = []
    for row in rows:
        indent = row.before.cell_length
        wrapped = row.text.wrap(max(16, width - indent)) or [Content("")]
        lines += [row.before + wrapped[0], *(Content(" " * indent) + line for line in wrapped[1:])]
    return lines


def _command(outlook: Outlook) -> Iterator[_Row]:
    made, job_file = outlook.plan, outlook.job_file
    if job_file.kind == "pipeline":
        yield _head("What will run", f"{len(job_file.mapping('jobs'))} steps")
        for name, step in job_file.mapping("jobs").items():
            yield _labelled(name, str(step.get("type", "")) if isinstance(step, dict) else "")
        return
    size = words.ranks(made.nodes, made.ranks_per_node) if made else ""
    if made and made.distribution == "tensorflow":
        size = f"{made.workers} workers, {made.parameter_servers} parameter servers"
    total = job_file.whole("limits", "max_total_trials", default=0)
    if made and job_file.kind == "sweep" and total:
        size = f"{total} trial{'s' * (total != 1)}, each {size}"
    yield _head("What will run", size)
    if outlook.plan_fault:
        yield _Row(
            Content.styled("✗ ", "$text-error"), _styled(f"This cannot run. {outlook.plan_fault}", "$text-error")
        )
    command = made.command if made else job_file.command
    yield from _shell(command)
    for trial in outlook.trials[:1]:
        yield _Row(Content(""), Content(""))
        values = "  ".join(f"{name}={_short(value)}" for name, value in trial.values.items())
        yield _labelled("a trial", f"for example {values}")
        yield from _shell(trial.plan.command)


def _short(value: str) -> str:
    """A drawn number with as many digits as say something: the command below has them all."""
    try:
        return words.number(float(value)) if len(value) > 8 else value
    except ValueError:
        return value


def _shell(command: str) -> Iterator[_Row]:
    """A command's lines, with what cannot be seen; `⏎` is where a line really ends."""
    for line in visible_lines(command.rstrip("\n")) if command.strip() else ():
        text = clean(_cut(line))
        broken = text.endswith("⏎")
        shown = Content.assemble(text.removesuffix("⏎"), (" ⏎" if broken else "", _MUTED))
        yield _Row(Content("  "), shown)


def _differences(outlook: Outlook) -> Iterator[_Row]:
    if outlook.differences:
        yield _head("Differences to the job it was cloned from", "")
    for one in outlook.differences[:40]:
        before, after = ("nothing" if v is None else clean(_cut(v)) for v in (one.before, one.after))
        text = Content.assemble((before, _MUTED), (" → ", _MUTED), (after, "$text-warning"))
        yield _Row(Content(f"  {clean(one.path)}  "), text)
    if len(outlook.differences) > 40:
        yield _Row(Content("  "), _styled(f"… and {len(outlook.differences) - 40} more", _MUTED))


def _ranks(outlook: Outlook) -> Iterator[_Row]:
    made = outlook.plan
    if made is None:
        return
    ranks = made.ranks()
    first = ranks[0].environment
    shared = {k: v for k, v in first.items() if all(rank.environment.get(k) == v for rank in ranks)}
    if shared:
        yield _labelled("every rank", "  ".join(f"{k}={v}" for k, v in shared.items()))
    for rank in ranks[:_MOST_RANKS] if len(ranks) > 1 else ():
        own = "  ".join(f"{k}={v}" for k, v in rank.environment.items() if k not in shared)
        yield _labelled(f"rank {rank.rank}", f"{f'{rank.role}  ' if rank.role else ''}{own or f'node {rank.node}'}")
    if len(ranks) > _MOST_RANKS:
        yield _labelled("", f"… and {len(ranks) - _MOST_RANKS} ranks more", _MUTED)
    if not made.distribution and made.nodes > 1:
        yield _labelled("", "Without a distribution no rank variables are set.", "$text-warning")
    if outlook.trials:
        names = [name for name in outlook.trials[0].plan.environment_variables if name.startswith("AZUREML_SWEEP_")]
        yield _labelled("every trial", " ".join(names))


def _inputs(outlook: Outlook) -> Iterator[_Row]:
    for given in outlook.inputs:
        if given["mode"]:
            yield _labelled(given["name"], f"{given['value']}  {given['type']}, {given['how']}")


def _contrasted(contrasts: Sequence[Contrast]) -> Iterator[_Row]:
    """What the job does otherwise than on Azure: there, and here."""
    if contrasts:
        yield _head("On Azure this would differ", "")
    for one in contrasts:
        yield _labelled(one.topic, one.azure, width=_TOPIC)
        yield _Row(Content(" " * (_TOPIC + 2)), _styled(f"here: {one.here}", _MUTED))


def _taken(outlook: Outlook, stand_in: bool) -> Iterator[_Row]:
    upload, job_file = outlook.upload, outlook.job_file
    if job_file.kind not in ("command", "sweep"):
        return
    if outlook.upload_fault:
        yield _labelled("upload", f"✗ {outlook.upload_fault}", "$text-error")
    elif upload is not None and outlook.code is not None:
        by = f"{upload.ignored_by} leaves {upload.ignored_count} behind" if upload.ignored_by else "no ignore file"
        more = "more than " if upload.more else ""
        files = f"{len(upload.files)} file{'s' * (len(upload.files) != 1)}"
        yield _labelled("upload", f"{more}{files}, {words.size(upload.bytes)}   {by}")
        yield _labelled("", f"from {words.path(outlook.code)}", _MUTED)
        if len(upload.largest) > 1 or upload.bytes > 1_000_000:
            largest = "  ".join(f"{path} {words.size(size)}" for path, size in upload.largest[:3])
            yield _labelled("", f"largest: {largest}", _MUTED)
        for one in upload.ignored[:3]:
            yield _labelled("", f"left behind: {one.path} by {one.rule} ({one.where})", _MUTED)
        for link in upload.links_to_nothing[:3]:
            yield _labelled("", f"a link to nothing: {link}", "$text-warning")
        for note in upload.notes[:3]:
            yield _labelled("", note, "$text-warning")
    else:
        elsewhere = job_file.text_at(*job_file.body, "code")
        yield _labelled(
            "upload", f"nothing: its code is {elsewhere}" if elsewhere else "nothing: the file names no code"
        )
    yield _labelled("environment", job_file.environment.removeprefix("azureml://registries/"))
    if stand_in:
        yield _labelled("", "this machine's Python stands in for it", _MUTED)


def _yaml(outlook: Outlook, most_lines: int) -> Iterator[_Row]:
    changed = sum(line.state != "same" for line in outlook.lines)
    said = f"{changed} line{'s' * (changed != 1)} changed" if changed else "unchanged"
    yield _head("As it will be submitted", said)
    # With a long file the lines that changed come first into sight.
    first = next((n for n, line in enumerate(outlook.lines) if line.state != "same"), 0)
    first = max(0, first - 3) if len(outlook.lines) > most_lines else 0
    if first:
        yield _Row(Content("      "), _styled(f"… {first} lines before", _MUTED))
    for line in outlook.lines[first : first + most_lines]:
        yield from _marked(line)
    if len(outlook.lines) > first + most_lines:
        yield _Row(Content("      "), _styled(f"… and {len(outlook.lines) - first - most_lines} lines more", _MUTED))


def _marked(line: MarkedLine) -> Iterator[_Row]:
    """A line of the file: its number, a sign where it changed, and the changed characters underlined."""
    for gone in line.before if line.state in ("removed", "changed") else ():
        yield _Row(Content.styled("    - ", "$text-error"), _styled(_cut(gone), _MUTED))
    if line.state == "removed":
        return
    number = Content.styled(f"{line.number:>3} ", _MUTED)
    if line.state == "same":
        yield _Row(number + Content("  "), _styled(_cut(line.text), _MUTED))
        return
    parts: list[tuple[str, str]] = []
    at = 0
    text = _cut(line.text)
    for start, end in line.spans:
        parts += [(clean(text[at:start]), "$foreground"), (clean(text[start:end]), "bold underline $text-warning")]
        at = end
    parts.append((clean(text[at:]), "$foreground"))
    sign = Content.styled("+ ", "$text-success")
    yield _Row(number + sign, Content.assemble(*(part for part in parts if part[0])))


def _head(title: str, said: str) -> _Row:
    return _Row(
        Content(""), Content.assemble((title, _HEAD), (f"   {clean(said)}", _MUTED if not said else "$foreground"))
    )


def _labelled(label: str, text: str, style: str = "$foreground", width: int = _LABEL) -> _Row:
    return _Row(Content.styled(fit(f"  {clean(label)}", width - 1) + " ", _MUTED), _styled(_cut(text), style))


def _styled(text: str, style: str) -> Content:
    return Content.styled(clean(text), style)


def _cut(text: str) -> str:
    return (
        text
        if len(text) <= _MOST_CHARACTERS
        else f"{text[:_MOST_CHARACTERS]}… {len(text) - _MOST_CHARACTERS} characters more"
    )
