"""Plants deliberate faults and sees that each is caught: `python -m tests.mutants`, or words of some: `lease stop`.

It first runs the named tests without any fault: what fails then catches nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants import faults
from tests.mutants.faults import Fault
from tests.mutants.planting import Caught, Result, Runner, copied, plant_all
from tests.mutants.summary import line, write

_COPIES = 2


def _chosen(words: Sequence[str]) -> list[Fault]:
    every = faults.read()
    if not words:
        return every
    return [fault for fault in every if any(word.lower() in f"{fault.room} {fault.what}".lower() for word in words)]


def _without_faults(chosen: Sequence[Fault], run: Runner) -> bool:
    named = sorted({fault.test for fault in chosen})
    print(f"Running the {len(named)} named tests without any fault...", flush=True)
    code, output = run("-n2", *named)
    if code:
        print(f"{output}\nThese fail without any fault, and so catch none. Mend them first.")
    return not code


def _main(words: Sequence[str]) -> int:
    if any(word.startswith("-") for word in words):
        print(__doc__)
        return 2
    os.nice(10)
    chosen = _chosen(words)
    if wrong := faults.problems(chosen):
        print("\n".join(wrong))
        print(f"{len(wrong)} faults cannot be planted: let them follow the code, in tests/mutants/faults.")
        return 1
    begun, results = time.monotonic(), list[Result]()
    with tempfile.TemporaryDirectory(prefix="costguard-mutants-") as made:
        runners = [Runner(copied(Path(made) / "0"))]
        try:
            if not _without_faults(chosen, runners[0]):
                return 1
            # What was compiled for the first copy is copied with it.
            runners += [Runner(copied(Path(made) / str(number), runners[0].copy)) for number in range(1, _COPIES)]
            for result in plant_all(chosen, runners):
                results.append(result)
                print(line(result), flush=True)
                if result.caught is not Caught.YES:
                    print(result.output)
        finally:
            for runner in runners:
                runner.close()
    minutes = (time.monotonic() - begun) / 60
    caught = sum(result.caught is Caught.YES for result in results)
    print(f"{caught} of {len(results)} caught in {minutes:.1f} minutes.")
    if not words:
        write(results, minutes)
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
