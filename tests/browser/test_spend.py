"""Spend in a real browser: bars that are the table's, and other days in place."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import BrowserContext, Page
from tests.browser.site import SiteStory
from tests.browser.watching import watched

_DRAWN = """() => {
    const table = document.getElementById("days");
    const { data } = Chart.getChart(document.querySelector("stacked-chart canvas"));
    const inTable = [...table.querySelectorAll("[data-nanos]")].map((cell) => Number(cell.dataset.nanos) / 1e9);
    return {
        days: data.labels.length,
        series: data.datasets.map((each) => each.label),
        heads: [...table.querySelectorAll("[data-series]")].map((head) => head.textContent.trim()),
        sums: [inTable, data.datasets.flatMap((one) => one.data)].map((all) => all.reduce((a, b) => a + b).toFixed(6)),
        colour: data.datasets[0].backgroundColor,
    };
}"""


def until(page: Page, condition: str) -> None:
    """Waits by frames of the page: its policy for scripts does not let the usual waiting evaluate anything."""
    loop = (
        f"for (let n = 0; n < 1200 && !({condition}); n++) await new Promise(requestAnimationFrame); return {condition}"
    )
    assert page.evaluate(f"async () => {{ {loop} }}"), condition


def drawn(page: Page) -> dict[str, Any]:
    until(page, "window.Chart?.getChart(document.querySelector('stacked-chart canvas') ?? '')")
    chart: dict[str, Any] = page.evaluate(_DRAWN)
    assert chart["series"] == chart["heads"]
    assert chart["sums"][0] == chart["sums"][1]
    return chart


def test_the_bars_are_those_of_the_table(context: BrowserContext, story: SiteStory, site: str) -> None:
    """The bars follow the chosen days and groups, in place and without leaving the page; in the colours of the
    theme.
    """
    with watched(context, site) as page:
        page.emulate_media(color_scheme="light")
        page.goto(f"{site}/spend")
        light = drawn(page)
        page.emulate_media(color_scheme="dark")
        chart = "Chart.getChart(document.querySelector('stacked-chart canvas'))"
        until(page, f"{chart}.data.datasets[0].backgroundColor !== '{light['colour']}'")
        page.evaluate("window.stayed = true")
        page.get_by_role("link", name="90 days").click()
        page.wait_for_url("**group_by=preset")
        until(page, "document.getElementById('days').dataset.first === '2026-08-23'")
        assert drawn(page)["days"] == 90
        page.get_by_role("link", name="Owner", exact=True).click()
        until(page, "document.querySelector('.groups th').textContent === 'Owner'")
        assert drawn(page)["series"] != light["series"]
        total = page.locator(".where-total").inner_text()
        page.get_by_label("Preset").select_option("a100")
        page.wait_for_url("**preset=a100**")
        until(page, f"document.querySelector('.where-total').innerText !== '{total}'")
        drawn(page)
        page.locator(".saved-card").first.wait_for()
        assert "Spot instead of on-demand" in page.locator("#saved").inner_text()
        assert page.evaluate("window.stayed")
        assert page.title() == "Spend · Costguard"
