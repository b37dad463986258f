"""What every command shares: its common options, where its words go, and how it ends."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from footplate.logs.sanitise import clean
from footplate.workspace import Workspace, WorkspaceError
from footplate.workspace.open import open_workspace
from footplate.workspace.read_only import read_only

T = TypeVar("T")


@dataclass
class Frame:
    """The common options of one call; an option stands before or after the command's name."""

    workspace: str | None = None
    json: bool = False
    read_only: bool = False

    def run(self, work: Callable[[Workspace], Coroutine[Any, Any, T]]) -> T:
        """Open the workspace, do the work, close it. Raises what the work raises."""

        async def inside() -> T:
            workspace = open_workspace(self.workspace)
            try:
                return await work(read_only(workspace) if self.read_only else workspace)
            finally:
                await workspace.close()

        return asyncio.run(inside())

    def say(self, text: str) -> None:
        """A line for the reader: on stdout, or on stderr when stdout holds one JSON document."""
        click.echo(text, err=self.json)

    def result(self, document: Any, text: str | Callable[[], str]) -> None:
        """The command's result: the document with `--json`, else the text."""
        if self.json:
            click.echo(json.dumps(document, ensure_ascii=False, indent=2, default=str))
        else:
            click.echo(text if isinstance(text, str) else text())

    def table(
        self, documents: Sequence[Any], columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str
    ) -> None:
        """A list: the documents with `--json`, else a table with right widths, or the sentence for an empty one."""
        cells = [[clean(cell) for cell in row] for row in rows]
        if self.json or cells:
            self.result(documents, lambda: columned([list(columns), *cells]))
        else:
            self.say(empty)


def columned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns two blanks apart."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--workspace`, `--json` and `--read-only`; the command finds them in the `Frame` of `click.pass_obj`."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        frame = context.ensure_object(Frame)
        if value:
            setattr(frame, str(parameter.name), value)
        return value

    options = (
        click.option(
            "--workspace", metavar="NAME", expose_value=False, callback=keep, help="A workspace of the settings."
        ),
        click.option("--json", is_flag=True, expose_value=False, callback=keep, help="One JSON document on stdout."),
        click.option("--read-only", is_flag=True, expose_value=False, callback=keep, help="Refuse every change."),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


class Commands(click.Group):
    """A group whose commands end with footplate's exit codes, and with sentences instead of tracebacks."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run as a program; never returns."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
            sys.stdout.flush()
        except WorkspaceError as error:
            self._fail(error.sentence, error.next_step, getattr(error, "raw", "") if error.exit_code == 1 else "")
            code = error.exit_code
        except click.ClickException as error:
            error.show()
            code = 2
        except (click.Abort, KeyboardInterrupt, asyncio.CancelledError):
            code = 130
        except BrokenPipeError:
            # The reader of our output is gone, as with `| head`; Python would complain once more when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            from footplate.faults import record

            self._fail(
                f"footplate met a fault it did not foresee: {error!r}.", f"The traceback is in {record(error)}.", ""
            )
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    @staticmethod
    def _fail(sentence: str, next_step: str, raw: str) -> None:
        click.echo(clean(f"footplate: {sentence}"), err=True)
        if next_step:
            click.echo(clean(next_step), err=True)
        for line in raw.splitlines()[-12:] if "\n" in raw else []:
            click.echo(f"  | {clean(line)}", err=True)
