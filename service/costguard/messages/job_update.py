"""Messages about a job: what happened, its state, and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access import teams
from costguard.access.rules import Rules
from costguard.jobs.decide.checkpoints.disk import DiskReading, disk_of
from costguard.jobs.listing.jobs import heard_last
from costguard.jobs.rows import attempts, job_rows, kept_disks
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.narrate import sentence
from costguard.messages import hint
from costguard.messages.announcing import Announcement, Card, Form, JobEvent, announced, is_costly
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.attempt import Attempt, Interruption, Outcome
from costguard.model.delivery.message import NotificationContent
from costguard.model.duration import span_text
from costguard.model.event import Event
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Job, JobKind, JobState, OnHang
from costguard.model.money import ZERO, Priced, priced_text
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage

_LAST_LINES = 15  # of a failed command's output


_WHILE_OPEN = frozenset(
    {
        *(JobEvent.RESUMED, JobEvent.WAITS, JobEvent.HELD, JobEvent.STALLED, JobEvent.AT_RISK, JobEvent.LATE),
        *(JobEvent.DISK, JobEvent.HANGS, JobEvent.GOES_ON, JobEvent.BOUND),
        *(JobEvent.LOSS, JobEvent.STANDS_STILL, JobEvent.UNRECOGNISED, JobEvent.STRAGGLES),
    }
)
_WHILE_WAITING = frozenset({JobEvent.WAITS, JobEvent.HELD})
_TITLES = {
    JobEvent.RESUMED: ("resumed", "{} is running again"),
    JobEvent.WAITS: ("waits", "{} is waiting"),
    JobEvent.HELD: ("budget", "{} is waiting: a budget is spent"),
    JobEvent.FROM_ZERO: ("alarm", "{} restarted from zero"),
    JobEvent.DISK: ("trouble", "{} is running out of disk space"),
    JobEvent.BOUND: ("bound", "{} could run faster"),
    JobEvent.STRAGGLES: ("bound", "{} waits for one of its VMs"),
    JobEvent.DRILLED: ("job", "{} was drilled"),
    JobEvent.STALLED: ("trouble", "{} is saving no checkpoints"),
    JobEvent.UNRECOGNISED: ("trouble", "{}: its checkpoints are not recognised"),
    JobEvent.AT_RISK: ("late", "{} may miss its deadline"),
    JobEvent.LATE: ("late", "{} is past its deadline"),
    JobEvent.HANGS: ("trouble", "{} seems to hang"),
    JobEvent.GOES_ON: ("resumed", "{} makes progress again"),
    JobEvent.LOSS: ("trouble", "{}: its loss went wrong"),
    JobEvent.STANDS_STILL: ("job", "{} may have stopped improving"),
    JobEvent.NOT_LOGGED: ("trouble", "{}: its cost is not logged"),
    JobEvent.GIVEN_UP: ("trouble", "{}: some of its cost was not logged"),
    JobEvent.SUCCEEDED: ("done", "{} has finished"),
    JobEvent.FAILED: ("failed", "{} has failed"),
    JobEvent.CANCELLED: ("trouble", "{} was cancelled"),
}
_STATES = {
    JobState.QUEUED: ("waits", "{} is waiting to start"),
    JobState.PROVISIONING: ("waits", "{} is starting"),
    JobState.RUNNING: ("job", "{} is running"),
    JobState.RECOVERING: ("resumed", "{} is recovering"),
    JobState.SUCCEEDED: ("done", "{} has finished"),
    JobState.FAILED: ("failed", "{} has failed"),
    JobState.CANCELLED: ("trouble", "{} was cancelled"),
}


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job with all of its attempts."""

    job: Job
    attempts: Sequence[Attempt] = ()
    interruptions: Sequence[Interruption] = ()
    cost: Priced = field(default_factory=Priced)
    output: str = ""
    disk: DiskReading | None = None  # of the VM that reported last


def shown(job: Job) -> str:
    """The part of a card that an edit is worth: its cost alone changes all the time."""
    return f"{job.state.value}|{job.reason}"


