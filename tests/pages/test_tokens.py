"""The page of access: sessions and API tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.authenticators import FixedAuthenticator, begin_session, make_principal, signed_in
from tests.fakes import HandClock
from tests.pages.html import Page, tidy

from costguard.access import token_rows
from costguard.access.sessions import Sessions
from costguard.access.token_rows import ApiToken
from costguard.access.tokens import digest_of
from costguard.db.transaction import Database
from costguard.model.access import Permission, Role, Via

ADA, BOB = "ada@lab.example", "bob@lab.example"
FORM = {"csrf": "the page's own", "key": "a form", "name": "nightly", "permission": ["read", "jobs"], "lifetime": "30"}
Clients = Callable[..., TestClient]


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """The token service is tested on both."""
    return sqlite_database


def secret_of(page: Page) -> str:
    return page.text.partition("not shown again.")[2].split()[0].removesuffix("Copy")


def known(database: Database, secret: str) -> ApiToken | None:
    with database.read() as connection:
        return token_rows.of_digest(connection, digest_of(secret))


def test_a_token_is_made_and_its_secret_shown_once(database: Database, client_with: Clients) -> None:
    """The secret opens the authenticator; the same form again makes no other, and no later page shows it."""
    client = client_with(authenticator=signed_in(Role.OPERATOR, ADA))
    assert "There are no tokens yet." in client.get("/tokens").text
    made = client.post("/tokens", data=FORM)
    page = Page(made.text)
    assert page.mistakes == []
    secret = secret_of(page)
    token = known(database, secret)
    assert token is not None
    assert (token.owner, token.role, token.permissions) == (
        ADA,
        Role.OPERATOR,
        frozenset({Permission.READ, Permission.JOBS}),
    )
    assert token.expires_at == token.made_at + timedelta(days=30)
    assert made.headers["cache-control"] == "no-store"
    again = client.post("/tokens", data=FORM)
    assert "the secret was shown then" in again.text
    assert secret not in again.text + client.get("/tokens").text
    assert tidy(Page(again.text).text).count("nightly") == len(("heading", "row", "revoke"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": " "}, "name has 1 to 100 characters"),
        ({"permission": ["admin"]}, "cannot have: admin"),
        ({"permission": []}, "no permission at all"),
        ({"permission": ["sing"]}, "a permission that does not exist"),
        ({"lifetime": "9"}, "does not say how long"),
        ({"owner": BOB}, "Only an admin makes tokens for others."),
    ],
)
def test_a_token_that_cannot_be_is_explained(
    database: Database, client_with: Clients, changed: dict[str, object], said: str
) -> None:
    """The page says why not, and nothing is made."""
    client = client_with(authenticator=signed_in(Role.OPERATOR, ADA))
    answer = client.post("/tokens", data={**FORM, **changed})
    assert answer.status_code == 422
    assert said in tidy(Page(answer.text).text)
    assert "There are no tokens yet." in client.get("/tokens").text


def test_ones_own_tokens_are_seen_and_revoked_an_admin_those_of_all(database: Database, client_with: Clients) -> None:
    """Another's is neither shown nor revoked; revoking is asked first, and what was revoked says so."""
    ada, bob = (client_with(authenticator=signed_in(Role.OPERATOR, who)) for who in (ADA, BOB))
    admin = client_with(authenticator=signed_in(Role.ADMIN, "root@lab.example"))
    token = known(database, secret_of(Page(ada.post("/tokens", data=FORM).text)))
    assert token is not None
    place = f"/tokens/{token.id}/revoke"
    assert "nightly" not in bob.get("/tokens").text
    assert bob.get(place).status_code == bob.post(place, data=FORM).status_code == 404
    assert "nightly" in admin.get("/tokens").text
    assert "It has never been used." in ada.get(place).text
    assert ada.post(place, data={}).status_code == 403
    answer = admin.post(place, data=FORM, headers={"HX-Request": "true"})
    assert "Revoked nightly." in answer.text
    assert "revoked 20 Nov, 12:00 by root@lab.example" in tidy(Page(ada.get("/tokens").text).text)
    assert "It was revoked" in ada.get(place).text
    assert ada.post(place, data=FORM, follow_redirects=False).headers["location"] == "/tokens"


