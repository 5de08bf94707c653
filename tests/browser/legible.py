"""Judges whether the text of a page can be read where it is drawn: its size, and what it touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from playwright.sync_api import Page

LEAST_PX = 11  # of a letter, as it is drawn: legible on a phone held in a hand
_MOST = 8  # mistakes of a page
# Each line of text that is seen: its box, cut to what its containers show, and the size of its letters as drawn.
_LINES = r"""() => {
    const lines = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const unseen = ".sr, .skip, noscript, script, style, option, title, dialog:not([open])";
    for (let node = walker.nextNode(), number = 0; node; node = walker.nextNode(), number++) {
        const element = node.parentElement, style = getComputedStyle(element);
        if (!node.data.trim() || element.closest(unseen)) continue;
        if (!element.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
        const size = parseFloat(style.fontSize) * (element.ownerSVGElement ? element.getScreenCTM().d : 1);
        let [left, right, top, bottom] = [-1e9, 1e9, -1e9, 1e9];
        for (let up = element; up && up !== document.body; up = up.parentElement) {
            const its = getComputedStyle(up);
            if (its.clipPath !== "none") right = left;  // hidden from sight, read by screen readers
            if (up instanceof SVGElement || its.overflowX === "visible" || its.display === "inline") continue;
            const box = up.getBoundingClientRect();
            [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
            [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        }
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const box of range.getClientRects()) {
            const seen = [Math.max(left, box.left), Math.min(right, box.right),
                          Math.max(top, box.top), Math.min(bottom, box.bottom)];
            if (seen[1] - seen[0] < 2 || seen[3] - seen[2] < 2) continue;
            const begins = /^[\w$]/.test(node.data) && !element.matches(".fine, .pad");
            const text = node.data.trim().replace(/\s+/g, " ").slice(0, 40);
            lines.push([number, text, size, begins, /\w$/.test(node.data), ...seen]);
        }
    }
    return lines;
}"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text as it is drawn, in pixels. `begins` and `ends`: with a letter or digit, without a space."""

    node: int
    text: str
    size: float
    begins: bool
    ends: bool
    left: float
    right: float
    top: float
    bottom: float


def illegible(page: Page) -> list[str]:
    """Letters that are drawn too small, as drawings are scaled, and pieces of text that lie over each other, or that
    run together as one word.
    """
    lines = [Line(*values) for values in page.evaluate(_LINES)]
    small = [f'{line.size:.1f} px: "{line.text}"' for line in lines if line.size < LEAST_PX - 0.05]
    touching = _touching(sorted(lines, key=lambda line: line.top))
    return [*list(dict.fromkeys(small))[:_MOST], *list(dict.fromkeys(touching))[:_MOST]]


def _touching(lines: list[Line]) -> Iterator[str]:
    for place, line in enumerate(lines):
        for other in lines[place + 1 :]:
            if other.top >= line.bottom:
                break
            # Boxes are taller than letters: those of lines that follow each other share some of their height.
            height = min(line.bottom, other.bottom) - other.top
            if line.node == other.node or height < 0.45 * min(line.size, other.size):
                continue
            first, second = sorted((line, other), key=lambda one: one.left)
            gap = second.left - first.right
            if gap < -1.5 or (gap < 2 and first.ends and second.begins):
                yield f'"{first.text}" touches "{second.text}" ({gap:.1f} px)'
