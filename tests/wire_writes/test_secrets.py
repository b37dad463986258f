"""No token, key or signed address gets out: not on a terminal, in `--json`, in an error, nor in any file that footplate keeps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.terminal import Terminal
from tests.wire import faults

SIGNED = (
    "https://acct.blob.core.windows.net/azureml/x.txt?sv=2025-01-05&se=2026-12-02&sr=b&sp=r&sig=c2VjcmV0%2Bc2VjcmV0"
)
SIGNATURE = "c2VjcmV0"


@pytest.fixture
def leaky(wire) -> str:
    """A message of the service that tells all it should not."""
    key = wire.state.keys["live"]["primaryKey"]
    return (
        f'The upload to {SIGNED} failed. Authorization: Bearer {wire.token} {{"primaryKey": "{key}", '
        f'"accountKey": "{SIGNATURE}=="}}'
    )


def secrets(wire) -> list[str]:
    """All that must stay inside: the token, all keys, and every signature."""
    keys = [key for pair in wire.state.keys.values() for key in pair.values()]
    return [wire.token, wire.token.rpartition(".")[2], *keys, "sig=", SIGNATURE]


def test_a_session_keeps_its_secrets(footplate, wire, folder: Path, tmp_path: Path, leaky: str) -> None:
    said: dict[str, str] = {}

    def run(*words: str, code: int = 0) -> str:
        done = footplate(*words)
        said[" ".join(words)] = done.stdout + done.stderr
        assert done.returncode == code, said[" ".join(words)]
        return done.stdout

    picture = tmp_path / "bird.png"
    Image.new("RGB", (32, 32), "red").save(picture)
    run("launch", "jobs/train.yml", "--name", "kept", "--follow")
    run("register", "kept", "--model", "birds", "--json")
    run("download", "kept", "--to", str(tmp_path / "outputs"))
    run("endpoint", "show", "live", "--json")
    run("endpoint", "logs", "live", "--deployment", "blue")
    run("traffic", "live", "blue=90", "green=10")
    run("invoke", "live", str(picture))

    # What the service says in a refusal is shown, but for what is secret in it.
    for method, path, words, code in (
        ("PUT", "/jobs/refused", ("launch", "jobs/train.yml", "--name", "refused"), 2),
        ("PATCH", "/onlineEndpoints/live", ("traffic", "live", "green=100"), 1),
        ("POST", "/getLogs", ("endpoint", "logs", "live", "--deployment", "blue"), 4),
        ("GET", "/jobs/kept", ("job", "kept", "--json"), 3),
    ):
        status = {2: 400, 1: 409, 4: 403, 3: 500}[code]
        wire.faults.add(
            method, path, faults.fail(status, message=leaky) if status != 403 else _forbidden(leaky), times=9
        )
        run(*words, code=code)
        wire.faults.clear()

    with Terminal(
        [sys.executable, "-m", "footplate", "--workspace", "wire", "--view", "endpoints"],
        environment=footplate.environment,
        folder=folder,
        columns=160,
        rows=45,
    ) as terminal:
        terminal.read_until(b"live")
        terminal.write("1")
        terminal.read_until(b"kept")
        wire.faults.add("GET", "/jobs", faults.fail(400, message=leaky), times=3)
        terminal.write("r")
        terminal.read_until(b"upload")
        wire.faults.clear()
        terminal.write("q")
        terminal.wait()
        said["the console"] = bytes(terminal.output).decode("utf-8", "replace")

    for where, text in said.items():
        for secret in secrets(wire):
            assert secret not in text, f"{secret[:12]}… is in the output of {where}"
    kept = [path for path in footplate.home.rglob("*") if path.is_file()]
    assert footplate.home / "console.log" in kept
    for path in [*kept, *(tmp_path / "outputs").rglob("*")]:
        if path.is_file():
            for secret in secrets(wire):
                assert secret.encode() not in path.read_bytes(), f"{secret[:12]}… is in {path}"
    # The one command that prints keys does so when asked.
    keys = json.loads(run("endpoint", "keys", "live", "--json"))
    assert wire.state.keys["live"]["primaryKey"] in json.dumps(keys)
    token = json.loads(run("endpoint", "keys", "tokens", "--json"))
    assert list(token) == ["token", "expires"]
    assert wire.tokens.why_not(f"Bearer {token['token']}") == ""


def _forbidden(message: str) -> faults.Fault:
    return faults.Fault(403, {"error": {"code": "Forbidden", "message": message}})


@pytest.fixture(autouse=True)
def endpoints(wire) -> None:
    """Endpoints with keys and with tokens."""
    wire.seed.endpoint("live", {"blue": 100, "green": 0})
    wire.seed.endpoint("tokens", {"blue": 100}, auth="AMLToken")