def read_scene(connection: Connection, accrual: Accrual, job_id: str) -> JobSnapshot | None:
    job = job_rows.read(connection, job_id)
    if job is None:
        return None
    all_attempts = attempts.of_jobs(connection, [job_id]).get(job_id, [])
    interrupted = interruptions.of_jobs(connection, [job_id]).get(job_id, [])
    cost = job_costs.costs(connection, accrual, [job_id])[job_id]
    latest = heard_last(all_attempts)
    last = attempts.read(connection, latest.id) if latest is not None else None
    if last is None:
        return JobSnapshot(job, all_attempts, interrupted, cost)
    return JobSnapshot(job, all_attempts, interrupted, cost, last.agent.output, disk_of(last.agent.machine))


def outdated(job: Job, event: Event) -> str:
    """Explains why the event is no longer news by the time Slack accepts it; "" while it is."""
    if event.kind in _WHILE_OPEN and job.state.is_over:
        return "the job is over"
    return "the job is running" if event.kind in _WHILE_WAITING and job.state is JobState.RUNNING else ""


def card(scene: JobSnapshot, url: str) -> NotificationContent:
    """The job as it is now."""
    icon, title = _STATES[scene.job.state]
    is_failed = scene.job.state is JobState.FAILED
    return NotificationContent(
        icon=icon,
        title=title.format(_name(scene.job)),
        text=sentence(scene.job.reason),
        figures=_figures(scene),
        url=url,
        output=_last_lines(scene.output) if is_failed else "",
    )


def news(scene: JobSnapshot, event: Event, url: str) -> NotificationContent:
    """The event, with figures as they are now."""
    kind = JobEvent(event.kind)
    icon, title = _TITLES[kind]
    return NotificationContent(
        icon=icon,
        title=title.format(_name(scene.job)),
        text=event.text,
        figures=_figures(scene),
        what_next=_what_next(scene, kind, event),
        url=url,
        output=_output(scene, kind),
        buttons=hint.buttons(scene.job, event) if kind is JobEvent.STANDS_STILL else (),
    )


def _name(job: Job) -> str:
    return f"Dev VM {job.title}" if job.spec.kind is JobKind.DEV else job.title


def _figures(scene: JobSnapshot) -> dict[str, str]:
    job, figures = scene.job, {"Job": f"{scene.job.id}, preset {scene.job.spec.preset}", "Owner": scene.job.spec.owner}
    if scene.attempts:
        figures |= _vms(scene)
        steps = [attempt.agent.step for attempt in scene.attempts if attempt.agent.step is not None]
        if steps:
            figures["Step"] = f"{steps[-1]:,}"
        figures["Attempts"] = _attempts(scene)
    cost, ceiling = scene.cost, job.spec.ceiling
    shown = priced_text(cost)
    figures["Cost so far"] = shown if ceiling is None else f"{shown} of at most {ceiling}"
    if scene.disk is not None and scene.disk.text:
        figures["Disk"] = scene.disk.text.removeprefix("disk ")
    if back := _last_recovery(scene.interruptions):
        figures["Last recovery"] = back
    lost = sum(
        (interruption.lost for interruption in scene.interruptions if interruption.lost is not None), timedelta()
    )
    if lost:
        dollars = sum(
            (interruption.lost_cost for interruption in scene.interruptions if interruption.lost_cost is not None), ZERO
        )
        figures["Work lost"] = f"{span_text(lost)}, {dollars}"
    return figures


def _vms(scene: JobSnapshot) -> dict[str, str]:
    """`{"VM": "cg-j1-2 in us-central1-a, Spot"}`, and of a gang `{"VMs": "3 of 4 in us-central1-a, Spot"}`."""
    last, count = scene.attempts[-1], scene.job.spec.vm_count
    where = f"{last.zone}, {'Spot' if last.provisioning_model is ProvisioningModel.SPOT else 'on-demand'}"
    if not scene.job.is_gang:
        return {"VM": f"{last.name} in {where}"}
    there = len({attempt.node for attempt in scene.attempts if attempt.is_open and attempt.made_at is not None})
    return {"VMs": f"{count} in {where}" if there in (0, count) else f"{there} of {count} in {where}"}


def _last_recovery(interruptions: Sequence[Interruption]) -> str:
    """`back after 3 min 10 s`; "" before the first one."""
    took = [
        interruption.resumed_at - interruption.happened_at
        for interruption in interruptions
        if interruption.resumed_at is not None
    ]
    return f"back after {span_text(took[-1])}" if took else ""


