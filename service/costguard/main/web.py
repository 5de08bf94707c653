"""A process that serves HTTP: `python -m costguard.main.web pages WIRE LISTENER GIVING`, inherited descriptors.

The one for agents' reports is `... reports WIRE TAKING`; see web/handover.py. The watching process starts them (see
web_process.py). The first forks the others, whose words follow its own after a `+`. They end with the watching process:
when the wire is cut, within seconds.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from costguard.processes.forks import fork_others, name_process, roles_of, step_back
from costguard.processes.wire import Begin, Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costguard.web.server import Server

_LONGEST_END_S = 7.0  # from the wish to end to the end; the watching process waits for no longer than that
_ORPHANED_S = 2.0  # the same, once the watching process is gone: another guard waits for the port
# More objects than before, and turns, until garbage is looked for: fifteen times Python's own. A thousand requests at
# once are so many objects that the search among them, which finds hardly any, took a third of the interpreter's time.
_GARBAGE = (10_000, 10, 10)
_NICER_BY = 5  # passes come before pages...
_KILLED_FIRST = 500  # ...and where memory runs out, pages go first


def main(arguments: list[str]) -> int:
    # What is imported is no garbage: to look through it takes a tenth of the start.
    gc.disable()
    roles = roles_of(arguments)
    if len(roles) > 1:
        import costguard.main.web_app  # noqa: F401 - before the forks, which share it

    serves, numbers = fork_others(roles)
    name_process(serves)
    wire, *sockets = [socket.socket(fileno=number) for number in numbers]
    for inherited in (wire, *sockets):
        inherited.set_inheritable(False)
    return serve(serves, Wire(wire), *sockets)


def serve(serves: str, wire: Wire, *sockets: socket.socket) -> int:
    """The exit code. The watching process says what is to be served, once the database is ready."""
    import structlog

    from costguard import logs
    from costguard.errors import CostguardError
    from costguard.main.web_app import server_of
    from costguard.processes.wire import Watcher
    from costguard.settings import Settings
    from costguard.web.handover import Giving, Taking

    *listeners, shared = sockets
    share = Taking(shared) if serves == "reports" else Giving(shared)
    begin = wire.receive()
    if not isinstance(begin, Begin):
        return 0  # it ended before it began
    settings = Settings.of(begin.settings)
    logs.configure(settings.log.level, settings.log.format)
    ending = _Ending(listeners)
    watcher = Watcher(wire, ending.orphaned)
    watcher.start()
    try:
        with (
            server_of(begin, settings, watcher, share) as server,
            ending.of(server),
        ):
            step_back(_NICER_BY, _KILLED_FIRST)
            gc.enable()
            gc.freeze()
            gc.set_threshold(*_GARBAGE)
            server.run(listeners)
    except CostguardError as error:
        structlog.get_logger(__name__).error("not_served", error=str(error))
        return 1
    return 0


class _Ending:
    """Sees to it that the process ends in time, by SIGTERM or when the watching process is gone."""

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self._listeners = listeners
        self._server: Server | None = None

    def of(self, server: Server) -> _Ending:
        self._server = server
        return self

    def __enter__(self) -> None:
        """uvicorn sends itself SIGTERM again after its own shutdown; by default that would end us on the spot."""
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._end(_LONGEST_END_S))

    def __exit__(self, *_: object) -> None:
        self._end(_LONGEST_END_S)

    def orphaned(self) -> None:
        """The watch is over. The port is free at once: that is not left to the event loop, which may hang."""
        for listener in self._listeners:
            os.dup2(os.open(os.devnull, os.O_RDONLY), listener.fileno())
        self._end(_ORPHANED_S)

    def _end(self, within_s: float) -> None:
        if self._server is not None:
            self._server.stop()
        timer = threading.Timer(within_s, os._exit, [0])
        timer.daemon = True
        timer.start()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # threads that wait for a database that never answers hold nothing up
