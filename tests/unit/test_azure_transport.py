"""Which proxy a request takes, and which certificates are trusted."""

from __future__ import annotations

import shutil
import ssl

import pytest

from footplate.azure.clouds import CLOUDS
from footplate.azure.transport import proxy_for, trust


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", ".internal.example")


def test_the_environments_proxy_is_taken_but_never_for_this_machine(proxies):
    assert proxy_for("https://management.azure.com/x") == "http://proxy.example:3128"
    for address in ("https://management.localhost:8443/x", "https://localhost/x", "https://a.internal.example/x"):
        assert proxy_for(address) is None
    assert proxy_for("http://management.azure.com/x") is None


def test_a_networks_own_certificates_are_trusted_besides_the_systems(monkeypatch, tmp_path):
    own = ssl.create_default_context().cert_store_stats()["x509_ca"]
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "gone.pem"))
    assert trust(CLOUDS["AzureCloud"]).cert_store_stats()["x509_ca"] == own
    certifi = pytest.importorskip("certifi")
    shutil.copy(certifi.where(), tmp_path / "ca.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    trusted = trust(CLOUDS["AzureCloud"])
    assert trusted.cert_store_stats()["x509_ca"] > 50
    assert trusted.verify_mode == ssl.CERT_REQUIRED
    assert trusted.check_hostname
