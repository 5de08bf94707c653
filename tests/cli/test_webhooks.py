"""`costguard webhooks test`, as a person types it, against a receiver that checks signatures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.typed import Typist
from tests.webhooks.receiver import SECRET, Receiver

SETTINGS = '[watch]\nprojects = ["acme-training"]\n[webhooks.pager]\nurl = "{url}"\n'


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    return tmp_path / "costguard.toml"


def test_a_receiver_is_tried_out_without_a_server(typist: Typist, settings: Path) -> None:
    """The answer is shown, a refusal exits 1 with what to do, and so does a name that is in no section."""
    environ = {"COSTGUARD_WEBHOOK_PAGER_SECRET": SECRET}
    with Receiver().listening() as receiver:
        settings.write_text(SETTINGS.format(url=receiver.url))

        def typed(*arguments: str) -> tuple[int, str]:
            done = typist.type(["webhooks", "test", *arguments, "--config", str(settings)], environ)
            return done.returncode, done.stdout + done.stderr

        assert typed("pager") == (0, "ok   pager accepted the test: it answered 204.\n")
        receiver.answers = [(401, {}, b"who are you?"), (500, {}, b"\x1b[31mno")]
        code, said = typed("pager")
        assert (code, " ".join(said.split())) == (
            1,
            'NOT The receiver answered 401 ("who are you?"). Check that it knows the secret that signs.',
        )
        code, said = typed("pager", "--json")
        assert (code, json.loads(said)) == (1, {"accepted": False, "status": 500, "answer": "[31mno"})
        code, said = typed("page")
        assert code == 1
        assert "There is no webhook page in the settings (known: pager)." in " ".join(said.split())
    assert [got.event["kind"] for got in receiver.got] == ["WebhookTest"] * 3
