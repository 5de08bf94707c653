"""Reads in the end of a command's output why it ended. Pure."""

from __future__ import annotations

from functools import lru_cache

from costguard.ends.reader import read_end
from costguard.ends.values import EndClass, EndReading, LogState
from costguard.ends.words import short_words
from costguard.model.attempt import Retry

_LONGEST_LINE = 200


@lru_cache(maxsize=256)
def end_of(output: str) -> EndReading:
    """Decisions look at the same output again and again."""
    return read_end(output)


def said_by(output: str) -> str:
    """`: the disk is full`, after how a command failed; "" where its output does not say."""
    words = short_words(end_of(output))
    return f": {words}" if words else ""


def last_line(output: str) -> str:
    """The last line with something in it, cut at 200 characters; of an exception it is the one that names it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_LINE] if lines else ""


def retry_of(output: str) -> Retry | None:
    """Returns where another attempt may do better; None where the output does not show it."""
    return end_of(output).shown_retry


def lost_peer(output: str) -> bool:
    """Says whether, by its output, a command ended because another process of the same training went away."""
    return end_of(output).end_class in (EndClass.NETWORK, EndClass.COLLECTIVE_TIMEOUT)


def hang_by_log(output: str) -> str:
    """Returns the sentence about a command that seems to hang, by its output; "" where there is none."""
    reading = end_of(output)
    if reading.end_class in (EndClass.UNKNOWN, EndClass.HANG) or reading.state is LogState.ALIVE:
        return ""
    return f" By its output, {short_words(reading)}."
