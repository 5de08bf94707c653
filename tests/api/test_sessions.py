"""Sessions are listed over REST, and ended."""

from __future__ import annotations

from datetime import timedelta

from fastapi.testclient import TestClient
from tests.api.story import ADA, MASTER, ROOT, make_story
from tests.authenticators import begin_session

from costguard.access.sessions import Sessions
from costguard.db.transaction import Database
from costguard.model.access import Role, Via


def test_sessions_over_rest(sqlite_database: Database) -> None:
    """A person sees their own, an admin everybody's, page by page; ended one by one or all of a person's; problems say
    why.
    """
    story = make_story(sqlite_database)
    sessions = Sessions(sqlite_database, story.office.clock, timedelta(hours=1))
    roots, cookie = begin_session(sqlite_database, sessions, ROOT, Via.LINK, Role.ADMIN)
    client = TestClient(story.app)
    ada, master = ({"Authorization": f"Bearer {secret}"} for secret in (story.token(Role.VIEWER, ADA), MASTER))
    (mine,) = client.get("/api/v1/sessions", headers=ada).json()["sessions"]
    assert (mine["address"], mine["role"], mine["client"], mine["is_this"]) == (ADA, "operator", "10.0.0.7", False)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(f"/api/v1/sessions?limit=1{cursor and f'&cursor={cursor}'}", headers=master).json()
        seen += [session["id"] for session in page["sessions"]]
        cursor = page["next_cursor"]
    assert sorted(seen) == sorted([mine["id"], roots.id])
    browser = {"Cookie": f"costguard_session={cookie}"}
    shown = client.get("/api/v1/sessions", headers=browser).json()["sessions"]
    assert [session["id"] for session in shown if session["is_this"]] == [roots.id]
    cases = (
        (f"/{roots.id}", ada, 404, "no session"),
        (f"?address={ROOT}", ada, 403, "only admins"),
        ("", master, 422, "speaks for nobody"),
        ("?adress=x", master, 422, "adress"),
    )
    for address, who, status, said in cases:
        answer = client.delete(f"/api/v1/sessions{address}", headers=who)
        assert (answer.status_code, said in answer.text, bool(answer.json()["next"])) == (status, True, True), address
    assert client.delete(f"/api/v1/sessions/{mine['id']}", headers=ada).json()["session"]["id"] == mine["id"]
    assert client.delete("/api/v1/sessions", headers=ada).json()["sessions"] == []
    ended = client.delete(f"/api/v1/sessions?address={ROOT}", headers=master).json()["sessions"]
    assert [session["id"] for session in ended] == [roots.id]
    assert client.get("/api/v1/sessions", headers=browser).status_code == 401
    story.authenticator.close()
