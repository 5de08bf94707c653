"""A drill as the API shows it."""

from __future__ import annotations

from datetime import timedelta

from tests.api.rows import NOW

from costguard.api.job_schemas import DrillOut
from costguard.model.drill import Drill, DrillResult, DrillState


def test_save_in_the_moment_of_the_notice_takes_no_time() -> None:
    """Which is not "not known", and no error."""
    drill = Drill("j1", 1, NOW, "ada@lab.example", DrillState.OVER, DrillResult.SAVED, saved=timedelta())
    shown = DrillOut.of(drill)
    assert (shown.saved_seconds, shown.uploaded_seconds) == (0.0, None)
