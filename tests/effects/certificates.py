"""A certificate authority of the tests, and what it would never sign."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass
class Identity:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def server_context(self, folder: Path, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
        path = folder / f"{self.certificate.serial_number}.pem"
        key = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path.write_bytes(self.pem.encode() + key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(path)
        if protocols:
            context.set_alpn_protocols(protocols)
        return context


def issue(name: str, signer: Identity | None = None, *, is_expired: bool = False) -> Identity:
    """A certificate for a name or an address; without a signer it vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 10 * DAY)
        .not_valid_after(now - DAY if is_expired else now + DAY)
        .add_extension(x509.SubjectAlternativeName([_san(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    )
    signed = builder.sign((signer.key if signer else key), hashes.SHA256())
    return Identity(signed, key)


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
