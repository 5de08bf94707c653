"""Checks every stop that the guard asks of Google for a person, by who may stop what at that moment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select
from tests.scenario.fleet import MINUTE
from tests.simulation import job_vms
from tests.simulation.story import Story, Topic

from costguard.db.tables import instances, stops
from costguard.model.duration import span_text
from costguard_sandbox.gce.operations import Operation

if TYPE_CHECKING:
    from tests.simulation.life import Life


def stops_for_nobody(story: Story) -> Iterator[str]:
    """Stops of people's VMs, by when they left the guard: Google may have had them later, or never.

    A run is stopped for a person who may stop it at that moment, and who was not answered by a keep since, or by the
    rule that the settings have at that moment, as is written down. However
    often it is asked for, it is under the id that was written down first, so that Google does it once.
    """
    for stop in story.life.wire.stops:
        at = stop.at
        runs = [one for one in story.topics if one.is_run and str(one.vm.id) == stop.vm_id and one.began <= at]
        if not runs:
            continue
        topic = max(runs, key=lambda one: one.began)
        late = 2 * story.life.guard_clock.worst
        ordered = [row for row in topic.stops if row.intended_at <= at + late]
        if not ordered:
            yield f"a stop of {topic.vm.name} ({topic.subject}) was asked for at {at}, and nobody wanted it"
            continue
        row = next((one for one in topic.stops if one.request_uuid == stop.request_id), ordered[-1])
        if row.request_uuid != stop.request_id and stop.by != ":stop":
            yield f"a stop of {topic.vm.name} ({topic.subject}) was asked for at {at} under an id that is not its own"
        if row.request_id is None and (grounds := _grounds(topic, at)) not in row.rule:
            yield f"a stop of {topic.vm.name} ({topic.subject}) was asked for at {at} by {row.rule}: {grounds}"
        request = next((one for one in topic.requests if one.id == row.request_id), None)
        if request is not None and (reason := _why_not(topic, request, at)):
            yield f"a stop of {topic.vm.name} ({topic.subject}) was asked for at {at} for {request.by}: {reason}"


def asked_at(life: Life, operation: Operation) -> datetime:
    """Returns when the guard last asked for what Google began then: a request may have been on its way for long."""
    sent = [
        stop.at
        for stop in life.wire.stops
        if stop.request_id == operation.request_id and stop.at <= operation.insert_time
    ]
    return max(sent, default=operation.insert_time)


def work_is_stopped_by_rule(life: Life, connection: Connection) -> Iterator[str]:
    """No rule stops a VM whose command runs, or which its job's owner has to work on."""
    named = select(stops.c.intended_at, instances.c.gce_id, instances.c.name)
    by_rule = named.join(instances, instances.c.id == stops.c.instance_id).where(stops.c.request_id.is_(None))
    for row in connection.execute(by_rule):
        agent = life.jobs.agents.get(int(row.gce_id))
        if agent is None or not any(
            stop.vm_id == row.gce_id and stop.at >= row.intended_at for stop in life.wire.stops
        ):
            continue
        worked = [*agent.worked, *([(agent.starts_at, life.now)] if agent.starts_at and not agent.is_over else [])]
        if agent.training.is_dev or any(began <= row.intended_at < ended for began, ended in worked):
            yield f"a rule stopped {row.name} at {row.intended_at}, which worked on job {agent.job}"


def kept_vms_are_left_alone(life: Life) -> list[str]:
    """No way of the guard stops or deletes a kept VM behind its keeper, or by a stop of it that is not allowed.

    Its group would recreate it on a fresh boot disk, and Workbench would show an orphan. What Google was asked for
    counts, whether it arrived or not.
    """
    life.counts["VMs that another keeps"] = len(life.fleet.kept)
    kept = {str(vm_id): kind for vm_id, kind in life.fleet.kept.items()}
    allowed = _OWN_STOPS if life.plan.aim.stops_through else {}
    wrong = [
        f"a stop ({stop.by}) of {stop.vm_id} was asked for at {stop.at}, which {kept.get(stop.vm_id, 'nothing')} keeps"
        for stop in life.wire.stops
        if stop.by != (allowed.get(kept[stop.vm_id], "") if stop.vm_id in kept else "stop")
    ]
    life.counts["stops asked of keepers"] = sum(stop.by != "stop" for stop in life.wire.stops)
    ended = job_vms.asked_by_the_guard(life.world, "stop", "suspend", "delete") if kept else ()
    wrong += [
        f"a {one.kind} of {one.target_id} began, which another keeps"
        for one in ended
        if one.target_id in life.fleet.kept
    ]
    repairs = life.world.groups.repairs
    wrong += [f"{repairs} VMs were recreated by their groups"] if repairs else []
    return wrong + [
        f"Workbench does not know that its VM {vm_id} is down" for vm_id, _ in life.world.workbench.orphaned
    ]


_OWN_STOPS = {"group": "stopInstances", "workbench": ":stop"}


def _grounds(topic: Topic, at: datetime) -> str:
    """Returns the conditions of the settings before a rule stops it, as a stop says them."""
    rule = topic.preset(at).reminders
    return f"after {rule.stop_after} unanswered reminder{'s' * (rule.stop_after > 1)} and {span_text(rule.grace)}"


def _why_not(topic: Topic, request: Row[Any], at: datetime) -> str:
    if request.status == "refused" and request.settled_at + MINUTE < at:
        return f"that was refused at {request.settled_at}"
    settled = [one for one in topic.requests if one.status == "done" and one.settled_at + MINUTE < at]
    kept = [one for one in settled if one.kind == "keep" and one.at > request.at]
    if kept and (until := topic.kept_until(at)) is not None and until > at:
        return f"{kept[-1].by} kept it until {until} after that request"
    owners = {topic.owner(at), topic.owner(at - MINUTE)}
    access = topic.in_force.at(at).access
    may = {*owners, *access.admins, *(access.operators if "" in owners else ())} - {""}
    return "" if request.by in may else f"it is {' or '.join(sorted(owners)) or 'unowned'}'s"
