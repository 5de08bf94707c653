"""The script that sets up the VM: its steps that need no root, against a local metadata server and Secret Manager."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.deploy.terraform import TERRAFORM

SCRIPT = TERRAFORM / "startup.sh"
UNIT = (TERRAFORM.parent / "costguard.service").read_text()
NAMES = ("COSTGUARD_TOKEN", "COSTGUARD_SLACK_TOKEN")


@dataclass
class FakeGoogle:
    """Answers as the metadata server and as Secret Manager do; `secrets` are the values by path."""

    attributes: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    url: str = ""

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        metadata = path.removeprefix("/computeMetadata/v1/instance/")
        if metadata != path:
            assert headers["Metadata-Flavor"] == "Google"
            if metadata == "service-accounts/default/token":
                return 200, json.dumps({"access_token": "ya29.t", "expires_in": 3599}).encode()
            value = self.attributes.get(metadata.removeprefix("attributes/"))
            return (404, b"") if value is None else (200, value.encode())
        assert headers["Authorization"] == "Bearer ya29.t"
        name = path.removeprefix("/v1/").removesuffix("/versions/latest:access")
        if name in self.refused:
            return 403, b'{"error": {"code": 403, "status": "PERMISSION_DENIED"}}'
        if name not in self.secrets:
            return 404, b'{"error": {"code": 404, "status": "NOT_FOUND"}}'
        data = base64.b64encode(self.secrets[name]).decode()
        return 200, json.dumps({"name": f"{name}/versions/1", "payload": {"data": data}}).encode()


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    fake = FakeGoogle()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = fake.answer(self.path, dict(self.headers))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    # As join() in vm.tf writes them: without a line feed at the end.
    fake.attributes["costguard-secrets"] = "\n".join(f"{name} projects/p/secrets/{name.lower()}" for name in NAMES)
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


def run_step(step: str, google: FakeGoogle, root: Path) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "ROOT": str(root),
        "METADATA": f"{google.url}/computeMetadata/v1",
        "SECRETS": f"{google.url}/v1",
    }
    command = ["bash", str(SCRIPT), step]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)


def test_secrets_become_files_that_root_alone_reads(google: FakeGoogle, tmp_path: Path) -> None:
    """Each has its variable's name, as the unit expects; one without a version has no file, and an old one goes."""
    google.secrets["projects/p/secrets/costguard_token"] = b"s3cret with = and spaces"
    old = tmp_path / "etc/credstore/COSTGUARD_SLACK_TOKEN"
    old.parent.mkdir(parents=True)
    old.write_text("xoxb-old")
    done = run_step("fetch_secrets", google, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (file,) = old.parent.iterdir()
    assert file.name == "COSTGUARD_TOKEN"
    assert file.read_bytes() == b"s3cret with = and spaces"
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"LoadCredential={file.name}\n" in UNIT


def test_refused_secret_stops_the_script(google: FakeGoogle, tmp_path: Path) -> None:
    """A secret that may not be read is an error that names it; the service is not started without it."""
    google.refused.add("projects/p/secrets/costguard_token")
    done = run_step("fetch_secrets", google, tmp_path)
    assert done.returncode != 0
    assert "projects/p/secrets/costguard_token cannot be read: HTTP 403" in done.stderr


def test_settings_and_unit_are_written(google: FakeGoogle, tmp_path: Path) -> None:
    """Both are those of the metadata, and the unit does not start without its disk."""
    google.attributes |= {"costguard-settings": '[watch]\nprojects = ["p"]\n', "costguard-unit": UNIT}
    done = run_step("write_files", google, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "etc/costguard/costguard.toml").read_text() == '[watch]\nprojects = ["p"]\n'
    assert (tmp_path / "etc/systemd/system/costguard.service").read_text() == UNIT
    drop_in = (tmp_path / "etc/systemd/system/costguard.service.d/disk.conf").read_text()
    assert "StateDirectory=costguard\n" in UNIT
    assert "AssertPathIsMountPoint=/var/lib/private/costguard" in drop_in


def test_unit_starts_what_the_script_installs() -> None:
    """The folder of the unit's program is the script's; the metadata has each key that the script reads."""
    text, vm = SCRIPT.read_text(), (TERRAFORM / "vm.tf").read_text()
    assert "INSTALLED=$ROOT/opt/costguard\n" in text
    assert "ExecStart=/opt/costguard/bin/costguard serve\n" in UNIT
    assert "Environment=COSTGUARD_CONFIG=/etc/costguard/costguard.toml\n" in UNIT
    read = {word.strip(")\n") for word in text.split("attributes/")[1:] for word in [word.split()[0]]}
    assert read == {f"costguard-{key}" for key in ("package", "requirements", "settings", "unit", "secrets")}
    assert all(f"    {key} " in vm for key in read)
