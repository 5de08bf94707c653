"""The reference of settings: every key with its default, as the example file explains it and the code reads it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic import BaseModel

import costguard.settings
from costguard.errors import SettingsError
from costguard.settings import VARIABLES, example, setting_keys, validate
from costguard.settings.sections import pattern_of

_SECTION = re.compile(r"^(?:# )?\[([a-z0-9_.-]+)\]$")
_KEY = re.compile(r"^(?:# )?([a-z0-9_.]+) = (.+)$")
_VARIABLE = re.compile(r"^#   (COSTGUARD_\w+) +(.+)$", re.MULTILINE)
_SECRETS = {
    "COSTGUARD_SLACK_TOKEN": "xoxb-1",
    "COSTGUARD_OIDC_CLIENT_SECRET": "a client's secret",
    "COSTGUARD_MLFLOW_TOKEN": "a password",
    "COSTGUARD_WANDB_API_KEY": "a key",
    "COSTGUARD_WEBHOOK_PAGER_SECRET": f"whsec_{'S' * 32}",
}
_HEAD = """# Settings

<!-- Generated: python -m tests.golden reference -->

One TOML file: `costguard.toml` in the folder where Costguard is started, or the file that `--config` or
`COSTGUARD_CONFIG` names. `costguard config example > costguard.toml` prints a commented one. `costguard config check`
reports every mistake at once, each with its line, the value found and the value expected. Costguard does not start
with a mistake in it.

Times are written `90s`, `15m`, `8h`, `3d`, `1w` or `1h30m`.
"""
_VARIABLES = """
## Environment variables

Secrets come from the environment only. Each may come from a file instead: the same name with `_FILE` at the end names
it, such as `COSTGUARD_SLACK_TOKEN_FILE=/run/secrets/slack`. A systemd credential with the variable's name works too.

| Variable | Holds |
|---|---|
| `COSTGUARD_CONFIG` | the path of the settings file |
"""


@dataclass(frozen=True)
class Key:
    section: str
    name: str
    value: str
    text: str


def text() -> str:
    lines, section = [_HEAD], ""
    keys, notes = _read(example())
    values = _Values(keys)
    written = set()
    for key in keys:
        pattern = _pattern(key)
        if pattern in written:
            continue
        written.add(pattern)
        if key.section != section:
            section = key.section
            lines += [f"\n## {_general(section)}\n", *([f"{notes[section]}\n"] if notes.get(section) else [])]
            lines += ["| Key | Default | Meaning |", "|---|---|---|"]
        lines.append(f"| `{pattern}` | {values.default(key)} | {_cell(key.text + values.example(key))} |")
        if key.section == "presets.t4" and key is _last_of(keys, "presets.t4"):
            lines += ["", *_presets()]
    missing = set(setting_keys()) - written
    assert not missing, f"example.toml does not explain {sorted(missing)}"
    explained = dict(_VARIABLE.findall(example()))
    assert set(VARIABLES) == {"COSTGUARD_CONFIG", *explained}, "example.toml explains each variable"
    lines += [_VARIABLES.rstrip("\n"), *(f"| `{name}` | {_cell(meaning)} |" for name, meaning in explained.items())]
    return "\n".join(lines) + "\n"


def _read(source: str) -> tuple[list[Key], Mapping[str, str]]:
    """The keys in their order, and the comment above each section."""
    keys: list[Key] = []
    notes: dict[str, str] = {}
    comment: list[str] = []
    section = ""
    for line in source.splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
            notes[section] = " ".join(comment)
            comment = []
        elif key := _KEY.match(line):
            keys.append(Key(section, key[1], key[2], " ".join(comment)))
            comment = []
        elif line.startswith("# "):
            comment.append(line[2:].strip())
        else:
            comment = []
    return keys, notes


class _Values:
    """The values of the example that are defaults: leaving them out changes nothing."""

    def __init__(self, keys: list[Key]) -> None:
        self._all: dict[str, Any] = {}
        with NamedTemporaryFile("w", suffix=".pem") as certificates:
            certificates.write("-----BEGIN CERTIFICATE-----\n")
            certificates.flush()
            for key in keys:
                value = tomllib.loads(f"value = {key.value}")["value"]
                _put(self._all, _path(key), certificates.name if key.name == "guard_ca_file" else value)
            self._model = _settings(self._all)
            self._kind = {key: self._tell(key) for key in keys}

    def default(self, key: Key) -> str:
        return {"default": f"`{key.value}`", "required": "required", "example": "unset"}[self._kind[key]]

    def example(self, key: Key) -> str:
        return "" if self._kind[key] == "default" else f" Example: `{key.value}`"

    def _tell(self, key: Key) -> str:
        without = deepcopy(self._all)
        _take(without, _path(key))
        try:
            model = _settings(without)
        except SettingsError:
            return "required" if _is_required(self._model, _path(key)) else "example"
        return "default" if model.model_dump() == self._model.model_dump() else "example"


def _settings(given: Mapping[str, Any]) -> Any:
    projects = {"watch": {**given.get("watch", {}), "projects": ["ml-lab-prod"]}}
    text = deepcopy({**given, **(projects if "projects" in given.get("watch", {}) else {})})
    for team in (text["teams"]["vision"], text["webhooks"]["pager"]):
        if "projects" in team:
            team["projects"] = ["ml-lab-prod"]
    if "project" in text["budgets"]["vision"].get("scope", {}):
        text["budgets"]["vision"]["scope"]["project"] = "ml-lab-prod"
    return validate(text, _SECRETS, Path("example.toml"))


def _is_required(model: Any, path: tuple[str, ...]) -> bool:
    for part in path[:-1]:
        model = model[part] if isinstance(model, Mapping) else getattr(model, part)
    assert isinstance(model, BaseModel)
    return type(model).model_fields[path[-1]].is_required()


def _path(key: Key) -> tuple[str, ...]:
    return (*key.section.split("."), *key.name.split("."))


def _pattern(key: Key) -> str:
    return pattern_of(_path(key))


def _general(section: str) -> str:
    return pattern_of(section.split("."))


def _put(tree: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _take(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    for part in path[:-1]:
        tree = tree[part]
    del tree[path[-1]]


def _last_of(keys: list[Key], section: str) -> Key:
    return [key for key in keys if key.section == section][-1]


def _presets() -> Iterator[str]:
    """Yields the differences between the shipped presets."""
    yield "The shipped presets, of which a settings file may change single keys:"
    yield ""
    yield "| Preset | For | `limit` | `remind_every` | `idle.window` | Launches |"
    yield "|---|---|---|---|---|---|"
    for name, given in _shipped().items():
        launch = given.get("launch", {})
        launches = f"`{launch['machine_type']}`, {launch['gpu_count']} × {launch['gpu_type']}" if launch else ""
        spans = (given["limit"], given["remind_every"], given["idle"]["window"])
        cells = [f"`{name}`", given["description"], *(f"`{span}`" for span in spans), launches]
        yield f"| {' | '.join(cells)} |"


def _shipped() -> Mapping[str, Any]:
    text = (Path(costguard.settings.__file__).parent / "defaults.toml").read_text("utf-8")
    presets: Mapping[str, Any] = tomllib.loads(text)["presets"]
    return presets


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
