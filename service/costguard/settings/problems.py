"""Mistakes in the settings, and checks between keys that several sections share.

The checks read the raw file, so that they report a mistake even where other keys are wrong.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """A mistake in the settings: the parts of the key's dotted path, or the environment variable that holds it."""

    path: tuple[str | int, ...]
    text: str
    variable: str = ""


def unexpected(path: tuple[str | int, ...], given: object, expected: str) -> SettingProblem:
    return SettingProblem(path, f"given {show(path, given)}, expected {expected}")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """ " (did you mean X?)", or "" where no known word is close."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


def show(path: tuple[str | int, ...], given: object) -> str:
    """The value in short, and never a secret."""
    if isinstance(given, dict):
        return "a table" if given else "an empty table"
    if isinstance(given, list | tuple):
        return "a list" if given else "an empty list"
    if path == ("database", "url"):
        return "an address (not shown, it may hold a password)" if isinstance(given, str) else type(given).__name__
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, datetime | date | time):
        return given.isoformat()
    if isinstance(given, str):
        masked = re.sub(r"://[^@/\s]*@", "://…@", given)
        return json.dumps(masked if len(masked) <= 60 else masked[:59] + "…", ensure_ascii=False)
    return str(given)


def table(raw: Raw, key: str) -> Raw:
    """The table under a key; an empty one where it is missing or no table, which another check reports."""
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def watched_projects(raw: Raw) -> list[str]:
    projects = table(raw, "watch").get("projects")
    return [project for project in projects if isinstance(project, str)] if isinstance(projects, list) else []


def finds_projects(raw: Raw) -> bool:
    """Says whether projects are looked for, in an organisation or in folders: their names are not known before."""
    watch = table(raw, "watch")
    return bool(watch.get("organization") or watch.get("folders"))


def check_watched(path: tuple[str | int, ...], given: object, raw: Raw) -> Iterator[SettingProblem]:
    """Checks the name of a project, where every project that is watched is listed."""
    if not finds_projects(raw):
        yield from check_known(path, given, watched_projects(raw), "a watched project")


def check_known(path: tuple[str | int, ...], given: object, names: list[str], what: str) -> Iterator[SettingProblem]:
    if isinstance(given, str) and given not in names:
        yield unexpected(path, given, f"{what}: {', '.join(names) or 'none is named'}{did_you_mean(given, names)}")
