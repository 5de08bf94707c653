"""Pages of an organisation of 500 projects in a real browser, wide and narrow, light and dark."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, ViewportSize
from tests.browser import organisation
from tests.browser.conftest import WIDE
from tests.browser.legible import illegible
from tests.browser.watching import axe, overflow, picture, watched
from tests.serving import serving

from costguard.db.transaction import Database

NARROW = ViewportSize(width=400, height=900)
# The most that a page may be high in a wide window, in pixels: with a line for each project they were up to 44,000.
PAGES = {"/health": 2_500, "/": 8_000, "/loose": 13_000, "/launch?preset=t4": 1_500, "/events": 8_000}


def test_no_page_lists_all_projects(context: BrowserContext, sqlite_database: Database) -> None:
    """Nothing scrolls sideways, no text touches another, axe finds nothing serious, and no page is endless."""
    fleet, wrong = organisation.tell(sqlite_database), []
    with serving(fleet.app) as site, watched(context, site) as page:
        for path, most in PAGES.items():
            page.set_viewport_size(WIDE)
            page.emulate_media(color_scheme="light")
            page.goto(site + path)
            wrong += [f"{path}: {mistake}" for mistake in (*axe(page), *overflow(page), *illegible(page))]
            height = page.evaluate("document.documentElement.scrollHeight")
            wrong += [f"{path}: {height} px high"] if height > most else []
            page.set_viewport_size(NARROW)
            page.emulate_media(color_scheme="dark")
            wrong += [f"{path}, narrow: {mistake}" for mistake in (*overflow(page), *illegible(page))]
            picture(page, f"organisation-{path.strip('/').partition('?')[0] or 'fleet'}")
    assert not wrong, "\n".join(wrong)
