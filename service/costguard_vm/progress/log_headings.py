"""Lines that say what those below them are about: an evaluation, a summary, the best so far. Travels with the agent."""

from __future__ import annotations

import re

from costguard_vm.progress.log_patterns import BEST_FOLLOWS

_SUMMARY = re.compile(r"[*=# ]*train metrics[*=# ]*", re.IGNORECASE)
_EVALUATION = re.compile(
    r"[*=\-#> ]*(test|eval(uation)?|val(idation)?)( error| metrics| results?| set| performance)?[*=\-#: ]*",
    re.IGNORECASE,
)
_TRAINING = re.compile(r"[*=\-#> ]*train", re.IGNORECASE)
ASSIGNED = re.compile(r"\w+\s*=\s")


class Headings:
    """Keeps the last heading of each kind until another one ends it."""

    def __init__(self) -> None:
        self.is_evaluating = False
        self._is_summary = False  # averages over the whole run follow
        self._is_best_next = False

    def note(self, body: str) -> None:
        if not ASSIGNED.match(body):
            self._is_summary = bool(_SUMMARY.fullmatch(body))
        if _EVALUATION.fullmatch(body):
            self.is_evaluating = True
        elif _TRAINING.match(body):
            self.is_evaluating = False

    def says_nothing_new(self, body: str) -> bool:
        """Says whether the line is of a summary, or repeats the best iteration, as the line before announced."""
        repeats_best, self._is_best_next = self._is_best_next, bool(BEST_FOLLOWS.search(body))
        is_assigned = bool(ASSIGNED.match(body))
        is_of_epoch = self.is_evaluating and bool(re.match(r"epoch\s*=", body))
        return repeats_best or (self._is_summary and is_assigned) or is_of_epoch
