"""[webhooks]: receivers of events, and the secrets that sign them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from costguard.model.delivery.webhook import Webhook
from costguard.model.event_kinds import EVENT_KINDS
from costguard.settings.environment import webhook_variables
from costguard.settings.problems import Raw, SettingProblem, did_you_mean, table
from costguard.settings.values import Listed, ProjectId, Section, is_this_computer

_PREFIX = "whsec_"
_BYTES = range(24, 65)
MAKE = "python3 -c 'import base64, secrets; print(\"whsec_\" + base64.b64encode(secrets.token_bytes(32)).decode())'"


def _url(value: str) -> str:
    """Events say who works on what: they go over TLS, or stay on this computer."""
    try:
        parts = urlsplit(value)
        host, is_usable = parts.hostname or "", parts.port != 0
    except ValueError:
        host, is_usable = "", False
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_this_computer(host)) if host else False
    if not is_usable or not is_safe or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("an address such as https://hooks.example.com/costguard; with http:// only on this computer")
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("an address without a user and without #: the secret that signs is enough")
    return value


def _kind(value: str) -> str:
    if value not in EVENT_KINDS:
        hint = did_you_mean(value, EVENT_KINDS)
        raise ValueError(f"a kind of event as `costguard events` shows it, such as LifetimeStarted{hint}")
    return value


Kind = Annotated[str, AfterValidator(_kind)]


class WebhookSection(Section):
    """A receiver. Without kinds or projects it gets all. The secret comes from the environment alone."""

    url: Annotated[str, AfterValidator(_url)]
    kinds: Annotated[tuple[Kind, ...], Listed] = ()
    projects: Annotated[tuple[ProjectId, ...], Listed] = ()
    secret: SecretStr = Field(default=SecretStr(""), exclude=True)  # never empty: see `check`

    def webhook(self, name: str) -> Webhook:
        given = self.secret.get_secret_value()
        secrets = decoded(given) if given else ()  # the serving process has none, and delivers nothing
        return Webhook(name, self.url, secrets, frozenset(self.kinds), frozenset(self.projects))


def decoded(text: str) -> tuple[bytes, ...]:
    """Decodes a secret, or two while it is rotated. Raises ValueError."""
    secrets = tuple(b64decode(part.removeprefix(_PREFIX), validate=True) for part in text.split())
    if not 1 <= len(secrets) <= 2 or not all(part.startswith(_PREFIX) for part in text.split()):
        raise ValueError("not one secret or two")
    if any(len(secret) not in _BYTES for secret in secrets):
        raise ValueError("too short or too long")
    return secrets


def check(raw: Raw, secrets: Mapping[str, str]) -> Iterator[SettingProblem]:
    sections = table(raw, "webhooks")
    for name, variable in webhook_variables(sections).items():
        if "secret" in table(sections, name):
            yield SettingProblem(
                ("webhooks", name, "secret"), f"no such key; it comes from the environment: {variable}"
            )
        if variable not in secrets:
            text = f"needs the secret that signs the messages, in {variable}. Make one: {MAKE}"
            yield SettingProblem(("webhooks", name), text)
            continue
        try:
            decoded(secrets[variable])
        except ValueError:
            text = f"expected a secret, or two with a space between while it is rotated; {MAKE}"
            yield SettingProblem((), text, variable)
