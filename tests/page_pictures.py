"""Pictures of every page, from the story of the browser tests: `python -m tests.page_pictures`."""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright
from tests.browser import found
from tests.browser import site as stories
from tests.palette import with_palette
from tests.serving import serving

from costguard.db.migrate import upgrade
from costguard.db.transaction import Database

FOLDER = Path(__file__).parents[1] / "deploy" / "pictures"
MOST_BYTES = 90_000
_WINDOW = ViewportSize(width=1280, height=860)
_PHONE = ViewportSize(width=390, height=844)
# Which of the story's pages are shown, in which theme.
_SHOWN = {
    "fleet": "light",
    "vm": "dark",
    "jobs": "light",
    "job": "dark",
    "launch": "light",
    "spend": "light",
    "savings": "dark",
    "budgets": "light",
    "presets": "dark",
    "prices": "light",
    "audit-log": "dark",
    "health": "light",
    "access": "light",
}


def main() -> int:
    path = found.browser()
    if path is None:
        print(found.missing())
        return 1
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/costguard.db"
        upgrade(url)
        with closing(Database.open(url)) as database:
            return _take(path, stories.tell(database))


def _take(browser_path: str, story: stories.SiteStory) -> int:
    too_large = []
    with serving(story.app) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(found.OPTIONS))
        page = browser.new_context(viewport=_WINDOW, timezone_id="Europe/Berlin", locale="en-GB").new_page()
        pictures = {name: (story.pages[name], theme, _WINDOW) for name, theme in _SHOWN.items()}
        pictures["fleet-phone"] = (story.pages["fleet"], "dark", _PHONE)
        for name, (path, theme, window) in pictures.items():
            page.set_viewport_size(window)
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
            page.goto(site + path)
            page.wait_for_load_state("networkidle")
            picture = FOLDER / f"page-{name}.png"
            picture.write_bytes(with_palette(page.screenshot(animations="disabled"), is_rounded=False))
            size = picture.stat().st_size
            print(f"{picture.relative_to(FOLDER.parents[1])}  {size:,} bytes")
            too_large += [name] if size > MOST_BYTES else []
        browser.close()
    if too_large:
        print(f"Larger than {MOST_BYTES:,} bytes: {', '.join(too_large)}.")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
