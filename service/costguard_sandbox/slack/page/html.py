"""HTML made of pieces that are escaped unless they are HTML already."""

from __future__ import annotations

from html import escape

_EMPTY = ("input", "img", "br", "hr", "meta", "link")


class Html(str):
    """Text that is safe to stand in a page as it is."""

    __slots__ = ()


def el(tag: str, *children: object, **attributes: str | bool | None) -> Html:
    """`el("div", name, cls="who")`. None and False leave an attribute out; `_` in its name becomes `-`."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if tag in _EMPTY:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: object) -> Html:
    return Html("".join(_piece(child) for child in children))


def _piece(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, list | tuple):
        return join(*child)
    return escape(str(child))


def _attribute(key: str, value: object) -> str:
    name = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
