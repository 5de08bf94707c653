"""A sign-in through the provider is finished once, in time, and in the browser that began it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from tests.authenticators import SEAL
from tests.fakes import HandClock

from costguard.access.links import GOOD_FOR
from costguard.access.rules import Access
from costguard.access.sessions import Sessions
from costguard.access.sign_ins import Provider, SignIns
from costguard.access.signing import Seal
from costguard.db.transaction import Database
from costguard.errors import SignInRefused
from costguard.model.access import Via

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANA = "ana@lab.example"


@dataclass
class Redeemer:
    """Takes every code, and remembers what each was redeemed with: (code, nonce, verifier)."""

    redeemed: list[tuple[str, str, str]] = field(default_factory=list)

    def begin(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        return f"https://id.example/authorize?{urlencode({'state': state})}"

    def finish(self, code: str, redirect_uri: str, nonce: str, verifier: str) -> str:
        self.redeemed.append((code, nonce, verifier))
        return ANA


class Browser:
    """A browser that went to the provider: its cookie, and the state that the provider sends back."""

    def __init__(self, sign_ins: SignIns) -> None:
        url, self.cookie = sign_ins.begin("/jobs", "192.0.2.7")
        [self.state] = parse_qs(urlsplit(url).query)["state"]


@dataclass
class Desk:
    clock: HandClock
    redeemer: Redeemer
    sign_ins: SignIns
    counted: list[tuple[Via, bool]]

    def is_refused(self, cookie: str, state: str) -> bool:
        """Nothing is redeemed then, and the try is counted as a failed one."""
        redeemed, tries = len(self.redeemer.redeemed), len(self.counted)
        why = ""
        try:
            self.sign_ins.finish(cookie, state, "code-1", "192.0.2.7")
        except SignInRefused as refused:
            why = refused.message
        is_refused = "begun in another browser, or more than ten minutes ago" in why
        assert len(self.redeemer.redeemed) == redeemed + (not is_refused)
        assert self.counted[tries:] == [(Via.OIDC, not is_refused)]
        return is_refused


@pytest.fixture
def desk(sqlite_database: Database) -> Desk:
    clock, redeemer, counted = HandClock(NOW), Redeemer(), list[tuple[Via, bool]]()
    sessions = Sessions(sqlite_database, clock, timedelta(hours=12))
    provider = Provider("Google", "https://costguard.example", redeemer)
    access = Access(viewers=frozenset({ANA}))
    sign_ins = SignIns(
        sqlite_database, clock, access, SEAL, sessions, provider, count=lambda *tried: counted.append(tried)
    )
    return Desk(clock, redeemer, sign_ins, counted)


def test_a_sign_in_ends_where_it_began(desk: Desk) -> None:
    """The sign-in has the nonce and the verifier of its own beginning, and ends at the page that was requested."""
    browser = Browser(desk.sign_ins)
    arrival = desk.sign_ins.finish(browser.cookie, browser.state, "code-1", "192.0.2.7")
    assert arrival.next == "/jobs"
    [(code, nonce, verifier)] = desk.redeemer.redeemed
    assert code == "code-1"
    assert len({browser.state, nonce, verifier}) == 3
    assert min(map(len, (browser.state, nonce, verifier))) >= 43  # RFC 7636, 4.1: a verifier of 43 characters or more


def test_a_sign_in_begun_too_long_ago_is_refused(desk: Desk) -> None:
    """The limit holds to the second."""
    browser = Browser(desk.sign_ins)
    desk.clock.advance(GOOD_FOR)
    assert not desk.is_refused(browser.cookie, browser.state)
    desk.clock.advance(timedelta(seconds=1))
    assert desk.is_refused(browser.cookie, browser.state)


def test_a_sign_in_begun_in_another_browser_is_refused(desk: Desk) -> None:
    """A link with another user's code would sign its victim in as them: cookie and state belong together."""
    mine, theirs = Browser(desk.sign_ins), Browser(desk.sign_ins)
    assert desk.is_refused(mine.cookie, theirs.state)
    assert desk.is_refused(theirs.cookie, mine.state)
    assert desk.is_refused(mine.cookie, "")
    assert desk.is_refused("", mine.state)
    assert not desk.is_refused(mine.cookie, mine.state)


def test_a_cookie_that_was_made_for_something_else_begins_no_sign_in(desk: Desk) -> None:
    """Neither one of another key, nor one that this server sealed for another purpose."""
    until = 4_000_000_000
    data = {"state": "s", "nonce": "n", "verifier": "v", "next": "/", "until": until}
    assert desk.is_refused(SEAL.seal("session", data), "s")
    assert desk.is_refused(Seal(b"another key, of 32 bytes as well").seal("oidc", data), "s")
    assert not desk.is_refused(SEAL.seal("oidc", data), "s")
