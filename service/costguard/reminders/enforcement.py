"""When unanswered reminders stop a VM, and which VMs are protected. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

from costguard.access.rules import Protection
from costguard.model.duration import span_text
from costguard.model.moments import moment_text
from costguard.model.preset import Preset
from costguard.model.reminder import Enforcement, ReminderRule
from costguard.model.utilisation import Evidence, IdleState
from costguard.reminders.ladder import AcceptedStage, DueMoment, LadderPosition


def stop_at(
    rule: ReminderRule,
    standing: LadderPosition,
    due: DueMoment | None,
    protection: str,
    answers_since: datetime | None = None,
) -> datetime | None:
    """Returns the moment from which a lack of answers is enough to stop it.

    None: it never is, or not as many reminders as the rule wants were accepted yet. `protection` is what
    `protected_because` says. A stopped VM has no firm due time, so no rule stops it again. The whole grace begins again
    at `answers_since`: before, nobody could answer.
    """
    if rule.enforcement is Enforcement.REMIND or protection or due is None:
        return None
    counted = counted_of(rule, standing, due)
    if not counted:
        return None
    last = counted[-1].at
    return (last if answers_since is None else max(last, answers_since)) + rule.grace


def counted_of(rule: ReminderRule, standing: LadderPosition, due: DueMoment) -> tuple[AcceptedStage, ...]:
    """The reminders that a stop rests on, all of them or none, in the order in which they were accepted.

    Only those accepted since it is due for good reason: one about weak evidence, or about idleness that ended
    since, said nothing about this.
    """
    wanted = max(1, rule.stop_after)
    since = [] if due.firm_at is None else [stage for stage in standing.warned if stage.at >= due.firm_at]
    # After an outage of Slack a stage may have been accepted before the one that it follows.
    since.sort(key=lambda stage: stage.at)
    return tuple(since[:wanted]) if len(since) >= wanted else ()


def rule_text(preset: Preset) -> str:
    """`preset a100: stop after 3 unanswered reminders and 1 h`"""
    rule = preset.reminders
    reminders = "reminder" if rule.stop_after == 1 else "reminders"
    return (
        f"preset {preset.name}: {rule.enforcement.value} after {rule.stop_after} unanswered {reminders} "
        f"and {span_text(rule.grace)}"
    )


def reason_text(
    due: DueMoment, counted: tuple[AcceptedStage, ...], idle: Evidence | None, zone: ZoneInfo, now: datetime
) -> str:
    """The sentence that stands in the event of the stop."""
    first, last = (moment_text(stage.at, zone, now) for stage in (counted[0], counted[-1]))
    count = (
        f"{len(counted)} reminders since {first}, the last at {last}"
        if len(counted) > 1
        else f"the reminder of {first}"
    )
    evidence = f"; {idle.sentence}" if idle is not None and idle.state is IdleState.IDLE else ""
    return f"{due.why}{evidence}; no answer to {count}"


def evidence_of(due: DueMoment, counted: tuple[AcceptedStage, ...], idle: Evidence | None) -> Mapping[str, object]:
    """The evidence for the stop, for the audit log."""
    evidence: dict[str, object] = {
        "due_at": due.at.isoformat(),
        "why": due.why,
        "reminders": [{"key": stage.key, "accepted_at": stage.at.isoformat()} for stage in counted],
    }
    if idle is not None:
        evidence["idle"] = {"state": idle.state.value, "since": idle.since.isoformat(), "sentence": idle.sentence}
    return evidence


def protected_because(name: str, project: str, labels: Mapping[str, str], protection: Protection) -> str:
    """`label costguard-protect: nightly-eval`, `project acme-prod`, `name *-prod`; "" where it is not protected."""
    said = labels.get(protection.label)
    if said is not None and said.lower() != "false":
        reason = "" if said.lower() in ("", "true") else f": {said}"
        return f"label {protection.label}{reason}"
    if project in protection.projects:
        return f"project {project}"
    pattern = next((pattern for pattern in protection.names if fnmatchcase(name, pattern)), None)
    return f"name {pattern}" if pattern is not None else ""
