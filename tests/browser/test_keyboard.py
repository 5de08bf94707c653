"""Now without a mouse, and under a refresh."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import BrowserContext, Page, ViewportSize
from tests.browser.site import SiteStory
from tests.browser.watching import watched

_FOCUS = """() => {
    const here = document.activeElement;
    const style = getComputedStyle(here);
    const box = here.getBoundingClientRect();
    return {
        what: here === document.body ? "the end" : here.id || here.textContent.trim() || here.name || here.tagName,
        outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
        shadow: style.boxShadow !== "none",
        seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0,
    };
}"""
_MOST_STOPS = 200


def focus(page: Page) -> dict[str, Any]:
    focus: dict[str, Any] = page.evaluate(_FOCUS)
    return focus


def refreshed(page: Page) -> None:
    """The page asks for itself as it does every few seconds, and what came is in its place."""
    with page.expect_response(lambda response: "hx-request" in response.request.headers) as answered:
        page.evaluate("htmx.trigger(document.getElementById('main'), 'seen')")
    assert answered.value.ok
    answered.value.finished()
    page.evaluate("() => new Promise((done) => setTimeout(done, 50))")


def test_now_can_be_walked_through_with_the_keyboard(context: BrowserContext, story: SiteStory, site: str) -> None:
    """First comes the way past the navigation; whatever has the focus is on the page and says so; Escape leaves."""
    with watched(context, site) as page:
        page.goto(site)
        page.keyboard.press("Tab")
        assert focus(page)["what"] == "Skip to the content"
        assert focus(page)["seen"]
        page.keyboard.press("Enter")
        assert focus(page)["what"] == "main"
        walked = [focus(page)]
        while walked[-1]["what"] != "the end":
            assert len(walked) < _MOST_STOPS
            page.keyboard.press("Tab")
            walked.append(focus(page))
        del walked[0], walked[-1]
        assert [stop["what"] for stop in walked if not (stop["seen"] and (stop["outline"] or stop["shadow"]))] == []
        assert any("debug-ada" in stop["what"] for stop in walked)
        assert "⋯More actions for debug-ada" in [stop["what"] for stop in walked]
        page.get_by_role("link", name="Stop debug-ada").focus()
        page.keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        assert focus(page)["what"] == "Stop debug-ada"


def test_a_row_has_one_action_and_a_menu(context: BrowserContext, site: str) -> None:
    """The menu opens by a tap on a small phone and by a key, stays open under a refresh, and closes by Escape."""
    with watched(context, site) as page:
        page.set_viewport_size(ViewportSize(width=320, height=640))
        page.goto(site)
        row = page.locator("tr", has_text="debug-ada").first
        assert row.locator(".c-act a:visible").all_text_contents() == ["Stop debug-ada"]
        menu = row.locator("summary")
        menu.click()
        keep = row.get_by_role("link", name="Keep debug-ada")
        assert keep.is_visible()
        box = keep.bounding_box()
        assert box is not None
        assert (box["x"] >= 0, box["x"] + box["width"] <= 320, box["height"] >= 24) == (True, True, True)
        refreshed(page)
        assert keep.is_visible()
        keep.focus()
        page.keyboard.press("Escape")
        assert not keep.is_visible()
        assert focus(page)["what"] == "⋯More actions for debug-ada"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert focus(page)["what"] == "Keep debug-ada"
        page.keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        assert focus(page)["what"] == "Keep debug-ada"
        page.get_by_role("heading", name="Spending now").click()
        assert not keep.is_visible()


def test_a_refresh_takes_nothing_from_the_reader(context: BrowserContext, site: str) -> None:
    """The focus, what was typed, the caret and where one has scrolled to stay as they were."""
    with watched(context, site) as page:
        page.set_viewport_size(ViewportSize(width=900, height=400))
        page.goto(site)
        name = page.get_by_role("searchbox", name="Name")
        name.fill("debug")
        page.wait_for_url("**name=debug**")
        name.evaluate("(input) => input.setSelectionRange(2, 2)")
        page.evaluate("scrollTo(0, 150)")
        refreshed(page)
        caret = "() => [document.activeElement.value, document.activeElement.selectionStart, scrollY]"
        assert page.evaluate(caret) == ["debug", 2, 150]


def test_one_question_leads_to_another(context: BrowserContext, site: str) -> None:
    """The question opens in the same sheet, with the focus in it; Escape leads back to what opened the first."""
    with watched(context, site) as page:
        page.goto(f"{site}/tokens")
        ends = page.get_by_role("link", name="End the session of ada@lab.example that began 20 Nov, 10:00")
        ends.press("Enter")
        page.get_by_role("dialog", name="End this session?").get_by_role("link", name="Sign out everywhere").press(
            "Enter"
        )
        page.get_by_role("dialog", name="Sign out everywhere?").wait_for()
        assert focus(page)["what"] == "Sign out everywhere"
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        assert focus(page)["what"].startswith("End")
