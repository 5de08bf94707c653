"""The lines of a process that goes on."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.forked_guard import ForkedProgram
from tests.sandbox.guest.served_vms import PATIENCE_S


@dataclass
class Lines:
    """The lines that a process has printed so far."""

    seen: list[str] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def until(self, wanted: str) -> None:
        with self.news:
            assert self.news.wait_for(lambda: any(wanted in line for line in self.seen), PATIENCE_S), "".join(self.seen)


@contextmanager
def reading(process: subprocess.Popen[str] | ForkedProgram, ending: signal.Signals) -> Iterator[Lines]:
    """Reads on in a thread, so that the process never waits for a reader. Ends the process with the block."""
    lines = Lines()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with lines.news:
                lines.seen.append(line)
                lines.news.notify_all()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lines
    finally:
        process.send_signal(ending)
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            reader.join()
