"""One token cache: many threads, one fetch; renewed before it ends; never a code that nobody sees."""

from __future__ import annotations

import base64
import json
import threading
import time

import pytest
from azure.core.credentials import AccessTokenInfo
from azure.core.exceptions import ClientAuthenticationError

from footplate.azure import sign_in
from footplate.azure.clouds import CLOUDS
from footplate.azure.credential import CachingCredential, VariableSource, expiry
from footplate.workspace import Invalid, NotSignedIn

SCOPE = "https://management.azure.com/.default"


class Source:
    """Gives numbered tokens; a fetch waits for the gate."""

    name = "a test"

    def __init__(self, seconds: float = 3600, refresh_on: int | None = None) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.seconds = seconds
        self.refresh_on = refresh_on
        self.error: Exception | None = None

    def token(self, scope: str, claims: str | None) -> AccessTokenInfo:
        self.asked.append((scope, claims))
        number = len(self.asked)
        assert self.gate.wait(10)
        if self.error:
            raise self.error
        return AccessTokenInfo(f"token-{number}", int(time.time() + self.seconds), refresh_on=self.refresh_on)

    def close(self) -> None:
        """Nothing to let go of."""


def until(condition) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def in_threads(count: int, act) -> list:
    found: list = []
    threads = [threading.Thread(target=lambda: found.append(act())) for _ in range(count)]
    for thread in threads:
        thread.start()
    return found, threads


def test_27_threads_ask_and_one_token_is_fetched():
    source = Source()
    source.gate.clear()
    credential = CachingCredential(source)
    found, threads = in_threads(27, lambda: credential.get_token_info(SCOPE).token)
    until(lambda: source.asked)
    source.gate.set()
    for thread in threads:
        thread.join(10)
    assert found == ["token-1"] * 27
    assert source.asked == [(SCOPE, None)]
    assert credential.get_token_info(SCOPE).token == "token-1"


def test_27_threads_share_a_failure_too():
    source = Source()
    source.error = ClientAuthenticationError(f"no login\nBearer {'x' * 20}")
    source.gate.clear()
    credential = CachingCredential(source)
    refused, begun = [], []

    def ask() -> None:
        begun.append(True)
        with pytest.raises(NotSignedIn) as error:
            credential.get_token_info(SCOPE)
        refused.append(error.value)

    _, threads = in_threads(27, ask)
    until(lambda: source.asked and len(begun) == 27)  # one between the two asks again, which is right
    source.gate.set()
    for thread in threads:
        thread.join(10)
    assert len(refused) == 27
    assert len(source.asked) < 5
    assert "a test" in refused[0].sentence
    assert "xxxx" not in refused[0].raw
    source.error = None
    assert credential.get_token_info(SCOPE).token


def test_an_expired_token_is_not_used():
    source = Source(seconds=10)
    credential = CachingCredential(source)
    credential.get_token_info(SCOPE)
    assert credential.ready(SCOPE) is None
    assert credential.get_token_info(SCOPE).token == "token-2"


def test_a_token_near_its_end_serves_while_another_is_fetched_behind_it():
    source = Source(seconds=200)
    credential = CachingCredential(source)
    credential.get_token_info(SCOPE)
    source.seconds = 3600
    source.gate.clear()
    assert credential.get_token_info(SCOPE).token == "token-1"
    until(lambda: len(source.asked) == 2)
    assert credential.get_token_info(SCOPE).token == "token-1"
    source.gate.set()
    until(lambda: credential.get_token_info(SCOPE).token == "token-2")
    assert len(source.asked) == 2


def test_a_failed_refresh_is_not_tried_at_every_look():
    source = Source(seconds=200)
    credential = CachingCredential(source)
    credential.get_token_info(SCOPE)
    source.error = ClientAuthenticationError("gone")
    before = set(threading.enumerate())
    for _ in range(20):
        assert credential.get_token_info(SCOPE).token == "token-1"
        for refresh in set(threading.enumerate()) - before:
            refresh.join(10)
    assert len(source.asked) == 2


