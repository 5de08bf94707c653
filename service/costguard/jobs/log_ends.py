"""What the end of a command's output says of why it ended. Pure."""

from __future__ import annotations

from functools import lru_cache

from costguard.ends.reader import read_end
from costguard.ends.values import EndClass, EndReading, LogState
from costguard.ends.words import short_words
from costguard.model.attempt import Attempt, Outcome


@lru_cache(maxsize=256)
def end_of(output: str) -> EndReading:
    """Decisions look at the same output again and again."""
    return read_end(output)


def said_by(output: str) -> str:
    """`: the disk is full`, after how a command failed; "" where its output does not say."""
    words = short_words(end_of(output))
    return f": {words}" if words else ""


def repeats_by_log(attempt: Attempt) -> bool:
    """Whether its output shows that another attempt fails in the same way; not of a command that was asked to stop."""
    end = attempt.agent.exit
    if attempt.outcome is not Outcome.CRASHED or end is None or end.asked:
        return False
    return end_of(attempt.agent.output).would_repeat


def hang_by_log(output: str) -> str:
    """What the output of a command that seems to hang says of it, as a sentence after another; "" where nothing."""
    reading = end_of(output)
    if reading.end_class in (EndClass.UNKNOWN, EndClass.HANG) or reading.state is LogState.ALIVE:
        return ""
    return f" By its output, {short_words(reading)}."
