"""A headless browser a worker, a fresh context a test, and the real application on loopback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ViewportSize, sync_playwright
from tests.browser import found
from tests.browser import site as stories
from tests.browser.site import SiteStory
from tests.serving import serving

from costguard.db.transaction import Database

WIDE = ViewportSize(width=1280, height=900)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Where continuous integration has none, tests fail; elsewhere they report that they were left out."""
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


@pytest.fixture(scope="session")
def story(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteStory]:
    """Told once a worker, for tests that only read; those that change something tell it to a database of theirs."""
    path = tmp_path_factory.mktemp("story") / "costguard.db"
    shutil.copy(sqlite_template, path)
    with closing(Database.open(f"sqlite:///{path}")) as database:
        story = stories.tell(database)
        story.app.openapi()  # kept from then on: the first takes longer on a busy machine than a page may
        yield story


@pytest.fixture(scope="session")
def site(story: SiteStory) -> Iterator[str]:
    with serving(story.app) as url:
        yield url
