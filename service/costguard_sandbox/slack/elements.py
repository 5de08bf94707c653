"""The rules for buttons, menus, inputs and texts (https://docs.slack.dev/reference/block-kit/block-elements)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_STYLES = ("primary", "danger")
_MENUS: Mapping[str, int] = {"static_select": 100, "overflow": 5, "radio_buttons": 10, "checkboxes": 10}
_INPUTS = ("plain_text_input", "number_input", "datepicker", "datetimepicker", "timepicker")


def check_text(value: object, at: str, most: int, *, plain: bool = False) -> Iterator[str]:
    """A text object of the right type, not empty, no longer than `most`."""
    if not isinstance(value, dict):
        yield f"missing required field: text [json-pointer:{at}]"
        return
    wanted = ("plain_text",) if plain else ("plain_text", "mrkdwn")
    if value.get("type") not in wanted:
        yield f"must be one of: {', '.join(wanted)} [json-pointer:{at}/type]"
    text = value.get("text")
    if not isinstance(text, str) or not text:
        yield f"must be more than 0 characters [json-pointer:{at}/text]"
    elif len(text) > most:
        yield f"must be less than {most + 1} characters [json-pointer:{at}/text]"


def check_element(value: object, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"missing required field: element [json-pointer:{at}]"
        return
    kind = str(value.get("type"))
    yield from _limit(value, "action_id", 255, at)
    if "confirm" in value:
        yield from _confirm(value["confirm"], f"{at}/confirm")
    if kind == "button":
        yield from _button(value, at)
    elif kind in _MENUS:
        yield from _menu(value, at, _MENUS[kind])
    elif kind not in _INPUTS:
        yield f"unsupported type: {kind} [json-pointer:{at}/type]"


def _button(button: Mapping[str, Any], at: str) -> Iterator[str]:
    yield from check_text(button.get("text"), f"{at}/text", 75, plain=True)
    yield from _limit(button, "value", 2000, at)
    yield from _limit(button, "url", 3000, at)
    yield from _limit(button, "accessibility_label", 75, at)
    if "style" in button and button["style"] not in _STYLES:
        yield f"must be one of: {', '.join(_STYLES)} [json-pointer:{at}/style]"


def _menu(menu: Mapping[str, Any], at: str, most: int) -> Iterator[str]:
    options = menu.get("options")
    if not isinstance(options, list) or not options:
        yield f"missing required field: options [json-pointer:{at}]"
        return
    if len(options) > most:
        yield f"no more than {most} items allowed [json-pointer:{at}/options]"
    for number, option in enumerate(options):
        here = f"{at}/options/{number}"
        if not isinstance(option, dict):
            yield f"missing required field: text [json-pointer:{here}]"
            continue
        yield from check_text(option.get("text"), f"{here}/text", 75)
        if not isinstance(option.get("value"), str):
            yield f"missing required field: value [json-pointer:{here}]"
        yield from _limit(option, "value", 150, here)


def _confirm(value: object, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"missing required field: confirm [json-pointer:{at}]"
        return
    yield from check_text(value.get("title"), f"{at}/title", 100, plain=True)
    yield from check_text(value.get("text"), f"{at}/text", 300)
    yield from check_text(value.get("confirm"), f"{at}/confirm", 30, plain=True)
    yield from check_text(value.get("deny"), f"{at}/deny", 30, plain=True)


def _limit(value: Mapping[str, Any], key: str, most: int, at: str) -> Iterator[str]:
    text = value.get(key, "")
    if not isinstance(text, str):
        yield f"must be a string [json-pointer:{at}/{key}]"
    elif len(text) > most:
        yield f"must be less than {most + 1} characters [json-pointer:{at}/{key}]"
