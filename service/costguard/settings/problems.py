"""What is wrong with the settings, one sentence each: where, which key, what was given, what was expected."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from pydantic import ValidationError

from costguard.settings.keys import keys_in, pattern_of

_REQUIRED = {
    "watch": 'a section [watch] with projects = ["my-project"]',
    "watch.projects": 'the projects to watch: projects = ["my-project"]',
    "slack.channel": 'the channel for what no team takes: channel = "#gpu-costs"',
    "presets.NAME.limit": 'how long a VM may run before its owner is asked, such as 8h, or "never"',
    "presets.NAME.launch.machine_type": "a machine type, such as n1-standard-8",
    "presets.NAME.launch.zones": 'zones, the one that is preferred first, such as ["us-central1-a"]',
    "webhooks.NAME.url": "where what happens is sent, such as https://hooks.example.com/costguard",
    "budgets.NAME.limit": "a limit in US dollars, such as 2500",
    "budgets.NAME.period": '"day", "week" or "month"',
}
_TYPES = {
    "string_type": "text in quotes",
    "string_sub_type": "text in quotes",
    "int_type": "a whole number",
    "bool_type": "true or false, without quotes",
    "tuple_type": 'a list, such as ["one", "two"]',
    "model_type": "a table",
    "mapping_type": "a table",
    "dict_type": "a table",
    "too_short": "at least one",
}
_SECRETS = {"token", "password", "secret", "key"}
_SECRET_VARIABLES = {
    "slack": "COSTGUARD_SLACK_TOKEN, COSTGUARD_SLACK_SIGNING_SECRET, COSTGUARD_SLACK_APP_TOKEN",
    "sign_in": "COSTGUARD_OIDC_CLIENT_SECRET",
}
_OTHERWISE = "COSTGUARD_TOKEN, COSTGUARD_DATABASE_URL"


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is the key's dotted path in pieces. `variable` is the environment variable that is meant, not the file."""

    path: tuple[str | int, ...]
    text: str
    variable: str = ""


def from_pydantic(error: ValidationError) -> list[Problem]:
    """A default that rests on a wrong key is no second problem."""
    return [
        _problem(each["type"], each["loc"], each.get("input"), each)
        for each in error.errors()
        if each["type"] != "default_factory_not_called"
    ]


def unlike(path: tuple[str | int, ...], given: object, expected: str) -> Problem:
    return Problem(path, f"given {show(path, given)}, expected {expected}")


def meant(word: str, known: Iterable[str]) -> str:
    """ " (did you mean X?)", or nothing when nothing known is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


def _problem(kind: str, path: tuple[str | int, ...], given: object, error: Mapping[str, Any]) -> Problem:
    context = error.get("ctx", {})
    if path and path[-1] == "[key]":
        given, path = path[-2], path[:-1]
    if kind == "extra_forbidden":
        return Problem(path, _unknown(path))
    if kind == "missing":
        return Problem(path, f"missing; expected {_REQUIRED.get(pattern_of(path), 'a value')}")
    if kind == "literal_error":
        expected = context["expected"].replace("'", '"')
        words = re.findall(r'"([^"]*)"', expected)
        return unlike(path, given, expected + (meant(given, words) if isinstance(given, str) else ""))
    if kind == "value_error":
        return unlike(path, given, str(context["error"]))
    if kind in {"greater_than_equal", "less_than_equal"}:
        return unlike(path, given, f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}")
    return unlike(path, given, _TYPES.get(kind, error["msg"]))


def _unknown(path: Sequence[str | int]) -> str:
    known = keys_in(path[:-1])
    key = str(path[-1])
    if key.lower() in _SECRETS or key.lower().endswith(("_token", "_password", "_secret")):
        return f"no such key; secrets come from the environment: {_SECRET_VARIABLES.get(str(path[0]), _OTHERWISE)}"
    if len(path) > 1 and key in keys_in(()):
        return f"no such key here; expected it in a section of its own, [{key}]"
    return f"no such key{meant(key, known)}; expected one of {', '.join(known)}"


def show(path: Sequence[str | int], given: object) -> str:
    """What was given, in short and never a secret."""
    if isinstance(given, dict):
        return "a table" if given else "an empty table"
    if isinstance(given, list | tuple):
        return "a list" if given else "an empty list"
    if pattern_of(path) == "database.url":
        return "an address (not shown, it may hold a password)" if isinstance(given, str) else type(given).__name__
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, datetime | date | time):
        return given.isoformat()
    if isinstance(given, str):
        masked = re.sub(r"://[^@/\s]*@", "://…@", given)
        return json.dumps(masked if len(masked) <= 60 else masked[:59] + "…", ensure_ascii=False)
    return str(given)
