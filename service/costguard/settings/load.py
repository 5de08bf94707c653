"""Loading the settings: one file and a few environment variables, checked as a whole before anything starts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from costguard.errors import SettingsError
from costguard.settings import environment
from costguard.settings.access import double_entries
from costguard.settings.messages import error_of, from_pydantic
from costguard.settings.problems import Raw, SettingProblem
from costguard.settings.sections import ACCESS_KEYS, AccessSettings, Settings, check_all

DEFAULT_FILE = "costguard.toml"


def load(path: Path | None, environ: Mapping[str, str], listen: str | None = None) -> Settings:
    """The settings of this file (default: $COSTGUARD_CONFIG, else ./costguard.toml) and this environment.

    `listen` takes the place of the file's `server.listen`, and is checked like it.
    Raises SettingsError with every problem, not only the first.
    """
    where = where_it_is(path, environ)
    text = _read(where)
    raw = _parse(text, where)
    if listen is not None:
        raw = _over(raw, {"server": {"listen": listen}})
    return validate(raw, environ, where, text)


def load_access(path: Path | None, environ: Mapping[str, str]) -> AccessSettings:
    """Loads the settings that links and tokens need of the same file. Mistakes in other sections and secrets do not
    matter.

    Raises SettingsError.
    """
    where = where_it_is(path, environ)
    text = _read(where)
    raw = {
        name: _only(section, ACCESS_KEYS[name]) for name, section in _parse(text, where).items() if name in ACCESS_KEYS
    }
    secrets, problems = environment.read_database(environ)
    if not problems:
        try:
            return AccessSettings.model_validate(environment.with_secrets(raw, secrets))
        except ValidationError as error:
            problems = [_sourced(problem, secrets, environ) for problem in from_pydantic(error)]
    raise error_of(problems, where, text)


def _only(section: Any, keys: Iterable[str]) -> Any:
    """A table with these keys alone; what is no table is reported as it stands."""
    return {key: section[key] for key in keys if key in section} if isinstance(section, dict) else section


def where_it_is(path: Path | None, environ: Mapping[str, str]) -> Path:
    return path or Path(environ.get(environment.CONFIG) or DEFAULT_FILE)


def validate(raw: Raw, environ: Mapping[str, str], where: Path, text: str = "") -> Settings:
    """The settings in a parsed file. `where` and `text` are for the messages."""
    secrets, problems = environment.read_secrets(raw, environ)
    problems += check_all(raw, secrets, tuple(shipped_presets()))
    settings = None
    try:
        settings = Settings.of(environment.with_secrets(_with_defaults(raw), secrets))
    except ValidationError as error:
        problems += [_sourced(problem, secrets, environ) for problem in from_pydantic(error)]
    if settings is None or problems:
        raise error_of(problems, where, text)
    return settings


def warnings(settings: Settings, where: Path, environ: Mapping[str, str]) -> list[str]:
    """Warns of settings that are allowed and may still be a mistake: files that others can read, doubled addresses.

    `where`: the file.
    """
    return [*environment.file_warnings(where, environ), *double_entries(settings.access)]


def shipped_presets() -> Raw:
    presets: Raw = tomllib.loads(_resource("defaults.toml"))["presets"]
    return presets


def example() -> str:
    """A commented settings file with every key and its default."""
    return _resource("example.toml")


def _resource(name: str) -> str:
    return files("costguard.settings").joinpath(name).read_text("utf-8")


def _read(where: Path) -> str:
    try:
        return where.read_text("utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(
            f"{where}: there is no settings file here.",
            f"Make one with `costguard init --output {where}`, or name another with --config or {environment.CONFIG}.",
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
            f"{where}:{line}: not TOML: {error}.", "Correct that line, then run `costguard config check`."
        ) from None


def _with_defaults(raw: Raw) -> Raw:
    """The file's presets in their order, then the shipped ones, which also give the keys that the file leaves out."""
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


def _sourced(problem: SettingProblem, secrets: Mapping[str, str], environ: Mapping[str, str]) -> SettingProblem:
    """The same problem, reported for the environment variable where the value came from one."""
    if problem.path == ("database", "url") and environment.DATABASE in secrets:
        return replace(problem, path=(), variable=environment.source(environment.DATABASE, environ))
    return problem
