"""One headless browser a worker, a fresh context a test, and the real application on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ViewportSize, sync_playwright
from tests.browser import found, told
from tests.browser.told import Told
from tests.serving import serving

from costguard.store.transaction import Database

WIDE = ViewportSize(width=1280, height=900)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Where continuous integration has none, tests fail; elsewhere they say aloud that they were left out."""
    path = found.browser()
    if path is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(found.missing())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(found.OPTIONS))
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=WIDE, timezone_id="Europe/Berlin", locale="en-GB")
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture
def story(sqlite_database: Database) -> Told:
    return told.tell(sqlite_database)


@pytest.fixture
def site(story: Told) -> Iterator[str]:
    with serving(story.app) as url:
        yield url
