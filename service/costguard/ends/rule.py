"""A rule of the table: the meaning of a line of output for the end of a run. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from costguard.ends.values import EndClass, Proof, Rank
from costguard.model.attempt import Retry

CauseOf = Callable[[str], str | None]

_MOST_CAUSE = 200  # characters
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure)\b:?.*")


@dataclass(frozen=True, slots=True)
class Rule:
    """`cause` None: such a line does not say why. `class_of` where the class depends on the line.

    `retry` where the line says more of another attempt than its class.
    """

    pattern: re.Pattern[str]
    end_class: EndClass
    rank: Rank
    proof: Proof
    cause: CauseOf | None = None
    class_of: Callable[[str], EndClass] | None = None
    retry: Retry | None = None


def said(text: str) -> CauseOf:
    """The same cause for every line that fits."""
    return lambda _: text


def message(line: str) -> str:
    """The exception with its message, without what stands before it."""
    match = _EXCEPTION.search(line)
    return " ".join((match.group() if match else line).split())[:_MOST_CAUSE]


def rules(end_class: EndClass, rank: Rank, proof: Proof) -> Callable[..., list[Rule]]:
    """Makes a rule of each pattern that it is called with. Letters count as equal in both cases, but with `flags=0`."""

    def compiled(*patterns: str, cause: CauseOf | None = None, flags: int = re.I) -> list[Rule]:
        return [Rule(re.compile(pattern, flags), end_class, rank, proof, cause) for pattern in patterns]

    return compiled
