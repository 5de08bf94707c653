"""A page read strictly: every tag closed in its order, every id once."""

from __future__ import annotations

from html.parser import HTMLParser

from fastapi.testclient import TestClient

_VOID = {"meta", "link", "input", "br", "hr", "img"}
_INLINE = {"a", "code", "span", "strong", "time"}


class Page(HTMLParser):
    """A page in which a mistake is an error that a browser would mend in silence."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.mistakes: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.addresses: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        self.mistakes += [f"<{tag}> is not closed" for tag in self._open]
        self.mistakes += [
            f"id {element_id} stands twice" for element_id in set(self.ids) if self.ids.count(element_id) > 1
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        self.text += "" if tag in _INLINE else " "
        if len(given) != len(attrs):
            self.mistakes.append(f"<{tag}> has an attribute twice")
        if given.get("id"):
            self.ids.append(str(given["id"]))
        for name in ("href", "src", "action"):
            if given.get(name) is not None:
                self.addresses.append(str(given[name]))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.mistakes.append(f"</{tag}> closes {self._open[-1:] or 'nothing'} at {self.getpos()}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def tidy(text: str) -> str:
    """Text with its white space as a browser shows it."""
    return " ".join(text.split())


def page_of(client: TestClient, address: str, status: int = 200) -> Page:
    """The page at an address, which must be well made."""
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    page = Page(answer.text)
    assert page.mistakes == []
    return page
