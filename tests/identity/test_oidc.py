"""A sign-in by OpenID Connect ends with the address that the provider has verified, or with a refusal in words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import structlog
from tests.fakes import HandClock
from tests.identity.provider import CLIENT, KEY, SECRET, Provider, providing
from tests.identity.served import Answer, Asked, serving
from tests.identity.signing import NOW, by_secret, rsa_key, signed, unsigned

from costguard.errors import SignInRefused, SignInUnavailable
from costguard.identity.oidc import Oidc, OidcClient

BACK = "https://costguard.example.com/sign-in/oidc/callback"
DESCRIPTION = "/.well-known/openid-configuration"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as made:
        yield made


def oidc(provider: Provider, **changed: str) -> Oidc:
    client = {"issuer": provider.issuer, "id": CLIENT, "secret": SECRET, **changed}
    return Oidc(OidcClient(**client), HandClock(NOW), timeout_s=30)


def signed_in(provider: Provider, through: Oidc, **changed: Any) -> str:
    """Returns the person who came back; `changed` are what `finish` is given otherwise than `begin` was."""
    code, state = provider.sign_in(through.begin(BACK, "state-1", "nonce-1", "v" * 43))
    assert state == "state-1"
    given = {"code": code, "redirect_uri": BACK, "nonce": "nonce-1", "verifier": "v" * 43, **changed}
    return through.finish(**given)


def test_a_sign_in(provider: Provider) -> None:
    """The address is lower-cased; description and keys are read once; the secret travels as the provider likes it."""
    through = oidc(provider)
    assert [signed_in(provider, through) for _ in range(3)] == ["ana@example.com"] * 3
    assert [provider.served.count(path) for path in ("/.well-known/openid-configuration", "/keys", "/token")] == [
        1,
        1,
        3,
    ]
    assert "client_secret" not in provider.served.requests[-1].form
    provider.description = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert signed_in(provider, oidc(provider)) == "ana@example.com"
    assert provider.served.requests[-2].form["client_secret"] == SECRET


def test_addresses_with_a_query(provider: Provider) -> None:
    """An authorization endpoint may have a query of its own, which stays; only accounts of the domain are asked for."""
    provider.description = {"authorization_endpoint": f"{provider.issuer}/authorize?p=one"}
    url = oidc(provider, domain="example.com").begin(BACK, "s", "n", "v" * 43)
    query = dict(parse_qsl(urlsplit(url).query))
    assert (query["p"], query["hd"], query["redirect_uri"], query["client_id"]) == ("one", "example.com", BACK, CLIENT)
    assert "v" * 43 not in url


def test_what_is_refused(provider: Provider) -> None:
    """Tokens that are wrong in any part are refused in words that hold none of them."""
    second = int(NOW.timestamp())
    whole = {"iss": provider.issuer, "aud": CLIENT, "sub": "1", "iat": second, "exp": second + 9, "nonce": "nonce-1"}
    whole |= {"email": "ana@example.com", "email_verified": True}
    cases: list[tuple[str, str | dict[str, Any]]] = [
        ("belongs to another sign-in", {"nonce": "nonce-2"}),
        ("belongs to another sign-in", {"nonce": None}),
        ("for another server", {"aud": "another"}),
        ("for another server", {"aud": [CLIENT, "another"]}),
        ("issued to another server", {"aud": [CLIENT, "another"], "azp": "another"}),
        ("someone else issued it", {"iss": "https://evil.example.com"}),
        ("has expired", {"exp": second - 61}),
        ("not good yet", {"iat": second + 61}),
        ("has not verified", {"email_verified": False}),
        ("has not verified", {"email_verified": None}),
        ("has not verified", {"email_verified": "true"}),
        ("names no e-mail address", {"email": None}),
        ("signed in a way that is not taken", unsigned(whole, kid="r1")),
        ("signed in a way that is not taken", by_secret(whole, KEY.as_pem(private=False), kid="r1")),
        ("signed in a way that is not taken", by_secret(whole, SECRET.encode())),
        ("signature is wrong", signed(whole, rsa_key("r1"), "RS256")),
        ("does not publish", signed(whole, rsa_key("r2"), "RS256")),
        ("no token that is signed", "junk"),
    ]
    through = oidc(provider)
    for why, changed in cases:
        provider.token, provider.claims = (changed, {}) if isinstance(changed, str) else (None, changed)
        with pytest.raises(SignInRefused) as caught:
            signed_in(provider, through)
        assert why in caught.value.message, changed
        assert caught.value.what_next
        assert "@" not in str(caught.value)
    provider.token, provider.claims = None, {"aud": [CLIENT, "another"], "azp": CLIENT}
    assert signed_in(provider, through) == "ana@example.com"


def test_codes_are_good_once_and_for_whom_they_were_made(provider: Provider) -> None:
    """A code that was used or belongs to another sign-in is refused; the provider's words stay out of sight."""
    through = oidc(provider)
    code, _ = provider.sign_in(through.begin(BACK, "s", "nonce-1", "v" * 43))
    assert through.finish(code, BACK, "nonce-1", "v" * 43) == "ana@example.com"
    for changed in ({"code": code}, {"verifier": "w" * 43}, {"redirect_uri": f"{BACK}/other"}):
        with pytest.raises(SignInRefused, match="used before, has expired, or belongs to another") as caught:
            signed_in(provider, through, **changed)
        assert "555" not in str(caught.value)
    with pytest.raises(SignInRefused, match="client id and secret") as caught:
        signed_in(provider, oidc(provider, secret="wrong"))
    assert "COSTGUARD_OIDC_CLIENT_SECRET" in caught.value.what_next


