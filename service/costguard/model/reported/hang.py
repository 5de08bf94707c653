"""A command that makes no progress any more, as its agent reports it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.model.duration import span_text

KINDS = ("still", "computing", "printing")
_WORDS = {
    "still": "no processor, GPU, disk or output moves",
    "computing": "it computes, but prints and writes nothing",
    "printing": "it prints or writes, but makes no step",
}
PHASES = ("training", "evaluating", "loading")


@dataclass(frozen=True, slots=True)
class Hang:
    """`since` is when its last step was made; `bound` is the silence after which it counts. None: not known.

    `kind`: nothing moves at all (still), it computes and prints nothing (computing), or it prints or writes without a
    step (printing).
    """

    since: datetime
    kind: str
    phase: str
    bound: timedelta
    step: int | None = None
    usual: timedelta | None = None  # the median gap between its steps
    longest: timedelta | None = None
    cores: float | None = None  # at work
    gpu: float | None = None  # the busiest one's share, 0 to 1
    is_writing: bool | None = None
    waits: tuple[str, ...] = ()  # what its threads wait in, as the kernel names it
    stacks: str = ""  # only with its owner's permission

    @property
    def text(self) -> str:
        """Describes the hang and the pace of its steps before: the numbers that it rests on."""
        usual = ""
        if self.usual is not None:
            longest = f", at most {_short(self.longest)} apart" if self.longest is not None else ""
            usual = f"; its steps come every {_short(self.usual)}{longest}"
        return f"{_WORDS[self.kind]}{self._figures()}{usual}"

    @property
    def where(self) -> str:
        """Returns its stacks, or the calls that its threads wait in; "" where neither is known."""
        return self.stacks or "\n".join(self.waits)

    def _figures(self) -> str:
        parts = [f"{self.cores:.2f} processors at work"] if self.cores is not None else []
        parts += [f"GPU at {self.gpu:.0%}"] if self.gpu is not None else []
        return f" ({', '.join(parts)})" if parts else ""


def _short(span: timedelta) -> str:
    seconds = span.total_seconds()
    return span_text(span) if seconds >= 10 else f"{seconds:.2g} s"
