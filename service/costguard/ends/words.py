"""Names an end in sentences for people. Pure."""

from __future__ import annotations

from costguard.ends.values import EndClass, EndReading, LogState
from costguard.model.attempt import Retry

CLASSES = {
    EndClass.COLLECTIVE_TIMEOUT: "a collective timed out: a process waited too long for others",
    EndClass.HOST_MEMORY: "the host's memory ran out",
    EndClass.GPU_MEMORY: "the GPU's memory ran out",
    EndClass.NAN: "the loss or the gradients are not a number",
    EndClass.DISK: "the disk could not be written",
    EndClass.HARDWARE: "the GPU or the machine failed",
    EndClass.NETWORK: "the network failed, or the other end of a connection went away",
    EndClass.HANG: "it waits",
    EndClass.PROGRAM: "a bug or a wrong setting of the program",
}
_STATES = {
    LogState.DEAD: "It ended",
    LogState.HUNG: "It hangs, as far as the log shows",
    LogState.ALIVE: "It goes on, as far as the log shows",
    LogState.UNKNOWN: "Whether it ended the log does not say",
}
_RETRIES = {
    Retry.SAME: "Another attempt may help.",
    Retry.OTHER_VM: "Another attempt may help, on another VM.",
    Retry.NO: "Another attempt would fail in the same way.",
}


def end_words(reading: EndReading) -> str:
    """Describes an end in one sentence: state, class and cause."""
    if reading.end_class is EndClass.UNKNOWN and not reading.is_cause_known:
        return f"{_STATES[reading.state]}. The log shows no reason."
    said = CLASSES.get(reading.end_class)
    parts = [part for part in (said, reading.cause if reading.is_cause_known else None) if part]
    return f"{_STATES[reading.state]}: {': '.join(parts)}."


def short_words(reading: EndReading) -> str:
    """Returns the part added to a job's reason, without a full stop; "" where the log shows no more."""
    if reading.is_cause_known:
        return reading.cause
    return "" if reading.end_class is EndClass.PROGRAM else CLASSES.get(reading.end_class, "")


def retry_words(reading: EndReading) -> str:
    return _RETRIES[reading.retry]
