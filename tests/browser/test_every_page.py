"""Every page in a real browser: in both themes, and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, ViewportSize
from tests.browser import site as told
from tests.browser.site import Told
from tests.browser.watching import ALL_BUT_COLOURS, COLOURS_ALONE, axe, overflow, picture, vendored, watched
from tests.serving import serving

from costguard.db.transaction import Database

PHONE = ViewportSize(width=390, height=844)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_in_both_themes(context: BrowserContext, story: Told, site: str, theme: str) -> None:
    """Each answers, says nothing in the console, loads nothing from elsewhere, and axe finds nothing serious."""
    wrong = []
    with watched(context, site) as page:
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        for name, path in story.pages.items():
            answer = page.goto(site + path)
            assert answer is not None
            if answer.status != 200:
                wrong.append(f"{name}: {path} answered {answer.status}")
            # What is dark differs in its colours alone.
            violations = axe(page) if theme == "light" else axe(page, COLOURS_ALONE)
            wrong += [f"{name}: {mistake}" for mistake in (*violations, *overflow(page))]
            picture(page, f"{name}-{theme}")
    assert not wrong, "\n".join(wrong)


def test_every_page_fits_a_phone(context: BrowserContext, story: Told, site: str) -> None:
    """Nothing makes the page as a whole scroll sideways, and axe finds nothing serious there either."""
    wrong = []
    with watched(context, site) as page:
        page.set_viewport_size(PHONE)
        for name, path in story.pages.items():
            page.goto(site + path)
            wrong += [f"{name}: {mistake}" for mistake in (*axe(page, ALL_BUT_COLOURS), *overflow(page))]
            picture(page, f"{name}-phone")
    assert not wrong, "\n".join(wrong)


def test_every_page_of_an_empty_ledger(context: BrowserContext, sqlite_database: Database) -> None:
    """Before the first VM was seen there is nothing on them to trip over."""
    wrong = []
    with serving(told.empty(sqlite_database)) as site, watched(context, site) as page:
        for name in (
            "",
            "jobs",
            "spend",
            "savings",
            "bill",
            "budgets",
            "presets",
            "prices",
            "events",
            "health",
            "tokens",
        ):
            page.goto(f"{site}/{name}")
            wrong += [f"{name}: {mistake}" for mistake in (*axe(page), *overflow(page))]
            picture(page, f"{name.replace('/', '-') or 'now'}-empty")
    assert not wrong, "\n".join(wrong)


def test_what_others_wrote_is_as_it_was_published() -> None:
    """Each file that the tests carry has its checksum, and each checksum its file."""
    assert {name: wanted for name, (wanted, _) in vendored().items()} == {
        name: there for name, (_, there) in vendored().items()
    }
