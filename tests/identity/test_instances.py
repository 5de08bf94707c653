"""A VM proves which one it is by what Google signed on it, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from google.auth import jwt as google_jwt
from tests.fakes import HandClock
from tests.identity.served import Answer, Asked, Served, serving
from tests.identity.signing import NOW, by_secret, ec_key, key_set, rsa_key, signed, unsigned

from costguard.clock import SystemClock
from costguard.errors import SignInRefused, SignInUnavailable
from costguard.identity.instances import KEYS, InstanceIdentities, keys_of
from costguard.model.instance import ProvenVm, audience_of

AUDIENCE = audience_of("https://guard.example.com/", "j1")
KEY, OTHER = rsa_key("k1"), rsa_key("k2")
SECOND = int(NOW.timestamp())
# As Google's page "Verify the identity of VMs" shows the payload of a token in the format `full`.
ENGINE: dict[str, Any] = {
    "instance_creation_timestamp": SECOND - 60,
    "instance_id": "152986662232938449",
    "instance_name": "cg-j1-2",
    "project_id": "acme-training",
    "project_number": 739419398126,
    "zone": "us-west1-b",
}
GOOD: dict[str, Any] = {
    "aud": AUDIENCE,
    "azp": "102194391123456789012",
    "email": "739419398126-compute@developer.gserviceaccount.com",
    "email_verified": True,
    "exp": SECOND + 3600,
    "google": {"compute_engine": ENGINE},
    "iat": SECOND - 5,
    "iss": "https://accounts.google.com",
    "sub": "102194391123456789012",
}


class Google:
    """Publishes its keys; `answers` are given in turn before those."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = key_set(KEY)
        self.answers: list[Answer] = []
        self.served = Served()

    def __call__(self, _asked: Asked) -> Answer:
        return self.answers.pop(0) if self.answers else (200, self.keys)

    def identities(self, clock: HandClock | None = None) -> InstanceIdentities:
        return InstanceIdentities(clock or HandClock(NOW), keys_of(self.served.url))


@pytest.fixture
def google() -> Iterator[Google]:
    google = Google()
    with serving(google) as served:
        google.served = served
        yield google


def engine(**changes: Any) -> dict[str, Any]:
    claims = {name: value for name, value in {**ENGINE, **changes}.items() if value is not None}
    return {**GOOD, "google": {"compute_engine": claims}}


def test_a_vm_is_named_by_its_numeric_id(google: Google) -> None:
    """Keys are fetched once for many documents, at the path where Google has its own."""
    identities = google.identities()
    named = ProvenVm("acme-training", "us-west1-b", "cg-j1-2", "152986662232938449")
    assert [identities.vm(signed(GOOD, KEY, "RS256"), AUDIENCE) for _ in range(3)] == [named] * 3
    assert [request.path for request in google.served.requests] == ["/oauth2/v3/certs"]
    assert KEYS == "https://www.googleapis.com/oauth2/v3/certs"


def test_googles_own_library_accepts_the_same_document() -> None:
    """google-auth, which Google's page tells to verify such documents with, takes it by the same key."""
    certificates = {"k1": KEY.as_pem(private=False)}
    document = signed({**GOOD, "iat": _real_now(), "exp": _real_now() + 600}, KEY, "RS256")
    claims = google_jwt.decode(document, certs=certificates, audience=AUDIENCE)  # type: ignore[no-untyped-call]
    assert claims["google"]["compute_engine"]["instance_id"] == ENGINE["instance_id"]


