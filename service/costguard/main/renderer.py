"""The process that renders pages: `python -m costguard.main.renderer SOCKET PARENT`.

The serving process starts it when many pages are wanted (see web/renderer.py), and it ends with that one.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import NamedTuple

from costguard.main.priority import step_back
from costguard.main.wire import Begin, Watcher, Wire
from costguard.web.frames import first_message
from costguard.web.marks import MARKS

_NICER_BY = 3  # than the serving process: reports come before pages...
_KILLED_FIRST = 700  # ...and where memory runs out, pages go first
_GARBAGE = (10_000, 10, 10)  # see main/web.py
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl.h


class First(NamedTuple):
    """The first message of the serving process: whatever it knows itself."""

    marks: str
    begin: Begin


def first(begin: Begin) -> First:
    return First(MARKS.random, begin)


def spawned(end: socket.socket) -> subprocess.Popen[bytes]:
    """A fresh interpreter, which inherits the socket and no more. To be called by the main thread: see `_die_with`."""
    return subprocess.Popen(  # noqa: S603 - no shell, and no argument comes from outside
        [sys.executable, "-m", "costguard.main.renderer", str(end.fileno()), str(os.getpid())],
        pass_fds=[end.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def main(arguments: list[str]) -> None:
    number, parent = map(int, arguments)
    gc.disable()  # what is imported is no garbage
    for ends in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ends, signal.SIG_IGN)  # it ends with the serving process
    _die_with(parent)
    step_back(_NICER_BY, _KILLED_FIRST)
    with socket.socket(fileno=number) as end:
        end.set_inheritable(False)
        _render(end)


def _render(end: socket.socket) -> None:
    message: First = first_message(end)
    MARKS.adopt(message.marks)

    import asyncio

    import structlog

    from costguard import logs
    from costguard.db.remembered import forget
    from costguard.errors import CostguardError
    from costguard.main.web_app import application
    from costguard.settings import Settings
    from costguard.web.memory import few_arenas
    from costguard.web.renderer import render_all

    settings = Settings.of(message.begin.settings)
    logs.configure(settings.log.level, settings.log.format)
    ours, _theirs = socket.socketpair()
    watcher = Watcher(Wire(ours), lambda: None)  # never started: what the watching process says comes with each request
    try:
        with application(message.begin, settings, watcher) as (app, _deps):
            app.user_middleware.clear()  # the serving process's own: what comes here has passed them
            few_arenas()
            gc.enable()
            gc.freeze()
            gc.set_threshold(*_GARBAGE)
            asyncio.run(render_all(end, app, watcher.hear, forget))
    except CostguardError as error:
        structlog.get_logger(__name__).error("renderer_not_ready", error=str(error))


def _die_with(parent: int) -> None:
    """Dies with the parent, however that ends, or its thread that started this.

    Only Linux has it; elsewhere the socket's end does.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(0)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        sys.stderr.flush()
        os._exit(0)  # threads that wait for a database that never answers hold nothing up
