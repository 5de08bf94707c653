"""Applies an agent's events to the state of its attempt. The event kinds are those of the agent's PROTOCOL.md."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from math import isfinite

from costguard.jobs.decide.profile.job_profile import ProfileWindow
from costguard.jobs.decide.recovery.log_ends import last_line, lost_peer, retry_of
from costguard.jobs.reports.figures import plain_figures
from costguard.jobs.rows import agent_fields
from costguard.jobs.rows.agent_fields import DrillReport, MeasuredMinute, drill_report
from costguard.model.attempt import STANDING_BY, AgentState, AttemptState, EndedRound, Exit
from costguard.model.job import SeenCheckpoint
from costguard.model.reported.metric import HIGHER, LOWER, BestCheckpoint, MetricValue, SeenMetric
from costguard.model.reported.progress import SeriesPoint
from costguard_vm.model.checkpoint import MOST_PASSED_OVER

MOST_OUTPUT = 32 << 10  # bytes; the end of it counts
_MOST_NUMBER = 2**63 - 1  # what the database holds
_MOST_ERROR = 2000  # characters
_SHORT = 100
_MOST_SECONDS = 1e8
_MOST_NAMES = 20
_MOST_ROUNDS = 2**31 - 1  # what its column holds
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

# Events that a job's next step may wait for; heartbeats are none.
_NEWS = frozenset({"start", "notice", "stopping", "exit", "round_ended"})

_AWAITS_START = frozenset({AttemptState.BOOTING, AttemptState.RESTARTING})


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event from an agent. Fields that a later agent adds are ignored."""

    seq: int
    kind: str
    at: datetime  # by the VM's clock
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentUpdate:
    """The changes by an agent's events."""

    agent: AgentState
    state: AttemptState | None = None  # where this takes the attempt; None leaves it where it is
    started_run: bool = False  # the agent reported the start of the present run
    is_news: bool = False
    look: SeenCheckpoint | None = None  # the latest look at the VM's own disk
    resumed: SeenCheckpoint | None = None  # the look by which the present run began; None for a first one
    resume_why: str = ""  # why the present run did not resume from the newest complete checkpoint
    flushed: FlushedCheckpoints | None = None  # what was uploaded while a run was stopped
    activity: tuple[MeasuredMinute, ...] = ()
    profile: tuple[ProfileWindow, ...] = ()
    unrecognised: str = ""  # what it saves that no layout knows
    upload_trouble: str = ""  # why checkpoints are not uploaded
    points: tuple[SeriesPoint, ...] = ()  # of the curves
    rank: int | None = None  # its place in the round of an elastic gang, as its last event says; None: its node
    drills: tuple[DrillReport, ...] = ()
    interval_asked: IntervalAsked | None = None  # the agent asks how often its command is to save


@dataclass(frozen=True, slots=True)
class IntervalAsked:
    """`save`: how long a save took that the agent asked for; None: none was measured."""

    save: timedelta | None


@dataclass(frozen=True, slots=True)
class FlushedCheckpoints:
    """Checkpoints by name: those uploaded to the location by the end of a run that was stopped, and those not
    in time.
    """

    why: str
    saved: tuple[str, ...]
    left: tuple[str, ...]
    error: str


_FURTHEST = 1_000_000  # how far an agent's numbers may run ahead, as after a restored backup; a year of reports


def apply_events(
    before: AgentState,
    state: AttemptState,
    events: Sequence[AgentEvent],
    now: datetime,
    sent_at: datetime,
    *,
    is_over: bool = False,
) -> AgentUpdate:
    """Apply the events that are new, in their order.

    An event whose number is far ahead is left out, or all that follow would count as old. Where the attempt `is_over`,
    only its last run is heard: someone may have started its VM to fetch what is on its disk, and how the job ended
    stays written down. Moments are the guard's: `sent_at` is the VM's for `now`, so that a clock that is wrong there
    misleads nobody here.
    """
    shift = now - sent_at
    update = AgentUpdate(replace(before, at=now))
    for event in sorted(events, key=lambda event: event.seq):
        if 0 < event.seq - update.agent.accepted_through <= _FURTHEST:
            update = replace(update, agent=replace(update.agent, accepted_through=event.seq))
            if not (is_over and (_number(event.fields.get("run")) or 0) > max(before.run, 1)):
                update = _take(update, event, now, shift)
    runs = update.started_run and update.agent.exit is None
    return replace(update, state=AttemptState.RUNNING if runs and state in _AWAITS_START else None)


