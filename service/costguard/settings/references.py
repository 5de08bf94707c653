"""Checks between keys. They read the raw file, so that they speak up even where other keys are wrong."""

from __future__ import annotations

from typing import Any

from costguard.model.preset import OTHER
from costguard.settings import values
from costguard.settings.problems import Problem, meant, unlike

_SHORTEST_TOKEN = 16
_MAKE_TOKEN = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"  # noqa: S105 -- how to make one


def across(raw: dict[str, Any], token: str, shipped: tuple[str, ...]) -> list[Problem]:
    return [*_token(raw, token), *_database(raw), *_other(raw), *_budgets(raw, shipped)]


def _token(raw: dict[str, Any], token: str) -> list[Problem]:
    problems = []
    if "token" in raw:
        problems.append(Problem(("token",), "no such key; the token comes from the environment: COSTGUARD_TOKEN"))
    if token and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        text = (
            f"COSTGUARD_TOKEN: expected at least {_SHORTEST_TOKEN} letters, digits and signs, no spaces; {_MAKE_TOKEN}"
        )
        problems.append(Problem(("token",), text))
    listen = _table(raw, "server").get("listen")
    if not token and isinstance(listen, str) and _reaches_out(listen):
        text = (
            f"others could reach {listen}; expected a token in COSTGUARD_TOKEN, or 127.0.0.1. Make one: {_MAKE_TOKEN}"
        )
        problems.append(Problem(("server", "listen"), text))
    return problems


def _reaches_out(listen: str) -> bool:
    try:
        return not values.is_loopback(values.listen(listen).rpartition(":")[0].strip("[]"))
    except ValueError:
        return False


def _database(raw: dict[str, Any]) -> list[Problem]:
    url = _table(raw, "database").get("url")
    if isinstance(url, str) and values.has_password(url):
        text = "holds a password; expected the whole address in the environment: COSTGUARD_DATABASE_URL"
        return [Problem(("database", "url"), text)]
    return []


def _other(raw: dict[str, Any]) -> list[Problem]:
    if "match" not in _table(_table(raw, "presets"), OTHER):
        return []
    return [Problem(("presets", OTHER, "match"), f"no such key; {OTHER} is what no preset matches")]


def _budgets(raw: dict[str, Any], shipped: tuple[str, ...]) -> list[Problem]:
    projects = _table(raw, "watch").get("projects")
    known = {
        "project": [each for each in projects if isinstance(each, str)] if isinstance(projects, list) else [],
        "preset": [*shipped, *(name for name in _table(raw, "presets") if name not in shipped)],
    }
    problems = []
    budgets = _table(raw, "budgets")
    for name in budgets:
        scope = _table(_table(budgets, name), "scope")
        for part, names in known.items():
            given = scope.get(part)
            if isinstance(given, str) and given not in names:
                path = ("budgets", name, "scope", part)
                what = "a watched project" if part == "project" else "a preset"
                problems.append(
                    unlike(path, given, f"{what}: {', '.join(names) or 'none is named'}{meant(given, names)}")
                )
    return problems


def _table(raw: dict[str, Any], key: str) -> dict[str, Any]:
    """The table under a key, or an empty one: what is no table is another check's business."""
    found = raw.get(key)
    return found if isinstance(found, dict) else {}
