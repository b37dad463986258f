"""An account on Azure before a workspace is chosen: who is signed in, and which workspaces may be seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from footplate.settings import Settings
    from footplate.workspace.model import DeviceCode


@dataclass(frozen=True)
class FoundWorkspace:
    """A workspace that the account sees; `subscription` is the name of the subscription."""

    name: str
    resource_group: str
    subscription_id: str
    subscription: str
    region: str

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.subscription_id}/{self.resource_group}/{self.name}".lower()


class SignsIn(Protocol):
    """What a sign-in dialog is about: a workspace, or an account."""

    @property
    def name(self) -> str:
        """What one signs in to."""

    async def sign_in(self, show: Callable[[DeviceCode], None]) -> None:
        """Sign in by a code that is typed into a browser; see `Workspace.sign_in`."""


class Account(SignsIn, Protocol):
    """An account of one cloud and tenant. Its methods raise WorkspaceError and its children."""

    faults: list[str]
    """Why subscriptions could not be looked into: one sentence each."""

    @property
    def signed_in_by(self) -> str:
        """Which sign-in gives the tokens, once one did."""

    def workspaces(self) -> AsyncIterator[Sequence[FoundWorkspace]]:
        """The workspaces of each subscription, as they come."""

    def table(self, found: FoundWorkspace) -> Mapping[str, str | bool]:
        """What `[workspaces.NAME]` of the settings has to say to open it."""

    async def close(self, *, leave_sign_in: bool = False) -> None:
        """Let go of connections; the sign-in can be left for the workspace that is opened next."""


def open_account(name: str, settings: Settings) -> Account:
    """The account that the table `[workspaces.NAME]` leads to, else that of Azure's public cloud. Raises Invalid."""
    return cast(Account, import_module("footplate.azure.connect").AzureAccount(name, settings))
