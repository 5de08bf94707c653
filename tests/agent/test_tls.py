"""A guard behind a certificate of its own authority."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.agent.fake_guard import FakeGuard, Listener
from tests.agent.vm import Vm


@pytest.fixture
def authority(tmp_path: Path, guard_and_port: tuple[FakeGuard, Listener]) -> tuple[str, FakeGuard]:
    """The certificate that vouches for itself, in PEM, and the guard that now answers with it."""
    guard, port = guard_and_port
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "costguard.internal")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "guard.pem"
    path.write_bytes(secret + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    port.socket = context.wrap_socket(port.socket, server_side=True)
    guard.url = guard.url.replace("http:", "https:")
    port.listen()
    return certificate.decode(), guard


def test_a_guard_is_trusted_by_the_authority_that_the_attempt_names(vm: Vm, authority: tuple[str, FakeGuard]) -> None:
    """No file of the VM's has to be changed for that."""
    certificate, guard = authority
    vm.order("true", guard_ca=certificate)
    vm.boot()
    assert vm.finished() == 0
    assert guard.kinds() == ["boot", "start", "exit"]


def test_a_guard_that_nobody_vouches_for_gets_no_token(vm: Vm, authority: tuple[str, FakeGuard]) -> None:
    """The command runs all the same, and its events wait on the disk."""
    _, guard = authority
    vm.order("true")
    vm.boot()
    spool = vm.home / "attempts" / "nightly-7f3a-1" / "spool"
    while not list(spool.glob("*-exit.json")) or "certificate" not in vm.spoken.read_text():
        with pytest.raises(subprocess.TimeoutExpired):
            vm.agents[-1].wait(0.05)
    assert guard.requests == 0
