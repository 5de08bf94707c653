"""Puts together what is decided about VMs of one group: they are requested, watched and given back together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from costguard.actions.execute import Step
from costguard.jobs.act.attempts.vm_step import LaunchContext
from costguard.jobs.act.groups.group_delete import GroupDeleteStep
from costguard.jobs.act.groups.group_insert import GroupInsertStep, RepeatGroupStep
from costguard.jobs.act.groups.group_watch import WatchGroupStep
from costguard.jobs.decide.actions import AskAgain, DeleteVm, JobAction, LaunchAttempt
from costguard.jobs.decide.recovery.resume import ResumePoint
from costguard.jobs.decide.view import JobView
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.buying import FLEX


def parted(
    view: JobView,
    actions: Sequence[JobAction],
    attempts_by_id: Mapping[int, Attempt],
    point: ResumePoint,
    means: LaunchContext,
) -> tuple[list[JobAction], list[Step]]:
    """Returns the actions that are each a note or step of their own, and the steps of groups for all others."""
    alone: list[JobAction] = []
    launches: list[LaunchAttempt] = []
    watched: dict[tuple[str, bool], list[Attempt]] = defaultdict(list)
    deleted: dict[str, list[Attempt]] = defaultdict(list)
    only_looks = False
    for action in actions:
        match action:
            case LaunchAttempt() if action.formation and action.provisioning_model is FLEX:
                launches.append(action)
            case AskAgain() if (attempt := attempts_by_id[action.attempt_id]).vm_group:
                only_looks = only_looks or action.only_looks
                watched[attempt.resize_request, attempt.state is AttemptState.INTENDED].append(attempt)
            case DeleteVm() if (attempt := attempts_by_id[action.attempt_id]).vm_group:
                deleted[attempt.vm_group].append(attempt)
            case _:
                alone.append(action)
    steps: list[Step] = [GroupInsertStep(means, view, launches, point)] if launches else []
    for (_, is_intended), some in watched.items():
        if is_intended:
            steps.append(RepeatGroupStep(means, view.job, some, only_looks))
        else:
            steps.append(WatchGroupStep(means, view.job, some))
    steps += [GroupDeleteStep(means, view.job, some) for some in deleted.values()]
    return alone, steps
