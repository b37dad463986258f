"""The real SDK on this server: its client, and names under .localhost made loopback for it."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.wire.server import WireServer


@contextlib.contextmanager
def loopback_names() -> Iterator[None]:
    """Inside, every name under .localhost is 127.0.0.1, as RFC 6761 has it and the C library here has not."""
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        return real("127.0.0.1" if isinstance(text, str) and text.endswith(".localhost") else host, *rest, **more)

    socket.getaddrinfo = resolve
    try:
        yield
    finally:
        socket.getaddrinfo = real


class ReadyToken:
    """A credential that has its token."""

    def __init__(self, wire: WireServer) -> None:
        """For the tokens of a server; what was asked of it is in `asked`."""
        self._wire = wire
        self.asked: list[dict[str, Any]] = []

    def get_token(self, *scopes: str, **options: Any) -> Any:
        """The server's token; a new one where claims are asked for."""
        from azure.core.credentials import AccessToken

        self.asked.append({"scopes": scopes, **options})
        if options.get("claims"):
            self._wire.token = self._wire.tokens.issue()
        return AccessToken(self._wire.token, int(time.time()) + 3600)


@contextlib.contextmanager
def real_client(wire: WireServer, **options: Any) -> Iterator[Any]:
    """An `azure.ai.ml.MLClient` on the server, quiet, polling without waiting, trusting the server's certificate."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(loopback_names())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        before = {name: os.environ.get(name) for name in ("REQUESTS_CA_BUNDLE", "AZUREML_CURRENT_CLOUD")}
        os.environ["REQUESTS_CA_BUNDLE"] = str(wire.ca_file)
        from azure.ai.ml import MLClient
        from azure.ai.ml._azure_environments import _set_cloud
        from azure.ai.ml.constants._common import LROConfigurations

        # Deployments poll at an interval of their own, whatever the client is told.
        stack.callback(setattr, LROConfigurations, "POLL_INTERVAL", LROConfigurations.POLL_INTERVAL)
        LROConfigurations.POLL_INTERVAL = 0
        logging.getLogger("azure.ai.ml").handlers.clear()
        options = {"polling_interval": 0, "retry_total": 1, "retry_backoff_factor": 0, **options}
        try:
            yield MLClient(
                ReadyToken(wire),
                wire.subscription_id,
                wire.resource_group,
                wire.workspace_name,
                cloud=f"Wire{wire.port}",  # a name is registered once a process
                cloud_metadata=wire.cloud_metadata,
                show_progress=False,
                **options,
            )
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            if before["AZUREML_CURRENT_CLOUD"] is None:
                _set_cloud("AzureCloud")
                os.environ.pop("AZUREML_CURRENT_CLOUD", None)


class RawClient:
    """Plain requests with the server's token: what our own client sends, without our own client."""

    def __init__(self, wire: WireServer) -> None:
        """For a server; names under .localhost must be loopback (`loopback_names`)."""
        import requests

        self._wire = wire
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy, no other authorities
        self._session.verify = str(wire.ca_file)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def send(self, method: str, address: str, body: Any = None, *, token: str | None = None, **headers: str) -> Any:
        """A request to an address, or to a path below the workspace; `token` empty sends none. The response of `requests`."""
        if not address.startswith("https://"):
            base = "" if address.startswith("/") else f"{self._wire.state.ws}/"
            address = f"{self._wire.resource_manager}{base}{address}"
        token = self._wire.token if token is None else token
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"data": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
        return self._session.request(method, address, headers=sent, timeout=20, **given)

    def get(self, address: str, version: str = "2024-01-01-preview", **headers: str) -> Any:
        """The JSON of a GET below the workspace."""
        mark = "&" if "?" in address else "?"
        return self.send("GET", f"{address}{mark}api-version={version}", **headers).json()
