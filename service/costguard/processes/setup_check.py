"""The check of the set-up that the server makes once, as it starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import structlog

from costguard.clock import SystemClock
from costguard.doctor.finding import CheckState, Finding
from costguard.processes.wire import Checked

log = structlog.get_logger(__name__)


class SetupCheck:
    """Checks the set-up in a thread, so that nothing waits for it; not under a clock that was sped up."""

    def __init__(self, examined: Callable[[], Sequence[Finding]], speed: float = 1.0) -> None:
        """`examined` checks the set-up and changes nothing."""
        self._examined = examined
        self._is_real = speed == 1.0
        self._checked: Checked | None = None

    def start(self) -> None:
        if self._is_real:
            threading.Thread(target=self._run, name="doctor", daemon=True).start()

    def checked(self) -> Checked | None:
        return self._checked

    def _run(self) -> None:
        try:
            findings = self._examined()
        except Exception:  # a fault of ours in it must not look like a check that found nothing
            log.exception("setup_not_checked")
            return
        self._checked = Checked(as_of=SystemClock().now(), findings=tuple(findings))
        for one in findings:
            if one.state is CheckState.NEEDS:
                log.warning("setup_needs", what=one.name, where=one.where, why=one.sentence, mends_it=one.command)
