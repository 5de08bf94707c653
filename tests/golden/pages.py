"""The text of every page: of a fleet with something of everything, of an empty ledger, and of what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response
from structlog.testing import capture_logs
from tests.api.conftest import Standstill
from tests.authenticators import make_principal, signed_in
from tests.browser import site
from tests.golden.databases import migrated
from tests.golden.page_text import PageText
from tests.identity.provider import providing
from tests.pages import story, vertex_story
from tests.pages.test_sign_in import built, through_provider

from costguard.access.tokens import NewToken, TokenService
from costguard.db.transaction import Database
from costguard.model.access import Role

_MAIN = re.compile(r"<main.*</main>", re.DOTALL)
_CODE = re.compile(r"link/[\w-]{20,}")
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_CSRF = {"csrf": "the page's own"}
_EMPTY = (
    "",
    "jobs",
    "launch",
    "spend",
    "savings",
    "executions",
    "loose",
    "bill",
    "budgets",
    "presets",
    "prices",
    "events",
    "health",
    "tokens",
)
_MORE = {
    "fleet-address": "/fleet",
    "events-csv": "/events.csv",
    "events-json": "/events.json",
    "events-one-day": "/events?since=2026-11-20&until=2026-11-20&words=started",
    "spend-by-job": "/spend?group_by=job",
    "spend-by-project": "/spend?group_by=project",
    "spend-by-provisioning-model": "/spend?group_by=provisioning_model",
    "spend-of-nothing": "/spend?owner=nobody@lab.example",
    "prices-search": "/prices?words=a100",
    "job-output-stored-nowhere": "/jobs/j7k2m9q4/output",
    "job-profile-workers": "/jobs/j7k2m9q4/profile?group=workers&compare=none",
    "job-profile-none": "/jobs/b3waits7/profile",
    "jobs-of-one-state": "/jobs?state=failed",
    "launch-dev": "/launch?kind=dev&preset=a100",
    "token-revoke": "/tokens/70c3a1b2c3/revoke",
    "session-end": "/sessions/s2/end",
    "sessions-end": "/sessions/end?address=bob@lab.example",
    "vm-no-owner": "/vm/lab/9503",
    "vm-kept": "/vm/lab/9504",
    "vm-spot": "/vm/lab/9502",
    "vm-stopped": "/vm/lab/9600",
    "ask-claim": "/vm/lab/9503/claim",
    "ask-disown": "/vm/lab/9500/disown",
    "job-waits": "/jobs/b3waits7",
    "job-dev": "/jobs/d4devvm2",
}
_WRONG = {
    "no-such-vm": "/vm/lab/1",
    "no-such-job": "/jobs/none",
    "no-such-token": "/tokens/none/revoke",
    "no-such-page": "/nowhere",
    "fleet-filter": "/?sort=upwards",
    "spend-dates": "/spend?from=2026-11-20&to=2026-10-20",
    "spend-grouping": "/spend?group_by=weather",
    "prices-page": "/prices?page=x",
    "events-moment": "/events?since=yesterday",
    "ask-unknown": "/vm/lab/9500/delete",
}
_LAUNCH = {**_CSRF, "key": "k1", "kind": "training", "preset": "t4"}
_FORMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "launch-quote": ("/launch/quote", {**_LAUNCH, "command": "python train.py", "work_hours": "20"}),
    "launch-refused": ("/launch", {**_LAUNCH, "command": "", "ceiling": "much"}),
    "token-refused": ("/tokens", {**_CSRF, "name": "", "lifetime": "30", "permission": "read", "key": "k2"}),
    "no-csrf": ("/tokens", {}),
    "keep-refused": ("/vm/lab/9500/keep", {**_CSRF, "until": "hours", "hours": "0"}),
    "stop-seen-otherwise": ("/vm/lab/9500/stop", {**_CSRF, "started_at": "2026-11-20T11:59:00+00:00"}),
    "stop-asked": ("/vm/lab/9500/stop", {**_CSRF, "reason": "done for today"}),
    "fleet-stop-asked": ("", {}),
    "cancel-after": ("/jobs/j7k2m9q4/cancel", {**_CSRF, "after_checkpoint": "yes"}),
    "never-mind": ("/jobs/j7k2m9q4/never-mind", _CSRF),
    "cancel-asked": ("/jobs/j7k2m9q4/cancel", {**_CSRF, "reason": "wrong data"}),
    "cancel-over": ("/jobs/g5failed/cancel", _CSRF),
}


def texts() -> Mapping[str, str]:
    return {f"pages/{name}.txt": text for name, text in _pages()}


def _pages() -> Iterator[tuple[str, str]]:
    with migrated() as database:
        yield from _of_a_fleet(database)
    with migrated() as database:
        yield from _of_a_fleet_to_a_viewer(database)
    with migrated() as database:
        yield from _of_a_troubled_fleet(database)
    with migrated() as database:
        yield from _of_resources(database)
    with migrated() as database, _browser(site.empty(database)) as browser:
        for name in _EMPTY:
            yield f"empty/{name.replace('/', '-') or 'now'}", _text(browser.get(f"/{name}"))
    with capture_logs():
        yield from _signing_in()


def addresses(page_story: site.SiteStory) -> Mapping[str, str]:
    """Every page of the fleet by name, but the one that shows the OpenAPI document, which has a file of its own."""
    return {name: address for name, address in {**page_story.pages, **_MORE}.items() if not name.startswith("api")}


def _of_a_fleet(database: Database) -> Iterator[tuple[str, str]]:
    page_story = site.tell(database)
    ids = iter(("70c3a1b2c3", "70c3d4e5f6"))
    tokens = TokenService(database, Standstill(), lambda: next(ids))
    tokens.make(NewToken("ci", owner="ada@lab.example", role=Role.OPERATOR, lasts=timedelta(days=30)), make_principal())
    tokens.make(NewToken("nightly", owner="bob@lab.example"), make_principal())
    with _browser(page_story.app) as browser:
        yield "frame", _frame(browser.get("/"))
        for name, address in addresses(page_story).items():
            yield name, _text(browser.get(address))
        for name, address in _WRONG.items():
            yield f"wrong/{name}", _text(browser.get(address))
        for name, (address, form) in _FORMS.items():
            yield f"forms/{name}", _text(browser.post(address, data=form) if address else browser.get("/"))


def _of_a_fleet_to_a_viewer(database: Database) -> Iterator[tuple[str, str]]:
    with _browser(site.tell(database, signed_in(Role.VIEWER, "vic@lab.example")).app) as browser:
        yield "viewer/now", _text(browser.get("/"))
        for name, address in {"launch": "/launch", "job": "/jobs/j7k2m9q4", "stop": "/vm/lab/9500/stop"}.items():
            yield f"viewer/{name}", _text(browser.get(address))
        yield "viewer/stop-refused", _text(browser.post("/vm/lab/9500/stop", data=_CSRF))


def _of_a_troubled_fleet(database: Database) -> Iterator[tuple[str, str]]:
    """VMs without a price, in a zone that could not be read, stopped, and gone."""
    addresses = story.tell(database)
    with _browser(site.empty(database)) as browser:
        yield "troubled/now", _text(browser.get("/"))
        yield "troubled/health", _text(browser.get("/health"))
        yield "troubled/prices", _text(browser.get("/prices"))
        for name, address in addresses.items():
            yield f"troubled/vm-{name}", _text(browser.get(address))


def _of_resources(database: Database) -> Iterator[tuple[str, str]]:
    """A fleet in which most is run by Vertex AI and Colab Enterprise."""
    addresses = vertex_story.tell(database)
    with _browser(site.empty(database)) as browser:
        yield "resources/now", _text(browser.get("/"))
        for name, address in addresses.items():
            yield f"resources/{name}", _text(browser.get(address))
        vertex_story.act(database)
        for name in ("savings", "prices", "bill"):
            yield f"resources/{name}", _text(browser.get(f"/{name}"))
        job = addresses["fine-tune"].rpartition("/")[2]
        yield "resources/audit-log", _text(browser.get(f"/events?vm={job}"))


def _signing_in() -> Iterator[tuple[str, str]]:
    with migrated() as database, built(database, tries=8) as house:
        yield "sign-in/alone", _text(house.client.get("/sign-in"))
        yield "sign-in/link", _text(house.client.get(house.link()))
        yield "sign-in/left", _text(house.client.get("/sign-in?left=yes"))
        yield "sign-in/wrong-link", _text(house.client.post("/sign-in/link/guess"))
        house.client.post("/sign-in/link/guess")
        yield "sign-in/too-many-tries", _text(house.client.post("/sign-in/link/guess"))
    with migrated() as database, providing() as provider, built(database, provider) as house:
        yield "sign-in/provider", _text(house.client.get("/sign-in?next=/events"))
        yield "sign-in/provider-another-browser", _text(house.client.get("/sign-in/oidc/callback?code=1&state=2"))
        yield "sign-in/provider-said-no", _text(through_provider(house, provider, error="access_denied"))
        yield "sign-in/provider-used-before", _text(through_provider(house, provider, code="guessed"))
        provider.claims = {"email_verified": False}
        yield "sign-in/provider-not-verified", _text(through_provider(house, provider))
        provider.claims, provider.down = {}, {"/token": (503, {})}
        yield "sign-in/provider-down", _text(through_provider(house, provider))
    with migrated() as database, providing() as provider, built(database, provider) as house:
        provider.claims = {"email": "eve@elsewhere.example"}
        through_provider(house, provider)
        yield "sign-in/no-role", _text(house.client.get("/sign-in"))
    with migrated() as database, built(database, iap=True) as house:
        yield "sign-in/proxy", _text(house.client.get("/sign-in"))
        for who in ("eve", "other"):
            answer = house.client.get("/sign-in", headers={"X-Goog-IAP-JWT-Assertion": who})
            yield f"sign-in/proxy-{who}", _text(answer)


def _browser(app: FastAPI) -> TestClient:
    return TestClient(app, headers={"Accept": "text/html"}, raise_server_exceptions=False)


def _text(answer: Response) -> str:
    """Status and title, then what is in the page's main part, or all of an answer that is a part of a page."""
    where = f" -> {answer.headers['location']}" if "location" in answer.headers else ""
    head = f"{answer.status_code} {answer.headers.get('content-type', '')}{where}\n"
    if "html" not in answer.headers.get("content-type", ""):
        return head + answer.text.replace("\r\n", "\n").rstrip() + "\n"
    title, main = _TITLE.search(answer.text), _MAIN.search(answer.text)
    shown = str(PageText(main[0] if main else answer.text))
    return head + (f"{title[1]}\n\n" if title else "\n") + _CODE.sub("link/...", shown)


def _frame(answer: Response) -> str:
    """Returns the parts around the main part of every page."""
    return str(PageText(_MAIN.sub("", answer.text)))
