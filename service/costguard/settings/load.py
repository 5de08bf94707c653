"""Reading the settings: one file and a few environment variables, checked whole before anything is touched."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from costguard.errors import SettingsError
from costguard.settings import environment
from costguard.settings.environment import Raw
from costguard.settings.lines import key_lines, line_of
from costguard.settings.problems import Problem, from_pydantic
from costguard.settings.references import across
from costguard.settings.sections import Settings

DEFAULT_FILE = "costguard.toml"


def load(path: Path | None, environ: Mapping[str, str], listen: str | None = None) -> Settings:
    """The settings of this file (default: $COSTGUARD_CONFIG, else ./costguard.toml) and this environment.

    `listen` takes the place of the file's `server.listen`, and is checked like it.
    Raises SettingsError with every problem there is, not the first alone.
    """
    where = where_it_is(path, environ)
    text = _read(where)
    raw = _parse(text, where)
    if listen is not None:
        raw = _over(raw, {"server": {"listen": listen}})
    return validate(raw, environ, where, text)


def where_it_is(path: Path | None, environ: Mapping[str, str]) -> Path:
    return path or Path(environ.get(environment.CONFIG) or DEFAULT_FILE)


def validate(raw: Raw, environ: Mapping[str, str], where: Path, text: str = "") -> Settings:
    """The settings in a parsed file. `where` and `text` are for the messages."""
    secrets, problems = environment.read_secrets(raw, environ)
    problems += across(raw, secrets, tuple(shipped_presets()))
    settings = None
    try:
        settings = Settings.of(environment.with_secrets(_with_defaults(raw), secrets))
    except ValidationError as error:
        problems += [_sourced(problem, secrets, environ) for problem in from_pydantic(error)]
    if settings is None or problems:
        raise _error(problems, where, text)
    return settings


def shipped_presets() -> Raw:
    presets: Raw = tomllib.loads(_resource("defaults.toml"))["presets"]
    return presets


def example() -> str:
    """A commented settings file that names every key and its default."""
    return _resource("example.toml")


def _resource(name: str) -> str:
    return files("costguard.settings").joinpath(name).read_text("utf-8")


def _read(where: Path) -> str:
    try:
        return where.read_text("utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(
            f"{where}: there is no settings file here.",
            f"Make one with `costguard config init > {where}`, or name another with --config or {environment.CONFIG}.",
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{where}: byte {error.start} is not UTF-8 text.", "Save the file as UTF-8.") from None
    except OSError as error:
        raise SettingsError(f"{where}: cannot be read: {error.strerror}.", "Let this user read the file.") from None


def _parse(text: str, where: Path) -> Raw:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        at = re.search(r"at line (\d+)", str(error))
        line = at[1] if at else str(len(text.splitlines()))
        raise SettingsError(
            f"{where}:{line}: not TOML: {error}.", "Mend that line, then run `costguard config check`."
        ) from None


def _with_defaults(raw: Raw) -> Raw:
    """The file's presets in its own order, then the shipped ones; a shipped one gives the keys that are not set."""
    given = raw.get("presets", {})
    if not isinstance(given, dict):
        return raw
    shipped = shipped_presets()
    merged = {name: _over(shipped.get(name, {}), preset) for name, preset in given.items()}
    return {**raw, "presets": {**merged, **{name: shipped[name] for name in shipped if name not in merged}}}


def _over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: _over(below.get(key), value) for key, value in above.items()}}


def _sourced(problem: Problem, secrets: Mapping[str, str], environ: Mapping[str, str]) -> Problem:
    """The same problem, told of the environment variable that the value came from, if it did."""
    if problem.path == ("database", "url") and environment.DATABASE in secrets:
        return replace(problem, path=(), variable=environment.source(environment.DATABASE, environ))
    return problem


def _error(problems: list[Problem], where: Path, text: str) -> SettingsError:
    lines = key_lines(text)
    told = []
    for problem in problems:
        line = line_of(problem.path, lines)
        place = problem.variable or (f"{where}:{line}" if line else str(where))
        key = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join(str(part) for part in problem.path))
        told.append((line or 0, f"  {place}: {key}: {problem.text}" if key else f"  {place}: {problem.text}"))
    head = "There is 1 problem" if len(told) == 1 else f"There are {len(told)} problems"
    listed = "\n".join(sentence for _, sentence in sorted(told))
    return SettingsError(
        f"{head} in the settings:\n{listed}\n",
        "Nothing was started. Mend the settings, then run `costguard config check`.",
    )
