"""Entry point of the `costguard` command. It imports nothing, so that a version is printed at once."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from costguard import __version__

        print(f"costguard {__version__}")
        return
    from costguard.cli.app import main as run

    run()
