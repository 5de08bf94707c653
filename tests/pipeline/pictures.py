"""Pictures of a job's page while it runs, where this computer has a browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright
from tests.browser import found
from tests.palette import with_palette
from tests.scenario import guard_process

_WINDOW = ViewportSize(width=1280, height=860)


def take(url: str, path: Path) -> bool:
    """The whole page, as a person with a token sees it. False, and no picture, where there is no browser."""
    executable = found.browser()
    if executable is None:
        return False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(found.OPTIONS))
        context = browser.new_context(
            viewport=_WINDOW, extra_http_headers={"Authorization": f"Bearer {guard_process.TOKEN}"}
        )
        page = context.new_page()
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.goto(url)
        page.wait_for_load_state("load")  # its live events never end
        path.write_bytes(with_palette(page.screenshot(animations="disabled", full_page=True), is_rounded=False))
        browser.close()
    return True
