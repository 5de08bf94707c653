"""Golden files: what people and programs see, as text in tests/golden/files, compared by a test."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from tests.golden.sources import SOURCES

ROOT = Path(__file__).parents[2]
_FOLDER = Path("tests/golden/files")
_FOLDERS = {
    "reference": Path("service/docs"),  # documents stand where people look for them
    "api": Path("service/costguard_client"),  # and code where it is imported
}
_SHOWN_LINES = 200


def produced(name: str) -> Mapping[str, str]:
    """The texts of one source by the path of their file."""
    return {(_folder(name) / path).as_posix(): text for path, text in SOURCES[name]().items()}


def stored(name: str) -> Mapping[str, str]:
    """Returns the files of one source: one file that is called like it, or all files of a folder."""
    folder = ROOT / _folder(name)
    files = list(folder.glob(f"{name}.*")) + sorted((folder / name).rglob("*.*"))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files if path.suffix != ".pyc"}


def changed(name: str, texts: Mapping[str, str]) -> list[str]:
    """The files that differ, are new, or have no source any more."""
    old = stored(name)
    return sorted(path for path in {*old, *texts} if old.get(path) != texts.get(path))


def rewrite(name: str, texts: Mapping[str, str]) -> None:
    for path in stored(name):
        (ROOT / path).unlink()
    for path, text in texts.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")


def difference(name: str, texts: Mapping[str, str]) -> str:
    """A unified diff from the files to the texts, and what to do about it; empty if nothing differs."""
    old = stored(name)
    lines: list[str] = []
    for path in changed(name, texts):
        before, after = old.get(path, "").splitlines(), texts.get(path, "").splitlines()
        lines += difflib.unified_diff(before, after, path, "now", lineterm="", n=2)
    if not lines:
        return ""
    rest = [f"... {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    advice = f"If you meant this, run `python -m tests.golden {name}` and commit what it writes."
    return "\n".join([*lines[:_SHOWN_LINES], *rest, advice])


def _folder(name: str) -> Path:
    return _FOLDERS.get(name, _FOLDER)