def _take(update: AgentUpdate, event: AgentEvent, now: datetime, shift: timedelta) -> AgentUpdate:
    run = _number(event.fields.get("run"))
    if run is None or run < update.agent.run:
        return update  # of a later protocol, or of a run that is over
    if run > update.agent.run:
        update = replace(update, agent=_begun(update.agent, run), started_run=False)
    agent, fields = update.agent, event.fields

    def moment(value: object) -> datetime:
        """Converts a time to the guard's clock; it is never in the future."""
        return min(now, (_moment(value) or event.at) + shift)

    match event.kind:
        case "boot":
            agent = replace(agent, booted_at=agent.booted_at or moment(event.at))
        case "start":
            if agent.started_at is None:
                agent = replace(agent, step=None, step_at=None)
            agent = replace(agent, started_at=agent.started_at or moment(fields.get("started_at")))
            agent = replace(agent, setup=_span(fields.get("setup_s")) or agent.setup)
        case "heartbeat" if fields.get("is_running") is True and agent.started_at is None:
            # Its start was reported before the database was replaced by an older one: it began before this.
            agent = replace(agent, started_at=moment(event.at))
            update = replace(update, started_run=True)
        case "image":
            agent = replace(agent, image_digest=_digest(fields.get("digest")) or agent.image_digest)
        case "best" if agent.metric is not None and (kept := _best_checkpoint(fields)) is not None:
            agent = replace(agent, metric=replace(agent.metric, kept=kept))
        case "notice" if fields.get("what") == "preemption":
            agent = replace(agent, noticed_at=agent.noticed_at or moment(event.at))
        case "notice" if fields.get("what") == "maintenance":
            agent = replace(agent, maintenance_at=agent.maintenance_at or moment(event.at))
        case "exit" if agent.exit is None:
            agent = replace(agent, exit=_exit(fields, moment(fields.get("ended_at"))))
        case "round_ended" if agent.ended_round is None:
            agent = replace(agent, ended_round=_ended_round(fields, moment(fields.get("ended_at"))))
    agent, update = _in_gang(agent, fields), replace(update, rank=_number(fields.get("rank")))
    step = _number(fields.get("step"))
    if step is not None and step != agent.step:
        agent = replace(agent, step=step, step_at=moment(fields.get("step_at")))
    if (metric := _metric(fields.get("metric"), moment)) is not None:
        agent = replace(agent, metric=metric if agent.metric is None else agent.metric.then(metric))
    update = _measured_minute(update, event, agent, moment)
    agent, update = _progressed(update, event, agent, moment)
    agent, update = _at_work(agent, event, moment), _uploads(update, event, moment)
    if isinstance(seen := fields.get("checkpoint"), Mapping):
        update = replace(update, look=_look(seen, now, moment))
        if event.kind == "start":
            update = replace(update, resumed=update.look, resume_why=_text(seen.get("why"), _MOST_ERROR))
    return replace(
        update,
        agent=agent,
        started_run=update.started_run or event.kind == "start",
        is_news=update.is_news or event.kind in _NEWS,
    )


def _begun(last: AgentState, run: int) -> AgentState:
    """The next run: where the one before stood is known until this one says otherwise."""
    return AgentState(
        last.at,
        run,
        step=last.step,
        step_at=last.step_at,
        metric=last.metric,
        progress=last.progress,
        transfers=last.transfers,
        image_digest=last.image_digest,
        internal_address=last.internal_address,
        accepted_through=last.accepted_through,
    )


def _progressed(
    update: AgentUpdate, event: AgentEvent, agent: AgentState, moment: agent_fields.Moment
) -> tuple[AgentState, AgentUpdate]:
    """Where the training stands, and the points of its curves."""
    if (progress := agent_fields.progress_of(event.fields.get("progress"), moment)) is not None:
        agent = replace(agent, progress=progress)
    if event.kind == "progress":
        points = agent_fields.points_of(agent.run, event.fields.get("points"), moment)
        update = replace(update, points=(*update.points, *points))
    return agent, update


