"""Ways to sign in without a browser: environment, managed identity, the tools' logins, a device code."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.core.credentials import AccessTokenInfo, TokenRequestOptions
from azure.core.exceptions import AzureError, ClientAuthenticationError

from footplate import paths
from footplate.azure.clouds import Cloud
from footplate.azure.credential import CachingCredential, VariableSource
from footplate.azure.kept_sign_in import KeptSignIn
from footplate.azure.masking import mask
from footplate.faults import record
from footplate.workspace.errors import Invalid, NotSignedIn
from footplate.workspace.model import DeviceCode

if TYPE_CHECKING:
    from azure.identity import AuthenticationRecord, DeviceCodeCredential

_METADATA_HOST, _METADATA_PATH = "169.254.169.254", "/metadata/instance?api-version=2021-02-01"
_PROBE_SECONDS = 0.5
_DEVICE_CODE_SECONDS = 900


@dataclass(frozen=True)
class Way:
    """One way to sign in: the class of azure-identity, what it is called, and whether it can be tried here."""

    credential: str
    name: str
    possible: Callable[[Mapping[str, str]], bool]


def _has_secret(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("AZURE_CLIENT_ID") and environment.get("AZURE_TENANT_ID"))


def _has_federation(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("AZURE_FEDERATED_TOKEN_FILE"))


def _has_identity(environment: Mapping[str, str]) -> bool:
    if any(environment.get(variable) for variable in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT")):
        return True
    # Without this look, azure-identity asks for over a minute on a machine that is not Azure's.
    connection = http.client.HTTPConnection(_METADATA_HOST, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", _METADATA_PATH, headers={"Metadata": "true"})
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _always(_: Mapping[str, str]) -> bool:
    return True


WAYS = (
    Way("EnvironmentCredential", "the environment's service principal", _has_secret),
    Way("WorkloadIdentityCredential", "workload identity", _has_federation),
    Way("ManagedIdentityCredential", "managed identity", _has_identity),
    Way("AzureCliCredential", "the Azure CLI", _always),
    Way("AzurePowerShellCredential", "Azure PowerShell", _always),
    Way("AzureDeveloperCliCredential", "the Azure Developer CLI", _always),
)
_BROWSER = Way("InteractiveBrowserCredential", "a browser", _always)  # only where it is asked for by name
_KEPT = Way("DeviceCodeCredential", "a device code of before", _always)  # only where one was kept
_BY_NAME = {way.credential.lower(): way for way in (*WAYS, _BROWSER)}
_USUAL = WAYS[:4]
_MEANT = WAYS[:2]
"""Ways that somebody has set variables for: where Azure refuses one, another one is not what was meant."""
_GROUPS = {"": _USUAL, "prod": WAYS[:3], "dev": WAYS[3:]}


def ways(environment: Mapping[str, str] = os.environ) -> Sequence[Way]:
    """The ways to try, in order; `AZURE_TOKEN_CREDENTIALS` (dev, prod or one class) chooses. Raises Invalid for another."""
    wanted = environment.get("AZURE_TOKEN_CREDENTIALS", "").strip().lower()
    if wanted in _GROUPS:
        return _GROUPS[wanted]
    if wanted in _BY_NAME:
        return (_BY_NAME[wanted],)
    known = ", ".join(("dev", "prod", *(way.credential for way in (*WAYS, _BROWSER))))
    raise Invalid(f"AZURE_TOKEN_CREDENTIALS is {wanted!r}, which footplate cannot sign in with.", f"Known: {known}.")


class Memory:
    """Which way worked last, by cloud and tenant: a small file with no secret in it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def last(self, cloud: Cloud, tenant: str) -> str:
        """The class of the way; empty where none is known."""
        return str(self._read().get(_key(cloud, tenant), ""))

    def keep(self, cloud: Cloud, tenant: str, credential: str) -> None:
        """Note the way that works; a file that cannot be written costs a second at the next start, and no more."""
        known = self._read()
        if known.get(_key(cloud, tenant)) == credential:
            return
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        try:
            new.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.write_text(json.dumps({**known, _key(cloud, tenant): credential}), encoding="utf-8")
            new.replace(self._file)
        except OSError as error:
            record(error)

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):  # none yet, or none of ours: it is written anew
            return {}
        return known if isinstance(known, dict) else {}


