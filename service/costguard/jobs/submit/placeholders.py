"""Placeholders such as {lr} in the texts of a job: found, and filled in. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

# `{{name}}` stands for `{name}` itself, and `${NAME}` is a shell's.
_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|(?<![$\{])\{([A-Za-z_]\w*)\}")
LATER = frozenset({"checkpoint", "location", "step", "gpus", "nproc"})  # replaced when a VM is launched
# Regular expressions have braces of their own, and what is launched together has one project and one preset.
_AS_THEY_ARE = frozenset({"preset", "project", "owner", "sweep", "schedule", "step_pattern", "pattern", "code", "kind"})


def names_in(text: str) -> Iterator[str]:
    """Yields the name of each placeholder in a text, as often as it is there."""
    return (match[2] for match in _PLACEHOLDER.finditer(text) if match[2] is not None)


def all_names_in(value: Any) -> list[str]:
    """Returns the names of all placeholders in the texts of a value, each once, in their order."""
    names: dict[str, None] = {}

    def look(text: str) -> str:
        names.update(dict.fromkeys(names_in(text)))
        return text

    each_text(value, look)
    return list(names)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Puts values in place of the placeholders that they have names of; others stay."""

    def replacement(match: re.Match[str]) -> str:
        literal, name = match[1], match[2]
        if literal is not None:
            return f"{{{literal}}}"
        return values.get(name, match[0])

    return _PLACEHOLDER.sub(replacement, text)


def each_text(value: Any, fill: Callable[[str], str]) -> Any:
    """Returns the same value with `fill` applied to every text in it that may have placeholders."""
    if isinstance(value, str):
        return fill(value) if type(value) is str else value
    if isinstance(value, tuple):
        return tuple(each_text(item, fill) for item in value)
    if isinstance(value, Mapping):
        return {name: each_text(item, fill) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        changes = {
            field.name: each_text(getattr(value, field.name), fill)
            for field in fields(value)
            if field.name not in _AS_THEY_ARE
        }
        return replace(value, **changes)
    return value
