"""The commands: headless twins of the screens."""

from __future__ import annotations

from importlib import import_module

import click

from footplate import __version__
from footplate.cli.frame import Commands, common

COMMANDS = {
    "overview": ("data", "environments", "datastores", "info"),
    "clusters": ("clusters", "cluster", "quota"),
    "check": ("check",),
    "doctor": ("doctor",),
    "launch": ("launch", "rerun"),
    "following": ("logs",),
    "watch": ("watch",),
    "alerts": ("alerts",),
    "jobs": ("jobs", "job", "children", "services", "cancel", "archive", "restore", "update"),
    "failure": ("failure",),
    "metrics": ("metrics",),
    "download": ("download",),
    "rehearse": ("rehearse",),
    "demo": ("demo",),
    "models": ("register", "models", "model"),
    "endpoints": ("endpoints", "endpoint"),
    "deploy": ("deploy", "traffic", "invoke"),
    "config": ("config", "clean", "completion"),
}
"""The module of each command; a call loads the one that it needs, and `--help` all."""


class _Lazy(Commands):
    """The commands, each module of them loaded when it is asked for."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name, None for none."""
        module = next((module for module, names in COMMANDS.items() if cmd_name in names), None)
        if module is not None and cmd_name not in self.commands:
            import_module(f"footplate.cli.{module}").add_to(self)
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in order."""
        return sorted(name for names in COMMANDS.values() for name in names)


@click.group(
    cls=_Lazy,
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