def _key(cloud: Cloud, tenant: str) -> str:
    return f"{cloud.active_directory} {tenant}".strip()


class ChainSource:
    """The first way that gives a token, and from then on that one alone.

    The way that `memory` has comes before all but those that somebody has set variables for.
    """

    def __init__(
        self,
        cloud: Cloud,
        tenant: str = "",
        environment: Mapping[str, str] = os.environ,
        memory: Memory | None = None,
        kept: KeptSignIn | None = None,
    ) -> None:
        self._cloud = cloud
        self._tenant = tenant
        self._environment = environment
        self._memory = memory
        self._kept = kept
        self._ways = ways(environment)
        if kept is not None and self._ways is _USUAL and kept.account() is not None:
            self._ways = (*self._ways, _KEPT)
        self._chosen: tuple[Way, Any] | None = None

    @property
    def name(self) -> str:
        """The way that worked, or those that are tried."""
        return self._chosen[0].name if self._chosen else ", ".join(way.name for way in self._ways)

    def token(self, scope: str, claims: str | None) -> AccessTokenInfo:
        """A new token. Raises NotSignedIn with the reason of each way behind it."""
        if self._chosen is not None:
            return _ask(self._chosen[1], scope, claims)
        from azure.identity import CredentialUnavailableError

        reasons = []
        for way in self._in_order():
            if not way.possible(self._environment):
                reasons.append(f"{way.name}: not here")
                continue
            credential = None
            try:
                if way is _KEPT and self._kept is not None:
                    credential = _device_code(self._cloud, self._tenant, self._kept, account=self._kept.account())
                else:
                    credential = _make(way, self._cloud, self._tenant, self._environment)
                token = _ask(credential, scope, claims)
            except (AzureError, ValueError) as error:  # ValueError: its settings are incomplete
                reasons.append(f"{way.name}: {mask(str(error))}")
                if credential is not None:
                    credential.close()
                if way in _MEANT and not isinstance(error, CredentialUnavailableError):
                    raise NotSignedIn(
                        f"Azure refused the sign-in by {way.name}: {_short(error)}",
                        "Mend its variables (AZURE_CLIENT_ID and those beside it), or take them away to use another way.",
                        "\n".join(reasons),
                    ) from error
                continue
            self._chosen = (way, credential)
            if self._memory is not None:
                self._memory.keep(self._cloud, self._tenant, way.credential)
            return token
        raise NotSignedIn(
            "You are not signed in to Azure.",
            "Sign in: az login (over SSH: az login --use-device-code), or set the variables of a service principal.",
            "\n".join(reasons),
        )

    def _in_order(self) -> Sequence[Way]:
        last = self._memory.last(self._cloud, self._tenant) if self._memory else ""

        def rank(way: Way) -> int:
            meant = way in _MEANT and way.possible(self._environment)
            return 0 if meant else 1 if way.credential == last or way is _KEPT else 2

        return sorted(self._ways, key=rank)

    def close(self) -> None:
        """Let go of the connections of the way that worked."""
        if self._chosen is not None:
            self._chosen[1].close()


_left: dict[tuple[Cloud, str, str], CachingCredential] = {}


def credential_of(cloud: Cloud, tenant: str, token_env: str, token_cache: bool = False) -> CachingCredential:
    """Who gives the tokens: whoever signed in on the connect screen just now, the variable, or the first way that works.

    Raises Invalid where `AZURE_TOKEN_CREDENTIALS` names no way to sign in.
    """
    if (left := _left.pop((cloud, tenant, token_env), None)) is not None:
        return left
    if token_env:
        return CachingCredential(VariableSource(token_env))
    memory = Memory(paths.home() / "sign-in.json")
    kept = KeptSignIn(cloud, tenant) if token_cache else None
    return CachingCredential(ChainSource(cloud, tenant, memory=memory, kept=kept))


