"""Pictures of every page, from the demo once it has played the whole product: `python -m tests.page_pictures`."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright
from tests.browser import found
from tests.cli.demo_story import DemoStory
from tests.cli.test_demo import demo, read_until
from tests.cli.test_journey import reading
from tests.palette import with_palette

FOLDER = Path(__file__).parents[1] / "deploy" / "pictures"
MOST_BYTES = 90_000
_WINDOW = ViewportSize(width=1280, height=860)
_PHONE = ViewportSize(width=390, height=844)
# The page of each picture, and its theme: a path, in which {NAME} is a job's id, or a path and the link there to press.
_SHOWN = {
    "fleet": ("/", "light"),
    "vm": ("/ finetune-cleo", "dark"),
    "jobs": ("/jobs", "light"),
    "job": ("/jobs/{train-moons}", "dark"),
    "sweep": ("/sweeps learning-rate", "light"),
    "deadline": ("/jobs/{before-the-meeting}", "light"),
    "bounds": ("/jobs/{slow-loader}", "light"),
    "launch": ("/launch?preset=a100", "light"),
    "spend": ("/spend", "light"),
    "bill": ("/bill", "light"),
    "savings": ("/savings", "dark"),
    "budgets": ("/budgets", "light"),
    "presets": ("/presets", "dark"),
    "prices": ("/prices", "light"),
    "audit-log": ("/events", "dark"),
    "health": ("/health", "light"),
    "access": ("/tokens", "light"),
}
# What a picture begins with, where that is not the top of its page.
_FROM = {"deadline": "Deadline", "bounds": "What bounds it"}


def main() -> int:
    path = found.browser()
    if path is None:
        print(found.missing())
        return 1
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder), "--speed", "60") as process:
        seen = read_until(process, "export COSTGUARD_URL")
        environ = dict(part.split("=", 1) for part in seen.rpartition("export ")[2].split())
        (cloud,) = set(re.findall(r"(http://\S+)/slack", seen))
        (link,) = re.findall(r"Open it in a browser: (\S+)", seen)
        with reading(process, signal.SIGTERM) as lines:
            story = DemoStory(environ, cloud)
            story.is_told()
            lines.until("same result as an uninterrupted run")
            return _take(path, link, environ["COSTGUARD_URL"], story)


def _take(browser_path: str, link: str, site: str, story: DemoStory) -> int:
    too_large = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(found.OPTIONS))
        page = browser.new_context(viewport=_WINDOW, timezone_id="Europe/Berlin", locale="en-GB").new_page()
        page.set_default_timeout(90_000)
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_load_state("load")
        pictures = {name: (place, theme, _WINDOW) for name, (place, theme) in _SHOWN.items()}
        pictures["fleet-phone"] = ("/", "dark", _PHONE)
        for name, (place, theme, window) in pictures.items():
            page.set_viewport_size(window)
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
            _go(page, site + re.sub(r"{(.+)}", lambda job: story.job(job[1]) or "", place))
            if heading := _FROM.get(name):
                page.get_by_role("heading", name=heading).first.evaluate("one => one.scrollIntoView()")
            picture = FOLDER / f"page-{name}.png"
            picture.write_bytes(with_palette(page.screenshot(animations="disabled"), is_rounded=False))
            size = picture.stat().st_size
            print(f"{picture.relative_to(FOLDER.parents[1])}  {size:,} bytes", flush=True)
            too_large += [name] if size > MOST_BYTES else []
        browser.close()
    if too_large:
        print(f"Larger than {MOST_BYTES:,} bytes: {', '.join(too_large)}.")
    return 1 if too_large else 0


def _go(page: Page, place: str) -> None:
    address, _, link = place.partition(" ")
    page.goto(address)
    if link:
        page.get_by_role("link", name=link, exact=True).first.click()
        page.wait_for_load_state("load")


if __name__ == "__main__":
    sys.exit(main())
