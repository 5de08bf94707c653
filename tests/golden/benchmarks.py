"""The rows of the benchmark table: the names that `make bench` prints, as the code writes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "benchmarks"


def texts() -> Mapping[str, str]:
    found = sorted(name for file in _FOLDER.glob("*.py") if not file.name.startswith("test_") for name in _names(file))
    return {"benchmarks.txt": "\n".join(found) + "\n"}


def _names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Measured":
            yield f"{file.stem}: {ast.unparse(node.args[0])}"
