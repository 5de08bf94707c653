"""`make figures`: how large the product is, by the figures that the house's rules and service/docs/develop.md name."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.house import GENERATED, MANY_PARAMETERS, MODULES_WITH_A_CONTRACT, folders_of

_OWN = ("costguard", "costguard_vm", "costguard_client")


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Yields what is counted and its figure. Lines are those of Python files: code, docstrings, comments and blanks."""
    service = root / "service"
    lines = {package: _lines(service / package) for package in (*_OWN, "costguard_sandbox")}
    generated = sum(_lines(root / folder) for folder in GENERATED)
    yield "lines without the simulated cloud and what is generated", f"{sum(lines[one] for one in _OWN) - generated:,}"
    yield "... of the server", f"{lines['costguard']:,}"
    yield "... of what travels to a VM", f"{lines['costguard_vm']:,}"
    yield "... of the client, without what is generated", f"{lines['costguard_client'] - generated:,}"
    yield "lines of the simulated cloud", f"{lines['costguard_sandbox']:,}"
    yield "lines of web", f"{_lines(service / 'costguard' / 'web'):,}"
    folders = folders_of(root)
    direct = Counter({folder: sum(_count(file) for file in folder.glob("*.py")) for folder in folders})
    for folder in [one for one in GENERATED if (root / one) in direct]:
        del direct[root / folder]
    longest, most = direct.most_common(1)[0]
    yield "lines of the longest folder", f"{most:,} ({longest.relative_to(service)})"
    fullest = max(folders, key=lambda folder: folders[folder])
    yield "modules of the fullest folder", f"{folders[fullest]} ({fullest.relative_to(service)})"
    large = sum(modules >= MODULES_WITH_A_CONTRACT for modules in folders.values())
    yield f"folders of {MODULES_WITH_A_CONTRACT} or more modules, each with a contract", str(large)
    yield "functions with more than 8 parameters", str(len(MANY_PARAMETERS))


def _lines(folder: Path) -> int:
    return sum(_count(file) for file in folder.rglob("*.py"))


def _count(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


def main(root: Path) -> None:
    """Prints a line for each figure."""
    for what, figure in figures(root):
        print(f"{what:60} {figure}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