def _attempts(scene: JobSnapshot) -> str:
    preempted = sum(interruption.outcome is Outcome.PREEMPTED for interruption in scene.interruptions)
    crashed = sum(attempt.outcome is Outcome.CRASHED for attempt in scene.attempts)
    parts = [str(len(scene.attempts))]
    parts += [f"{preempted} preempted"] if preempted else []
    parts += [f"{crashed} crashed"] if crashed else []
    return ", ".join(parts)


def _last_lines(output: str) -> str:
    return "\n".join(output.rstrip().splitlines()[-_LAST_LINES:])


_MOST_WHERE = 2000  # characters of stacks


def _output(scene: JobSnapshot, kind: JobEvent) -> str:
    """The last lines; of a hang also where it stands."""
    if kind not in (JobEvent.FAILED, JobEvent.HANGS):
        return ""
    hangs = [attempt.agent.hang for attempt in scene.attempts if kind is JobEvent.HANGS and attempt.is_open]
    where = next((hang.where[:_MOST_WHERE] for hang in reversed(hangs) if hang is not None), "")
    return "\n\n".join(part for part in (_last_lines(scene.output), where) if part)


def _what_next(scene: JobSnapshot, kind: JobEvent, event: Event) -> str:
    job = scene.job
    plan = job.spec.checkpoint
    where = plan.location if plan is not None and not plan.is_on_disk else ""
    match kind:
        case JobEvent.FAILED:
            more = f"See all of its output: costguard output {job.id}"
            return f"{more}. {kept}" if (kept := _kept_disk(scene)) else more
        case JobEvent.CANCELLED:
            return _kept_disk(scene)
        case JobEvent.DRILLED:
            return f"See its drills: costguard job {job.id}"
        case JobEvent.FROM_ZERO if where and event.data.get("saved", True):
            return f"List its checkpoints, and why none could be used: costguard checkpoints {where}"
        case JobEvent.FROM_ZERO | JobEvent.AT_RISK | JobEvent.LATE:
            return f"See its history: costguard job {job.id}"
        case JobEvent.DISK:
            return (
                "Let the command delete what it does not need, such as old checkpoints: on a full disk it fails."
                " Launch it with a larger disk next time: --disk."
            )
        case JobEvent.BOUND | JobEvent.STRAGGLES:
            return f"Nothing is changed by itself. See what it rests on: costguard diagnose {job.id}"
        case JobEvent.STALLED:
            return (
                "Check that the command saves to the job's checkpoint location: unsaved work is lost with its VM."
                f" If it hangs: costguard cancel {job.id}"
            )
        case JobEvent.UNRECOGNISED if "://" in where and not (plan is not None and plan.local):
            return f"See what lies there: costguard checkpoints {where}"
        case JobEvent.LOSS:
            return f"See its output: costguard output {job.id}. Stop it: costguard cancel {job.id}"
        case JobEvent.STANDS_STILL:
            return hint.what_next(job, event)
        case JobEvent.HANGS if job.spec.on_hang is OnHang.TELL:
            return (
                f"See all of its output: costguard output {job.id}. Stop it: costguard cancel {job.id}."
                " A job launched with --on-hang restart runs again by itself."
            )
        case JobEvent.WAITS:
            return "It continues automatically. See which zones were out of stock: costguard places"
        case JobEvent.HELD:
            return "It continues automatically in the next period, or once the limit is raised: costguard budgets"
        case _:
            return ""


def _kept_disk(scene: JobSnapshot) -> str:
    """Advises on a kept disk; "" without one."""
    if kept_disks.attempt_of(scene.job, scene.attempts) is None:
        return ""
    return (
        "Its VM is stopped. Its disk is kept, because it holds the only copy of what the job saved, and is billed."
        f" Once you no longer need it: costguard delete-disk {scene.job.id}"
    )


CARD = "job"
NEWS = "notification"
KINDS = tuple(JobEvent)


