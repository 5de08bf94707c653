"""The signature of Google's Identity-Aware Proxy names the person, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog
from tests.fakes import HandClock
from tests.identity.served import Answer, Asked, Served, serving
from tests.identity.signing import NOW, by_secret, ec_key, encoded, key_set, raw_signed, rsa_key, signed, unsigned

from costguard.errors import SignInRefused, SignInUnavailable
from costguard.identity.iap import Iap

AUDIENCE = "/projects/123/global/backendServices/456"
KEY = ec_key("k1")
SECOND = int(NOW.timestamp())
GOOD = {
    "iss": "https://cloud.google.com/iap",
    "aud": AUDIENCE,
    "iat": SECOND - 10,
    "exp": SECOND + 590,
    "sub": "accounts.google.com:1",
    "email": "Ana@Example.com",
}


class Google:
    """Publishes its keys; `answers` are given in turn before those."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = key_set(KEY)
        self.answers: list[Answer] = []
        self.served = Served()

    def __call__(self, _asked: Asked) -> Answer:
        return self.answers.pop(0) if self.answers else (200, self.keys)

    def iap(self, clock: HandClock) -> Iap:
        return Iap(AUDIENCE, clock, f"{self.served.url}/keys")

    @property
    def asked(self) -> int:
        return len(self.served.requests)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Google, Served]]:
    google = Google()
    with serving(google) as served:
        google.served = served
        yield google, served


@pytest.fixture
def google(server: tuple[Google, Served]) -> Google:
    google, served = server
    google.keys, google.answers = key_set(KEY), []
    served.requests.clear()
    return google


def test_who_was_let_through(google: Google) -> None:
    """The address is lower-cased, and keys are fetched once for many assertions."""
    iap = google.iap(HandClock(NOW))
    assert [iap.address(signed(GOOD, KEY)) for _ in range(3)] == ["ana@example.com"] * 3
    assert google.asked == 1


def test_what_is_refused(google: Google) -> None:
    """A token that Google did not sign, for this server, for now, about a person, is refused; nothing of it is
    repeated.
    """
    doubled = b'{"iss":"https://cloud.google.com/iap","aud":"%s","iat":%d,"exp":%d,"email":"a@b.cc","email":"c@d.ee"}'
    good = signed(GOOD, KEY)
    head, body, signature = good.split(".")
    cases = {
        "nothing": ("", "no token"),
        "no token": ("ana@example.com", "no token"),
        "two tokens": (f"{good},{good}", "no token"),
        "not ASCII": (f"{good}é", "cannot be read"),
        "endless": ("a" * 20_000, "too long"),
        "unsigned": (unsigned(GOOD, kid="k1"), "not taken: it is signed in a way"),
        "signature cut off": (f"{head}.{body}.", "signature is wrong"),
        "claims changed": (f"{head}.{body[:-4]}{'AAAA' if body[-4:] != 'AAAA' else 'BBBB'}.{signature}", ""),
        "public key as a secret": (by_secret(GOOD, KEY.as_pem(private=False), kid="k1"), "signed in a way"),
        "another algorithm": (signed(GOOD, rsa_key("k1"), "RS256"), "signed in a way"),
        "someone else's key": (signed(GOOD, ec_key("k1")), "signature is wrong"),
        "unknown key": (signed(GOOD, ec_key("k9")), "does not publish"),
        "odd key name": (signed(GOOD, KEY, kid="../k1"), "does not publish"),
        "another server's": (signed({**GOOD, "aud": AUDIENCE + "7"}, KEY), "another server"),
        "several servers'": (signed({**GOOD, "aud": [AUDIENCE, "other"]}, KEY), "another server"),
        "no audience": (signed({**GOOD, "aud": None}, KEY), "aud is wrong or missing"),
        "another issuer's": (signed({**GOOD, "iss": "https://accounts.google.com"}, KEY), "someone else issued"),
        "expired": (signed({**GOOD, "exp": SECOND - 61}, KEY), "expired"),
        "not yet good": (signed({**GOOD, "iat": SECOND + 61}, KEY), "not good yet"),
        "not before": (signed({**GOOD, "nbf": SECOND + 61}, KEY), "not good yet"),
        "never expiring": (signed({k: v for k, v in GOOD.items() if k != "exp"}, KEY), "exp"),
        "without a time": (signed({k: v for k, v in GOOD.items() if k != "iat"}, KEY), "iat"),
        "a time in words": (signed({**GOOD, "exp": "never"}, KEY), "exp"),
        "about nobody": (signed({k: v for k, v in GOOD.items() if k != "email"}, KEY), "names no e-mail"),
        "about a list": (signed({**GOOD, "email": ["ana@example.com"]}, KEY), "names no e-mail"),
        "another directory": (
            signed({**GOOD, "email": "securetoken.google.com/p:ana@example.com"}, KEY),
            "names no e-mail",
        ),
        "about two": (raw_signed(doubled % (AUDIENCE.encode(), SECOND, SECOND + 60), KEY), "no token"),
        "a header that is a list": (".".join([encoded(b'["alg"]'), body, signature]), "cannot be read"),
        "a header without end": (".".join([encoded(b"[" * 4000), body, signature]), "no token"),
        "about a lookalike": (signed({**GOOD, "email": "\u0430na@example.com"}, KEY), "names no e-mail"),
        "no claims": (raw_signed(b"[]", KEY), "no token"),
    }
    iap = google.iap(HandClock(NOW))
    with structlog.testing.capture_logs() as logs:
        for name, (assertion, why) in cases.items():
            with pytest.raises(SignInRefused) as caught:
                iap.address(assertion)
            assert why in caught.value.message, name
            assert caught.value.what_next, name
            assert not assertion or assertion not in str(caught.value), name
    assert not logs
    assert iap.address(good) == "ana@example.com"


