"""Pictures of the pages that README and docs show, from the demo that plays all: `python -m tests.page_pictures`."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright
from tests.browser import found
from tests.cli.demo_story import DemoStory
from tests.cli.lines import reading
from tests.cli.test_demo import demo, read_until
from tests.palette import with_palette
from tests.waiting import until

FOLDER = Path(__file__).parents[1] / "deploy" / "pictures"
MOST_BYTES = 90_000
_PATIENCE_S = 900  # a busy machine may take long over the training that is preempted twice
_WINDOW = ViewportSize(width=1280, height=860)
# The page of each picture, and its theme: a path, in which {NAME} is a job's id, or a path and the link there to press.
_SHOWN = {
    "fleet": ("/", "light"),
    "vm": ("/ finetune-cleo", "dark"),
    "job": ("/jobs/{train-moons}", "dark"),
    "sweep": ("/sweeps learning-rate", "light"),
    "deadline": ("/jobs/{before-the-meeting}", "light"),
    "bounds": ("/jobs/{slow-loader}", "light"),
    "standstill": ("/jobs/{short-schedule}", "light"),
    "spend": ("/spend", "light"),
    "bill": ("/bill", "light"),
    "savings": ("/savings", "dark"),
    "budgets": ("/budgets", "light"),
}
_FINISHED = "job"
# What a picture begins with, where that is not the top of its page.
_FROM = {"deadline": "Deadline", "bounds": "What bounds it"}


def main() -> int:
    """Takes all pictures, or those that arguments name. That of the finished job comes last: the others still run."""
    chosen = [name for name in _SHOWN if name in (sys.argv[1:] or _SHOWN)]
    path = found.browser()
    if path is None:
        print(found.missing())
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        demo(Path(folder), "--speed", "60") as process,
        sync_playwright() as playwright,
    ):
        seen = read_until(process, "export COSTGUARD_URL")
        environ = dict(part.split("=", 1) for part in seen.rpartition("export ")[2].split())
        (cloud,) = set(re.findall(r"(http://\S+)/slack", seen))
        (link,) = re.findall(r"Open it in a browser: (\S+)", seen)
        story = DemoStory(environ, cloud)
        with reading(process, signal.SIGTERM) as lines:
            story.is_played()
            browser = playwright.chromium.launch(executable_path=path, args=list(found.OPTIONS))
            page = browser.new_context(viewport=_WINDOW, timezone_id="Europe/Berlin", locale="en-GB").new_page()
            _sign_in(page, link)
            too_large = [name for name in chosen if name != _FINISHED and _take(page, story, name) > MOST_BYTES]
            if _FINISHED in chosen:
                until(lambda: any("same result as an uninterrupted run" in line for line in lines.seen), _PATIENCE_S)
                too_large += [_FINISHED] if _take(page, story, _FINISHED) > MOST_BYTES else []
            browser.close()
    if too_large:
        print(f"Larger than {MOST_BYTES:,} bytes: {', '.join(too_large)}.")
    return 1 if too_large else 0


def _sign_in(page: Page, link: str) -> None:
    page.set_default_timeout(90_000)
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state("load")


def _take(page: Page, story: DemoStory, name: str) -> int:
    """Returns the picture's size in bytes."""
    place, theme = _SHOWN[name]
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
    _go(page, story.environ["COSTGUARD_URL"] + re.sub(r"{(.+)}", lambda job: story.job(job[1]) or "", place))
    if heading := _FROM.get(name):
        page.get_by_role("heading", name=heading).first.evaluate("one => one.scrollIntoView()")
    picture = FOLDER / f"page-{name}.png"
    picture.write_bytes(with_palette(page.screenshot(animations="disabled"), is_rounded=False))
    size = picture.stat().st_size
    print(f"{picture.relative_to(FOLDER.parents[1])}  {size:,} bytes", flush=True)
    return size


def _go(page: Page, place: str) -> None:
    address, _, link = place.partition(" ")
    page.goto(address)
    if link:
        page.get_by_role("link", name=link, exact=True).first.click()
        page.wait_for_load_state("load")


if __name__ == "__main__":
    sys.exit(main())