class CardComposer:
    """`url` is the dashboard's address; "" without one."""

    def __init__(self, url: str = "") -> None:
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """The job as it is now. A job that ended before Slack accepted the card needs none."""
        accrual = accrual_at(connection, now)
        scene = read_scene(connection, accrual, _job_of(message))
        if scene is None:
            return Withdrawn("its job is not in the ledger")
        is_over = scene.job.state.is_over
        if is_over and message.status != "accepted":
            return Withdrawn("the job is over")
        content = card(scene, f"{self._url}/jobs/{scene.job.id}" if self._url else "")
        return Composed(content, shown(scene.job), is_final=is_over)

    def changed(self, connection: Connection, live: Sequence[StoredMessage], now: datetime) -> list[StoredMessage]:  # noqa: ARG002 one of several
        """Messages that show an outdated state."""
        jobs = job_rows.of_ids(connection, {_job_of(message) for message in live})
        now_shown = {job_id: shown(job) for job_id, job in jobs.items()}
        return [message for message in live if now_shown.get(_job_of(message)) != message.shown]


def messages_of(connection: Connection, events: Sequence[Event], rules: Rules, now: datetime) -> Iterator[NewMessage]:
    """Messages about these events to each job's owner and its team's channel: see announcing.py."""
    by_job: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_job[job_id(event)].append(event)
    jobs = job_rows.of_ids(connection, by_job)
    interrupted = interruptions.of_jobs(connection, list(jobs))
    cards = message_rows.data_of(connection, [_card_key(job_id) for job_id in jobs])
    for job in jobs.values():
        if job.spec.sweep:
            yield from _of_member(by_job[job.id], job, rules)
            continue
        news = [event for event in by_job[job.id] if not _is_owners_request(event, job)]
        card = _card(cards.get(_card_key(job.id)))
        quick = rules.jobs.terms.quick_crash
        for announcement in announced(news, interrupted.get(job.id, ()), card, quick, now):
            yield from _of_owner(announcement, job)
            channel = teams.channel_of(teams.team_of(job.spec.project, job.spec.owner, rules.teams), rules)
            if announcement.is_for_team and channel:
                key = f"notice/{announcement.event.key}/channel"
                yield NewMessage(key, NEWS, channel, _data(announcement.event, job))


_OF_MEMBERS = frozenset(
    {JobEvent.FROM_ZERO, JobEvent.DISK, JobEvent.STALLED, JobEvent.HANGS, JobEvent.LOSS}
)  # its sweep's card shows the rest


def _of_member(events: Sequence[Event], job: Job, rules: Rules) -> Iterator[NewMessage]:
    """Announces of a member of a sweep only what loses work or may: in the thread of its sweep's card."""
    for event in events:
        kind = JobEvent(event.kind)
        is_cheap = kind is JobEvent.FROM_ZERO and not is_costly(event, rules.jobs.terms.quick_crash)
        if kind in _OF_MEMBERS and not is_cheap:
            data, thread = _data(event, job), f"sweep:{job.spec.sweep}"
            yield NewMessage(f"notice/{event.key}", NEWS, job.spec.owner, data, thread=thread)


def _of_owner(announcement: Announcement, job: Job) -> Iterator[NewMessage]:
    thread = f"job:{job.id}"
    if announcement.form is Form.CARD:
        data = {"job": job.id, "event": announcement.event.key, "episode": announcement.episode}
        yield NewMessage(_card_key(job.id), CARD, job.spec.owner, data, thread=thread)
    else:
        in_thread = thread if announcement.form is Form.REPLY else ""
        yield NewMessage(
            f"notice/{announcement.event.key}", NEWS, job.spec.owner, _data(announcement.event, job), thread=in_thread
        )


def _data(event: Event, job: Job) -> dict[str, object]:
    data: dict[str, object] = {"events": [event.key], "job": job.id}
    return {**data, "hint": True} if hint.is_hint(event) else data


def _card_key(job: str) -> str:
    return f"job/{job}/owner"


def _card(data: Mapping[str, object] | None) -> Card | None:
    if data is None:
        return None
    episode = data.get("episode")
    return Card(str(data.get("event", "")), episode if isinstance(episode, int) else None)


def job_id(event: Event) -> str:
    return str(event.data.get("job", ""))


def _is_owners_request(event: Event, job: Job) -> bool:
    return event.kind == JobEvent.CANCELLED and event.actor.lower() == job.spec.owner.lower()


def _job_of(message: StoredMessage) -> str:
    return str(message.data["job"])
