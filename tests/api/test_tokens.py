"""Tokens are made, listed and revoked over REST; callers can ask who they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.conftest import deps_of
from tests.authenticators import authenticator_of

from costguard.access.rules import Access
from costguard.api.app import create_app
from costguard.api.deps import Deps
from costguard.db.tables import api_tokens
from costguard.db.transaction import Database

ACCESS = Access(operators=frozenset({"ana@example.com"}), admins=frozenset({"root@example.com"}))
MASTER = "the master token"


@pytest.fixture
def deps(sqlite_database: Database) -> Deps:
    plain = deps_of(sqlite_database)
    return replace(plain, authenticator=authenticator_of(sqlite_database, plain.clock, ACCESS, MASTER))


class Api:
    """The API, asked with one token or another."""

    def __init__(self, deps: Deps) -> None:
        self._client = TestClient(create_app(deps))

    def ask(self, method: str, path: str, token: str = MASTER, body: Any = None, key: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {token}"} | ({} if key is None else {"Idempotency-Key": key})
        return self._client.request(method, f"/api/v1/{path}", json=body, headers=headers)

    def made(self, token: str = MASTER, **body: Any) -> tuple[str, str]:
        """The id and the secret."""
        answer = self.ask("POST", "tokens", token, {"name": "nightly", **body})
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]["id"], answer.json()["secret"]


def test_a_token_is_made_used_and_revoked(deps: Deps) -> None:
    """The secret is in that one answer; it opens what it was made for, says who it is, and ends when it is revoked."""
    api = Api(deps)
    token_id, secret = api.made(owner="ana@example.com", permissions=["read", "tokens"], days=30)
    assert api.ask("GET", "me", secret).json() == {
        "address": "ana@example.com",
        "role": "operator",  # by the lists, though the master token made it
        "permissions": ["read", "tokens"],
        "via": "token",
        "token": token_id,
        "expires_at": "2026-12-20T12:00:00Z",
    }
    assert api.ask("GET", "instances", secret).status_code == 200
    assert api.ask("POST", "jobs", secret, {"preset": "t4"}).status_code == 403
    listed = api.ask("GET", "tokens", secret)
    assert [token["id"] for token in listed.json()["tokens"]] == [token_id]
    assert secret not in listed.text
    revoked = api.ask("DELETE", f"tokens/{token_id}", secret)
    assert (revoked.status_code, revoked.json()["token"]["is_usable"]) == (200, False)
    assert api.ask("GET", "me", secret).status_code == 401
    assert api.ask("DELETE", f"tokens/{token_id}").json()["token"]["revoked_by"] == "ana@example.com"


def test_a_key_makes_one_token(deps: Deps) -> None:
    """The repeat is answered with the token and without the secret; another body under the key is a 409."""
    api, body = Api(deps), {"name": "nightly", "owner": "ana@example.com"}
    first, again = (api.ask("POST", "tokens", body=body, key="k") for _ in range(2))
    assert (first.status_code, again.status_code, again.json()["secret"]) == (201, 200, None)
    assert first.json()["token"] == again.json()["token"]
    taken = api.ask("POST", "tokens", body={**body, "name": "else"}, key="k")
    assert (taken.status_code, taken.json()["type"]) == (409, "/problems/key-taken")


def test_nobody_gives_more_than_they_have(deps: Deps) -> None:
    """A caller gives nothing to others either, nor sees theirs; an error in a body is a 422 that says so."""
    api = Api(deps)
    _, ana = api.made(owner="ana@example.com", role="operator")
    theirs, _ = api.made(owner="root@example.com")
    refused: tuple[dict[str, Any], ...] = (
        {"role": "admin"},
        {"permissions": ["admin"]},
        {"owner": "root@example.com"},
        {"name": " "},
        {"days": 0},
        {"days": True},
        {"permissions": []},
        {"permisions": ["read"]},
    )
    for wrong in refused:
        assert api.ask("POST", "tokens", ana, {"name": "more", **wrong}).status_code == 422, wrong
    assert api.ask("POST", "tokens", MASTER, {"name": "whose?"}).status_code == 422
    assert api.ask("DELETE", f"tokens/{theirs}", ana).status_code == 404
    assert len(api.ask("GET", "tokens", ana).json()["tokens"]) == 1


def test_tokens_come_in_pages(deps: Deps) -> None:
    """Each once, the newest first, for an admin all of them."""
    api = Api(deps)
    made = {api.made(owner=f"p{number}@example.com")[0] for number in range(5)}
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.ask("GET", f"tokens?limit=2&cursor={cursor}" if cursor else "tokens?limit=2").json()
        seen += [token["id"] for token in page["tokens"]]
        cursor = page["next_cursor"]
    assert (sorted(seen), len(seen)) == (sorted(made), 5)
    with deps.database.read() as connection:
        stored = connection.execute(api_tokens.select()).all()
    assert all("cgt_" not in str(row) for row in stored), "no secret is stored"
