"""Watches a page's console, its errors, its requests and their hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, Response

_VENDOR = Path(__file__).parent / "vendor"
_AXE = (_VENDOR / "axe.min.js").read_text("utf-8")
_PICTURES = Path(__file__).parents[2] / ".cache" / "pictures"
_RUN = """async (options) => {
    const found = await axe.run(document, {resultTypes: ["violations"], ...options});
    return found.violations.map((violation) => ({
        rule: violation.id, impact: violation.impact, help: violation.help,
        where: violation.nodes.slice(0, 4).map((node) => `${node.target.join(" ")}: ${node.failureSummary}`),
    }));
}"""
_COLOURS = ("color-contrast", "link-in-text-block")  # most of the time that axe takes
COLOURS_ALONE: Mapping[str, Any] = {"runOnly": _COLOURS}
_TARGETS = {"target-size": {"enabled": True}}  # of WCAG 2.2; axe leaves it out by itself
ALL_RULES: Mapping[str, Any] = {"rules": _TARGETS}
ALL_BUT_COLOURS: Mapping[str, Any] = {"rules": {**_TARGETS, **{rule: {"enabled": False} for rule in _COLOURS}}}


class Watch:
    """The errors on the pages of a context so far, in words."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self._origin = origin
        self.wrong: list[str] = []
        context.on("console", self._said)
        context.on("weberror", lambda error: self.wrong.append(f"page error: {error.error}"))
        context.on("request", self._asked)
        context.on("requestfailed", self._failed)
        context.on("response", self._answered)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console {message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and f"{address.scheme}://{address.netloc}" != self._origin:
            self.wrong.append(f"asked elsewhere: {request.url}")

    def _failed(self, request: Request) -> None:
        # A page that is left, or a stream that is closed, ends what is under way.
        if request.failure != "net::ERR_ABORTED":
            self.wrong.append(f"no answer: {request.method} {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 500:
            self.wrong.append(f"{response.status}: {response.request.method} {response.url}")


@contextmanager
def watched(context: BrowserContext, origin: str) -> Iterator[Page]:
    """A page that has nothing to complain about, and loads nothing from elsewhere."""
    watch = Watch(context, origin)
    page = context.new_page()
    yield page
    assert watch.wrong == [], watch.wrong


def axe(page: Page, options: Mapping[str, Any] = ALL_RULES) -> list[str]:
    """Each finding but minor ones, with where it is: landmarks are moderate ones."""
    page.evaluate(_AXE)  # by the debugger, which the page's own policy for scripts does not bind
    return axe_again(page, options)


def axe_again(page: Page, options: Mapping[str, Any]) -> list[str]:
    """Returns the same of a page that `axe` has seen since it was loaded."""
    violations: list[dict[str, Any]] = page.evaluate(_RUN, dict(options))
    return [
        f"{violation['impact']} {violation['rule']}: {violation['help']}\n    " + "\n    ".join(violation["where"])
        for violation in violations
        if violation["impact"] != "minor"
    ]


def overflow(page: Page) -> list[str]:
    """Returns elements that stick out to the right of the window so that the whole page scrolls sideways."""
    overflowing: list[str] = page.evaluate(
        """() => {
            const wide = document.documentElement.clientWidth;
            if (document.documentElement.scrollWidth <= wide) return [];
            const out = [...document.body.querySelectorAll("*")].filter((element) => {
                const box = element.getBoundingClientRect();
                return box.width > 0 && box.right > wide + 1;
            });
            return [`${document.documentElement.scrollWidth} > ${wide}`,
                    ...out.slice(0, 5).map((element) => element.outerHTML.slice(0, 120))];
        }"""
    )
    return overflowing


def picture(page: Page, name: str) -> None:
    """Takes a picture with COSTGUARD_TEST_PICTURES=1, kept under .cache/pictures, whatever comes of the test."""
    if os.environ.get("COSTGUARD_TEST_PICTURES") != "1":  # a third of the time that a page takes
        return
    _PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=_PICTURES / f"{name}.png", full_page=True, animations="disabled")


def vendored() -> dict[str, tuple[str, str]]:
    """Returns, for each file next to the checksums, what it should be, and what it is."""
    lines = [line.split() for line in (_VENDOR / "CHECKSUMS").read_text("utf-8").splitlines() if line[0] != "#"]
    wanted = {name: digest for digest, name, *_ in lines}
    there = {path.name: sha256(path.read_bytes()).hexdigest() for path in _VENDOR.iterdir() if path.name != "CHECKSUMS"}
    return {name: (wanted.get(name, ""), there.get(name, "")) for name in wanted.keys() | there.keys()}
