"""Block Kit as HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from costguard_sandbox.slack.page.html import Html, el, join
from costguard_sandbox.slack.page.mrkdwn import Reader, plain_text, text_object

Block = Mapping[str, Any]


def rendered(blocks: Any, reader: Reader, errors: Mapping[str, str] | None = None) -> Html:
    """Blocks in order; `errors` stand under the inputs of a modal, by block id."""
    return join(*(_block(block, reader, errors or {}) for block in blocks))


def _block(block: Block, reader: Reader, errors: Mapping[str, str]) -> Html:
    if block["type"] == "input":
        return _input(block, reader, errors.get(block["block_id"], ""))
    return _BLOCKS[block["type"]](block, reader)


def _section(block: Block, reader: Reader) -> Html:
    text = el("div", text_object(block["text"], reader), cls="text") if "text" in block else None
    fields = [el("div", text_object(one, reader), cls="field") for one in block.get("fields", ())]
    accessory = block.get("accessory")
    return el(
        "div",
        el("div", text, el("div", fields, cls="fields") if fields else None, cls="grow"),
        el("div", _element(accessory, block, reader), cls="accessory") if accessory else None,
        cls="block section",
    )


def _header(block: Block, reader: Reader) -> Html:
    return el("h3", text_object(block["text"], reader), cls="block header")


def _divider(_block: Block, _reader: Reader) -> Html:
    return el("hr", cls="block divider")


def _context(block: Block, reader: Reader) -> Html:
    return el("div", [el("span", _context_piece(one, reader)) for one in block["elements"]], cls="block context")


def _context_piece(piece: Block, reader: Reader) -> Html:
    return plain_text(f"[{piece['alt_text']}]") if piece["type"] == "image" else text_object(piece, reader)


def _actions(block: Block, reader: Reader) -> Html:
    return el("div", [_element(one, block, reader) for one in block["elements"]], cls="block actions")


def _image(block: Block, _reader: Reader) -> Html:
    """Only its description: the page loads nothing from elsewhere."""
    return el("div", f"Image: {block['alt_text']}", cls="block image")


def _markdown(block: Block, _reader: Reader) -> Html:
    return el("div", block["text"], cls="block markdown")


_BLOCKS: Mapping[str, Callable[[Block, Reader], Html]] = {
    "section": _section,
    "header": _header,
    "divider": _divider,
    "context": _context,
    "actions": _actions,
    "image": _image,
    "markdown": _markdown,
}


def _element(element: Block, block: Block, reader: Reader) -> Html:
    marks: dict[str, str | bool | None] = {
        "data_action": element.get("action_id", ""),
        "data_block": block.get("block_id", ""),
        "data_confirm": _confirm(element.get("confirm"), reader),
    }
    if element["type"] == "image":
        return el("div", element.get("alt_text", ""), cls="image")
    if element["type"] == "button":
        style = element.get("style", "")
        label = element.get("accessibility_label")
        return el(
            "button",
            text_object(element["text"], reader),
            type="button",
            cls=f"button {style}".strip(),
            data_url=element.get("url"),
            aria_label=label,
            **marks,
        )
    if "options" in element:
        first = el("option", _label(element), value="", selected=True, disabled=True)
        return el("select", first, _options(element, reader), cls="menu", aria_label=_label(element), **marks)
    return el("span", f"({element['type']})", cls="unknown")


def _label(element: Block) -> str:
    return str((element.get("placeholder") or {}).get("text") or "More …")


def _options(element: Block, reader: Reader) -> list[Html]:
    chosen = (element.get("initial_option") or {}).get("value")
    return [
        el("option", text_object(one["text"], reader), value=one["value"], selected=one["value"] == chosen)
        for one in element["options"]
    ]


def _confirm(given: Any, reader: Reader) -> str | None:
    """The question asked before a press; its texts are escaped already."""
    if not given:
        return None
    parts = {key: str(text_object(given[key], reader)) for key in ("title", "text", "confirm", "deny")}
    return orjson.dumps({**parts, "style": given.get("style", "primary")}).decode()


def _input(block: Block, reader: Reader, error: str) -> Html:
    element = block["element"]
    key = {"data_input": element["action_id"], "data_block": block["block_id"], "data_type": element["type"]}
    initial = str(element.get("initial_value", ""))
    hint = (element.get("placeholder") or {}).get("text")
    if "options" in element:
        field = el("select", _options(element, reader), **key)
    elif element["type"] == "plain_text_input" and element.get("multiline"):
        field = el("textarea", initial, placeholder=hint, rows="4", **key)
    else:
        kinds = {"number_input": "number", "datepicker": "date", "timepicker": "time"}
        field = el("input", type=kinds.get(element["type"], "text"), value=initial, placeholder=hint, **key)
    optional = el("small", " (optional)") if block.get("optional") else None
    return el(
        "label",
        el("span", text_object(block["label"], reader), optional, cls="label"),
        field,
        el("small", text_object(block["hint"], reader)) if "hint" in block else None,
        el("span", error, cls="error") if error else None,
        cls="block input",
    )
