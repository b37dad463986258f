"""Scoring by a plain POST to an endpoint's address, with its key or a token: the SDK's own way is sticky (facts, section 0)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from footplate.azure.client import Bytes, Client
from footplate.azure.following import ENDPOINT_VERSION, endpoint_path
from footplate.azure.reading import count, mapping, text
from footplate.workspace.errors import Conflict, Invalid
from footplate.workspace.serving import Answer, Endpoint, Keys

_SCORING_SECONDS = 195.0  # the longest request_timeout_ms that Azure takes, and some for the way (documented)
_TOKEN_MARGIN_SECONDS = 60.0
_DEPLOYMENT = "azureml-model-deployment"


class Scoring:
    """The scoring addresses of one workspace. Address and key of an endpoint are read once, and again when refused."""

    def __init__(self, client: Client, endpoint: Callable[[str], Awaitable[Endpoint]]) -> None:
        """`endpoint` reads an endpoint's own record. Raises what it raises."""
        self._client = client
        self._endpoint = endpoint
        self._known: dict[str, tuple[str, str, float]] = {}

    async def invoke(self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None) -> Answer:
        """One scoring request, by key or token as the endpoint has it. Raises Conflict while it has no address, Unreachable."""
        sent = {name: value for name, value in headers.items() if name.lower() not in ("authorization", _DEPLOYMENT)}
        if deployment is not None:
            sent[_DEPLOYMENT] = deployment
        address, secret, kept = await self._way_in(endpoint)
        answer, seconds = await self._post(address, secret, body, sent)
        if answer.status in (401, 403) and kept:
            # The key may have been made anew since it was read.
            self.forget(endpoint)
            address, secret, _ = await self._way_in(endpoint)
            answer, seconds = await self._post(address, secret, body, sent)
        given = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, answer.headers, answer.body, seconds, given.get(_DEPLOYMENT, deployment or ""))

    def forget(self, endpoint: str) -> None:
        """Read an endpoint's address and key anew at the next request."""
        self._known.pop(endpoint, None)

    async def keys(self, endpoint: Endpoint) -> Keys:
        """The keys of an endpoint, or a token of its own. Raises NotAllowed, Invalid where it takes the directory's tokens."""
        if endpoint.auth_mode == "aml_token":
            token, ends = await self._token(endpoint.name)
            return Keys(token, "", datetime.fromtimestamp(ends, UTC))
        if endpoint.auth_mode != "key":
            raise Invalid(
                f"Endpoint {endpoint.name!r} takes tokens of the directory ({endpoint.auth_mode}), and has no keys.",
                "Invoke it: footplate has a token made. For other programs: az account get-access-token.",
            )
        what = f"the keys of endpoint {endpoint.name!r}"
        answer = mapping(await self._client.post(f"{endpoint_path(endpoint.name)}/listKeys", ENDPOINT_VERSION, what))
        return Keys(text(answer.get("primaryKey")), text(answer.get("secondaryKey")))

    async def _post(self, address: str, secret: str, body: bytes, headers: Mapping[str, str]) -> tuple[Bytes, float]:
        started = time.perf_counter()
        # The session does not decompress by itself.
        sent = {"Accept-Encoding": "identity", **headers, "Authorization": f"Bearer {secret}"}
        answer = await self._client.score(address, body, sent, _SCORING_SECONDS)
        return answer, time.perf_counter() - started

    async def _way_in(self, name: str) -> tuple[str, str, bool]:
        """Scoring address and key or token, and whether they were kept from before."""
        known = self._known.get(name)
        if known is not None and time.time() < known[2]:
            return known[0], known[1], True
        endpoint = await self._endpoint(name)
        if not endpoint.scoring_uri:
            raise Conflict(
                f"Endpoint {name!r} has no address yet: it is {endpoint.state}.",
                "Wait until it is Succeeded, then try again.",
            )
        secret, until = await self._secret(endpoint)
        self._known[name] = (endpoint.scoring_uri, secret, until)
        return endpoint.scoring_uri, secret, False

    async def _secret(self, endpoint: Endpoint) -> tuple[str, float]:
        if endpoint.auth_mode == "aad_token":
            token = await asyncio.to_thread(self._client.credential.get_token_info, self._client.cloud.aml_scope)
            return token.token, token.expires_on - _TOKEN_MARGIN_SECONDS
        if endpoint.auth_mode == "aml_token":
            secret, ends = await self._token(endpoint.name)
            return secret, ends - _TOKEN_MARGIN_SECONDS
        return (await self.keys(endpoint)).primary, float("inf")

    async def _token(self, name: str) -> tuple[str, float]:
        """A token of an endpoint, and until when it should be used, in seconds since 1970."""
        path = f"{endpoint_path(name)}/token"
        answer = mapping(await self._client.post(path, ENDPOINT_VERSION, f"the token of endpoint {name!r}"))
        ends = count(answer.get("refreshAfterTimeUtc")) or count(answer.get("expiryTimeUtc"))
        return text(answer.get("accessToken")), float(ends)
