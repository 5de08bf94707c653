"""People come in by a link, by the provider or by the proxy, and only as who they are; a page says what fails."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import structlog
from fastapi.testclient import TestClient
from tests.fakes import HandClock
from tests.identity.provider import Provider, providing
from tests.pages.signing_in import wired

from costguard.access.authentication import Authenticator
from costguard.access.links import make_link
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.model.access import Role, Via
from costguard.pages.sign_in import SignInPages, local

HOME = "https://costguard.example.com"
SESSION = "__Host-costguard_session"


@dataclass
class House:
    """The whole server as a browser meets it, with a clock that is moved by hand."""

    database: Database
    clock: HandClock
    authenticator: Authenticator
    pages: SignInPages
    client: TestClient
    counted: Counter[tuple[Via, bool]]

    def link(self, role: Role = Role.ADMIN) -> str:
        return "/sign-in/link/" + make_link(self.database, "Ben@example.com", role, self.clock.now())

    def event_texts(self) -> list[str]:
        with self.database.read() as connection:
            return [event.event.text for event in audit_log.read(connection, kind="SignedIn")]

    def proof(self) -> str:
        """Returns the proof that a page of ours carries."""
        match = re.search(r'"X-CSRF-Token": "([^"]+)"', self.client.get("/events").text)
        assert match is not None
        return match[1]


@pytest.fixture
def house(sqlite_database: Database) -> Iterator[House]:
    with built(sqlite_database) as house:
        yield house


@contextmanager
def built(
    database: Database, provider: Provider | None = None, address: str = HOME, tries: int = 1000, iap: bool = False
) -> Iterator[House]:
    with (
        wired(database, address, provider, tries, iap) as made,
        TestClient(made.app, address, follow_redirects=False) as browser,
    ):
        browser.headers["Accept"] = "text/html"
        yield House(database, made.clock, made.authenticator, made.pages, browser, made.counted)


def cookies(answer: httpx2.Response) -> dict[str, str]:
    """Returns the cookies that are set, by name: everything but the value, which is shown as `…`, or as nothing when
    deleted.
    """
    cookies = {}
    for line in answer.headers.get_list("set-cookie"):
        name, _, value = line.partition("=")
        shown, _, attributes = value.partition(";")
        cookies[name] = f"{'…' if shown.strip(chr(34)) else ''};{attributes}"
    return cookies


def test_a_link_signs_in_once(house: House) -> None:
    """A look uses nothing up; the press of its button does, for good, and the session is that of its role."""
    link = house.link()
    for _ in range(3):
        page = house.client.get(link)
        assert (page.status_code, "set-cookie" in page.headers) == (200, False)
    assert f'<form method="post" action="{link}">' in page.text
    came = house.client.post(link)
    assert (came.status_code, came.headers["location"]) == (303, "/")
    assert cookies(came) == {SESSION: "…; HttpOnly; Max-Age=43200; Path=/; SameSite=lax; Secure"}
    assert house.client.get("/events").status_code == 200
    assert house.event_texts() == ["ben@example.com signed in with a link made on the server, as admin."]
    other = TestClient(house.client.app, HOME, follow_redirects=False)
    for method in ("GET", "POST"):
        refused = other.request(method, link)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        assert "used before" in refused.text
        assert "costguard sign-in" in refused.text
    assert house.counted == {(Via.LINK, True): 1, (Via.LINK, False): 2}


def test_links_that_are_late_made_up_or_pressed_by_another_page(house: House) -> None:
    """Such links sign nobody in, and what was shown is not in the log."""
    late = house.link()
    house.clock.advance(timedelta(minutes=10))
    good = house.link()
    with structlog.testing.capture_logs() as logs:
        assert house.client.post(late).status_code == 403
        assert house.client.post("/sign-in/link/made-up").status_code == 403
        for site in ("cross-site", "same-site", "none"):
            page = house.client.post(good, headers={"Sec-Fetch-Site": site})
            assert (page.status_code, "set-cookie" in page.headers) == (200, False)
            assert "Sign in here?" in page.text
    assert [(line["event"], line["client"]) for line in logs] == [("sign_in_refused", "testclient")] * 2
    assert late.rpartition("/")[2] not in str(logs)
    assert house.client.post(good, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


def test_signing_out_ends_the_session_everywhere(house: House) -> None:
    """A copy of the cookie opens nothing afterwards; another page cannot sign anybody out."""
    house.client.post(house.link())
    copy = house.client.cookies[SESSION]
    assert house.client.post("/sign-out").status_code == 403
    assert house.client.post("/sign-out", data={"csrf": "guessed"}).status_code == 403
    assert house.client.get("/events").status_code == 200
    left = house.client.post("/sign-out", data={"csrf": house.proof()})
    assert (left.status_code, left.headers["location"]) == (303, "/sign-in?left=yes")
    assert cookies(left)[SESSION].startswith(";")
    assert "You are signed out" in house.client.get("/sign-in?left=yes").text
    assert house.client.get("/events", headers={"Cookie": f"{SESSION}={copy}"}).status_code == 303
    assert house.client.post("/sign-out").status_code == 401


def test_cookies_of_a_server_without_https(sqlite_database: Database) -> None:
    """The cookie has its plain name where there is no https, on one's own machine, and is not marked as secure."""
    with built(sqlite_database, address="http://127.0.0.1:8765") as house:
        came = house.client.post(house.link())
        assert cookies(came) == {"costguard_session": "…; HttpOnly; Max-Age=43200; Path=/; SameSite=lax"}
        assert house.client.get("/events").status_code == 200