def test_sessions_are_shown_and_ended(database: Database, client_with: Clients) -> None:
    """A person sees their own, an admin everybody's, asked first; to end the one that asks leads to the sign-in."""
    sessions = Sessions(database, HandClock(NOW), timedelta(hours=12))
    here, _ = begin_session(database, sessions, ADA, Via.LINK, Role.OPERATOR, "10.0.0.7")
    there, _ = begin_session(database, sessions, ADA, Via.OIDC)
    bobs, _ = begin_session(database, sessions, BOB, Via.OIDC)
    who = replace(make_principal(Role.OPERATOR, ADA, Via.LINK), session=here.id)
    ada, admin = (
        client_with(authenticator=FixedAuthenticator(who)),
        client_with(authenticator=signed_in(Role.ADMIN, "root@lab.example")),
    )
    page = Page(ada.get("/tokens").text)
    assert page.mistakes == []
    shown = tidy(page.text)
    assert (
        "ada@lab.example this session operator, granted by a link 20 Nov, 12:00 with a one-time link from 10.0.0.7"
        in shown
    )
    assert "Sign out everywhere" in shown
    assert BOB not in shown
    assert BOB in admin.get("/tokens").text
    place = f"/sessions/{there.id}/end"
    of_bob = f"/sessions/{bobs.id}/end"
    assert ada.get(of_bob).status_code == ada.post(of_bob, data=FORM).status_code == 404
    assert "Could someone else have used it?" in ada.get(place).text
    assert ada.post(place, data={}).status_code == 403
    answer = ada.post(place, data=FORM, headers={"HX-Request": "true"})
    assert (answer.headers["hx-trigger"], "Session ended. That browser is signed out" in answer.text) == ("done", True)
    assert ada.get(place).status_code == 404
    assert "Sign out bob@lab.example everywhere?" in admin.get(f"/sessions/end?address={BOB}").text
    assert ada.post("/sessions/end", data={**FORM, "address": BOB}).status_code == 403
    assert ada.post("/sessions/end", data=FORM).status_code == 422
    ended = admin.post("/sessions/end", data={**FORM, "address": BOB}, follow_redirects=False)
    assert (ended.status_code, ended.headers["location"]) == (303, "/tokens")
    assert "Sign out everywhere?" in ada.get("/sessions/end").text
    left = ada.post("/sessions/end", data={**FORM, "address": ADA}, headers={"HX-Request": "true"})
    assert left.headers["hx-redirect"] == "/sign-in?left=yes"
    assert "There are no sessions." in admin.get("/tokens").text
    assert ada.get("/tokens?sessions=x").status_code == 422


def test_many_tokens_are_shown_page_by_page(database: Database, client_with: Clients) -> None:
    """The way to the older ones is in the address, and an address that is none is explained."""
    client = client_with(authenticator=signed_in(Role.OPERATOR, ADA))
    may = frozenset({Permission.READ})
    with database.write() as connection:
        for number in range(51):
            made_at = NOW - timedelta(hours=number)
            token = ApiToken(f"t{number}", f"token-{number}", ADA, Role.OPERATOR, True, may, made_at, ADA, None)
            token_rows.add(connection, token, f"digest {number}", None)
    page = Page(client.get("/tokens").text)
    older = next(str(attrs["href"]) for _, attrs in page.tags if attrs.get("rel") == "next")
    shown = page.text + Page(client.get(older).text).text
    assert all(f"token-{number} " in tidy(shown) for number in range(51))
    assert client.get("/tokens?before=x").status_code == client.get("/tokens?before=2026-11-20").status_code == 422


def test_a_token_of_a_links_session_says_when_it_ends_and_is_confirmed(
    database: Database, client_with: Clients
) -> None:
    """A person with a link's session sees the command, and no button; an admin who came another way confirms it
    there.
    """
    sessions = Sessions(database, HandClock(NOW), timedelta(hours=12))
    here, _ = begin_session(database, sessions, ADA, Via.LINK, Role.ADMIN)
    by_link = replace(
        make_principal(Role.ADMIN, ADA, Via.LINK), session=here.id, link_session=here.id, link_until=here.expires_at
    )
    ada, root = (
        client_with(authenticator=FixedAuthenticator(by_link)),
        client_with(authenticator=signed_in(Role.ADMIN, "root@lab.example")),
    )
    made = Page(ada.post("/tokens", data=FORM).text)
    assert made.mistakes == []
    token = known(database, secret_of(made))
    assert token is not None
    place = f"/tokens/{token.id}/confirm"
    assert f"costguard token confirm {token.id}" in made.text
    assert "unless confirmed" in tidy(made.text)
    assert place not in ada.get("/tokens").text
    assert ada.post(place, data=FORM).status_code == 409
    assert place in root.get("/tokens").text
    assert root.post(place, data={}).status_code == 403
    answer = root.post(place, data=FORM, headers={"HX-Request": "true"})
    assert "Confirmed nightly" in answer.text
    page = tidy(Page(root.get("/tokens").text).text)
    assert "unless confirmed" not in page
    assert place not in root.get("/tokens").text
