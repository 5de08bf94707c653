"""Receivers that are sent what happens, for teams without Slack and for programs."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from costguard.model.fact_kinds import FACT_KINDS
from costguard.model.webhook import Webhook
from costguard.settings import values
from costguard.settings.fields import Listed, ProjectId, Section
from costguard.settings.webhook_secrets import decoded


def _url(value: str) -> str:
    """What is sent says who works on what: it goes over TLS, or does not leave this machine."""
    try:
        parts = urlsplit(value)
        host, is_usable = parts.hostname or "", parts.port != 0
    except ValueError:
        host, is_usable = "", False
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and _is_here(host)) if host else False
    if not is_usable or not is_safe or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(
            "an address such as https://hooks.example.com/costguard; with http:// only one on this machine"
        )
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("an address without a user and without #: the secret that signs is all that is needed")
    return value


def _is_here(host: str) -> bool:
    try:
        return values.is_loopback(host)
    except ValueError:  # a name
        return False


def _kind(value: str) -> str:
    if value not in FACT_KINDS:
        close = get_close_matches(value, FACT_KINDS, n=1, cutoff=0.6)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(f"a kind of event as `costguard events` shows it, such as LifetimeStarted{hint}")
    return value


Kind = Annotated[str, AfterValidator(_kind)]


class WebhookSection(Section):
    """The secret comes from the environment, never from the file. No kinds, or projects, means all of them."""

    url: Annotated[str, AfterValidator(_url)]
    kinds: Annotated[tuple[Kind, ...], Listed] = ()
    projects: Annotated[tuple[ProjectId, ...], Listed] = ()
    secret: SecretStr = Field(default=SecretStr(""), exclude=True)  # never empty: `references` asks for it

    def webhook(self, name: str) -> Webhook:
        secrets = decoded(self.secret.get_secret_value())
        return Webhook(name, self.url, secrets, frozenset(self.kinds), frozenset(self.projects))