def _measured_minute(
    update: AgentUpdate, event: AgentEvent, agent: AgentState, moment: Callable[[object], datetime]
) -> AgentUpdate:
    if event.kind == "profile" and (
        window := agent_fields.profile_window_of(agent.run, event.fields, moment(event.at))
    ):
        return replace(update, profile=(*update.profile, window)[-agent_fields.MOST_WINDOWS :])
    if event.kind != "activity" or (minute := agent_fields.minute_of(event.fields)) is None:
        return update
    measured = MeasuredMinute(agent.run, moment(event.at), minute, agent.step, agent.step_at)
    return replace(update, activity=(*update.activity, measured)[-agent_fields.MOST_MINUTES :])


def _at_work(agent: AgentState, event: AgentEvent, moment: Callable[[object], datetime]) -> AgentState:
    """Reads the command's output, the load of its VM, the agent's phase, and the data that it moves."""
    if (output := _printed(event.fields.get("output"))) is not None:
        agent = replace(agent, output=_end_of(output))
    if isinstance(machine := event.fields.get("machine"), Mapping):
        agent = replace(agent, machine=plain_figures(machine))
    if event.kind not in ("heartbeat", "exit"):
        return agent
    transfers = agent_fields.transfers_of(agent.transfers, event.fields.get("transfers"))
    hang = agent_fields.hang_of(agent.hang, event.fields, moment) if event.kind == "heartbeat" else None
    return replace(agent, phase=_text(event.fields.get("phase"), _SHORT), transfers=transfers, hang=hang)


def _in_gang(agent: AgentState, fields: Mapping[str, object]) -> AgentState:
    """Reads where a gang's VM is reached by the others, and which round it is ready for."""
    number, address = _number(fields.get("round")), _text(fields.get("address"), _SHORT)
    if number is None or number > _MOST_ROUNDS:
        return agent
    with contextlib.suppress(ValueError):
        if "%" not in address:  # a zone of IPv6 may be any text (RFC 4007), and other VMs get the address as it is
            agent = replace(agent, internal_address=str(ip_address(address)))
    is_ready = fields.get("phase") == STANDING_BY and agent.internal_address != ""
    return replace(agent, ready_round=max(agent.ready_round, number)) if is_ready else agent


def _ended_round(fields: Mapping[str, object], at: datetime) -> EndedRound | None:
    number = _number(fields.get("round"))
    if number is None or number > _MOST_ROUNDS:
        return None
    output = _end_of(_printed(fields.get("output")) or "")
    unreached = fields.get("unreached")
    nodes = [one.get("node") for one in unreached if isinstance(one, Mapping)] if isinstance(unreached, list) else []
    return EndedRound(
        number,
        _exit(fields, at),
        lost_peer=lost_peer(output),
        unreached=tuple(node for node in nodes[:_MOST_NAMES] if type(node) is int and node >= 0),
    )


def _exit(fields: Mapping[str, object], at: datetime) -> Exit:
    figures = fields.get("machine")
    machine: Mapping[str, object] = figures if isinstance(figures, Mapping) else {}
    output = _end_of(_printed(fields.get("output")) or "")
    return Exit(
        reason=_text(fields.get("reason"), _SHORT) or "cut_off",
        at=at,
        code=_number(fields.get("code")),
        signal=_number(fields.get("signal")),
        error=_text(fields.get("error"), _MOST_ERROR),
        asked=_text(fields.get("asked"), _SHORT),
        repeats=fields.get("repeats") is True,
        disk_free=_number(machine.get("disk_free_bytes")),
        disk_mount=_text(machine.get("disk_mount"), _SHORT),
        last_line=last_line(output),
        retry=retry_of(output),
    )


