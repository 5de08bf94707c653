"""Describes the problems of the settings, one sentence each: where, which key, what was given, what was expected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from costguard.errors import SettingsError
from costguard.settings.problems import SettingProblem, did_you_mean, unexpected
from costguard.settings.sections import keys_in, pattern_of

_REQUIRED = {
    "watch": 'a section [watch] with projects = ["my-project"]',
    "slack.channel": 'the channel for VMs of no team: channel = "#gpu-costs"',
    "presets.NAME.limit": 'how long a VM may run before its owner is reminded, such as 8h, or "never"',
    "presets.NAME.launch.machine_type": "a machine type, such as n1-standard-8",
    "presets.NAME.launch.zones": 'zones, the preferred one first, such as ["us-central1-a"]',
    "webhooks.NAME.url": "where events are posted, such as https://hooks.example.com/costguard",
    "trackers.mlflow.url": "where its server is, such as https://mlflow.example.com",
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
    "trackers": "COSTGUARD_MLFLOW_TOKEN, COSTGUARD_WANDB_API_KEY",
}
_OTHERWISE = "COSTGUARD_TOKEN, COSTGUARD_DATABASE_URL"
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_PATH = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\[?\s*({_PATH})\s*\]")
_KEY = re.compile(rf"\s*({_PATH})\s*=")
Path = tuple[str, ...]


def error_of(problems: list[SettingProblem], where: object, text: str) -> SettingsError:
    """All problems in one error. `where` is the settings file and `text` its content."""
    lines = key_lines(text)
    sentences = []
    for problem in problems:
        line = line_of(problem.path, lines)
        place = problem.variable or (f"{where}:{line}" if line else str(where))
        key = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join(str(part) for part in problem.path))
        sentences.append((line or 0, f"  {place}: {key}: {problem.text}" if key else f"  {place}: {problem.text}"))
    head = "There is 1 problem" if len(sentences) == 1 else f"There are {len(sentences)} problems"
    listed = "\n".join(sentence for _, sentence in sorted(sentences))
    return SettingsError(
        f"{head} in the settings:\n{listed}\n",
        "Nothing was started. Correct the settings, then run `costguard config check`.",
    )


def from_pydantic(error: ValidationError) -> list[SettingProblem]:
    """A default that depends on a wrong key is not reported as a second problem."""
    return [
        _problem(details["type"], details["loc"], details.get("input"), details)
        for details in error.errors()
        if details["type"] != "default_factory_not_called"
    ]


def _problem(kind: str, path: tuple[str | int, ...], given: object, error: Mapping[str, Any]) -> SettingProblem:
    context = error.get("ctx", {})
    if path and path[-1] == "[key]":
        given, path = path[-2], path[:-1]
    if kind == "extra_forbidden":
        return SettingProblem(path, _unknown(path))
    if kind == "missing":
        return SettingProblem(path, f"missing; expected {_REQUIRED.get(pattern_of(path), 'a value')}")
    if kind == "literal_error":
        expected = context["expected"].replace("'", '"')
        words = re.findall(r'"([^"]*)"', expected)
        return unexpected(path, given, expected + (did_you_mean(given, words) if isinstance(given, str) else ""))
    if kind == "value_error":
        return unexpected(path, given, str(context["error"]))
    if kind in {"greater_than_equal", "less_than_equal"}:
        return unexpected(path, given, f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}")
    return unexpected(path, given, _TYPES.get(kind, error["msg"]))


def _unknown(path: Sequence[str | int]) -> str:
    keys = keys_in(path[:-1])
    key = str(path[-1])
    if key.lower() in _SECRETS or key.lower().endswith(("_token", "_password", "_secret")):
        return f"no such key; secrets come from the environment: {_SECRET_VARIABLES.get(str(path[0]), _OTHERWISE)}"
    if len(path) > 1 and key in keys_in(()):
        return f"no such key here; expected it in a section of its own, [{key}]"
    return f"no such key{did_you_mean(key, keys)}; expected one of {', '.join(keys)}"


def key_lines(text: str) -> dict[Path, int]:
    """The first line of each key and table of a TOML text, counted from 1; without keys of inline tables.

    The standard library's reader does not report lines.
    """
    lines: dict[Path, int] = {}
    table: Path = ()
    inside: str | None = None  # the quotes of a text of several lines
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is None:
            if head := _TABLE.match(line):
                table = _split(head[1])
                _note(lines, (), table, number)
            elif key := _KEY.match(line):
                _note(lines, table, _split(key[1]), number)
        for quotes in re.findall('"""|' + "'''", line):
            inside = quotes if inside is None else None if quotes == inside else inside
    return lines


def line_of(path: Sequence[str | int], lines: Mapping[Path, int]) -> int | None:
    """The line of the key, or of the nearest table around it."""
    parts = tuple(str(part) for part in path)
    return next((lines[parts[:end]] for end in range(len(parts), 0, -1) if parts[:end] in lines), None)


def _split(path: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_PART, path))


def _note(lines: dict[Path, int], table: Path, key: Path, number: int) -> None:
    for end in range(1, len(key) + 1):
        lines.setdefault((*table, *key[:end]), number)