def test_one_workspace_alone(provider: Provider) -> None:
    """Where a domain is set, an account counts by what Google says of it, and not by how its address ends."""
    through = oidc(provider, domain="example.com")
    for domain in (None, "evil.example.com"):
        provider.claims = {"hd": domain}
        with pytest.raises(SignInRefused, match=r"not one of example\.com"):
            signed_in(provider, through)
    provider.claims = {"hd": "example.com"}
    assert signed_in(provider, through) == "ana@example.com"


def test_an_address_that_only_userinfo_tells(provider: Provider) -> None:
    """A provider that keeps the address out of its tokens is asked for it, and must speak of the same person."""
    provider.claims = {"email": None, "email_verified": None}
    provider.userinfo = {"sub": "1", "email": "Ben@Example.com", "email_verified": True}
    through = oidc(provider)
    assert signed_in(provider, through) == "ben@example.com"
    for changed, why in (
        ({"sub": "2"}, "about someone else"),
        ({"sub": None}, "about someone else"),
        ({"email_verified": False}, "has not verified"),
    ):
        provider.userinfo = {"sub": "1", "email": "ben@example.com", "email_verified": True, **changed}
        with pytest.raises(SignInRefused, match=why):
            signed_in(provider, through)


def test_a_provider_that_does_not_answer(provider: Provider) -> None:
    """A provider that is down, answers nonsense or calls itself otherwise is reported, and asked again later."""
    through = oidc(provider)
    answers: list[Answer] = [(500, {}), (404, {}), (302, {}), (200, b"<html>"), (200, b"[" * (2 << 20))]
    for answer in answers:
        provider.down = {DESCRIPTION: answer}
        with structlog.testing.capture_logs() as logs, pytest.raises(SignInUnavailable, match="cannot be had"):
            through.begin(BACK, "s", "n", "v")
        assert [line["event"] for line in logs] == ["sign_in_cannot_be_checked"]
    provider.down = {}
    for description in ({"issuer": "https://other.example.com"}, {"issuer": f"{provider.issuer}/"}):
        provider.description = description
        with pytest.raises(SignInUnavailable, match="calls itself otherwise"):
            through.begin(BACK, "s", "n", "v")
    provider.description = {"authorization_endpoint": "ftp://127.0.0.1/"}
    with pytest.raises(SignInUnavailable, match="no usable authorization_endpoint"):
        oidc(provider).begin(BACK, "s", "n", "v")
    provider.description = {}
    for path in ("/token", "/keys"):
        provider.down = {path: (503, {})}
        with pytest.raises(SignInUnavailable, match="cannot be had"):
            signed_in(provider, oidc(provider))
    provider.down = {}
    assert signed_in(provider, through) == "ana@example.com"


def test_a_provider_that_is_gone_or_slow() -> None:
    """Nobody is kept waiting for a provider beyond the time that is allowed, whether it says nothing or trickles."""
    release = threading.Event()

    def silent(_asked: Asked) -> Answer:
        release.wait(30)
        return 200, {}

    def trickling(_asked: Asked) -> Answer:
        return 200, (b" " for _ in range(400) if not release.wait(0.05))

    def begin(issuer: str) -> None:
        Oidc(OidcClient(issuer, CLIENT, SECRET), HandClock(NOW), timeout_s=1).begin(BACK, "s", "n", "v")

    with serving(silent) as quiet, serving(trickling) as slow:
        with pytest.raises(SignInUnavailable, match="there is no answer"):
            begin(quiet.url)
        with pytest.raises(SignInUnavailable, match="too slow"):
            begin(slow.url)
        release.set()
    with pytest.raises(SignInUnavailable, match="there is no answer"):
        begin(quiet.url)


def test_the_secret_is_not_shown() -> None:
    """The client's secret is in no text that a log or a traceback could hold."""
    assert SECRET not in repr(OidcClient("https://id.example.com", CLIENT, SECRET))
