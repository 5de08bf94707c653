"""Commands as a person types them: each a process of its own, forked from one that has imported all of it already.

Starting Python and importing takes most of a second, for what runs a guard three; the tests type some two hundred.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import typer.main
from tests import built_commands

LONGEST_S = 240  # no rule of the product: a busy machine may take long over anything
_ROOT = Path(__file__).parents[2]


class Typist:
    """Types one command after another; its process ends with the `with` block."""

    def __enter__(self) -> Typist:
        # A module that is run by -m would be the program's name in what commands print.
        begin = f"import sys; sys.path[0] = {str(_ROOT)!r}; from {__name__} import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", begin],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._process.communicate()

    def type(
        self, arguments: Sequence[str], environ: Mapping[str, str], folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`costguard ARGUMENTS`, its output in files."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            request = {
                "arguments": list(arguments),
                "environ": dict(environ),
                "folder": str(folder or Path.cwd()),
                "out": out.name,
                "err": err.name,
            }
            print(json.dumps(request), file=self._process.stdin, flush=True)
            code = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(["costguard", *arguments], code, _text(out.name), _text(err.name))


def _text(path: str) -> str:
    with Path(path).open(encoding="utf-8") as file:
        return file.read()


def serve() -> None:
    """Becomes each command whose words are on the standard input, and prints its exit code."""
    from google.cloud import compute_v1  # noqa: F401 - every guard loads it with its first request
    from typer import rich_utils  # noqa: F401 - prints help and errors of the command line

    import costguard.cli.app
    import costguard.daemon.backups
    import costguard.db.migrate
    import costguard.main.doctor
    import costguard.main.local_access
    from costguard.main import opened, service, start_web_processes  # noqa: F401 - loaded when they are first named

    built_commands.build_once()
    typer.main.get_command(costguard.cli.app.app)
    gc.freeze()  # a collection in a fork would copy every page of it that is shared

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line), costguard.cli.app.main)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: Mapping[str, Any], main: Any) -> NoReturn:
    signal.alarm(LONGEST_S)
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    os.chdir(request["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(request[name], os.O_WRONLY), number)
    sys.argv = ["costguard", *request["arguments"]]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
