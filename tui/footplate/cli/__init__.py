"""The commands: headless twins of the screens."""

from __future__ import annotations

import click

from footplate import __version__
from footplate.cli import endpoints, jobs, models, overview
from footplate.cli.frame import Commands, common


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--view", metavar="VIEW", help='Where the console opens, as in "jobs status:failed".')
@common
@click.pass_context
def cli(context: click.Context, view: str | None) -> None:
    """Train, tune, deploy and test PyTorch models on Azure Machine Learning, or on this machine.

    Without a command the console opens, on the local workspace at first.
    """
    if context.invoked_subcommand is None:
        from footplate.console import open_console

        context.exit(open_console(context.obj, view))


for _module in (overview, jobs, models, endpoints):
    _module.add_to(cli)
