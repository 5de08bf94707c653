"""Which keys the settings file may hold, read off the models so that no list can fall behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from costguard.settings.sections import Settings

type_of_model = type[BaseModel]
ANY_NAME = "NAME"


def setting_keys(model: type_of_model = Settings, prefix: str = "") -> Iterator[str]:
    """Every key as a dotted path; NAME stands for a name that the user chooses: `presets.NAME.limit`."""
    for key, annotation in _fields(model).items():
        inner, named = _inside(annotation)
        path = f"{prefix}{key}" + (f".{ANY_NAME}" if named else "")
        if inner is None:
            yield f"{prefix}{key}"
        else:
            yield from setting_keys(inner, f"{path}.")


def pattern_of(path: Sequence[str | int]) -> str:
    """`presets.NAME.limit` for `presets.t4.limit`: the same key, whatever the user called its table."""
    parts: list[str] = []
    model: type_of_model | None = Settings
    named = False
    for part in path:
        if named:
            named = False
            parts.append(ANY_NAME)
            continue
        parts.append(str(part))
        annotation = _fields(model).get(str(part)) if model else None
        model, named = _inside(annotation)
    return ".".join(parts)


def keys_in(path: Sequence[str | int]) -> list[str]:
    """The keys that the table at this path may hold; empty where it holds names of the user's choice."""
    pattern = pattern_of(path)
    depth = len(path)
    paths = [key.split(".") for key in setting_keys()]
    found = {parts[depth] for parts in paths if len(parts) > depth and ".".join(parts[:depth]) == pattern}
    return sorted(found - {ANY_NAME})


def _fields(model: type_of_model) -> dict[str, Any]:
    return {key: field.annotation for key, field in model.model_fields.items() if not field.exclude}


def _inside(annotation: Any) -> tuple[type_of_model | None, bool]:
    """The model that a field holds, and whether under names of the user's choice."""
    if NoneType in get_args(annotation):
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    if get_origin(annotation) is Mapping:
        inner = get_args(annotation)[1]
        return (inner, True) if isinstance(inner, type) and issubclass(inner, BaseModel) else (None, False)
    return None, False
