"""A signal that ends a process, in the worst moment for it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_IN_THE_MIDST_OF_A_WAIT = """
import os, threading
from costguard.signals import on_ending_signals
stop = threading.Event()
numbers = []
def end(number):
    numbers.append(number)
    stop.set()
with on_ending_signals(end):
    with stop._cond:  # as in the first instructions of every Event.wait
        os.kill(os.getpid(), {number})
        sum(range(10_000))  # Python has called its handlers by now
    stop.wait()
print(*numbers)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_may_come_while_the_main_thread_holds_the_lock(number: signal.Signals) -> None:
    """A handler that sets the event would wait for ever for the thread that it interrupts."""
    code = _IN_THE_MIDST_OF_A_WAIT.format(number=int(number))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == [str(int(number))]
