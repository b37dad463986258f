"""One token cache for a workspace: whoever asks gets the token that is there, and one fetch at a time makes a new one."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from azure.core.credentials import AccessTokenInfo, TokenRequestOptions
from azure.core.exceptions import AzureError

from footplate.azure.masking import mask
from footplate.workspace.errors import NotSignedIn, WorkspaceError

REFRESH_SECONDS = 300.0
"""A token with less left than this is fetched anew in the background, while it still serves."""
EXPIRED_SECONDS = 30.0
"""A token with less left than this is not used."""
_PAUSE_SECONDS = 30.0
"""After a refresh in the background failed, the next is tried no sooner."""


class Source(Protocol):
    """Where tokens come from: a credential of azure-identity, or a variable; `name` is what is shown of it."""

    @property
    def name(self) -> str:
        """Which sign-in this is, for the person who reads it."""

    def token(self, scope: str, claims: str | None) -> AccessTokenInfo:
        """A new token. Blocks; raises AzureError or WorkspaceError."""

    def close(self) -> None:
        """Let go of connections."""


class CachingCredential:
    """A TokenCredential for any thread. A fetch that is under way is shared by all who ask for the same token meanwhile."""

    def __init__(self, source: Source, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, AccessTokenInfo] = {}
        self._under_way: dict[tuple[str, str | None], Future[AccessTokenInfo]] = {}
        self._failed_at = 0.0

    @property
    def name(self) -> str:
        """Which sign-in gave the tokens."""
        return self._source.name

    @property
    def gave(self) -> bool:
        """Whether it has given a token."""
        return bool(self._tokens)

    def use(self, source: Source) -> None:
        """Take tokens from another sign-in from now on."""
        with self._lock:
            before, self._source = self._source, source
            self._tokens.clear()
        before.close()

    def close(self) -> None:
        """Let go of the sign-in's connections."""
        self._source.close()

    def ready(self, scope: str) -> AccessTokenInfo | None:
        """The token that is there, if it can be used; one that is near its end is fetched anew behind it."""
        with self._lock:
            token = self._tokens.get(scope)
        if token is None or token.expires_on - self._clock() < EXPIRED_SECONDS:
            return None
        if self._wants_refresh(token) and self._clock() - self._failed_at > _PAUSE_SECONDS:
            self._start(scope, None)
        return token

    def forget(self, token: str) -> None:
        """Drop a token that the service refused, unless another has taken its place."""
        with self._lock:
            self._tokens = {scope: held for scope, held in self._tokens.items() if held.token != token}

    def get_token_info(self, *scopes: str, options: TokenRequestOptions | None = None) -> AccessTokenInfo:
        """A token for one scope, from the cache unless `options` has claims. Raises NotSignedIn."""
        (scope,) = scopes
        claims = (options or {}).get("claims")
        if claims is None and (token := self.ready(scope)) is not None:
            return token
        return self._start(scope, claims, here=True).result()

    def _wants_refresh(self, token: AccessTokenInfo) -> bool:
        now = self._clock()
        return token.expires_on - now < REFRESH_SECONDS or (token.refresh_on is not None and token.refresh_on <= now)

    def _start(self, scope: str, claims: str | None, *, here: bool = False) -> Future[AccessTokenInfo]:
        """Join the fetch that is under way, or begin one: in this thread, or in one of its own."""
        with self._lock:
            if (joined := self._under_way.get((scope, claims))) is not None:
                return joined
            token = self._tokens.get(scope)
            future: Future[AccessTokenInfo] = Future()
            # Whoever waited for the lock while another thread's fetch ended has its token here.
            if claims is None and token is not None and not self._wants_refresh(token):
                future.set_result(token)
                return future
            self._under_way[(scope, claims)] = future
        if here:
            self._fetch(scope, claims, future)
        else:
            threading.Thread(target=self._fetch, args=(scope, claims, future), daemon=True, name="token").start()
        return future

    def _fetch(self, scope: str, claims: str | None, future: Future[AccessTokenInfo]) -> None:
        source = self._source
        try:
            token = source.token(scope, claims)
        except BaseException as error:  # noqa: BLE001  handed to all who wait, whatever it is
            with self._lock:
                self._under_way.pop((scope, claims), None)
                self._failed_at = self._clock()
            future.set_exception(_told(error, source.name))
        else:
            with self._lock:
                if self._source is source:
                    self._tokens[scope] = token
                self._under_way.pop((scope, claims), None)
            future.set_result(token)


def _told(error: BaseException, name: str) -> BaseException:
    if isinstance(error, WorkspaceError) or not isinstance(error, AzureError):
        return error
    return NotSignedIn(
        f"Azure gave no token to the sign-in by {name}.",
        "Sign in again: az login.",
        mask(error.message or str(error)),
    )


class VariableSource:
    """A ready bearer token in an environment variable, read anew each time."""

    def __init__(self, variable: str, environment: Mapping[str, str] = os.environ) -> None:
        self._variable = variable
        self._environment = environment
        self.name = f"the token in {variable}"

    def token(self, scope: str, claims: str | None) -> AccessTokenInfo:
        """The variable's token, whatever the scope. Raises NotSignedIn where it is missing, old or refused."""
        token = self._environment.get(self._variable, "").strip()
        if not token:
            raise NotSignedIn(
                f"The variable {self._variable}, which token_env names, holds no token.",
                f"Set it, as with {self._variable}=$(az account get-access-token --query accessToken --output tsv).",
            )
        if claims is not None:
            raise NotSignedIn(
                f"Azure wants a new sign-in, and {self._variable} holds a ready token.", "Put a new token into it."
            )
        expires = expiry(token)
        if expires is not None and expires - time.time() < EXPIRED_SECONDS:
            raise NotSignedIn(f"The token in {self._variable} has expired.", "Put a new one into it.")
        # One that does not tell is looked at again before long, since the variable may have changed.
        return AccessTokenInfo(token, int(expires if expires is not None else time.time() + REFRESH_SECONDS * 2))

    def close(self) -> None:
        """A variable has no connections."""


def expiry(token: str) -> float | None:
    """When a bearer token ends, as it says itself; None for one that is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
