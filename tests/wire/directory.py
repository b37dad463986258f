"""The directory: signs a service principal in by its secret, and a person by a device code that the test confirms."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tests.wire.http import Call, Reply, Routes
from tests.wire.tokens import AUDIENCE
from tests.wire.workspaces import TENANT

if TYPE_CHECKING:
    from tests.wire.server import WireServer

routes = Routes()
_TENANT = r"/(?P<tenant>[^/]+)"
CLIENT_SECRET = "a-secret-of-the-wire"


@dataclass
class _DeviceCode:
    user_code: str
    confirmed: bool = False


class Directory:
    """What a test does about sign-ins."""

    def __init__(self) -> None:
        """Nobody is signed in."""
        self.codes: dict[str, _DeviceCode] = {}
        self.refresh_tokens: set[str] = set()

    def confirm(self, user_code: str | None = None) -> None:
        """The person has typed the code in a browser, the given one or any that waits."""
        for code in self.codes.values():
            if user_code in (None, code.user_code):
                code.confirmed = True


def _base(wire: WireServer, tenant: str) -> str:
    return f"{wire.active_directory}/{tenant}"


@routes.on("GET", "/common/discovery/instance")
def instance(call: Call) -> Reply:
    """Which hosts are one directory."""
    host = call.wire.active_directory.removeprefix("https://")
    one = {"preferred_network": host, "preferred_cache": host, "aliases": [host]}
    address = f"{_base(call.wire, TENANT)}/v2.0/.well-known/openid-configuration"
    return Reply(body={"tenant_discovery_endpoint": address, "api-version": "1.1", "metadata": [one]})


@routes.on("GET", _TENANT + r"/v2\.0/\.well-known/openid-configuration")
def configuration(call: Call) -> Reply:
    """The directory's addresses."""
    base = _base(call.wire, call["tenant"])
    body = {
        "token_endpoint": f"{base}/oauth2/v2.0/token",
        "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
        "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
        "issuer": f"{base}/v2.0",
        "jwks_uri": f"{base}/discovery/v2.0/keys",
        "response_types_supported": ["code"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "tenant_region_scope": "NA",
    }
    return Reply(body=body)


def _form(call: Call) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(call.body.decode()).items()}


@routes.on("POST", _TENANT + r"/oauth2/v2\.0/devicecode")
def device_code(call: Call) -> Reply:
    """A code to type in a browser."""
    code, user_code = secrets.token_hex(8), secrets.token_hex(4).upper()
    call.wire.directory.codes[code] = _DeviceCode(user_code)
    address = "https://microsoft.com/devicelogin"
    text = f"To sign in, use a web browser to open the page {address} and enter the code {user_code} to authenticate."
    body = {
        "device_code": code,
        "user_code": user_code,
        "verification_uri": address,
        "expires_in": 900,
        "interval": 1,
        "message": text,
    }
    return Reply(body=body)


def _refused(code: str, text: str) -> Reply:
    body = {"error": code, "error_description": text, "error_codes": [7000215], "correlation_id": "0", "trace_id": "0"}
    return Reply(401 if code == "invalid_client" else 400, body)


@routes.on("POST", _TENANT + r"/oauth2/v2\.0/token")
def token(call: Call) -> Reply:
    """A token for a secret, a confirmed device code, or a refresh token."""
    form, directory = _form(call), call.wire.directory
    kind = form.get("grant_type", "")
    if kind == "client_credentials":
        if form.get("client_secret") != CLIENT_SECRET:
            return _refused("invalid_client", "AADSTS7000215: Invalid client secret provided.")
        return Reply(body=_tokens(call, form, person=False))
    if kind.endswith("device_code"):
        code = directory.codes.get(form.get("device_code", ""))
        if code is None:
            return _refused("invalid_grant", "AADSTS70000: The device code is not valid.")
        if not code.confirmed:
            return _refused("authorization_pending", "AADSTS70016: The code is not yet confirmed. Wait, and ask again.")
        return Reply(body=_tokens(call, form, person=True))
    if kind == "refresh_token" and form.get("refresh_token") in directory.refresh_tokens:
        return Reply(body=_tokens(call, form, person=True))
    return _refused("invalid_grant", "AADSTS700082: The refresh token has expired due to inactivity.")


def _tokens(call: Call, form: dict[str, str], *, person: bool) -> dict[str, Any]:
    scope = next((part for part in form.get("scope", "").split() if part.startswith("http")), f"{AUDIENCE}/.default")
    audience = scope.removesuffix("/.default")
    given = call.wire.tokens.issue(audience, seconds=3600)
    body: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600, "access_token": given}
    if person:
        refresh = secrets.token_hex(16)
        call.wire.directory.refresh_tokens.add(refresh)
        claims = {
            "aud": form.get("client_id"),
            "iss": f"{call.wire.active_directory}/{TENANT}/v2.0",
            "exp": 4_000_000_000,
            "iat": 1,
            "oid": "00000000-0000-0000-0000-00000000000a",
            "sub": "a",
            "tid": TENANT,
            "preferred_username": "someone@example.org",
        }
        info = {"uid": claims["oid"], "utid": TENANT}
        body |= {
            "scope": scope,
            "refresh_token": refresh,
            "id_token": f"{_part({'alg': 'none'})}.{_part(claims)}.x",
            "client_info": _part(info),
        }
    return body


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
