"""What every command shares: its common options, where its words go, and how it ends."""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar

import click

from footplate import settings
from footplate.cli import json_text
from footplate.cli.log_output import LogOutput
from footplate.logs.sanitise import clean
from footplate.workspace import Workspace, WorkspaceError
from footplate.workspace.open import open_workspace
from footplate.workspace.read_only import read_only

T = TypeVar("T")
N = TypeVar("N")


@dataclass
class Frame:
    """The common options of one call; an option stands before or after the command's name."""

    workspace: str | None = None
    json: bool = False
    read_only: bool = False

    def run(self, work: Callable[[Workspace], Coroutine[Any, Any, T]]) -> T:
        """Open the workspace, do the work, close it. Raises what the work raises."""
        import asyncio  # a fifth of a second's start that `check` and `launch --dry-run` need not have

        async def inside() -> T:
            workspace = open_workspace(self.workspace)
            try:
                return await work(read_only(workspace) if self.read_only else workspace)
            finally:
                await workspace.close()

        return asyncio.run(inside())

    def say(self, text: str) -> None:
        """A line for the reader: on stdout, or on stderr when stdout holds one JSON document."""
        _show(text, err=self.json)

    def note(self, text: str) -> None:
        """A line beside the result, on stderr: how far it is, what to know."""
        _show(text, err=True)

    def result(self, document: Any, text: str | Callable[[], str]) -> None:
        """The command's result: the document with `--json`, else the text."""
        if self.json:
            click.echo(json_text.dumps(document))
        else:
            _show(text if isinstance(text, str) else text())

    def results(self, documents: Sequence[Any], text: str | Callable[[], str], faults: Iterable[Failed] = ()) -> None:
        """The result for each of several objects, and the faults, named on stderr.

        Ends the command with the highest exit code of the faults, if there are any. One object's document is no list.
        """
        if self.json or (text := text if isinstance(text, str) else text()):
            self.result(documents[0] if len(documents) == 1 else documents, text)
        codes = []
        for fault in faults:
            fail(f"{fault.name}: {fault.error}")
            codes.append(fault.exit_code)
        if codes:
            sys.exit(max(codes))

    def table(
        self, documents: Sequence[Any], columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str
    ) -> None:
        """A list: the documents with `--json`, else a table with right widths, or the sentence for an empty one."""
        cells = list(rows)
        if self.json or cells:
            self.result(documents, lambda: columned([columns, *cells]))
        else:
            self.say(empty)


@dataclass(frozen=True)
class Failed:
    """What went wrong with one of several objects: a sentence, and the exit code it stands for."""

    name: str
    error: str
    exit_code: int


async def each(names: Sequence[N], act: Callable[[N], Awaitable[T]]) -> list[T | Failed]:
    """Act on each of several objects; a fault of one does not take their turn from the others. Raises that of a single one."""
    if len(names) == 1:
        return [await act(names[0])]
    done: list[T | Failed] = []
    for name in names:
        try:
            done.append(await act(name))
        except WorkspaceError as error:
            done.append(Failed(str(name), str(error), error.exit_code))
    return done


def _show(text: str, *, err: bool = False) -> None:
    """Write text: as it is to a file or pipe; on a terminal each line without what is not to be shown."""
    if (sys.stderr if err else sys.stdout).isatty():
        text = "\n".join(clean(line) for line in text.split("\n"))
    with _heard(err):
        click.echo(text, err=err, color=True)  # else click takes some sequences out of what is piped


@contextmanager
def _heard(err: bool) -> Iterator[None]:
    """A stderr that cannot be written, as on a full disk, keeps no command from its work: it is dropped from then on."""
    try:
        yield
    except OSError:
        if not err:
            raise
        _drop(sys.stderr)


def fail(sentence: str, next_step: str = "", raw: str = "") -> None:
    """Name a fault on stderr: the sentence, what to do next, and the end of a log."""
    with _heard(err=True):
        click.echo(clean(f"footplate: {sentence}"), err=True)
        if next_step:
            click.echo(clean(next_step), err=True)
        for line in raw.splitlines()[-12:] if "\n" in raw else []:
            click.echo(f"  | {clean(line)}", err=True)


def fielded(document: Mapping[str, Any], width: int) -> str:
    """An object's fields, one a line whatever their values hold; those without a value are left out."""
    rows = [(key.replace("_", " "), value) for key, value in document.items() if value not in (None, {}, [], "")]
    return "\n".join(f"{key:<{width}}{clean(_plain(value))}" for key, value in rows)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={inner}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def columned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns two blanks apart, each on one line whatever its cells hold."""
    rows = [[clean(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _workspaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The workspaces of the settings, for a shell's completion."""
    try:
        known = dict.fromkeys(["local", *settings.load().workspaces])
    except WorkspaceError:
        return []  # nothing is to be said between a tab and its answer
    return [name for name in known if name.startswith(incomplete)]


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--workspace`, `--json` and `--read-only`; the command finds them in the `Frame` of `click.pass_obj`."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        frame = context.ensure_object(Frame)
        if value:
            setattr(frame, str(parameter.name), value)
        return value

    options = (
        click.option(
            "--workspace",
            metavar="NAME",
            expose_value=False,
            callback=keep,
            shell_complete=_workspaces,
            help="A workspace of the settings.",
        ),
        click.option("--json", is_flag=True, expose_value=False, callback=keep, help="One JSON document on stdout."),
        click.option("--read-only", is_flag=True, expose_value=False, callback=keep, help="Refuse every change."),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


def _interruptions() -> tuple[type[BaseException], ...]:
    """What an interrupted command ends with; asyncio's own only where it was loaded."""
    loaded = sys.modules.get("asyncio")
    return (click.Abort, KeyboardInterrupt, *((loaded.CancelledError,) if loaded else ()))


def _is_of_output(error: BaseException) -> bool:
    """Whether a fault came from writing the result, as on a full disk, and not from the work itself."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    writers = (click.echo, LogOutput.__call__, LogOutput._show, Commands.main)
    return trace is not None and trace.tb_frame.f_code in [writer.__code__ for writer in writers]


def _drop(stream: TextIO) -> None:
    """Let what is still to be written go nowhere: Python would complain of it once more as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Commands(click.Group):
    """A group whose commands end with footplate's exit codes, and with sentences instead of tracebacks."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run as a program; never returns."""
        extra["standalone_mode"] = False
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a file's name that is not UTF-8 is no reason to end
        try:
            code = super().main(*args, **extra)
            sys.stdout.flush()
        except WorkspaceError as error:
            fail(error.sentence, error.next_step, error.raw if error.exit_code == 1 else "")
            code = error.exit_code
        except click.ClickException as error:
            with _heard(err=True):
                error.show()
            code = 2
        except _interruptions():
            with _heard(err=True):
                click.echo("Interrupted. Jobs and endpoints that were started go on.", err=True)
            code = 130
        except BrokenPipeError:
            _drop(sys.stdout)  # the reader of our output is gone, as with `| head`
            code = 1
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            if isinstance(error, OSError) and _is_of_output(error):
                reason = error.strerror or str(error)
                fail(f"The output cannot be written: {reason}.", "Free space there, or write it elsewhere.")
                _drop(sys.stdout)
            else:
                from footplate.faults import unforeseen

                fail(unforeseen(error))
            code = 1
        sys.exit(code if isinstance(code, int) else 0)
