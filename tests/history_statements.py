"""The statements of the page History, as people copy them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "service" / "docs" / "history.md"
_FOLDER = "history/day="
_BLOCK = re.compile(r"^```(sql|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def statements(heading: str, language: str = "sql") -> list[str]:
    """The blocks of code under a heading of the page."""
    _, _, after = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    section = after.partition("\n## ")[0]
    return [code for kind, code in _BLOCK.findall(section) if kind == language]


def over(statement: str, folder: Path) -> str:
    """The statement over another folder than the page's."""
    assert _FOLDER in statement
    return statement.replace(_FOLDER, f"{folder}/day=")