def leave(cloud: Cloud, tenant: str, token_env: str, credential: CachingCredential) -> None:
    """Leave a sign-in for the workspace that is opened next with the same account."""
    _left[cloud, tenant, token_env] = credential


class DeviceCodeSource:
    """Sign-in by a code that is typed into a browser on any machine."""

    name = "a device code"

    def __init__(
        self, cloud: Cloud, tenant: str, show: Callable[[DeviceCode], None], kept: KeptSignIn | None = None
    ) -> None:
        """`show` gets the code, in the thread that asks for the token; `kept` is where the sign-in stays."""
        self._kept = kept
        self._credential = _device_code(cloud, tenant, kept, show)

    def sign_in(self, scope: str) -> None:
        """Show a code and wait until it was typed in. Raises NotSignedIn."""
        try:
            account = self._credential.authenticate(scopes=(scope,))
        except ClientAuthenticationError as error:
            raise NotSignedIn(
                "The sign-in by device code did not end well.",
                "Try again; where your organisation forbids device codes, use az login on a machine with a browser.",
                mask(error.message or str(error)),
            ) from error
        if self._kept is not None:
            self._kept.keep(account)

    def token(self, scope: str, claims: str | None) -> AccessTokenInfo:
        """A new token by what the sign-in left. Raises AzureError where a new sign-in is wanted."""
        return _ask(self._credential, scope, claims)

    def close(self) -> None:
        """Let go of the connections to the directory."""
        self._credential.close()


def _device_code(
    cloud: Cloud,
    tenant: str,
    kept: KeptSignIn | None,
    show: Callable[[DeviceCode], None] = lambda _: None,
    account: AuthenticationRecord | None = None,
) -> DeviceCodeCredential:
    """A credential that gives a new sign-in's tokens, or those that are kept of an account, and asks for no code unasked."""
    from azure.identity import DeviceCodeCredential

    options = _directory(cloud) | (kept.options() if kept else {})
    if account is not None:
        del options["authority"]  # the account has its own
        options["authentication_record"] = account
    return DeviceCodeCredential(
        prompt_callback=lambda address, code, expires: show(DeviceCode(address, code, expires)),
        timeout=_DEVICE_CODE_SECONDS,
        disable_automatic_authentication=True,  # else a refresh in the background would ask for a code that nobody sees
        **options,
        **({"tenant_id": tenant} if tenant else {}),
    )


def _short(error: Exception) -> str:
    """The first line of a long reason, as a sentence's end."""
    lines = mask(str(error)).strip().splitlines() or [type(error).__name__]
    return f"{lines[0][:300].rstrip('.')}."


def _make(way: Way, cloud: Cloud, tenant: str, environment: Mapping[str, str]) -> Any:
    import azure.identity

    kind = getattr(azure.identity, way.credential)
    if way.credential in ("EnvironmentCredential", "WorkloadIdentityCredential"):
        return kind(**_directory(cloud))
    if way is _BROWSER:
        return kind(**_directory(cloud), **({"tenant_id": tenant} if tenant else {}))
    if way.credential == "ManagedIdentityCredential":
        return kind(client_id=environment.get("AZURE_CLIENT_ID") or None)
    return kind(**({"tenant_id": tenant} if tenant else {}))


def _ask(credential: Any, scope: str, claims: str | None) -> AccessTokenInfo:
    options: TokenRequestOptions = {"claims": claims} if claims else {}
    token: AccessTokenInfo = credential.get_token_info(scope, options=options)
    return token


def _directory(cloud: Cloud) -> dict[str, Any]:
    """The directory's address; that of a custom cloud is not known to Microsoft's, which would be asked about it."""
    options: dict[str, Any] = {"authority": cloud.active_directory}
    if cloud.custom:
        from footplate.azure.loopback import transport  # loads requests, which no other cloud needs this early

        options |= {"disable_instance_discovery": True, "transport": transport(cloud.ca_file)}
    return options
