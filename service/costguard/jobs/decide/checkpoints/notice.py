"""Says how much work a preemption undoes, given its notice. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from costguard.model.instance import ProvisioningModel
from costguard.model.launch import Recipe
from costguard.model.reported.drill import Drill, seconds_text

# Of a VM that is shut down, which its agent leaves to the command: `notice_grace_s` in agent/PROTOCOL.md.
LAST_SECONDS = timedelta(seconds=22)


def measured_save(drills: Iterable[Drill]) -> timedelta | None:
    """Returns how long the last save on a notice took, uploaded where it travels; None where none was seen.

    `drills` are the newest first. A save that came too late was measured, too.
    """
    spans = (drill.uploaded or drill.saved for drill in drills if drill.is_saved is not None)
    return next((span for span in spans if span is not None), None)


def measured_parts(drills: Iterable[Drill]) -> tuple[timedelta, timedelta] | None:
    """Returns how long the last save on a notice held the command up, and then its upload; None where none was seen."""
    for drill in drills:
        if drill.is_saved is not None and drill.saved is not None:
            return drill.saved, max((drill.uploaded or drill.saved) - drill.saved, timedelta())
    return None


def fits(save: timedelta, notice: timedelta) -> bool:
    return save <= notice + LAST_SECONDS


def lost_at_preemption(save: timedelta | None, notice: timedelta) -> timedelta | None:
    """Returns the time that an announced preemption costs: that of the save. None: what was done since the last save,
    since this one does not come to its end, or nobody knows.
    """
    return save if save is not None and fits(save, notice) else None


def notice_text(recipe: Recipe | None, save: timedelta | None) -> str:
    """`a save takes 60 s and fits in the notice of 120 s`; "" where no save was measured, or nothing is preempted."""
    if save is None or recipe is None or recipe.provisioning_model is not ProvisioningModel.SPOT:
        return ""
    notice = recipe.notice
    within = f"the notice of {seconds_text(notice)}" if notice else f"the last {seconds_text(LAST_SECONDS)} of a VM"
    if fits(save, notice):
        return f"a save takes {seconds_text(save)} and fits in {within}"
    loses = "a preemption loses the work since the checkpoint before"
    return f"a save takes {seconds_text(save)} and does not fit in {within}: {loses}"
