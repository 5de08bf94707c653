"""The values of an end: its class, the run's state, and whether trying again helps. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from costguard.model.attempt import Retry

UNKNOWN_CAUSE = "unknown"


class EndClass(StrEnum):
    """The cause that ended a run, or holds it up."""

    COLLECTIVE_TIMEOUT = "collective_timeout"
    HOST_MEMORY = "host_memory"
    GPU_MEMORY = "gpu_memory"
    NAN = "nan"
    DISK = "disk"
    HARDWARE = "hardware"
    NETWORK = "network"
    HANG = "hang"
    PROGRAM = "program"
    UNKNOWN = "unknown"


class LogState(StrEnum):
    """The state of the run by its log. Silence is no state: where nothing shows it, it is unknown."""

    DEAD = "dead"
    HUNG = "hung"
    ALIVE = "alive"
    UNKNOWN = "unknown"


class Rank(IntEnum):
    """The weight of a sign for the cause; `chosen` in reader.py says which sign of a log names the end.

    A cause stands above what follows from it: processes that are killed, peers that go away, launchers that report.
    """

    STALL = 0  # words of a wait
    ECHO = 1  # a launcher's account of a process that ended
    PEER = 2  # the other end of a connection went away, which says nothing of why
    WAIT = 3  # a process gave up waiting for others
    LIKELY = 4  # an exception that could mean anything; SIGKILL or SIGSEGV by an unknown sender
    CAUSE = 5


class Proof(StrEnum):
    """The proof in a sign about the process that printed it."""

    ENDED = "ended"
    WAITS = "waits"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class EndReading:
    """The end of a run by its log. `evidence` is the line that decided; "" where none did."""

    end_class: EndClass
    state: LogState
    cause: str
    retry: Retry
    evidence: str = ""

    @property
    def is_cause_known(self) -> bool:
        return self.cause != UNKNOWN_CAUSE

    @property
    def shown_retry(self) -> Retry | None:
        """Returns where the log itself shows that another attempt may do better; None where it does not show it.

        `no` needs a known cause. Of the network and of a VM's GPU the command is not guilty.
        """
        if self.retry is Retry.NO:
            return Retry.NO if self.is_cause_known else None
        if self.retry is Retry.OTHER_VM or self.end_class is EndClass.NETWORK:
            return self.retry
        return None

    def as_json(self) -> dict[str, str]:
        return {
            "class": self.end_class.value,
            "state": self.state.value,
            "cause": self.cause,
            "retry": self.retry.value,
        }
