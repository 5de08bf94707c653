"""The text of a page as a person meets it: a line for each block, with labels, choices, and where links lead."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_INLINE = {"a", "abbr", "code", "em", "rect", "span", "strong", "svg", "time", "path", "wbr", "button"}
_CELLS = {"td", "th", "dd", "dt", "option", "label", "button", "summary"}
_READ = ("aria-label", "title", "placeholder", "alt")
_SILENT = {"script", "style"}


class PageText(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.addresses: set[str] = set()
        self._parts: list[str] = []
        self._silent = 0
        self.feed(source)
        self.close()

    def __str__(self) -> str:
        lines = [" ".join(line.split()).strip(" |") for line in "".join(self._parts).split("\n")]
        kept = [re.sub(r"( \|)+", " |", line) for line in lines if line]
        return "\n".join([*kept, "", *(f"-> {address}" for address in sorted(self.addresses))]).strip() + "\n"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._silent += tag in _SILENT
        self._parts.append(" | " if tag in _CELLS else " " if tag in _INLINE else "\n")
        self._parts += [f"[{given[name]}] " for name in _READ if given.get(name)]
        if tag == "input" and given.get("type", "text") not in ("hidden", "checkbox", "radio"):
            self._parts.append(f"[{given.get('value', '')}] ")
        for name in ("href", "action"):
            if given.get(name, "").startswith("/") and not given[name].startswith("/static"):
                method = "POST " if given.get("method", "").lower() == "post" else ""
                self.addresses.add(method + given[name])

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT
        self._parts.append(" | " if tag in _CELLS else "" if tag in _INLINE else "\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._parts.append(data)
