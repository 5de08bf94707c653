"""The page of a profile by keyboard, and a profile's file in speedscope's own page."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import requests
from playwright.sync_api import BrowserContext, expect
from tests.browser.watching import watched

PROFILE = "/jobs/j7k2m9q4/profile"
_SPEEDSCOPE = Path(__file__).parents[2] / ".cache/speedscope/node_modules/speedscope/dist/release/index.html"


def test_a_function_is_enlarged_by_keyboard(context: BrowserContext, site: str) -> None:
    """Each box is a link with its name and share, and the way back is a link, too."""
    with watched(context, site) as page:
        page.goto(f"{site}{PROFILE}?group=workers")
        box = page.get_by_role("link", name="Rows.__getitem__ (data.py:14): 90.0% of the time, 65 points more")
        box.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Loader workers below Rows.__getitem__")).to_be_visible()
        expect(page.get_by_role("link", name="_LocationIndexer.__getitem__")).to_have_count(1)
        page.get_by_role("link", name="All", exact=True).click()
        expect(page.get_by_role("heading", name="Loader workers", exact=True)).to_be_visible()


def test_names_stay_within_their_boxes(context: BrowserContext, site: str) -> None:
    """The drawing is scrolled on a phone, and never narrower than its names need."""
    with watched(context, site) as page:
        for width in (320, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{site}{PROFILE}?group=workers")
            assert page.evaluate(_OUTSIDE) == []


def test_speedscope_opens_the_file_and_shows_its_functions(context: BrowserContext, site: str, tmp_path: Path) -> None:
    """The page gets the file as speedscope's command line gives it one (bin/cli.mjs of its npm package)."""
    if not _SPEEDSCOPE.is_file():
        pytest.skip("speedscope is not installed: npm install --prefix .cache/speedscope speedscope")
    answer = requests.get(f"{site}/api/v1{PROFILE}", {"format": "speedscope"}, timeout=60)
    assert "attachment" in answer.headers["Content-Disposition"]
    source = tmp_path / "profile.js"
    data = base64.b64encode(answer.content).decode()
    source.write_text(f"speedscope.loadFileFromBase64('resnet.speedscope.json', '{data}')")
    page = context.new_page()

    page.goto(f"{_SPEEDSCOPE.as_uri()}#localProfilePath={source}")

    page.get_by_text("Sandwich").click()
    for function in ("train_step", "backward", "_MultiProcessingDataLoaderIter._next_data"):
        expect(page.get_by_text(function, exact=True).first).to_be_visible()


_OUTSIDE = """() => [...document.querySelectorAll(".flame a")].filter((box) => {
    const text = box.querySelector("text"), rect = box.querySelector("rect").getBoundingClientRect();
    return text && text.getBoundingClientRect().right > rect.right + 0.5;
}).map((box) => box.textContent)"""
