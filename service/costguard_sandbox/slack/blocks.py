"""Block Kit's rules: what a message or a modal may hold, and what Slack adds to it.

The limits are those of https://docs.slack.dev/reference/block-kit/blocks and .../block-elements
and .../composition-objects; the wording of problems is Slack's where it is known from error reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from costguard_sandbox.slack.access import SlackError, invalid_blocks

MOST_IN_MESSAGE = 50
MOST_IN_MODAL = 100
# Undocumented; observed at https://github.com/slackapi/bolt-js/issues/2509.
MOST_TEXT_IN_MESSAGE = 13_200
_BUTTONS = 25

Problems = Iterator[str]


_STYLES = ("primary", "danger")
_MENUS: Mapping[str, int] = {"static_select": 100, "overflow": 5, "radio_buttons": 10, "checkboxes": 10}
_INPUTS = ("plain_text_input", "number_input", "datepicker", "datetimepicker", "timepicker")


def checked(value: object, *, modal: bool = False) -> list[dict[str, Any]]:
    """The blocks as Slack stores them. Raises invalid_blocks with a pointer to each problem."""
    code = "invalid_arguments" if modal else "invalid_blocks"
    if not isinstance(value, list) or not all(isinstance(block, dict) for block in value):
        raise SlackError("invalid_blocks_format" if not modal else code)
    root = "/view/blocks" if modal else "/blocks"
    problems = list(_blocks(value, MOST_IN_MODAL if modal else MOST_IN_MESSAGE, root))
    if problems:
        raise invalid_blocks(problems, code)
    if not modal and sum(map(_length, value)) > MOST_TEXT_IN_MESSAGE:
        raise SlackError("msg_blocks_too_long")
    return _completed(value)


def interactive(blocks: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Every interactive element, with its block."""
    for block in blocks:
        elements = [*block.get("elements", ()), block.get("accessory"), block.get("element")]
        for element in elements:
            if isinstance(element, dict) and "action_id" in element:
                yield block, element


def _blocks(blocks: list[Any], most: int, root: str) -> Problems:
    if len(blocks) > most:
        yield f"no more than {most} items allowed [json-pointer:{root}]"
    ids: set[str] = set()
    for number, block in enumerate(blocks):
        at = f"{root}/{number}"
        check = _CHECKS.get(block.get("type", ""))
        if check is None:
            yield f"unsupported type: {block.get('type')} [json-pointer:{at}/type]"
            continue
        yield from check(block, at)
        block_id = block.get("block_id", "")
        if len(block_id) > 255:
            yield f"must be less than 256 characters [json-pointer:{at}/block_id]"
        if block_id and block_id in ids:
            yield f"`block_id` {block_id} already exists [json-pointer:{at}/block_id]"
        ids.add(block_id)
        yield from _repeated_actions(block, at)


def _repeated_actions(block: Mapping[str, Any], at: str) -> Problems:
    """Action ids repeated within one block; the rows of a list may repeat them."""
    seen: set[str] = set()
    for _, element in interactive([block]):
        action = element["action_id"]
        if action in seen:
            yield f"`action_id` {action} already exists for another element [json-pointer:{at}]"
        seen.add(action)


def _section(block: Mapping[str, Any], at: str) -> Problems:
    if "text" not in block and "fields" not in block:
        yield f"must define either `text` or `fields` [json-pointer:{at}]"
    if "text" in block:
        yield from check_text(block["text"], f"{at}/text", 3000)
    fields = block.get("fields", [])
    if len(fields) > 10:
        yield f"no more than 10 items allowed [json-pointer:{at}/fields]"
    for number, one in enumerate(fields):
        yield from check_text(one, f"{at}/fields/{number}", 2000)
    if "accessory" in block:
        yield from check_element(block["accessory"], f"{at}/accessory")


def _header(block: Mapping[str, Any], at: str) -> Problems:
    yield from check_text(block.get("text"), f"{at}/text", 150, plain=True)


def _context(block: Mapping[str, Any], at: str) -> Problems:
    yield from _elements(block, at, 10, _context_element)


def _context_element(element: Any, at: str) -> Problems:
    is_image = isinstance(element, dict) and element.get("type") == "image"
    yield from _image(element, at) if is_image else check_text(element, at, 2000)


def _actions(block: Mapping[str, Any], at: str) -> Problems:
    yield from _elements(block, at, _BUTTONS, check_element)


def _elements(block: Mapping[str, Any], at: str, most: int, check: Callable[[Any, str], Problems]) -> Problems:
    elements = block.get("elements")
    if not isinstance(elements, list) or not elements:
        yield f"missing required field: elements [json-pointer:{at}]"
        return
    if len(elements) > most:
        yield f"no more than {most} items allowed [json-pointer:{at}/elements]"
    for number, element in enumerate(elements):
        yield from check(element, f"{at}/elements/{number}")


def _image(block: Mapping[str, Any], at: str) -> Problems:
    for key in ("image_url", "alt_text"):
        if not block.get(key):
            yield f"missing required field: {key} [json-pointer:{at}]"


def _input(block: Mapping[str, Any], at: str) -> Problems:
    yield from check_text(block.get("label"), f"{at}/label", 2000, plain=True)
    yield from check_element(block.get("element"), f"{at}/element")


def _markdown(block: Mapping[str, Any], at: str) -> Problems:
    text = block.get("text")
    if not isinstance(text, str) or not text:
        yield f"missing required field: text [json-pointer:{at}]"
    elif len(text) > 12_000:
        yield f"must be less than 12001 characters [json-pointer:{at}/text]"


def _divider(_block: Mapping[str, Any], _at: str) -> Problems:
    yield from ()


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], str], Problems]] = {
    "section": _section,
    "header": _header,
    "context": _context,
    "actions": _actions,
    "image": _image,
    "input": _input,
    "markdown": _markdown,
    "divider": _divider,
}


def _length(value: Any) -> int:
    """The number of visible characters."""
    if isinstance(value, dict):
        own = len(value["text"]) if isinstance(value.get("text"), str) else 0
        return own + sum(_length(one) for one in value.values() if isinstance(one, dict | list))
    return sum(map(_length, value)) if isinstance(value, list) else 0


def _completed(blocks: list[Any]) -> list[dict[str, Any]]:
    """Adds the ids and text flags that Slack fills in."""
    done: list[dict[str, Any]] = deepcopy(blocks)
    for number, block in enumerate(done):
        block.setdefault("block_id", f"b{number:02d}")
        for place, element in enumerate([*block.get("elements", ()), block.get("accessory"), block.get("element")]):
            if isinstance(element, dict) and element.get("type") not in ("mrkdwn", "plain_text", "image"):
                element.setdefault("action_id", f"a{number:02d}{place}")
        _flag_texts(block)
    return done


def _flag_texts(value: Any) -> None:
    if isinstance(value, list):
        for one in value:
            _flag_texts(one)
    elif isinstance(value, dict):
        if value.get("type") == "plain_text":
            value.setdefault("emoji", True)
        elif value.get("type") == "mrkdwn":
            value.setdefault("verbatim", False)
        for one in value.values():
            _flag_texts(one)


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
