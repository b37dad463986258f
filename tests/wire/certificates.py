"""A certificate authority of one server, and the certificate that it signs for the names under localhost."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# OpenSSL takes no `*.localhost`: a wildcard needs two labels after it. So each host that the server has is named.
NAMES = (
    "localhost",
    "*.localhost",
    "management.localhost",
    "login.localhost",
    "ml.localhost",
    "*.api.localhost",
    "*.blob.localhost",
    "*.inference.localhost",
    "*.eastus2.inference.localhost",
)


@dataclass(frozen=True)
class Certificates:
    """The files of a server's certificate: what clients trust, and what the server shows."""

    ca_file: Path
    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """A server's TLS context."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context


def make_certificates(folder: Path) -> Certificates:
    """Make an authority and a certificate, both good for ten days, as files in a folder."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "footplate test authority")])
    usage = {
        **dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False),
        **dict.fromkeys(("encipher_only", "decipher_only"), False),
    }

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=10))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )

    authority = (
        builder(ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
        .sign(ca_key, hashes.SHA256())
    )
    names = [*(x509.DNSName(name) for name in NAMES), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = (
        builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    made.ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.chain.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made
