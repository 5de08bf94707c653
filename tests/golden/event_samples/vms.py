"""Events of VMs and projects, recorded as the ledger, reminders and the outbox record them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tests.authenticators import make_principal
from tests.builders import KEY, PROJECT, at, lifetime, observation, operation
from tests.reminders.execute_setup import ANA, Scene

from costguard.db.transaction import Database
from costguard.errors import RateLimited, SlackError
from costguard.events import audit_log
from costguard.ledger import narrate
from costguard.ledger.discovery import narrate as discovered
from costguard.ledger.discovery.rules import WatchedProject
from costguard.ledger.idle.watch import IdleWatch
from costguard.messages import outbox, slack_health
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.action import Action, AssignOwner, KeepLifetime
from costguard.model.event import Event
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.lifetime import Attribution, EndReason
from costguard.model.observation import Unread
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.record import InstanceRecord, KnownInstance, RefusedChange
from costguard.model.reminder import RequestKind, Target
from costguard.model.utilisation import IdleRule, Metric, Sample, Usage
from costguard.reminders import requests, watched_rows
from costguard.reminders.execute import ShadowExecutor

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_RUN = lifetime("10:00")
_RECORD = InstanceRecord(
    KEY, "vm", "us-central1-a", Status.RUNNING, at("09:59"), _RUN.shape, ProvisioningModel.STANDARD,
    Attribution("a100", ANA), "f", at("10:01"), created_by=ANA,
)  # fmt: skip


def record(database: Database) -> None:
    now = at("12:00")
    with database.write() as connection:
        audit_log.append(connection, [*_narrated(), *_of_slack()], now)
    _idle(database)
    _answers(database)
    _stops(database)


def _narrated() -> list[Event]:
    ended = lifetime("10:00", "11:00", EndReason.PREEMPTED, ended_by="system")
    stopped = lifetime("10:00", "11:05", EndReason.STOPPED, ended_by=ANA)
    moved = replace(_RECORD, attribution=Attribution("a100", "bo@example.com"), gone_at=at("11:30"))
    unread = Unread("us-central1-a", "us-central1-a of acme-training cannot be read.", "permission")
    failed = narrate.tell_failed(
        operation("start", "10:00", "10:01", operation_id="77", error_code="QUOTA_EXCEEDED", error_message="No quota.")
    )
    gap = narrate.tell_gap(PROJECT, at("2026-10-01T00:00"), at("12:00"))
    place, denied = "organizations/719", Unread("project", "Searching for projects was denied.", "permission")
    searches_fail = discovered.tell_search(place, "", denied, at("11:51"))
    searches_resume = discovered.tell_search(place, "permission", None, at("11:59"))
    assert failed is not None
    assert gap is not None
    return [
        *narrate.tell(None, _RECORD, [ended], at("12:00")),
        *narrate.tell(KnownInstance(1, _RECORD, (ended,)), moved, [stopped], at("12:00")),
        *narrate.tell_looks(observation(unread=(unread,)), ()),
        *narrate.tell_looks(observation(read="12:01"), (unread,)),
        narrate.tell_unwatched(PROJECT, at("12:00")),
        discovered.tell_found(WatchedProject(PROJECT, "719", at("11:50"), at("11:50")), at("11:50")),
        discovered.tell_unnamed("720", at("11:50")),
        *(event for event in (searches_fail, searches_resume) if event is not None),
        narrate.tell_refused(RefusedChange(_RECORD, "", at("10:00"), at("11:00")), at("12:00")),
        failed,
        gap,
    ]


def _of_slack() -> list[Event]:
    refused = SlackError("Slack says that the channel is archived.", "", code="is_archived")
    return [slack_health.troubled("#gpus", refused, at("12:00")), slack_health.resumed("#gpus", at("12:10"))]


def _idle(database: Database) -> None:
    """Records that a VM is idle for two hours, and busy after that."""
    scene = Scene(database)
    scene.run(9)
    presets = {OTHER: Preset(OTHER, Match(), None, idle=IdleRule(500, 500, HOUR))}
    watch = IdleWatch(database, _NoSource(), scene.clock, lambda: [PROJECT], presets, 5 * MINUTE)
    for now, value in ((at("12:30"), 100), (at("13:30"), 9000)):
        scene.clock.moment = now
        samples = tuple(Sample(now - number * MINUTE, value) for number in reversed(range(4, 124)))
        metrics = (Metric.GPU, Metric.SM, Metric.CPU, Metric.RECEIVED, Metric.SENT)
        watch.record([Usage(PROJECT, {("1009", metric): (samples,) for metric in metrics})])


class _NoSource:
    """Reads nothing: the measurements are given."""

    def usage(self, project: str, since: datetime, until: datetime, *, with_vertex: bool = False) -> Usage:
        raise AssertionError(project, since, until)


def _answers(database: Database) -> None:
    scene = Scene(database)
    subject = scene.run(1)
    keep = scene.ask(subject, RequestKind.KEEP, reason="the last epoch")
    claim, disown = scene.ask(subject, RequestKind.CLAIM), scene.ask(subject, RequestKind.DISOWN)
    actions: list[Action] = [
        KeepLifetime(keep, at("16:00"), "Ana keeps it."),
        AssignOwner(claim, ANA, "Ana claims it."),
        AssignOwner(disown, "", "Ana does not own it."),
    ]
    scene.executor().carry_out(actions)
    with database.write() as connection:
        (row,) = watched_rows.read(connection, [subject.instance_id])
        admin = replace(make_principal(address="root@lab.example").authority, token_id="0123456789")
        token = replace(keep, via="api", authority=admin)
        for key, request, refused in (
            ("made", keep, None), ("by-token", token, None), ("refused", keep, "It was stopped since you looked."),
        ):  # fmt: skip
            requests.store(connection, replace(request, id=None, key=key), row, "vm-1", refused)
        reminder = StoredMessage(
            1, "reminder/run-1-1/0/0/owner", "reminder", ANA, {"reason": "it has run for 8 h"}, "accepted",
            at("12:00"), at("12:00"), subject, subject.instance_id, target=Target.OWNER,
        )  # fmt: skip
        audit_log.append(connection, outbox.sent(connection, reminder, at("12:00")), at("12:00"))


def _stops(database: Database) -> None:
    """Records a stop for each outcome that has an event."""
    scene = Scene(database)
    ordered, changed, shadow = scene.run(2), scene.run(3), scene.run(4)
    scene.executor().carry_out([scene.stop_by_rule(ordered, 2)])
    scene.google.vms[PROJECT, "us-central1-a", "vm-3"].status = Status.STOPPED
    scene.executor().carry_out([scene.stop_by_rule(changed, 3)])
    ShadowExecutor(database, scene.clock, scene.executor()).carry_out([scene.stop_by_rule(shadow, 4)])
    failing = scene.run(5)
    scene.google.troubles = [RateLimited("Google refuses it: too many requests.")] * 9
    executor = scene.executor()
    executor.carry_out([scene.stop_by_rule(failing, 5)])
    while scene.stop(failing).settled_at is None:
        scene.clock.moment = scene.stop(failing).try_after
        executor.settle()
