"""Signing in at a directory over TLS: a device code, a service principal; a small directory of our own answers."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.wire.certificates import make_certificates

from footplate import settings
from footplate.azure import sign_in
from footplate.azure.clouds import Cloud
from footplate.azure.credential import CachingCredential
from footplate.azure.kept_sign_in import KeptSignIn
from footplate.workspace import JobFilter, NotSignedIn
from footplate.workspace.open import open_workspace

TENANT = "00000000-0000-0000-0000-0000000000aa"
SCOPE = "https://management.localhost/.default"


def encoded(claims: dict) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


class Directory:
    """Answers as Microsoft's directory does; a device code is typed in when `typed` is set, or refused."""

    def __init__(self, folder: Path) -> None:
        self.certificates = make_certificates(folder)
        self.port = 0
        self.typed = False
        self.refused = False
        self.grants: list[str] = []
        self.lifetime = 3600
        self.transports: list = []

    @property
    def address(self) -> str:
        return f"https://login.localhost:{self.port}"

    async def configuration(self, request: web.Request) -> web.Response:
        base = f"{self.address}/{request.match_info['tenant']}"
        return web.json_response(
            {
                "issuer": f"{base}/v2.0",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
            }
        )

    async def code(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "device_code": "device",
                "user_code": "WREN1234",
                "verification_uri": f"{self.address}/devicelogin",
                "expires_in": 900,
                "interval": 1,
                "message": "type it in",
            }
        )

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        grant = str(form["grant_type"]).rpartition(":")[2]
        self.grants.append(grant)
        if grant == "device_code" and self.refused:
            return web.json_response({"error": "authorization_declined", "error_description": "declined"}, status=400)
        if grant == "device_code" and not self.typed:
            return web.json_response({"error": "authorization_pending"}, status=400)
        if grant == "client_credentials" and form.get("client_secret") != "right":
            return web.json_response({"error": "invalid_client", "error_description": "wrong secret"}, status=401)
        now = int(time.time())
        answer = {
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "access_token": f"{grant}-{len(self.grants)}",
            "scope": SCOPE,
        }
        if grant != "client_credentials":
            claims = {
                "aud": form["client_id"], "iss": f"{self.address}/{TENANT}/v2.0", "iat": now, "exp": now + 3600, "sub": "me",
                "tid": TENANT, "oid": "oid", "preferred_username": "me@example.org",
            }  # fmt: skip
            answer |= {
                "refresh_token": "refresh",
                "client_info": encoded({"uid": "oid", "utid": TENANT}),
                "id_token": f"{encoded({'alg': 'none'})}.{encoded(claims)}.x",
            }
        return web.json_response(answer)

    async def last(self, request: web.Request, response: web.StreamResponse) -> None:
        self.transports.append(request.transport)

    async def start(self) -> None:
        app = web.Application()
        app.on_response_prepare.append(self.last)
        app.router.add_get("/{tenant}/v2.0/.well-known/openid-configuration", self.configuration)
        app.router.add_post("/{tenant}/oauth2/v2.0/devicecode", self.code)
        app.router.add_post("/{tenant}/oauth2/v2.0/token", self.token)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.certificates.context()).start()
        self.port = self.runner.addresses[0][1]

    async def stop(self) -> None:
        for transport in self.transports:
            transport.abort()  # one whose client does not say goodbye would outlive the loop
        await self.runner.cleanup()
        await asyncio.sleep(0.05)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    served, loop = Directory(tmp_path), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(served.start(), loop).result(20)
    yield served
    asyncio.run_coroutine_threadsafe(served.stop(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def cloud(directory: Directory) -> Cloud:
    manager = "https://management.localhost"
    return Cloud(
        "custom", manager, directory.address, "https://ml.azure.com", "localhost", directory.certificates.ca_file
    )


def test_a_device_code_is_shown_and_its_sign_in_gives_tokens_from_then_on(directory, cloud):
    shown: list[sign_in.DeviceCode] = []

    def show(code: sign_in.DeviceCode) -> None:
        shown.append(code)
        directory.typed = True

    source = sign_in.DeviceCodeSource(cloud, TENANT, show)
    credential = CachingCredential(source)
    with pytest.raises(NotSignedIn):  # no code is asked for behind the operator's back
        credential.get_token_info(SCOPE)
    assert shown == []
    source.sign_in(SCOPE)
    assert (shown[0].code, shown[0].address) == ("WREN1234", f"{directory.address}/devicelogin")
    assert shown[0].expires.timestamp() > time.time()
    token = credential.get_token_info(SCOPE).token
    credential.close()
    assert token.startswith("device_code-")
    assert credential.name == "a device code"
    assert len(shown) == 1


def test_a_device_code_sign_in_is_renewed_without_another_code(directory, cloud):
    directory.typed = True
    directory.lifetime = 310  # what is left is soon less than azure-identity hands out again
    source = sign_in.DeviceCodeSource(cloud, TENANT, lambda code: None)
    source.sign_in(SCOPE)
    directory.lifetime = 3600
    assert source.token(SCOPE, '{"access_token": {}}').token.startswith("refresh_token-")
    source.close()


def test_a_declined_device_code_is_a_sentence(directory, cloud):
    directory.refused = True
    source = sign_in.DeviceCodeSource(cloud, TENANT, lambda code: None)
    with pytest.raises(NotSignedIn, match="did not end well") as refused:
        source.sign_in(SCOPE)
    source.close()
    assert "az login" in refused.value.next_step


def test_a_service_principal_signs_in_from_the_environment(directory, cloud, monkeypatch):
    secrets = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": "client", "AZURE_CLIENT_SECRET": "right"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    credential = CachingCredential(sign_in.ChainSource(cloud, environment=secrets))
    assert credential.get_token_info(SCOPE).token == "client_credentials-1"
    assert credential.name == "the environment's service principal"
    credential.get_token_info(SCOPE)
    assert directory.grants == ["client_credentials"]
    credential.close()


def test_a_wrong_secret_is_told_and_the_secret_is_not(directory, cloud, monkeypatch):
    secrets = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": "client", "AZURE_CLIENT_SECRET": "hush-hush"}
    for name, value in {**secrets, "PATH": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NotSignedIn, match="refused the sign-in by the environment's service principal") as refused:
        CachingCredential(sign_in.ChainSource(cloud, environment=secrets)).get_token_info(SCOPE)
    assert "the environment's service principal: " in refused.value.raw
    assert "wrong secret" in refused.value.raw
    assert "hush-hush" not in f"{refused.value} {refused.value.raw}"


@pytest.fixture
def own_home(tmp_path, monkeypatch) -> Path:
    """A user's home with nothing in it, and no tool's login."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FOOTPLATE_HOME", str(home / "footplate"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("AZURE_TOKEN_CREDENTIALS", raising=False)
    monkeypatch.setattr(sign_in, "_has_identity", lambda _: False)
    return home


def kept_files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


def sign_in_once(cloud: Cloud, kept: KeptSignIn | None) -> None:
    source = sign_in.DeviceCodeSource(cloud, TENANT, lambda code: None, kept)
    source.sign_in(SCOPE)
    source.close()


def test_a_device_code_sign_in_is_kept_where_that_is_asked_for_and_needs_no_other_code(directory, cloud, own_home):
    directory.typed = True
    sign_in_once(cloud, KeptSignIn(cloud, TENANT))
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept_files(own_home)} == {0o600}
    directory.grants.clear()
    credential = sign_in.credential_of(cloud, TENANT, "", token_cache=True)
    assert credential.get_token_info(SCOPE).token
    assert credential.name == "a device code of before"
    credential.close()
    assert "device_code" not in directory.grants
    other = sign_in.credential_of(cloud, "another-tenant", "", token_cache=True)
    with pytest.raises(NotSignedIn, match="You are not signed in"):
        other.get_token_info(SCOPE)


def test_without_asking_no_sign_in_is_kept(directory, cloud, own_home):
    directory.typed = True
    sign_in_once(cloud, None)
    assert kept_files(own_home) == []
    with pytest.raises(NotSignedIn, match="You are not signed in"):
        sign_in.credential_of(cloud, TENANT, "", token_cache=True).get_token_info(SCOPE)


def test_a_kept_sign_in_that_is_worth_nothing_any_more_is_passed_over(directory, cloud, own_home):
    directory.typed = True
    sign_in_once(cloud, KeptSignIn(cloud, TENANT))
    for file in kept_files(own_home / ".IdentityService"):
        file.write_text("{}")
    with pytest.raises(NotSignedIn, match="You are not signed in") as refused:
        sign_in.credential_of(cloud, TENANT, "", token_cache=True).get_token_info(SCOPE)
    assert "a device code of before: " in refused.value.raw
    (account,) = (own_home / "footplate").glob("account-*.json")
    account.write_text("not ours")
    with pytest.raises(NotSignedIn, match="You are not signed in"):
        sign_in.credential_of(cloud, TENANT, "", token_cache=True).get_token_info(SCOPE)


async def test_the_workspace_signs_in_by_a_code_and_goes_on(wire, config, monkeypatch, tmp_path):
    lines = [line for line in config.read_text().splitlines() if not line.startswith("token_env")]
    config.write_text("\n".join([*lines, f'tenant_id = "{TENANT}"']))
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
    monkeypatch.setenv("PATH", str(tmp_path))
    workspace = open_workspace("wire", settings.load(config))
    wire.seed.jobs(3)
    with pytest.raises(NotSignedIn, match="You are not signed in"):
        await anext(workspace.jobs(JobFilter()))
    shown = []

    def show(code: sign_in.DeviceCode) -> None:
        shown.append(code)
        wire.directory.confirm(code.code)

    await workspace.sign_in(show)
    assert len(await anext(workspace.jobs(JobFilter()))) == 3
    assert workspace.signed_in_by == "a device code"
    assert len(shown) == 1
    await workspace.close()