def test_where_one_was_going() -> None:
    """A page of this server alone is gone on to: nothing that a browser would read as another address."""
    for fine in ("/", "/events?kind=SignedIn&n=1", "/vms/7?a=%2F%2Fb", "/vms/é", "/jobs#x"):
        assert local(fine) == fine
    wrong = (
        "",
        "events",
        "//evil.example",
        "/\\evil.example",
        "\\/evil.example",
        "https://evil.example",
        "/\t/evil.example",
    )
    for address in (
        *wrong,
        "javascript:alert(1)",
        "/a\nb",
        "/a\\b",
        "/sign-in",
        "/sign-out",
        "/" + "a" * 2000,
        "/api/v1/events",
    ):
        assert local(address) == "/", address


def test_who_needs_no_signing_in(house: House) -> None:
    """A stranger is led to the page and on to where they were going; who is signed in already is sent on at once."""
    led = house.client.get("/events?kind=SignedIn")
    assert led.headers["location"] == "/sign-in?next=%2Fevents%3Fkind%3DSignedIn"
    page = house.client.get(led.headers["location"])
    assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
    assert "costguard sign-in" in page.text
    assert "Continue with" not in page.text
    assert house.client.get("/sign-in/oidc").status_code == 403
    house.client.post(house.link())
    assert house.client.get(led.headers["location"]).headers["location"] == "/events?kind=SignedIn"
    assert house.client.get("/sign-in?next=//evil.example").headers["location"] == "/"


def test_a_role_is_not_given_by_signing_in(sqlite_database: Database) -> None:
    """A person without a role sees that and whom to ask, nothing of the fleet, and is no event of the audit log."""
    with providing() as provider:
        provider.claims = {"email": "eve@elsewhere.example"}
        with built(sqlite_database, provider) as house:
            came = through_provider(house, provider)
            assert came.headers["location"] == "/"
            assert house.client.get("/").status_code == 403
            page = house.client.get("/sign-in")
            for word in ("no role here yet", "eve@elsewhere.example", "mailto:lead@example.com", "[access]"):
                assert word in page.text
            assert house.event_texts() == []
            match = re.search(r'name="csrf" value="([^"]+)"', page.text)
            assert match is not None
            assert house.client.post("/sign-out", data={"csrf": match[1]}).status_code == 303


def through_provider(house: House, provider: Provider, next_: str = "/", **changed: str) -> httpx2.Response:
    """Go to the provider and come back, with some of what it gave back changed."""
    begun = house.client.get("/sign-in/oidc", params={"next": next_})
    assert begun.status_code == 303
    code, state = provider.sign_in(begun.headers["location"])
    return house.client.get("/sign-in/oidc/callback", params={"code": code, "state": state, **changed})


def test_through_the_provider(sqlite_database: Database) -> None:
    """A person returns to where they were going, with a session whose role the settings' lists say each time."""
    with providing() as provider, built(sqlite_database, provider) as house:
        page = house.client.get("/sign-in?next=/events")
        assert 'href="/sign-in/oidc?next=/events"' in page.text
        assert "Continue with Google" in page.text
        begun = house.client.get("/sign-in/oidc?next=//evil.example")
        assert cookies(begun) == {"__Host-costguard_begun": "…; HttpOnly; Max-Age=600; Path=/; SameSite=lax; Secure"}
        query = parse_qs(urlsplit(begun.headers["location"]).query)
        assert query["redirect_uri"] == [f"{HOME}/sign-in/oidc/callback"]
        came = through_provider(house, provider, "/events?kind=SignedIn")
        assert (came.status_code, came.headers["location"]) == (303, "/events?kind=SignedIn")
        assert set(cookies(came)) == {SESSION, "__Host-costguard_begun"}
        assert cookies(came)["__Host-costguard_begun"].startswith(";")
        assert house.client.get("/events").status_code == 200
        assert house.event_texts() == ["ana@example.com signed in through Google, as operator."]