def test_a_claims_challenge_goes_past_the_cache_and_its_token_is_kept():
    source = Source()
    credential = CachingCredential(source)
    credential.get_token_info(SCOPE)
    assert credential.get_token_info(SCOPE, options={"claims": "{}"}).token == "token-2"
    assert source.asked[-1] == (SCOPE, "{}")
    assert credential.get_token_info(SCOPE).token == "token-2"


def test_a_refused_token_is_forgotten_but_not_its_successor():
    credential = CachingCredential(Source())
    first = credential.get_token_info(SCOPE).token
    credential.forget(first)
    second = credential.get_token_info(SCOPE).token
    credential.forget(first)
    assert credential.ready(SCOPE).token == second


def test_each_scope_has_its_own_token():
    credential = CachingCredential(Source())
    assert credential.get_token_info(SCOPE).token != credential.get_token_info("https://ml.azure.com/.default").token


def jwt(seconds: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time() + seconds)}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{claims}.x"


def test_a_ready_token_comes_from_its_variable():
    environment = {"BIRDS": jwt(3600)}
    source = VariableSource("BIRDS", environment)
    assert source.token(SCOPE, None).token == environment["BIRDS"]
    assert source.token(SCOPE, None).expires_on == expiry(environment["BIRDS"])
    environment["BIRDS"] = "opaque"
    assert source.token(SCOPE, None).expires_on > time.time()
    for value, words in (("", "holds no token"), (jwt(5), "has expired"), (jwt(-5), "has expired")):
        environment["BIRDS"] = value
        with pytest.raises(NotSignedIn, match=words):
            source.token(SCOPE, None)
    environment["BIRDS"] = jwt(3600)
    with pytest.raises(NotSignedIn, match="new sign-in"):
        source.token(SCOPE, "{}")


def test_the_ways_to_sign_in_follow_the_variable():
    def names(value: str | None) -> list[str]:
        return [way.credential for way in sign_in.ways({} if value is None else {"AZURE_TOKEN_CREDENTIALS": value})]

    assert names(None) == [
        "EnvironmentCredential",
        "WorkloadIdentityCredential",
        "ManagedIdentityCredential",
        "AzureCliCredential",
    ]
    assert names("prod") == names(None)[:3]
    assert names("dev")[0] == "AzureCliCredential"
    assert names("azureclicredential") == ["AzureCliCredential"]
    with pytest.raises(Invalid, match="AZURE_TOKEN_CREDENTIALS is 'browser'"):
        names("browser")


def test_without_any_login_the_sentence_says_how_to_sign_in(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no az
    chain = sign_in.ChainSource(CLOUDS["AzureCloud"], environment={"AZURE_TOKEN_CREDENTIALS": "AzureCliCredential"})
    with pytest.raises(NotSignedIn, match="not signed in to Azure") as refused:
        CachingCredential(chain).get_token_info(SCOPE)
    assert "az login" in refused.value.next_step
    assert "the Azure CLI:" in refused.value.raw


def test_the_azure_cli_gives_a_token_and_is_named(tmp_path, monkeypatch):
    az = tmp_path / "az"
    az.write_text(
        "#!/bin/sh\necho run >> $(dirname $0)/runs\n"
        'echo \'{"accessToken": "from-az", "expiresOn": "2099-01-01 00:00:00.000000", "expires_on": 4070908800}\'\n'
    )
    az.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    credential = CachingCredential(
        sign_in.ChainSource(CLOUDS["AzureCloud"], environment={"AZURE_TOKEN_CREDENTIALS": "dev"})
    )
    _, threads = in_threads(27, lambda: credential.get_token_info(SCOPE))
    for thread in threads:
        thread.join(20)
    assert credential.get_token_info(SCOPE).token == "from-az"
    assert credential.name == "the Azure CLI"
    assert (tmp_path / "runs").read_text() == "run\n"
