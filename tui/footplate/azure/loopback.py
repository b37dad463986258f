"""A custom cloud's directory for azure-identity, which asks through requests: its certificate, and names that are loopback."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import HTTPAdapter


def transport(ca_file: Path | None) -> RequestsTransport:
    """A transport of azure-core that trusts the cloud's certificates too, and knows names under `.localhost` (RFC 6761)."""
    session = requests.Session()
    session.mount("https://", _Loopback(ca_file))
    return RequestsTransport(session=session)


class _Loopback(HTTPAdapter):
    """Connects to this machine for such a name; its certificate must be for the name all the same."""

    def __init__(self, ca_file: Path | None) -> None:
        self._trusted = ssl.create_default_context()
        if ca_file is not None:
            self._trusted.load_verify_locations(ca_file)
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._trusted)

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        where, options = super().build_connection_pool_key_attributes(request, verify, cert)
        if str(where["host"]).endswith(".localhost"):
            options |= {"server_hostname": where["host"], "assert_hostname": where["host"]}
            where["host"] = "127.0.0.1"
        return where, options

    def add_headers(self, request: Any, **kwargs: Any) -> None:
        request.headers["Host"] = urlsplit(request.url).netloc