def test_what_comes_back_wrong_from_the_provider(sqlite_database: Database) -> None:
    """Guessed, late, refused and unverified sign-ins, and a provider that is down, are explained without a session."""
    with providing() as provider, built(sqlite_database, provider) as house:
        cases: list[tuple[int, str, httpx2.Response]] = [
            (403, "begun in another browser", through_provider(house, provider, state="guessed")),
            (403, "begun in another browser", house.client.get("/sign-in/oidc/callback?code=1&state=2")),
            (403, "begun in another browser", house.client.get("/sign-in/oidc/callback")),
            (403, "used before", through_provider(house, provider, code="guessed")),
            (403, "or one of its rules, declined", through_provider(house, provider, error="access_denied")),
            (403, "did not sign you in.", through_provider(house, provider, error="<b>call 555</b>")),
        ]
        provider.claims = {"email_verified": False}
        cases.append((403, "has not verified", through_provider(house, provider)))
        provider.claims, provider.down = {}, {"/token": (503, {})}
        cases.append((503, "cannot be had", through_provider(house, provider)))
        provider.down = {}
        begun = house.client.get("/sign-in/oidc")
        code, state = provider.sign_in(begun.headers["location"])
        house.clock.advance(timedelta(minutes=11))
        late = house.client.get("/sign-in/oidc/callback", params={"code": code, "state": state})
        cases.append((403, "more than ten minutes ago", late))
        for status, words, answer in cases:
            assert (answer.status_code, words in answer.text) == (status, True), words
            assert SESSION not in cookies(answer), words
            assert "555" not in answer.text
            assert "Sign in again with Google" in answer.text
        assert house.event_texts() == []
    with built(sqlite_database, provider) as house:
        gone = house.client.get("/sign-in/oidc")
        assert (gone.status_code, "cannot be had" in gone.text) == (503, True)


def test_behind_the_proxy(sqlite_database: Database) -> None:
    """Google's proxy signs people in by itself; a wrong header is explained, and so is leaving."""
    with built(sqlite_database, iap=True) as house:
        header = "X-Goog-IAP-JWT-Assertion"
        assert house.client.get("/events", headers={header: "ana"}).status_code == 200
        assert house.client.get("/sign-in?next=/events", headers={header: "ana"}).headers["location"] == "/events"
        assert "no role here yet" in house.client.get("/sign-in", headers={header: "eve"}).text
        assert "it is for another server" in house.client.get("/sign-in", headers={header: "other"}).text
        assert "Identity-Aware Proxy" in house.client.get("/sign-in").text
        match = re.search(r'"X-CSRF-Token": "([^"]+)"', house.client.get("/events", headers={header: "ana"}).text)
        assert match is not None
        left = house.client.post("/sign-out", headers={header: "ana"}, data={"csrf": match[1]})
        assert left.headers["location"] == "/?gcp-iap-mode=CLEAR_LOGIN_COOKIE"


def test_who_tries_too_often_waits(sqlite_database: Database) -> None:
    """Tries are counted by the address that they come from; the page says for how long to wait."""
    with built(sqlite_database, tries=8) as house:
        good = house.link()
        assert [house.client.post("/sign-in/link/guess").status_code for _ in range(3)] == [403, 403, 429]
        wait = house.client.post(good)
        assert (wait.status_code, wait.headers["retry-after"]) == (429, "8")
        assert "Wait 8 seconds" in wait.text
        assert house.client.get("/sign-in").status_code == 200
        for last in ("1", "2:3", "ffff"):
            line = TestClient(house.client.app, HOME, client=(f"2001:db8:0:1::{last}", 1))
            line.get("/sign-in/link/guess")
        assert line.get("/sign-in/link/guess").status_code == 429
        other = TestClient(house.client.app, HOME, client=("2001:db8:0:2::1", 1))
        assert other.get("/sign-in/link/guess").status_code == 403


def test_ipv4_addresses_written_as_ipv6_are_counted_apart(sqlite_database: Database) -> None:
    """A socket for both, and some proxies, write them so: a stranger's tries must not keep others out."""
    with built(sqlite_database, tries=8) as house:
        stranger = TestClient(house.client.app, HOME, client=("::ffff:192.0.2.7", 1))
        assert [stranger.get("/sign-in/link/guess").status_code for _ in range(3)] == [403, 403, 429]
        other = TestClient(house.client.app, HOME, client=("::ffff:192.0.2.8", 1))
        assert other.get("/sign-in/link/guess").status_code == 403


def test_nothing_from_elsewhere_on_the_page(house: House) -> None:
    """The page to sign in at loads only our style sheets, runs no script, and may be shown in no frame."""
    page = house.client.get("/sign-in")
    assert "<script" not in page.text
    assert "style=" not in page.text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert all(address.startswith("/") for address in loaded)
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for sheet in (address for address in loaded if ".css" in address):
        assert house.client.get(sheet).status_code == 200
