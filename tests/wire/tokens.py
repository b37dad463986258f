"""Bearer tokens of one server: shaped like the directory's, signed by the server, good until they expire or are revoked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time

from tests.wire.workspaces import TENANT

AUDIENCE = "https://ml.azure.com"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Tokens:
    """The tokens that a server has given."""

    def __init__(self) -> None:
        """A new secret."""
        self._secret = secrets.token_bytes(32)
        self._revoked: set[str] = set()

    def issue(self, audience: str = AUDIENCE, *, seconds: float = 86_400) -> str:
        """A token; it ends `seconds` of real time from now."""
        header = _encode(json.dumps({"typ": "JWT", "alg": "HS256", "kid": "wire"}).encode())
        now = int(time.time())
        claims = {
            "aud": audience,
            "iss": f"https://sts.windows.net/{TENANT}/",
            "iat": now,
            "nbf": now,
            "exp": int(now + seconds),
            "oid": "00000000-0000-0000-0000-00000000000a",
            "tid": TENANT,
            "upn": "someone@example.org",
            "name": "A. Person",
            "jti": secrets.token_hex(8),
            "ver": "1.0",
        }
        body = f"{header}.{_encode(json.dumps(claims).encode())}"
        return f"{body}.{self._sign(body)}"

    def _sign(self, body: str) -> str:
        return _encode(hmac.new(self._secret, body.encode(), hashlib.sha256).digest())

    def revoke(self, token: str) -> None:
        """Take a token back."""
        self._revoked.add(token)

    def why_not(self, header: str) -> str:
        """Why an Authorization header does not do; empty where it does."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return "Authentication failed. The 'Authorization' header is missing."
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature, self._sign(body)):
            return "The access token is invalid."
        claims = json.loads(base64.urlsafe_b64decode(body.split(".")[1] + "=="))
        if token in self._revoked:
            return "The access token has been revoked."
        if claims["exp"] < time.time():
            return "The access token expiry UTC time is earlier than current UTC time."
        return ""
