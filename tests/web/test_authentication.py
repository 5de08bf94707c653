"""Authentication: who passes, and how strangers are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.datastructures import Headers
from tests.authenticators import FixedAuthenticator, keyed, make_principal

from costguard.model.access import Permission, Role, Via
from costguard.web import problems
from costguard.web.authentication import AuthenticationMiddleware, RateLimiter, RequestAuthenticator, credentials
from costguard.web.permissions import Asker, needs

OUR_PROOF = "the page's own"


def app_behind(authenticator: RequestAuthenticator, limits: RateLimiter | None = None) -> TestClient:
    app = FastAPI()
    problems.install(app)
    app.add_middleware(AuthenticationMiddleware, authenticator=authenticator, limits=limits)

    @app.get("/page", dependencies=[needs(Permission.READ)])
    @app.get("/api/v1/thing", dependencies=[needs(Permission.READ)])
    @app.get("/sign-in")
    @app.get("/healthz")
    def look() -> str:
        return "seen"

    @app.post("/page", dependencies=[needs(Permission.INSTANCES)])
    def act(who: Asker) -> str:
        return who.address

    return TestClient(app, follow_redirects=False)


def test_strangers_get_no_further() -> None:
    """A person is redirected to sign in, a program gets a 401; unknown paths are no different."""
    client = app_behind(keyed("s3cret"))
    for path in ("/api/v1/thing", "/api/v1/nothing", "/nothing", "/openapi.json"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="costguard"')
        assert answer.json()["next"]
    person = {"Accept": "text/html"}
    led = client.get("/page?owner=a%26b", headers=person)
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in?next=%2Fpage%3Fowner%3Da%2526b")
    assert client.get("/page", headers={**person, "HX-Request": "true"}).headers["hx-redirect"].startswith("/sign-in?")
    assert client.get("/api/v1/thing", headers=person).status_code == 401
    assert client.post("/page", headers=person).status_code == 401
    for path in ("/healthz", "/sign-in"):
        assert client.get(path).status_code == 200
    for right in ("Bearer s3cret", "bearer  s3cret "):
        assert client.get("/api/v1/thing", headers={"Authorization": right}).status_code == 200
    for wrong in (b"Basic s3cret", b"s3cret", b"Bearer", b"Bearer s3cret2", b"Bearer \xff"):
        assert client.get("/api/v1/thing", headers={b"Authorization": wrong}).status_code == 401


def test_a_browser_changes_something_only_for_our_own_pages() -> None:
    """It sends its session with whatever page asks: the proof, in a header or the form, tells ours from others'."""
    ours = {"X-CSRF-Token": OUR_PROOF}
    for via in (Via.LINK, Via.OIDC, Via.IAP):
        client = app_behind(FixedAuthenticator(make_principal(Role.OPERATOR, "ana@lab.example", via)))
        assert client.post("/page").status_code == 403
        assert client.post("/page", headers={"X-CSRF-Token": "guessed"}).status_code == 403
        assert client.post("/page", json={"csrf": OUR_PROOF}).status_code == 403
        assert client.post("/page", data={"csrf": "guessed"}).status_code == 403
        assert client.post("/page", files={"csrf": b"a file"}).status_code == 403
        for site in ("cross-site", "same-site", "none"):
            assert client.post("/page", headers={**ours, "Sec-Fetch-Site": site}).status_code == 403
        assert client.post("/page", headers={**ours, "Sec-Fetch-Site": "same-origin"}).json() == "ana@lab.example"
        assert client.post("/page", data={"csrf": OUR_PROOF}).status_code == 200
    assert (
        app_behind(FixedAuthenticator(make_principal(Role.OPERATOR, "ana@lab.example", Via.TOKEN)))
        .post("/page")
        .status_code
        == 200
    )


def test_who_may_not_is_told_whom_to_ask() -> None:
    """A person hears of roles, and a token of permissions."""
    nobody = app_behind(FixedAuthenticator(make_principal(Role.NOBODY, "eve@lab.example", Via.OIDC)))
    answer = nobody.get("/page")
    assert (answer.status_code, answer.json()["detail"].partition(",")[0]) == (403, "eve@lab.example has no role here")
    viewer = app_behind(FixedAuthenticator(make_principal(Role.VIEWER, "vic@lab.example", Via.LINK)))
    assert viewer.get("/page").status_code == 200
    assert "is a viewer, and this needs the permission instances" in viewer.post("/page").json()["detail"]


@dataclass
class Enough(RateLimiter):
    """A limit of so many requests, and no more."""

    left: int

    def refusal(self, key: str) -> Mapping[str, str] | None:
        self.left -= 1
        return {"Retry-After": "7"} if self.left < 0 else None


def test_who_asks_too_often_waits() -> None:
    """It is said for how long; what is open to all is not counted."""
    client = app_behind(FixedAuthenticator(make_principal()), Enough(2))
    assert [client.get("/page").status_code for _ in range(3)] == [200, 200, 429]
    assert client.get("/page").headers["retry-after"] == "7"
    assert client.get("/healthz").status_code == 200


def test_every_answer_is_nothing_that_a_browser_runs() -> None:
    """The exception is a page with a policy of its own."""
    client = app_behind(keyed("s3cret"))
    for path in ("/healthz", "/page", "/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["referrer-policy"] == "no-referrer"


def test_by_https_no_other_host_sets_the_session() -> None:
    """The cookie that a browser takes from this very host alone is read; by http there is no such cookie."""
    for name, session in (("__Host-costguard_session", "mine"), ("costguard_session", "")):
        assert credentials(Headers({"cookie": f"{name}=mine"}), is_https=True).session == session
        assert credentials(Headers({"cookie": f"{name}=mine"}), is_https=False).session == "mine"
    both = Headers({"cookie": "costguard_session=theirs; __Host-costguard_session=mine"})
    assert credentials(both, is_https=False).session == "mine"
