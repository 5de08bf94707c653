"""Trains and loads with several processes on request, as several VMs would: each rank is forked from here, so that
frameworks are imported once.

Runs in the trainers' environment and imports nothing of Costguard. Requests and answers are lines of JSON. A rank finds
what torchrun would give it in its environment, and its node's folder as its working directory: `HERE` is one path on
every node, and a folder of each node's own, as a path on the disks of several VMs is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.trainers.bench.gang.ranks import Load, Place, Train

_PATIENCE_S = 30.0  # then the log says where a rank waits


def main() -> None:
    module = importlib.import_module(f"tests.trainers.bench.gang.{sys.argv[1]}")
    kinds: dict[str, tuple[Train, Load]] = module.KINDS
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what frameworks print is no answer
    for name in kinds:
        _warm(*kinds[name], int(sys.argv[2]))
    print(json.dumps({"kinds": list(kinds)}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        pids = []
        for rank in range(request["ranks"]):
            pids.append(os.fork())
            if not pids[-1]:
                _work(request, rank, *kinds[request["kind"]])
        print(json.dumps({"pids": pids}), file=answers)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(json.dumps({"exits": codes}), file=answers)


def _warm(train: Train, load: Load, port: int) -> None:
    """Imports what a training and a load import on their way, which takes each rank many seconds: one process does
    both and tells which modules it has then. Nothing of the framework is begun in this process.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        pid = os.fork()
        if not pid:
            place = Place(0, 1, 1, port)
            place.enter(folder)
            names: list[str] = []
            with contextlib.suppress(Exception):
                train(place, lambda what, step=0, digest="", name="": names.append(name))
            with open(out, "w") as opened:
                opened.write("\n".join(sys.modules))
            os._exit(0)
        os.waitpid(pid, 0)
        if not os.path.exists(out):
            return  # it died on its way: the ranks will say why
        for name in Path(out).read_text().split("\n"):
            with contextlib.suppress(BaseException):
                importlib.import_module(name)


def _work(request: Any, rank: int, train: Train, load: Load) -> None:
    """Never returns: nothing of the server runs in the forked process after it."""
    out = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(what: str, step: int = 0, digest: str = "", name: str = "") -> None:
        line = {"what": what, "rank": rank, "step": step, "digest": digest, "name": name}
        os.write(out, json.dumps(line).encode() + b"\n")

    code = 1
    faulthandler.dump_traceback_later(_PATIENCE_S)
    try:
        place = Place(rank, request["ranks"], request["per_node"], request["port"])
        place.enter(request["folders"][rank // request["per_node"]])
        if request["do"] == "train":
            tell("start")
            train(place, tell)
            tell("done")
        else:
            tell("loaded", digest=load(place, request["name"]))
        code = 0
    except BaseException as error:
        tell("error", digest=f"{type(error).__name__}: {str(error)[:300]}")
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(code)


main()
