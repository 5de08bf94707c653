"""Signals that end a process, acted on in a thread where locks may be taken."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_ending_signals(act: Callable[[int], object]) -> Iterator[None]:
    """Calls `act` with the number of each SIGTERM or SIGINT. Outside the main thread it does nothing.

    Python writes the numbers to a pipe as they come in, whatever the main thread is busy with. A handler of ours would
    run between any two of its instructions, and wait for ever for a lock that the main thread holds: `Event.set` does,
    in the midst of an `Event.wait`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    readable, writable = os.pipe()
    os.set_blocking(writable, False)

    def listen() -> None:
        while number := os.read(readable, 1)[0]:
            act(number)

    listener = threading.Thread(target=listen, name="signals", daemon=True)
    listener.start()
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in _ENDING}
    wakeup = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(writable, b"\0")
        listener.join()
        os.close(readable)
        os.close(writable)
