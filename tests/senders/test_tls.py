"""HTTPS: certificates are checked by both clients, and a failed check is no connection."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from taskbell.core.instant import SECOND
from taskbell.sender import Failure, Outcome, Request
from taskbell.senders.http import HttpSender
from taskbell.testing.handler import ScriptedHandler
from tests.senders.listener import listening

DAY = dt.timedelta(days=1)


class Authority:
    """A certificate authority, with a server certificate for the loopback signed by it."""

    def __init__(self, folder: Path, *, is_expired: bool = False) -> None:
        now = dt.datetime.now(dt.UTC)
        until = now - DAY if is_expired else now + DAY
        key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Taskbell test authority")])
        common = x509.CertificateBuilder().issuer_name(name).not_valid_before(now - 30 * DAY)
        root = (
            common.subject_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.KeyUsage(*(at in {5, 6} for at in range(9))), critical=True)
            .sign(key, hashes.SHA256())
        )
        server = (
            common.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "handler")]))
            .public_key(server_key.public_key())
            .serial_number(2)
            .not_valid_after(until)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
            .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        self.pem = root.public_bytes(pem)
        both = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / "server.pem").write_bytes(server.public_bytes(pem) + both)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "server.pem")


async def send(url: str, trusted: bytes) -> Outcome:
    """One POST with a sender that trusts these authorities too."""
    sender = HttpSender(root_certificates=trusted)
    await sender.start()
    try:
        return await sender.send(Request("POST", url, (), b"x", 5 * SECOND))
    finally:
        await sender.close()


async def test_a_private_authority_can_be_trusted(tmp_path: Path, path: str) -> None:
    """It is trusted besides the usual ones; the protocol stays HTTP/1.1."""
    authority = Authority(tmp_path)
    async with ScriptedHandler(tls=authority.context) as handler:
        assert await send(handler.url + path, authority.pem) == Outcome(status=200)
        assert handler.requests[0].head.startswith(f"POST {path} HTTP/1.1\r\n".encode())
        assert handler.requests[0].header("host") == handler.authority


@pytest.mark.parametrize("case", ["not trusted", "expired", "other name"])
async def test_a_certificate_that_does_not_hold(tmp_path: Path, path: str, case: str) -> None:
    """UNREACHABLE, with a reason that says certificate."""
    authority = Authority(tmp_path, is_expired=case == "expired")
    trusted = b"" if case == "not trusted" else authority.pem
    async with ScriptedHandler(tls=authority.context) as handler:
        host = "localhost" if case == "other name" else "127.0.0.1"
        outcome = await send(f"https://{host}:{handler.port}{path}", trusted)
        assert outcome.failure is Failure.UNREACHABLE
        assert "cert" in outcome.reason.lower()
        assert handler.requests == []


async def test_tls_with_a_handler_that_speaks_none(path: str) -> None:
    """No connection, as soon as its answer is seen to be no TLS."""

    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with listening(speak_plainly) as port:
        outcome = await send(f"https://127.0.0.1:{port}{path}", b"")
        assert outcome.failure is Failure.UNREACHABLE
        assert outcome.reason
