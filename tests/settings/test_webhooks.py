"""Settings of webhooks: where events go, which ones, and the secret that signs them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from tests.settings.reading import read, refused

GOOD = '[watch]\nprojects = ["ml-training"]\n[webhooks.pager-2]\n'
URL = 'url = "https://hooks.example.com/in/x?team=a"\n'
OLD, NEW = (f"whsec_{b64encode(bytes([n]) * 24).decode()}" for n in (1, 2))
VARIABLE = "COSTGUARD_WEBHOOK_PAGER_2_SECRET"


def test_what_is_set_reaches_the_webhook(tmp_path: Path) -> None:
    """No kinds and no projects mean all; the secret comes from the environment or a file, and shows nowhere."""
    [plain] = read(tmp_path, GOOD + URL, **{VARIABLE: NEW}).webhook_list()
    assert (plain.name, plain.url) == ("pager-2", "https://hooks.example.com/in/x?team=a")
    assert (plain.kinds, plain.projects, plain.secrets) == (frozenset(), frozenset(), (b"\2" * 24,))
    (tmp_path / "secret").write_text(f"{NEW} {OLD}\n")
    text = GOOD + 'url = "http://[::1]:9/"\nkinds = ["JobFailed", "LifetimeEnded"]\nprojects = ["ml-training"]\n'
    settings = read(tmp_path, text, **{f"{VARIABLE}_FILE": str(tmp_path / "secret")})
    [chosen] = settings.webhook_list()
    assert (chosen.kinds, chosen.projects) == (frozenset({"JobFailed", "LifetimeEnded"}), frozenset({"ml-training"}))
    assert chosen.secrets == (b"\2" * 24, b"\1" * 24)
    assert not any(shown in f"{settings!r} {chosen!r} {settings.model_dump()}" for shown in (NEW, OLD, r"\x02"))


@pytest.mark.parametrize(
    ("text", "secret", "expected"),
    [
        (URL, "", f"webhooks.pager-2: needs the secret that signs the messages, in {VARIABLE}. Make one: python3"),
        (URL, "hunter2-hunter2-hunter2-hunter2", f"{VARIABLE}: expected a secret, or two with a space between"),
        (URL, f"whsec_{'A' * 28}", "expected a secret"),
        (URL, f"{OLD} {NEW} {OLD}", "expected a secret"),
        (URL + f'secret = "{NEW}"\n', NEW, f"no such key; it comes from the environment: {VARIABLE}"),
        ("", NEW, "webhooks.pager-2.url: missing; expected where events are posted, such as https://"),
        ('url = "http://hooks.example.com/"\n', NEW, "with http:// only on this computer"),
        ('url = "http://10.0.0.1/"\n', NEW, "with http:// only on this computer"),
        ('url = "file:///etc/passwd"\n', NEW, "an address such as https://hooks.example.com/costguard"),
        ('url = "https://a@hooks.example.com/"\n', NEW, "without a user"),
        (URL + 'kinds = ["LifetimeStart"]\n', NEW, "(did you mean LifetimeStarted?)"),
        (URL + 'projects = ["ml-trainin"]\n', NEW, "a watched project: ml-training (did you mean ml-training?)"),
        (URL + "wait = 3\n", NEW, "no such key"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, secret: str, expected: str) -> None:
    """Each mistake is reported with its place and what to write instead, and never with the secret."""
    message = str(refused(tmp_path, GOOD + text, **{VARIABLE: secret}))
    assert expected in message
    assert "There is 1 problem" in message
    assert not secret or secret not in message
