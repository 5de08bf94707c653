"""Invisible and misleading characters, for pages, spreadsheets and terminals."""

from __future__ import annotations

import re

# Controls, and the marks that turn the direction of writing, hide, or pass for nothing. Tabs and line feeds are not.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def shown(text: str) -> str:
    """The same text with the number of each such character in its place: `[U+202E]`."""
    return UNSEEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)