def _uploads(update: AgentUpdate, event: AgentEvent, moment: Callable[[object], datetime]) -> AgentUpdate:
    if event.kind == "flushed":
        return replace(update, flushed=_flushed(event.fields))
    if event.kind == "drill" and (report := drill_report(event.fields, moment)) is not None:
        return replace(update, drills=(*update.drills, report))
    if event.kind == "save":
        return replace(update, interval_asked=IntervalAsked(_span(event.fields.get("save_s"))))
    if event.kind == "unrecognised":
        return replace(update, unrecognised=_text(event.fields.get("text"), _MOST_ERROR))
    if event.kind == "not_uploaded":
        return replace(update, upload_trouble=_text(event.fields.get("error"), _MOST_ERROR))
    return update


def _flushed(fields: Mapping[str, object]) -> FlushedCheckpoints:
    saved, left = (_names(fields.get(name)) for name in ("saved", "left"))
    return FlushedCheckpoints(_text(fields.get("why"), _SHORT), saved, left, _text(fields.get("error"), _MOST_ERROR))


def _names(value: object) -> tuple[str, ...]:
    return tuple(_text(one, _SHORT) for one in value[:_MOST_NAMES] if one) if isinstance(value, list) else ()


def _digest(value: object) -> str:
    return value if isinstance(value, str) and _DIGEST.fullmatch(value) else ""


def _look(seen: Mapping[str, object], now: datetime, moment: Callable[[object], datetime]) -> SeenCheckpoint:
    """Reads the agent's look at its VM's disk. A path is kept as it is, since a command is given it."""
    error, resume_from = _text(seen.get("error"), _MOST_ERROR), seen.get("resume_from")
    torn = seen.get("torn")
    is_there = isinstance(resume_from, str) and 0 < len(resume_from) <= _MOST_ERROR and not error
    return SeenCheckpoint(
        looked_at=now,
        resume_from=str(resume_from) if is_there else "",
        step=_number(seen.get("step")) if is_there else None,
        written_at=moment(seen.get("written_at")) if is_there else None,
        torn=tuple(_text(one, _MOST_ERROR) for one in torn[:MOST_PASSED_OVER]) if isinstance(torn, list) else (),
        error=error,
        files=_number(seen.get("files")),
        unrecognised=_text(seen.get("unrecognised"), _MOST_ERROR),
    )


def _metric(seen: object, moment: Callable[[object], datetime]) -> SeenMetric | None:
    if not isinstance(seen, Mapping) or (better := seen.get("better")) not in (LOWER, HIGHER):
        return None
    last, best = _measured(seen.get("last"), moment), _measured(seen.get("best"), moment)
    finite = best if best is not None and best.value is not None else None
    return None if last is None else SeenMetric(better, last, finite)


def _best_checkpoint(fields: Mapping[str, object]) -> BestCheckpoint | None:
    """Reads the best checkpoint; None where something of it is missing."""
    place, step, text = _text(fields.get("place"), _MOST_ERROR), _number(fields.get("of_step")), fields.get("value")
    try:
        number = float(_text(text, _SHORT))
    except ValueError:
        return None
    return BestCheckpoint(place, step, repr(number)) if place and step is not None and isfinite(number) else None


def _measured(seen: object, moment: Callable[[object], datetime]) -> MetricValue | None:
    if not isinstance(seen, Mapping):
        return None
    try:
        number = float(_text(seen.get("value"), _SHORT))
    except ValueError:
        return None
    return MetricValue(repr(number), _number(seen.get("step")), moment(seen.get("at")))


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_NUMBER else None


def _span(value: object) -> timedelta | None:
    if not isinstance(value, int | float) or not 0 <= value < _MOST_SECONDS:
        return None
    return timedelta(seconds=round(value, 3))


def _text(value: object, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""


def _moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None or not 1970 <= moment.year <= 2999:
        return None
    return moment.astimezone(UTC)


def _printed(output: object) -> str | None:
    """Output arrives line by line."""
    if isinstance(output, list):
        return "\n".join(line for line in output if isinstance(line, str))
    return output if isinstance(output, str) else None


def _end_of(output: str) -> str:
    """A character of which only a part would fit is left out."""
    encoded = output.encode("utf-8", "replace")
    return encoded[-MOST_OUTPUT:].decode("utf-8", "ignore")
