"""Every page in a real browser: in both themes, and on a phone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import BrowserContext, ViewportSize
from slack_sdk import WebClient
from tests.browser import site as stories
from tests.browser.conftest import WIDE
from tests.browser.legible import illegible
from tests.browser.site import SiteStory
from tests.browser.watching import (
    ALL_BUT_COLOURS,
    ALL_RULES,
    COLOURS_ALONE,
    axe,
    axe_again,
    overflow,
    picture,
    vendored,
    watched,
)
from tests.pages.test_output import JOB, stored
from tests.serving import serving
from tests.slack.samples import SAMPLES

from costguard.db.transaction import Database
from costguard.slack.render import render
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.world import World

PHONE = ViewportSize(width=320, height=640)  # the narrowest that is sold


@dataclass(frozen=True, slots=True)
class Look:
    """Holds how a page is looked at, and axe's rules for that."""

    size: ViewportSize
    theme: Literal["light", "dark"]
    rules: Mapping[str, Any]


# What is dark differs in its colours alone, and what is narrow in all else. A page is loaded once: each load, with axe
# after it, takes as long as a look.
_LOOKS = {
    "light": Look(WIDE, "light", ALL_RULES),
    "dark": Look(WIDE, "dark", COLOURS_ALONE),
    "phone": Look(PHONE, "light", ALL_BUT_COLOURS),
}


def test_every_page_in_both_themes_and_on_a_phone(context: BrowserContext, story: SiteStory, site: str) -> None:
    """Each answers, says nothing in the console, loads nothing from elsewhere, and axe finds nothing serious.

    Nothing scrolls a page sideways, no letter is too small, and no text touches another.
    """
    wrong = []
    with watched(context, site) as page:
        for name, path in story.pages.items():
            page.set_viewport_size(WIDE)
            answer = page.goto(site + path)
            assert answer is not None
            if answer.status != 200:
                wrong.append(f"{name}: {path} answered {answer.status}")
            for look, its in _LOOKS.items():
                page.set_viewport_size(its.size)
                page.emulate_media(color_scheme=its.theme)
                violations = axe(page, its.rules) if look == "light" else axe_again(page, its.rules)
                layout = (*overflow(page), *illegible(page)) if look != "dark" else ()
                wrong += [f"{name}, {look}: {mistake}" for mistake in (*violations, *layout)]
                picture(page, f"{name}-{look}")
    assert not wrong, "\n".join(wrong)


def test_the_longest_page_fits_a_phone(context: BrowserContext, site: str) -> None:
    """Every page is like one of those above, and this one has the longest names of fields."""
    with watched(context, site) as page:
        page.set_viewport_size(PHONE)
        page.goto(f"{site}/api/docs/jobs")
        assert [*overflow(page), *illegible(page)] == []


def test_every_page_of_an_empty_ledger(context: BrowserContext, sqlite_database: Database) -> None:
    """The pages have nothing to trip over before the first VM was seen."""
    wrong = []
    with serving(stories.empty(sqlite_database)) as site, watched(context, site) as page:
        for name in (
            "",
            "jobs",
            "spend",
            "savings",
            "executions",
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


def test_what_cannot_be_read_is_found(context: BrowserContext) -> None:
    """Small letters, also of a drawing that is scaled, texts over each other, and links that run together."""
    page = context.new_page()
    page.set_viewport_size(PHONE)
    page.set_content(
        "<style>body { font: 16px/1.5 sans-serif } div p { margin: 0 } svg { width: 100px }</style>"
        "<p style='font-size: 10px'>tiny</p>"
        "<svg viewBox='0 0 200 20'><text y='15' font-size='20'>drawn</text></svg>"
        "<p><a href='#'>Google's bill</a><a href='#'>All stops</a></p>"
        "<p>$1.64<span class='fine'>17</span> <b>a</b>, b</p>"
        "<div style='position: relative'><p>under</p><p style='position: absolute; top: 0; left: 9px'>over</p></div>"
    )
    assert [re.split(r":| \(", line)[0] for line in illegible(page)] == [
        "10.0 px",
        "10.0 px",
        '"Google\'s bill" touches "All stops"',
        '"under" touches "over"',
    ]


def test_stored_output_can_be_read(context: BrowserContext, sqlite_database: Database, tmp_path: Path) -> None:
    """A page of lines that scroll in their own region."""
    with serving(stories.with_output(sqlite_database, stored(tmp_path))) as site, watched(context, site) as page:
        page.set_viewport_size(PHONE)
        page.goto(f"{site}{JOB}/output")
        assert page.get_by_text("step 499").count() == 1
        assert [*axe(page), *overflow(page), *illegible(page)] == []


def test_prices_line_up_at_their_points(context: BrowserContext, site: str) -> None:
    """The points of each column stand above each other, whatever a price has before and after it."""
    with watched(context, site) as page:
        page.goto(f"{site}/prices")
        places: list[tuple[int, float]] = page.evaluate(_POINTS)
        assert {column for column, _ in places} == {3, 4}
        for column in (3, 4):
            of_column = [x for place, x in places if place == column]
            assert len(of_column) > 5
            assert max(of_column) - min(of_column) < 0.6


_POINTS = """() => [...document.querySelectorAll(".price-list td.num")].flatMap((cell) => {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), places = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const point = /^\\s*\\$\\d+\\./.exec(node.data);
        if (!point) continue;
        const range = document.createRange();
        range.setStart(node, point[0].length - 1);
        range.setEnd(node, point[0].length);
        places.push([cell.cellIndex, range.getBoundingClientRect().left]);
    }
    return places;
})"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_simulated_slack_can_be_read(context: BrowserContext, theme: str) -> None:
    """The page has a message of each kind, as axe sees it."""
    clock = ManualClock(datetime(2026, 9, 23, 12, 0, tzinfo=UTC))
    world = World(clock)
    with running(world) as site, watched(context, site) as page:
        client = WebClient(BOT_TOKEN, base_url=f"{site}/slack/api/", timeout=30, retry_handlers=[])
        for sample in (SAMPLES["first"], SAMPLES["crashed"], SAMPLES["daily"], SAMPLES["list"]):
            message = render(sample)
            client.chat_postMessage(channel="gpu-costs", text=message.text, blocks=message.blocks)
            clock.move_to(clock.now() + timedelta(seconds=2))  # a channel takes one message a second
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.goto(f"{site}/slack#channel=gpu-costs")
        page.get_by_text("trainer-7").first.wait_for()
        assert [*axe(page), *illegible(page)] == []
        picture(page, f"slack-{theme}")


def test_what_others_wrote_is_as_it_was_published() -> None:
    """Each file that the tests carry has its checksum, and each checksum its file."""
    assert {name: wanted for name, (wanted, _) in vendored().items()} == {
        name: there for name, (_, there) in vendored().items()
    }
