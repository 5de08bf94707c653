"""[access] and [sign_in]: roles, and how people sign in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from costguard.access.rules import Access
from costguard.settings.environment import OIDC_CLIENT_SECRET
from costguard.settings.problems import Raw, SettingProblem, table
from costguard.settings.values import (
    Domain,
    Duration,
    Listed,
    Section,
    between,
    domain,
    endpoint,
    is_this_computer,
    lower_address,
    matching,
)

# Anyone can get an address there: the providers offer them to the public.
_PUBLIC = (
    "gmail.com googlemail.com outlook.com hotmail.com live.com msn.com passport.com yahoo.com yahoo.co.uk "
    "yahoo.de yahoo.fr yahoo.co.jp yahoo.co.in ymail.com rocketmail.com aol.com icloud.com me.com mac.com "
    "proton.me pm.me protonmail.com protonmail.ch gmx.com gmx.net gmx.de gmx.at gmx.ch web.de mail.com "
    "t-online.de freenet.de posteo.de mailbox.org tutanota.com tuta.com fastmail.com hey.com zoho.com "
    "zohomail.com yandex.com yandex.ru ya.ru mail.ru bk.ru list.ru inbox.ru rambler.ru qq.com foxmail.com "
    "163.com 126.com yeah.net sina.com sohu.com naver.com daum.net hanmail.net orange.fr wanadoo.fr free.fr "
    "laposte.net libero.it virgilio.it wp.pl o2.pl onet.pl seznam.cz uol.com.br bol.com.br terra.com.br "
    "hotmail.co.uk hotmail.fr hotmail.de outlook.de btinternet.com comcast.net verizon.net att.net "
    "mailinator.com guerrillamail.com"
)
PUBLIC_DOMAINS = frozenset(_PUBLIC.split())
_OIDC_NEEDS = {
    "oidc_issuer": "the provider, such as https://accounts.google.com",
    "oidc_client_id": "the provider's id of this server",
    "url": "where people reach this server; the provider sends them back to URL/sign-in/oidc/callback",
}


def address_or_domain(value: str) -> str:
    """Reads a person's address, or `@example.com` for everyone of a domain; in lower case."""
    expected = "a mail address such as ana@example.com, or @example.com for all of a domain"
    try:
        address = f"@{domain(value[1:].lower())}" if value.startswith("@") else lower_address(value)
    except ValueError:
        raise ValueError(f"{expected}{_hint(value)}") from None
    if address.removeprefix("@") in PUBLIC_DOMAINS and address.startswith("@"):
        raise ValueError(f"{expected} of your own; anyone can have an address {address}, so name each person")
    return address


def _hint(value: str) -> str:
    """`*@example.com`, `example.com`, ` @example.com` and `<ana@example.com>` are nearly right."""
    bare = value.strip().removeprefix("mailto:").strip("<>").lower()
    host = bare.lstrip("*").lstrip("@")
    for meant, check in ((bare, lower_address), (f"@{host}", lambda text: domain(text[1:]))):
        try:
            check(meant)
        except ValueError:
            continue
        return f' (did you mean "{meant}"?)'
    return ""


def origin(value: str) -> str:
    """Where people reach the server, without the slash at its end."""
    expected = "the server's address as people reach it, such as https://costguard.example.com, with no path"
    try:
        parts = urlsplit(endpoint(value))
    except ValueError:
        raise ValueError(expected) from None
    if parts.path:
        raise ValueError(expected)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def issuer(value: str) -> str:
    """Keeps the issuer exactly: some end in a slash, and it must equal the issuer in each token."""
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
        usable = parts.scheme == "https" or (parts.scheme == "http" and is_this_computer(host))
    except ValueError:
        usable, host = False, ""
    if not usable or not host or re.search(r"[\s?#@]", value):
        raise ValueError("the provider's issuer exactly as it writes it, such as https://accounts.google.com")
    if value.endswith("/.well-known/openid-configuration"):
        meant = value.removesuffix("/.well-known/openid-configuration")
        raise ValueError(f"the issuer, not its description's address (did you mean {meant}?)")
    return value


ClientId = Annotated[str, AfterValidator(matching(r"[!-~]{1,300}", "the provider's id of this server, without spaces"))]
IapAudience = Annotated[
    str,
    AfterValidator(
        matching(
            r"/projects/[0-9]{1,20}/[A-Za-z0-9_./:-]{3,200}",
            "the audience as Identity-Aware Proxy's page shows it (Signed Header JWT Audience), such as "
            "/projects/123456789/global/backendServices/987654321",
        )
    ),
]
AddressOrDomain = Annotated[str, AfterValidator(address_or_domain)]


class AccessSection(Section):
    viewers: Annotated[tuple[AddressOrDomain, ...], Listed] = ()
    operators: Annotated[tuple[AddressOrDomain, ...], Listed] = ()
    admins: Annotated[tuple[AddressOrDomain, ...], Listed] = ()

    @property
    def access(self) -> Access:
        return Access(frozenset(self.viewers), frozenset(self.operators), frozenset(self.admins))


class SignInSection(Section):
    """The ways in which people sign in: each is on where its keys are set.

    The secret comes from the environment alone.
    """

    url: Annotated[str, AfterValidator(origin)] | None = None
    session: Annotated[Duration, between(timedelta(minutes=5), timedelta(days=30))] = timedelta(hours=12)
    iap_audience: IapAudience | None = None
    oidc_issuer: Annotated[str, AfterValidator(issuer)] | None = None
    oidc_client_id: ClientId | None = None
    oidc_domain: Domain | None = None
    oidc_client_secret: SecretStr = Field(default=SecretStr(""), exclude=True)  # see `check`


def check(raw: Raw, secrets: Mapping[str, str]) -> Iterator[SettingProblem]:
    sign_in = table(raw, "sign_in")
    if "oidc_client_secret" in sign_in:
        text = f"no such key; it comes from the environment: {OIDC_CLIENT_SECRET}"
        yield SettingProblem(("sign_in", "oidc_client_secret"), text)
    oidc_keys = [key for key in ("oidc_issuer", "oidc_client_id", "oidc_domain") if key in sign_in]
    if not oidc_keys:
        return
    for key, what in _OIDC_NEEDS.items():
        if key not in sign_in:
            yield SettingProblem(("sign_in", oidc_keys[0]), f"needs {key} as well: {what}")
    if OIDC_CLIENT_SECRET not in secrets:
        text = f"needs the client's secret, which the provider shows, in {OIDC_CLIENT_SECRET}"
        yield SettingProblem(("sign_in", oidc_keys[0]), text)


def double_entries(access: AccessSection) -> Iterator[str]:
    """Addresses that are listed twice, or under two roles."""
    entries_of = {name: getattr(access, name) for name in ("viewers", "operators", "admins")}
    for name, entries in entries_of.items():
        for entry in sorted({entry for entry in entries if entries.count(entry) > 1}):
            yield f"access.{name}: {entry} is listed more than once."
    for low, high in (("viewers", "operators"), ("viewers", "admins"), ("operators", "admins")):
        for entry in sorted({*entries_of[low]} & {*entries_of[high]}):
            yield f"access.{low}: {entry} is also listed in access.{high}, which counts: list it once."
