"""Runs a script of a training in this process, and writes down for how long the process lives: standard library only.

`python watched.py FOLDER SCRIPT ...` appends a line to FOLDER/round-ROUND-node-NODE-PID.txt every 20 ms: the seconds of
the computer's monotonic clock, which all processes share. The first is written before the script begins.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from pathlib import Path

EVERY_S = 0.02


def main() -> None:
    """Gives the script its own arguments and folder, as Python does."""
    folder, script = sys.argv[1:3]
    own = os.environ
    name = f"round-{own.get('COSTGUARD_ROUND', '1')}-node-{own.get('COSTGUARD_NODE_RANK', '0')}-{os.getpid()}.txt"
    Path(folder).mkdir(parents=True, exist_ok=True)
    file = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    _write(file)
    threading.Thread(target=_go_on, args=(file,), daemon=True).start()
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def _go_on(file: int) -> None:
    pause = threading.Event()
    while not pause.wait(EVERY_S):
        _write(file)


def _write(file: int) -> None:
    os.write(file, f"{time.monotonic():.4f}\n".encode())


if __name__ == "__main__":
    main()
