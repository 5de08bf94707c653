"""An attacker's text in the ledger does no harm on any page."""

from __future__ import annotations

from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext
from tests.browser import site as stories
from tests.browser.watching import overflow, watched
from tests.hostile import HARMFUL, spoil
from tests.serving import serving

from costguard.db.transaction import Database


def test_markup_in_names_and_outputs_is_text(context: BrowserContext, sqlite_database: Database) -> None:
    """No script of theirs runs, no element of theirs is made, nothing is asked for elsewhere, no control is shown."""
    story = stories.tell(sqlite_database)
    spoil(sqlite_database)
    dialogs: list[str] = []
    wrong = []
    with serving(story.app) as site, watched(context, site) as page:
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for name, path in story.pages.items():
            answer = page.goto(site + path)
            assert answer is not None
            text = page.locator("main").inner_text()
            wrong += [f"{name}: answered {answer.status}"] if answer.status != 200 else []
            wrong += [f"{name}: harmed"] if page.evaluate("window.harmed === 1") else []
            wrong += [f"{name}: an element"] if page.locator("main img, main script:not([type])").count() else []
            wrong += [f"{name}: {match[0]!r}" for match in [HARMFUL.search(text.replace("\r", ""))] if match]
            wrong += [f"{name}: a template of theirs"] if "onerror" in text and "{{ 7*7 }}" not in text else []
            wrong += [f"{name}: {mistake}" for mistake in overflow(page)]
    assert not wrong, "\n".join(wrong)
    assert dialogs == []


def test_a_megabyte_makes_no_page_heavy(sqlite_database: Database) -> None:
    """A text longer than anybody reads is cut, and said to be; the API has the whole."""
    story = stories.tell(sqlite_database)
    spoil(sqlite_database, is_long=True)
    client = TestClient(story.app)
    for name, path in story.pages.items():
        answer = client.get(path)
        assert (answer.status_code, len(answer.content) < 1_500_000) == (200, True), (name, len(answer.content))
