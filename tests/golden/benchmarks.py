"""The rows of the benchmark table: the names that `make bench` prints, with {} for what a run fills in."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "benchmarks"


def texts() -> Mapping[str, str]:
    files = [file for file in _FOLDER.glob("*.py") if not file.name.startswith("test_")]
    return {"benchmarks.txt": "\n".join(sorted(name for file in files for name in _names(file))) + "\n"}


def _names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Measured":
            yield f"{file.stem}: {_shown(node.args[0])}"


def _shown(name: ast.expr) -> str:
    text = next((part for part in ast.walk(name) if isinstance(part, ast.JoinedStr | ast.Constant)), None)
    if isinstance(text, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in text.values)
    return str(text.value) if text is not None else "{}"