def test_clocks_may_differ_a_little(google: Google) -> None:
    """An assertion is good for up to a minute before and after its time, by our clock."""
    for off, is_good in ((-71, False), (-70, True), (649, True), (650, False)):
        iap = google.iap(HandClock(NOW + timedelta(seconds=off)))
        if is_good:
            assert iap.address(signed(GOOD, KEY)), off
        else:
            with pytest.raises(SignInRefused):
                iap.address(signed(GOOD, KEY))


def test_new_keys_are_looked_for_at_most_once_a_minute(google: Google) -> None:
    """A key that is not known makes the keys be fetched again, but anyone who makes up keys makes no traffic."""
    clock = HandClock(NOW)
    iap, made_up, new = google.iap(clock), signed(GOOD, ec_key("made-up")), ec_key("k2")
    assert iap.address(signed(GOOD, KEY))
    google.keys = key_set(KEY, new)
    for _ in range(3):
        with pytest.raises(SignInRefused):
            iap.address(made_up)
    assert google.asked == 1
    clock.advance(timedelta(minutes=1))
    assert iap.address(signed(GOOD, new)) == "ana@example.com"
    assert google.asked == 2


def test_keys_stay_while_google_does_not_answer(google: Google) -> None:
    """Keys are looked at again each hour; when that fails the old ones hold, and a withdrawn one ends with the next."""
    clock = HandClock(NOW)
    iap = google.iap(clock)
    assert iap.address(signed(GOOD, KEY))
    late = {**GOOD, "exp": SECOND + 9000}
    clock.advance(timedelta(hours=1))
    google.answers = [(503, {}), (200, b"<html>"), (200, [])]
    for _ in range(3):
        assert iap.address(signed(late, KEY)) == "ana@example.com"
        clock.advance(timedelta(seconds=10))
    google.keys = key_set(ec_key("k2"))
    with pytest.raises(SignInRefused, match="does not publish"):
        iap.address(signed(late, KEY))


def test_no_keys_at_all(google: Google) -> None:
    """While no keys can be had, that is said, and they are asked for every ten seconds at most."""
    clock = HandClock(NOW)
    iap = google.iap(clock)
    google.answers = [(500, {}), (302, {})]
    for _ in range(2):
        for _ in range(2):
            with pytest.raises(SignInUnavailable, match="keys of Google's Identity-Aware Proxy cannot be had from"):
                iap.address(signed(GOOD, KEY))
        clock.advance(timedelta(seconds=10))
    assert google.asked == 2
    assert iap.address(signed(GOOD, KEY)) == "ana@example.com"


def test_odd_keys_spoil_no_others(google: Google) -> None:
    """Keys that cannot be read, are for encryption or are of another kind are passed over."""
    for_encryption = {**ec_key("k3").as_dict(private=False), "use": "enc"}
    odd = [7, {}, {"kty": "EC", "kid": "k0"}, {"kty": "oct", "k": "c2VjcmV0", "kid": "k4"}, for_encryption]
    google.keys = {"keys": [*odd, *key_set(KEY)["keys"]]}
    iap = google.iap(HandClock(NOW))
    assert iap.address(signed(GOOD, KEY)) == "ana@example.com"
    assert iap.address(signed(GOOD, KEY, kid=None)) == "ana@example.com"
    google.keys = key_set(KEY, ec_key("k2"))
    with pytest.raises(SignInRefused, match="does not publish"):
        google.iap(HandClock(NOW)).address(signed(GOOD, KEY, kid=None))
