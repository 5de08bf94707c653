"""Deliberate faults: data that says where each is planted, what stands there, and which test must fail."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "faults"
PRODUCT = Path("service")


@dataclass(frozen=True)
class Fault:
    """`path` is below `service/`; `before` stands there once; `test` is a test, or a file or folder of them.

    `invariant` is what simulated lives show to be broken while the fault is planted; "" where it is none of theirs.
    `lives` is what they are about: a name of tests/simulation/aims.py.
    """

    room: str
    what: str
    path: str
    before: str
    after: str
    test: str
    invariant: str = ""
    lives: str = ""

    def planted(self, root: Path) -> str:
        """The file with the fault in it. Raises ValueError where the fault does not fit the file any more."""
        source = root / PRODUCT / self.path
        if not source.is_file():
            raise ValueError(f"{self.path} is not there: name the file that the rule moved to.")
        text = source.read_text()
        if (count := text.count(self.before)) != 1:
            raise ValueError(f"{self.path} holds the text to replace {count} times, not once: {self.before!r}")
        faulty = text.replace(self.before, self.after)
        try:
            is_the_same = ast.dump(ast.parse(faulty)) == _meaning(text)
        except SyntaxError as error:
            raise ValueError(f"{self.path} is no Python with the fault in it: {error}") from None
        if is_the_same:
            raise ValueError(f"{self.path} means the same with the fault in it.")
        return faulty

    def test_problem(self, root: Path) -> str:
        """Explains why there is no such test; "" where there is."""
        path, _, name = self.test.partition("::")
        if not (root / path).exists():
            return f"There is no {path}."
        function = name.partition("[")[0]
        is_there = not function or f"def {function}(" in (root / path).read_text()
        return "" if is_there else f"{path} has no test {function}."


@cache
def _meaning(text: str) -> str:
    """Returns what Python reads in a file; it is kept, as many faults are planted in one file."""
    return ast.dump(ast.parse(text))


def read() -> list[Fault]:
    """All of them, by room and in the order in which they are written down."""
    return [
        Fault(source.stem, **entry)
        for source in sorted(FOLDER.glob("*.toml"))
        for entry in tomllib.loads(source.read_text())["fault"]
    ]


def problems(faults: list[Fault], root: Path = ROOT) -> list[str]:
    """Lists what keeps faults from being planted, a sentence each."""
    wrongs = []
    for fault in faults:
        try:
            fault.planted(root)
            wrong = fault.test_problem(root)
        except ValueError as error:
            wrong = str(error)
        if wrong:
            wrongs.append(f"{fault.room}: {fault.what}: {wrong}")
    return wrongs
