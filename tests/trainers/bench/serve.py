"""Trains and loads on request, each in a process of its own that is forked from here: frameworks are imported once.

Runs in the trainers' environment and imports nothing of Costguard. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
from typing import Any

from tests.trainers.bench.state import Load, Train


def main() -> None:
    module = importlib.import_module(f"tests.trainers.bench.{sys.argv[1]}")
    kinds: dict[str, tuple[Train, Load]] = module.KINDS
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what frameworks print is no answer
    print(json.dumps({"kinds": list(kinds)}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        train, load = kinds[request["kind"]]
        pid = os.fork()
        if not pid:
            _work(request, train, load)
        print(json.dumps({"pid": pid}), file=answers)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"exit": os.waitstatus_to_exitcode(status)}), file=answers)


def _work(request: Any, train: Train, load: Load) -> None:
    """Never returns: nothing of the server runs in the forked process after it."""
    out = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(what: str, step: int = 0, digest: str = "", path: str = "") -> None:
        line = {"what": what, "step": step, "digest": digest, "path": path}
        os.write(out, json.dumps(line).encode() + b"\n")

    code = 1
    try:
        if request["do"] == "train":
            tell("start")
            train(request["folder"], tell)
            tell("done")
        else:
            tell("loaded", digest=load(request["path"]))
        code = 0
    except BaseException as error:
        tell("error", digest=f"{type(error).__name__}: {str(error)[:300]}")
        if request["do"] == "train":
            traceback.print_exc()
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(code)


main()
