"""Signing in with an identity provider from end to end: two servers on loopback, and browsers between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.identity.provider import CLIENT, KEY, SECRET, Provider, providing
from tests.identity.signing import NOW, by_secret, rsa_key, signed, unsigned
from tests.pages.signing_in import Wired, wired
from tests.serving import serving

from costguard.db.transaction import Database

HOME = "http://costguard.test"  # as people know it
SESSION = "costguard_session"


@dataclass
class Served:
    """`address` is where it listens, which browsers know by the name of HOME."""

    wired: Wired
    provider: Provider
    address: str

    @contextmanager
    def browser(self) -> Iterator[Browser]:
        with httpx2.Client(timeout=60, trust_env=False, headers={"Accept": "text/html"}) as client:
            yield Browser(client, self.address)


@dataclass
class Browser:
    """Follows redirects one by one. `went` is each address, in order."""

    client: httpx2.Client
    home: str

    def go(self, address: str) -> tuple[httpx2.Response, list[str]]:
        went: list[str] = []
        while True:
            went.append(address)
            answer = self.client.get(address.replace(HOME, self.home, 1))
            if not answer.is_redirect:
                return answer, went
            location = answer.headers["location"]
            address = f"{HOME}{location}" if location.startswith("/") else location

    def is_in(self) -> bool:
        return self.client.get(f"{self.home}/events").status_code == 200


@pytest.fixture
def served(sqlite_database: Database) -> Iterator[Served]:
    with providing() as provider, wired(sqlite_database, HOME, provider) as made, serving(made.app) as address:
        yield Served(made, provider, address)


def test_a_person_comes_back_signed_in_to_the_page_that_they_wanted(served: Served) -> None:
    """The way leads through the provider and back: no secret of the flow stands in an address, and the code was
    redeemed once.
    """
    with served.browser() as browser:
        assert not browser.is_in()
        answer, went = browser.go(f"{HOME}/sign-in/oidc?next=/events")
        assert answer.status_code == 200
        assert [address.partition("?")[0].removeprefix(served.provider.issuer) for address in went] == [
            f"{HOME}/sign-in/oidc",
            "/authorize",
            f"{HOME}/sign-in/oidc/callback",
            f"{HOME}/events",
        ]
        assert browser.is_in()
    redeemed = [one.form for one in served.provider.served.requests if one.path == "/token"]
    assert len(redeemed) == 1
    assert SECRET not in str(went)
    assert redeemed[0]["code_verifier"] not in str(went)


def test_an_address_of_the_callback_is_good_once_and_in_one_browser(served: Served) -> None:
    """Sent to another user, it does not sign them in, and it signs no user in again."""
    with served.browser() as mine, served.browser() as theirs:
        _, went = mine.go(f"{HOME}/sign-in/oidc?next=/events")
        callback = next(address for address in went if "/callback" in address)
        for browser in (theirs, mine):
            answer, _ = browser.go(callback)
            assert answer.status_code == 403
            assert "begun in another browser" in answer.text
        assert not theirs.is_in()
        assert mine.is_in()
    assert served.provider.served.count("/token") == 1


def test_an_intercepted_code_is_of_no_use_to_another_browser(served: Served) -> None:
    """A code that was stolen on its way is shown with one's own state: its challenge is not that of this browser."""
    with served.browser() as mine, served.browser() as thief:
        begun = mine.client.get(f"{served.address}/sign-in/oidc").headers["location"]
        code, _ = served.provider.sign_in(begun)
        begun = thief.client.get(f"{served.address}/sign-in/oidc").headers["location"]
        _, state = served.provider.sign_in(begun)
        answer, _ = thief.go(f"{HOME}/sign-in/oidc/callback?code={code}&state={state}")
        assert answer.status_code == 403
        assert "used before, has expired, or belongs to another sign-in" in answer.text
        assert not thief.is_in()


def test_keys_of_the_provider_change(served: Served) -> None:
    """A new key is looked for, at most once a minute; what the withdrawn one signs is not taken any more."""
    with served.browser() as first, served.browser() as second, served.browser() as third:
        first.go(f"{HOME}/sign-in/oidc")
        assert first.is_in()
        served.provider.key = rsa_key("r2")
        served.wired.clock.advance(timedelta(minutes=1))
        second.go(f"{HOME}/sign-in/oidc")
        assert second.is_in()
        served.provider.token = signed(_claims(served.provider), KEY, "RS256")
        answer, _ = third.go(f"{HOME}/sign-in/oidc")
        assert answer.status_code == 403
        assert "a key that its issuer does not publish" in answer.text
        assert not third.is_in()
        assert first.is_in()
    assert served.provider.served.count("/keys") == 2


def test_tokens_that_are_not_for_this_sign_in_make_no_session(served: Served) -> None:
    """Another server's, another issuer's, an expired one, an unsigned one, one signed with the client's secret."""
    second, provider = int(NOW.timestamp()), served.provider
    cases: list[tuple[dict[str, Any], str | None, str]] = [
        ({"aud": "another"}, None, "for another server"),
        ({"iss": "https://evil.example"}, None, "someone else issued it"),
        ({"exp": second - 61}, None, "has expired"),
        ({"nonce": "guessed"}, None, "belongs to another sign-in"),
        ({}, unsigned(_claims(provider)), "signed in a way that is not taken"),
        ({}, by_secret(_claims(provider), SECRET.encode()), "signed in a way that is not taken"),
        ({}, by_secret(_claims(provider), KEY.as_pem(private=False), kid="r1"), "signed in a way that is not taken"),
        ({}, signed(_claims(provider), rsa_key("r1"), "RS256"), "signature is wrong"),
    ]
    for claims, token, why in cases:
        provider.claims, provider.token = claims, token
        with served.browser() as browser:
            answer, _ = browser.go(f"{HOME}/sign-in/oidc")
            assert (answer.status_code, why in answer.text) == (403, True), why
            assert SESSION not in browser.client.cookies, why
            assert not browser.is_in(), why


def _claims(provider: Provider) -> dict[str, Any]:
    second = int(NOW.timestamp())
    claims = {"iss": provider.issuer, "aud": CLIENT, "sub": "1", "iat": second, "exp": second + 300, "nonce": "n"}
    return {**claims, "email": "ana@example.com", "email_verified": True}
