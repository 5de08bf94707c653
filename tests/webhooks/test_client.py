"""Posting over HTTP: what strange receivers can do to it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.webhooks.receiver import Receiver

from costguard.errors import WebhookError
from costguard.webhooks.client import HttpPoster

HEAD = b"HTTP/1.1 500 Odd\r\nContent-Type: text/html\r\n"


@contextmanager
def raw_server(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port that sends these bytes to every client, then nothing more, without hanging up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection = listener.accept()[0]
                    kept.append(connection)
                    if context is not None:
                        connection = context.wrap_socket(connection, server_side=True)
                        kept.append(connection)
                    connection.recv(65536)
                    connection.sendall(answer)
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for item in kept:
                item.close()


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nwords", 500, "words"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n" + b"a" * 100_000, 500, "a" * 200),
        (HEAD + b"Content-Length: 100\r\n\r\nand then nothing", 500, "and then nothing"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 500, ""),
        (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nnot", 500, "not"),
        (
            HEAD + b"Retry-After: soon\r\nContent-Length: 8\r\n\r\n\x1b[31m\xff\r\n",
            500,
            "[31m\N{REPLACEMENT CHARACTER}",
        ),
    ],
)
def test_an_odd_answer_is_read_as_far_as_it_is_of_use(answer: bytes, status: int, words: str) -> None:
    """The status counts; of its body no more than a little is read, nothing is unpacked, and nobody waits for it."""
    with raw_server(answer) as port:
        poster = HttpPoster("1", timeout_s=1)
        got = poster.post(f"http://127.0.0.1:{port}/", b"{}", {})
        poster.close()
    assert (got.status, got.words, got.retry_after) == (status, words, None)


@pytest.mark.parametrize(
    ("answer", "expected"), [(b"", "did not answer within 1 s"), (b"SSH-2.0\r\n\r\n", "cannot be reached")]
)
def test_no_answer_is_told_without_the_secret_path(answer: bytes, expected: str) -> None:
    """Silence and nonsense are troubles of the receiver's, and its path may be a secret."""
    with raw_server(answer) as port:
        poster = HttpPoster("1", timeout_s=1)
        with pytest.raises(WebhookError, match=expected) as caught:
            poster.post(f"http://127.0.0.1:{port}/s3cret?x=s3cret", b"{}", {})
        poster.close()
    assert f"http://127.0.0.1:{port} " in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    """A receiver that was taken over sends no event to an address that the settings do not name."""
    with Receiver().listening() as elsewhere, raw_server(_redirect(status, f"{elsewhere.url}/elsewhere")) as port:
        poster = HttpPoster("1", timeout_s=30)
        got = poster.post(f"http://127.0.0.1:{port}/", b"{}", {"webhook-signature": "v1,secret"})
        poster.close()
    assert got.status == status
    assert elsewhere.got == []


def _redirect(status: int, address: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {address}\r\nContent-Length: 0\r\n\r\n".encode()


def test_nobody_who_cannot_prove_it_is_the_receiver(tmp_path: Path) -> None:
    """A certificate that no authority vouches for is refused before anything is sent."""
    with raw_server(HEAD, _own_certificate(tmp_path)) as port:
        poster = HttpPoster("1", timeout_s=30)
        with pytest.raises(WebhookError, match=r"(?i)certificate.verify.failed"):
            poster.post(f"https://127.0.0.1:{port}/", b"{}", {})
        poster.close()


def _own_certificate(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.internal")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "receiver.pem").write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "receiver.pem")
    return context
