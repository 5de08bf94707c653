"""Single values are written in one form."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.model.money import Money
from costguard.settings import server, values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("8h", timedelta(hours=8)),
        ("3d", timedelta(days=3)),
        ("1w", timedelta(weeks=1)),
        ("1h30m", timedelta(minutes=90)),
        ("1w2d3h4m5s", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    """A time is a number with its unit, or several from large to small."""
    assert values.duration(text) == expected


@pytest.mark.parametrize("given_value", ["", "8", "h", "30m1h", "8h8h", "1.5h", "-8h", "8H", " 8h", 8, 8.5, None, True])
def test_no_unit_is_guessed(given_value: object) -> None:
    """Anything but digits with known units, in order, is refused."""
    with pytest.raises(ValueError, match=r"^a time with its unit"):
        values.duration(given_value)


def test_no_time_is_no_duration() -> None:
    """Nothing may last or repeat for zero seconds."""
    with pytest.raises(ValueError, match="longer than nothing"):
        values.duration("0h0m")


@pytest.mark.parametrize(
    ("text", "hint"),
    [("8 hours", "8h"), ("8 h", "8h"), ("1 hour 30 minutes", "1h30m"), ("2 Days", "2d"), ("90 secs", "90s")],
)
def test_words_get_the_right_spelling(text: str, hint: str) -> None:
    """A time in words is answered with how to write it here."""
    with pytest.raises(ValueError, match=rf"\(did you mean {hint}\?\)"):
        values.duration(text)


@given(st.integers(min_value=1, max_value=10**8))
def test_shown_durations_are_read_back(seconds: int) -> None:
    """The shown text can be written into the file and means the same."""
    span = timedelta(seconds=seconds)
    assert values.duration(values.show_duration(span)) == span


def test_never_is_no_limit() -> None:
    """A limit may be the word never, which a plain time may not."""
    assert values.or_never(values.duration)("never") is None
    with pytest.raises(ValueError, match="a time with its unit"):
        values.duration("never")


@pytest.mark.parametrize(
    ("given_value", "nanos"), [(2500, 2_500_000_000_000), ("99.50", 99_500_000_000), ("0.01", 10**7)]
)
def test_dollars_are_exact(given_value: object, nanos: int) -> None:
    """Dollars are whole numbers or quoted decimals."""
    assert values.dollars(given_value) == Money(nanos)


@pytest.mark.parametrize("given_value", [99.5, 0, -5, "0", "-1", "$5", "5 USD", "1e3", "NaN", True, None, 10**9])
def test_dollars_are_never_floats(given_value: object) -> None:
    """A float, a sign, a currency or nothing at all is no limit in dollars."""
    with pytest.raises(ValueError, match="US dollars"):
        values.dollars(given_value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
        ("https://replay.example.com/cloud//", "https://replay.example.com/cloud"),
    ],
)
def test_endpoints_lose_their_last_slash(text: str, expected: str) -> None:
    """An endpoint means the same with and without a slash at its end."""
    assert values.endpoint(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:9000",
        "ftp://host",
        "http://",
        "http://u:p@host",
        "http://host?x=1",
        "http://host:99999",
        "http://[::1",
    ],
)
def test_endpoints_have_a_scheme_and_a_host(text: str) -> None:
    """An endpoint without http, without a host, with a user or with a query is refused."""
    with pytest.raises(ValueError, match=r"^an address such as"):
        values.endpoint(text)


def test_endpoint_without_the_api_path() -> None:
    """The path that clients add themselves is recognised, and the right address is shown."""
    with pytest.raises(ValueError, match=r"did you mean http://127\.0\.0\.1:9000\?"):
        values.endpoint("http://127.0.0.1:9000/compute/v1/")


@pytest.mark.parametrize("text", ["127.0.0.1:8765", "[::1]:8765", "localhost:0", "0.0.0.0:80"])
def test_listening_addresses(text: str) -> None:
    """An IP address or localhost, with a port; port 0 lets the system choose."""
    assert server.listen(text) == text


@pytest.mark.parametrize(
    "text", ["8765", ":8765", "example.com:80", "127.0.0.1", "::1:80", "127.0.0.1:99999", "[1.2.3.4:1"]
)
def test_wrong_listening_addresses(text: str) -> None:
    """A name, a missing port or a bare IPv6 address is refused."""
    with pytest.raises(ValueError, match="an IP address and a port"):
        server.listen(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sqlite:///costguard.db", "sqlite:///costguard.db"),
        ("postgres://me@host/db", "postgresql+psycopg://me@host/db"),
        ("postgresql://me@host/db", "postgresql+psycopg://me@host/db"),
    ],
)
def test_database_addresses(text: str, expected: str) -> None:
    """SQLite in a file or PostgreSQL; every spelling of PostgreSQL goes through the one driver."""
    assert server.database_url(text) == expected


@pytest.mark.parametrize(
    "text", ["costguard.db", "sqlite://", "sqlite:///:memory:", "mysql://host/db", "postgresql://"]
)
def test_wrong_database_addresses(text: str) -> None:
    """A ledger in memory, or in a database that was never tried, is refused."""
    with pytest.raises(ValueError, match="sqlite:///FILE"):
        server.database_url(text)


@pytest.mark.parametrize("text", ["ml-training-prod", "example.com:research-1"])
def test_project_ids(text: str) -> None:
    """Project ids, domain-scoped ones included."""
    assert values.project_id(text) == text


@pytest.mark.parametrize(
    "text", ["ML", "123456789012", "my_project", "proj", "ends-in-hyphen-", "projects/ml-training"]
)
def test_wrong_project_ids(text: str) -> None:
    """Names, numbers and resource paths of a project are not its id."""
    with pytest.raises(ValueError, match="project id"):
        values.project_id(text)
