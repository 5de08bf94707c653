"""Nobody asks more often than the settings let them."""

from __future__ import annotations

from dataclasses import replace

from fastapi.testclient import TestClient
from tests.api.conftest import deps_of

from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.web.limits import TokenBucket


class Monotonic:
    """Seconds that are moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_quarter_of_a_minutes_requests_may_come_at_once() -> None:
    """The rest come back one by one; refused ones are not counted, and one key's haste is no other's."""
    seconds = Monotonic()
    bucket = TokenBucket(60, seconds)
    assert [bucket.take("a", seconds.now) for _ in range(15)] == [None] * 15
    assert (bucket.take("a", seconds.now), bucket.take("a", seconds.now)) == (1.0, 1.0)
    assert bucket.take("b", seconds.now) is None
    seconds.now += 1.0
    assert (bucket.take("a", seconds.now), bucket.take("a", seconds.now)) == (None, 1.0)
    seconds.now += 3600.0
    assert [bucket.take("a", seconds.now) for _ in range(16)] == [*[None] * 15, 1.0]


def test_keys_that_are_as_good_as_new_are_forgotten() -> None:
    """The kept keys are no more than fit, however many ask once."""
    bucket = TokenBucket(600)
    for number in range(30_000):
        assert bucket.take(f"key {number}", float(number)) is None
    assert len(bucket._full_at) <= 10_001


def test_who_asks_too_often_is_told_when_to_come_again(sqlite_database: Database) -> None:
    """A 429 problem with Retry-After, and the quota in the headers of the IETF's draft; health is never limited."""
    seconds = Monotonic()
    deps = replace(deps_of(sqlite_database), limits=TokenBucket(8, seconds))
    client = TestClient(create_app(deps))
    assert [client.get("/api/v1/presets").status_code for _ in range(2)] == [200, 200]
    refused = client.get("/api/v1/presets")
    assert (refused.status_code, refused.headers["content-type"]) == (429, "application/problem+json")
    assert (refused.headers["retry-after"], refused.headers["ratelimit"]) == ("8", '"requests";r=0;t=8')
    assert refused.headers["ratelimit-policy"] == '"requests";q=2;w=15'
    assert client.get("/healthz").status_code == 200
    seconds.now += 7.5
    assert client.get("/api/v1/presets").status_code == 200