HOSTILE: dict[str, tuple[str, str]] = {
    "for another job": (
        signed({**GOOD, "aud": audience_of("https://guard.example.com", "j2")}, KEY, "RS256"),
        "another",
    ),
    "for another guard": (signed({**GOOD, "aud": "https://guard.example.org/jobs/j1"}, KEY, "RS256"), "another guard"),
    "for several": (signed({**GOOD, "aud": [AUDIENCE, "x"]}, KEY, "RS256"), "another guard"),
    "without an audience": (signed({**GOOD, "aud": None}, KEY, "RS256"), "aud is wrong or missing"),
    "expired": (signed({**GOOD, "exp": SECOND - 61}, KEY, "RS256"), "it has expired"),
    "without an end": (signed({k: v for k, v in GOOD.items() if k != "exp"}, KEY, "RS256"), "exp"),
    "of later": (signed({**GOOD, "iat": SECOND + 600}, KEY, "RS256"), "not good yet"),
    "by another issuer": (
        signed({**GOOD, "iss": "https://accounts.example.com"}, KEY, "RS256"),
        "someone else issued it",
    ),
    "by an unknown key": (signed(GOOD, OTHER, "RS256"), "a key that its issuer does not publish"),
    "by another key under a known name": (signed(GOOD, rsa_key("k1"), "RS256"), "its signature is wrong"),
    "unsigned": (unsigned(GOOD, kid="k1"), "signed in a way that is not taken"),
    "by the public key as a secret": (
        by_secret(GOOD, KEY.as_pem(private=False), kid="k1"),
        "in a way that is not taken",
    ),
    "by an elliptic curve": (signed(GOOD, ec_key("k1"), "ES256"), "in a way that is not taken"),
    "without the format full": (signed({k: v for k, v in GOOD.items() if k != "google"}, KEY, "RS256"), "names no VM"),
    "without an id": (signed(engine(instance_id=None), KEY, "RS256"), "names no VM"),
    "with a name as its id": (signed(engine(instance_id="cg-j1-2"), KEY, "RS256"), "names no VM"),
    "with a number as its id": (signed(engine(instance_id=152986662232938449), KEY, "RS256"), "names no VM"),
    "without a project": (signed(engine(project_id=None), KEY, "RS256"), "names no VM"),
    "of no VM at all": (signed({**GOOD, "google": {"compute_engine": "cg-j1-2"}}, KEY, "RS256"), "names no VM"),
    "no token": ("cg-j1-2", "no token"),
    "nothing": ("", "no token"),
    "too long": ("a" * 20_000, "too long"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_refused(google: Google, case: str) -> None:
    """Nothing of the document is repeated, for it is a key to others."""
    document, why = HOSTILE[case]
    with pytest.raises(SignInRefused, match=why) as refused:
        google.identities().vm(document, AUDIENCE)
    assert not isinstance(refused.value, SignInUnavailable)
    assert not document or document not in str(refused.value)


@pytest.mark.parametrize("answer", [(503, {}), (200, "no JSON"), (200, ["a list"])], ids=["503", "text", "list"])
def test_keys_that_do_not_answer_say_nothing(google: Google, answer: Any) -> None:
    """It is not known then whether the document is good: the same one is taken as soon as they answer."""
    clock = HandClock(NOW)
    identities = google.identities(clock)
    google.answers = [answer]
    with pytest.raises(SignInUnavailable):
        identities.vm(signed(GOOD, KEY, "RS256"), AUDIENCE)
    clock.advance(timedelta(seconds=30))
    assert identities.vm(signed(GOOD, KEY, "RS256"), AUDIENCE).name == "cg-j1-2"


def test_a_key_that_google_began_to_use_is_fetched(google: Google) -> None:
    """Keys change every few days; made-up names of keys are looked for once a minute at most."""
    clock = HandClock(NOW)
    identities = google.identities(clock)
    identities.vm(signed(GOOD, KEY, "RS256"), AUDIENCE)
    google.keys = key_set(KEY, OTHER)
    for _ in range(3):
        with pytest.raises(SignInRefused):
            identities.vm(signed(GOOD, OTHER, "RS256"), AUDIENCE)
    assert len(google.served.requests) == 1
    clock.advance(timedelta(minutes=2))
    assert identities.vm(signed(GOOD, OTHER, "RS256"), AUDIENCE).name == "cg-j1-2"


def _real_now() -> int:
    return int(SystemClock().now().timestamp())
