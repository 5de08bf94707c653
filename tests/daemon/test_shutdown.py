"""The time between the wish to end and the end, with a short one in place of ten seconds."""

from __future__ import annotations

import threading

from structlog.testing import capture_logs

from costguard.daemon.shutdown import Shutdown


def test_what_hangs_is_named_and_left() -> None:
    """The process ends with the exit code of a clean stop."""
    never, ended = threading.Event(), threading.Event()
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    shutdown = Shutdown(longest_s=0.2, end=end)
    with capture_logs() as lines:
        shutdown.begin()
        assert not shutdown.run({"the watch": never.wait, "the rest": lambda: None}, lambda: ["pass"], 0.05)
        assert ended.wait(30)
    never.set()
    assert codes == [0]
    assert [line["left"] for line in lines if line["event"] == "shutdown_cut_short"] == ["the watch, pass"]


def test_what_ends_in_time_is_left_alone() -> None:
    """Steps run at the same time, and nothing cuts the process short once all is over."""
    ended = threading.Event()
    both = threading.Barrier(2)
    shutdown = Shutdown(longest_s=30, end=lambda _code: ended.set())
    shutdown.begin()
    assert shutdown.run({"one": lambda: both.wait(30), "other": lambda: both.wait(30)}, tuple, 30)
    shutdown.over()
    assert not ended.is_set()
