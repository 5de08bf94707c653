"""Rewrites the golden files: `python -m tests.golden`, or only some of them: `python -m tests.golden pages slack`."""

from __future__ import annotations

import sys

from tests.golden.files import changed, produced, rewrite
from tests.golden.sources import SOURCES


def main(names: list[str]) -> int:
    if unknown := set(names) - set(SOURCES):
        print(f"No golden files are called {', '.join(sorted(unknown))}; there are {', '.join(SOURCES)}.")
        return 2
    for name in names or SOURCES:
        texts = produced(name)
        paths = changed(name, texts)
        rewrite(name, texts)
        for path in paths:
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
