"""Checks every quarter, judged from what Slack and Google recorded, by nothing of the guard's own rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatch
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select
from tests.scenario.fleet import MINUTE
from tests.simulation import acting, pools
from tests.simulation.faults import ARCHIVED
from tests.simulation.people import Pressed
from tests.simulation.plan import DAY
from tests.simulation.settings import CONTACT, PROJECT, RULES
from tests.simulation.story import Post, Story, Topic, tell

from costguard.db.tables import claims, instances, keeps, messages, requests, stops
from costguard.model.action import StopOutcome
from costguard.model.preset import Preset
from costguard.model.reminder import Enforcement
from costguard_sandbox.gce.vm import Load
from costguard_sandbox.slack.blocks import interactive

if TYPE_CHECKING:
    from tests.simulation.life import Life

_GUARD = "costguard@acme-operations.iam.gserviceaccount.com"
_KNOWN_AFTER = 20 * MINUTE  # figures of a VM's load are that old at most
_ON_ITS_WAY = DAY  # how long a message may wait for Slack, which was decided on under settings of before
_CONTACT_AT, _DAILY_FROM, _CHANNEL_FROM = 3, 4, 2


@dataclass
class Verdict:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def judge(life: Life, connection: Connection) -> Verdict:
    story = tell(life, connection)
    verdict = Verdict(list(story.strangers))
    _nothing_lost_or_doubled(story, connection, verdict)
    for topic in story.topics:
        if not topic.is_pooled:
            _ladder(story, topic, verdict)
    for topic, post in story.posts:
        if not topic.is_pooled:
            _is_true_and_timely(story, topic, post, verdict)
    verdict.wrong += pools.judge(story, [topic for topic in story.topics if topic.is_pooled], _wrong_clock(story))
    verdict.counts["reminders about pools"] = sum(topic.is_pooled for topic, _ in story.posts)
    _nothing_due_is_left_out(story, verdict)
    _stops(story, verdict)
    _one_stop_at_a_time(story, verdict)
    verdict.wrong += acting.stops_for_nobody(story)
    _nothing_is_said_of_the_unread(story, connection, verdict)
    _what_is_over_says_so(story, verdict)
    _requests(story, connection, verdict)
    _count(story, verdict)
    return verdict


def _nothing_lost_or_doubled(story: Story, connection: Connection, verdict: Verdict) -> None:
    """Every key once in Slack, and the ledger knows of exactly those."""
    posted = Counter(post.key for _, post in story.posts)
    said = posted + Counter(story.ephemerals) + Counter(story.others)
    doubled = [f"{key} was posted {count} times" for key, count in said.items() if count > 1]
    verdict.wrong += doubled
    verdict.counts["messages posted twice"] = len(doubled)
    posted.update(story.others)
    rows = connection.execute(select(messages.c.key, messages.c.status).where(messages.c.kind != "ephemeral"))
    status = {row.key: row.status for row in rows}
    accepted = {key for key, value in status.items() if value == "accepted"}
    verdict.wrong += [f"{key} is accepted, and not in Slack" for key in accepted - posted.keys()]
    verdict.wrong += [f"{key} is in Slack, and {status.get(key)}" for key in posted.keys() - accepted]
    waiting = [key for key, value in status.items() if value in ("intended", "sending")]
    verdict.wrong += [f"{key} still waits at the end" for key in waiting]
    verdict.counts["reminders withdrawn: no longer true"] = sum(outcome == "withdrawn" for outcome in status.values())


def _ladder(story: Story, topic: Topic, verdict: Verdict) -> None:
    """Checks that in each cycle the stages climb one by one, each at its interval after the one before; one thread a
    place.
    """
    for cycle in sorted({post.cycle for post in topic.posts}):
        mine = [post for post in topic.posts if post.cycle == cycle]
        numbers = sorted({post.stage for post in mine})
        if numbers != list(range(len(numbers))):
            verdict.wrong.append(f"{topic.subject} cycle {cycle} has the stages {numbers}")
        at = topic.stages(cycle)
        for stage in range(1, len(at)):
            every = min(_every(topic, moment) for moment in at[stage - 1 : stage + 1])
            gap = max(every, DAY) if stage >= _DAILY_FROM else every
            if at[stage] - at[stage - 1] < gap - _wrong_clock(story):
                verdict.wrong.append(f"{topic.subject} stage {cycle}/{stage} came {at[stage] - at[stage - 1]} after")
    roots: dict[str, str] = {}
    for post in topic.posts:
        root = roots.setdefault(post.message.channel, post.message.ts)
        if post.message.ts != root and post.message.thread_ts != root:
            verdict.wrong.append(f"{post.key} stands outside its thread")


def _is_true_and_timely(story: Story, topic: Topic, post: Post, verdict: Verdict) -> None:
    at, owner = post.at, topic.owner(post.at)
    if topic.is_over(at):
        verdict.counts["posted before the guard could know of the end"] += 1
        if _could_know(story.life, topic, at):
            verdict.counts["messages about VMs gone"] += 1
            verdict.wrong.append(f"{post.key} was posted at {at}, over since {topic.over_at}")
    if at < (due := _due_at_least(topic, at)) - _wrong_clock(story):
        verdict.wrong.append(f"{post.key} was posted at {at}, due at {due}")
    if story.is_quiet(topic, at):
        verdict.wrong.append(f"{post.key} was posted at {at}, in quiet hours of {owner or 'nobody'}")
    cycles = {topic.cycle(at), topic.cycle(at - timedelta(microseconds=1))}
    if post.cycle not in cycles:
        verdict.wrong.append(f"{post.key} was posted at {at}, in cycle {cycles}")
    if post.target not in _targets(story, topic, post.stage, owner):
        verdict.wrong.append(f"{post.key} was posted at {at} to one who was not to get it: owner {owner}")
    if topic.vm.name not in post.message.versions[0].text:
        verdict.wrong.append(f"{post.key} names another VM: {post.message.versions[0].text}")


def _could_know(life: Life, topic: Topic, at: datetime) -> bool:
    """Says whether a look that could read its zone was recorded since it was over; until then nobody can know."""
    assert topic.over_at is not None
    return any(
        topic.over_at < look.at <= at and look.is_whole and topic.vm.zone not in look.unread_zones
        for look in life.looks
    )


def _nothing_due_is_left_out(story: Story, verdict: Verdict) -> None:
    """Checks that what was due in one step without trouble, and is in the next one, stands in Slack after that."""
    steps = story.life.steps
    good = [not step.bad - {ARCHIVED} for step in steps]
    known_by = [step.ended for step, is_good in zip(steps, good, strict=True) if is_good]
    for topic in (topic for topic in story.topics if not topic.is_pooled):
        for number in range(1, len(steps)):
            before, step = steps[number - 1], steps[number]
            if not (good[number - 1] and good[number]) or step.began - before.began > DAY:
                continue
            if step.began < topic.began or topic.is_over(before.began - 5 * MINUTE):
                continue
            if ARCHIVED in before.bad | step.bad and not story.is_known(topic.owner(step.began)):
                continue
            stage = _stage_due(story, topic, before.began, known_by)
            if stage is None or _is_hindered(story, topic, before.began, step.began, step.ended):
                continue
            verdict.counts["due stages looked for"] += 1
            cycle = topic.cycle(before.began)
            if not any(post.cycle == cycle and post.stage >= stage and post.at <= step.ended for post in topic.posts):
                verdict.wrong.append(f"{topic.subject} stage {cycle}/{stage} was due at {before.began}, and not sent")


def _stage_due(story: Story, topic: Topic, at: datetime, known_by: list[datetime]) -> int | None:
    """The stage that should be in Slack very soon, if any; counted from when the guard heard of the one before."""
    since = topic.limit_from if topic.is_known_so else topic.began
    begins = since + (_limit(topic.preset(at)) if topic.is_run else RULES.rest.after or DAY) + 5 * MINUTE
    begins = max(begins, topic.kept_until(at) or begins)
    sent = [moment for moment in topic.stages(topic.cycle(at)) if moment <= at]
    if not sent:
        return 0 if begins <= at else None
    reached_at = next((moment for moment in known_by if moment >= sent[-1]), None)
    gap = max(_every(topic, at), DAY) if len(sent) >= _DAILY_FROM else _every(topic, at)
    return len(sent) if reached_at is not None and max(begins, reached_at + gap) <= at else None


def _is_hindered(story: Story, topic: Topic, began: datetime, again: datetime, ended: datetime) -> bool:
    """Says whether it is hindered by its end, quiet hours, an answer, or a stop."""
    return (
        topic.is_over(ended)
        or any(story.is_quiet(topic, at) for at in (began, again, ended))
        or any(began - MINUTE <= answer.at <= ended for answer in topic.answers)
        or any(request.at <= ended and (request.settled_at or ended) >= began for request in topic.requests)
        or any(stop.intended_at <= ended and (stop.settled_at or ended) >= began for stop in topic.stops)
    )


def _stops(story: Story, verdict: Verdict) -> None:
    """Each operation by which the guard ended a run: once, and for good reason."""
    world, seen = story.life.world, Counter[str]()
    for operation in world.operations.of(PROJECT):
        is_judged = operation.target_id in story.life.fleet.made and operation.target_id not in story.set_aside
        if operation.user != _GUARD or not is_judged:
            continue
        at = acting.asked_at(story.life, operation)
        running = [one for one in story.topics if one.is_run and one.vm.id == operation.target_id and one.began <= at]
        if not running:
            verdict.wrong.append(f"{operation.kind} of {operation.target_id} at {at}, which never ran")
            continue
        topic = max(running, key=lambda one: one.began)
        ordered = [stop for stop in topic.stops if stop.intended_at <= at + _wrong_clock(story)]
        if not ordered or operation.kind != "stop":
            verdict.wrong.append(f"{operation.kind} of {topic.vm.name} at {at}, which nobody ordered")
            continue
        stop = next((one for one in ordered if one.request_uuid == operation.request_id), ordered[-1])
        seen[stop.key] += 1
        if stop.request_id is not None:
            verdict.counts["VMs stopped for people"] += 1
            continue
        verdict.counts["VMs stopped by rule"] += 1
        if reason := _why_too_early(topic, at, _wrong_clock(story), story.life.fleet.protected):
            verdict.wrong.append(f"{operation.kind} of {topic.vm.name} ({topic.subject}) at {at}: {reason}")
    verdict.wrong += [f"{key} is {count} operations" for key, count in seen.items() if count > 1]


def _wrong_clock(story: Story) -> timedelta:
    """Returns by how much moments may be off that the guard read from a clock that was wrong, twice over for spans."""
    return 2 * story.life.guard_clock.worst


def _why_too_early(topic: Topic, at: datetime, slack: timedelta, protected: Mapping[int, datetime]) -> str:
    rule = topic.preset(at).reminders
    if rule.enforcement is Enforcement.REMIND:
        return "its preset only reminds"
    if (since := protected.get(topic.vm.id)) is not None and since <= at:
        return "it is protected"
    if any(fnmatch(topic.vm.name, name) for name in topic.in_force.at(at).protection.names):
        return "its name is protected"
    if (until := topic.kept_until(at)) is not None and until > at + slack:
        return f"it is kept until {until}"
    waiting = [one for one in topic.requests if one.kind != "stop" and one.status == "done"]
    if any(one.at <= at < one.settled_at for one in waiting):
        return "someone had answered"
    preset = topic.preset(at)
    since = min(_due_now(topic, preset, moment) for moment in (at, at - _KNOWN_AFTER))
    warned = [moment for moment in topic.stages(topic.cycle(at)) if since - slack <= moment <= at]
    if len(warned) < rule.stop_after:
        return f"{len(warned)} warnings"
    if at - warned[rule.stop_after - 1] < rule.grace - slack:
        return f"only {at - warned[rule.stop_after - 1]} after the last warning"
    return ""


def _due_now(topic: Topic, preset: Preset, at: datetime) -> datetime:
    """Returns since when there is reason to warn: it runs for longer than its limit, or has been idle until now.

    That it was idle for a while before it worked again is no reason any more. Idleness that the GPUs' own figures do
    not show is none to stop it.
    """
    load_since, load = _load(topic.vm.loads, at)
    rule = preset.idle
    over_limit = topic.limit_from + _limit(preset)
    if rule is None or load in (Load.BUSY, Load.NO_AGENT):
        return over_limit
    return min(over_limit, max(topic.began, load_since) + rule.window - MINUTE)


def _load(loads: Sequence[tuple[datetime, Load]], at: datetime) -> tuple[datetime, Load]:
    """Returns since when its load is the present one: a load that is set again begins nothing new."""
    past = [(since, load) for since, load in loads if since <= at] or [(at, Load.BUSY)]
    present = past[-1][1]
    lasting = takewhile(lambda one: one[1] is present, reversed(past))
    return min(since for since, _ in lasting), present


def _one_stop_at_a_time(story: Story, verdict: Verdict) -> None:
    """A run has one open stop at most, and one that is said to be done is an operation of Google's."""
    operations = story.life.world.operations.of(PROJECT)
    targets = {operation.target_id for operation in operations if operation.kind in ("stop", "suspend")}
    for topic in story.topics:
        for before, after in pairwise(topic.stops):
            if before.settled_at is None or after.intended_at < before.settled_at:
                verdict.wrong.append(f"stop {after.key} was begun while stop {before.key} of the same run was open")
        for stop in topic.stops:
            if stop.outcome == StopOutcome.DONE.value and not _was_stopped(topic, stop.settled_at, targets):
                verdict.wrong.append(f"stop {stop.key} is said to be done, and Google has none")


def _was_stopped(topic: Topic, settled_at: datetime, targets: Collection[int]) -> bool:
    return topic.vm.id in targets and topic.over_at is not None and topic.over_at <= settled_at + 5 * MINUTE


def _nothing_is_said_of_the_unread(story: Story, connection: Connection, verdict: Verdict) -> None:
    """No reminder rests on a look that could not read the VM's zone."""
    rows = connection.execute(select(messages.c.key, messages.c.intended_at))
    intended = {row.key: row.intended_at for row in rows}
    if story.life.guard_clock.worst:
        return
    for topic, post in story.posts:
        looks = [look for look in story.life.looks if look.at <= intended[post.key]]
        if looks and topic.vm.zone in looks[-1].unread_zones:
            verdict.wrong.append(f"{post.key} was intended at {intended[post.key]}, and {topic.vm.zone} was not read")


def _what_is_over_says_so(story: Story, verdict: Verdict) -> None:
    """Checks that in the end no message about something past has a button, and each about something present says what
    is.

    What came to its end within the last visit is seen by the next one.
    """
    end, last = story.life.world.now, story.life.steps[-1].began
    for topic, post in story.posts:
        if topic.is_over(end) and not topic.is_over(last):
            continue
        buttons = list(interactive(post.message.blocks))
        is_over = topic.is_over(end)
        is_answered = topic.cycle(end) > post.cycle or topic.is_pooled  # by way of any VM of its pool
        if buttons and (is_over or (is_answered and not topic.is_pooled)):
            verdict.wrong.append(f"{post.key} has buttons in the end: over {topic.over_at}")
        if is_over and ":black_square_for_stop:" not in str(post.message.blocks):
            verdict.wrong.append(f"{post.key} does not say that it is over since {topic.over_at}")
        is_stopping = any(stop.settled_at is None for stop in topic.stops)
        if not buttons and not is_over and not is_answered and not is_stopping:
            verdict.wrong.append(f"{post.key} has no buttons, and nobody answered it")


def _requests(story: Story, connection: Connection, verdict: Verdict) -> None:
    """Every press that was answered well is one request, settled once, or was refused in private."""
    rows = {row.key: row for row in connection.execute(select(requests))}
    private = set(connection.execute(select(messages.c.key).where(messages.c.kind == "ephemeral")).scalars())
    effects: Counter[tuple[str, int]] = Counter()
    of_jobs = set(
        connection.execute(select(instances.c.id).where(instances.c.name.like("cg-%"))).scalars()
    )  # cancelled
    for table in (keeps, claims, stops):
        effects.update((table.name, row.request_id) for row in connection.execute(select(table.c.request_id)))
    for pressed in story.life.people.pressed:
        is_request, is_refused = pressed.key in rows, f"ephemeral/{pressed.key}" in private
        is_lost = not is_request and not is_refused and _was_reported_lost(story, pressed)
        verdict.counts["lost, and reported so"] += is_lost
        if is_request == is_refused and not is_lost:
            verdict.wrong.append(f"press {pressed.key} is neither a request nor refused, or both")
    for key, row in rows.items():
        kind = {"keep": "keeps", "claim": "claims", "disown": "claims"}.get(row.kind, "stops")
        done = effects[kind, row.id]
        verdict.counts[f"asked to {row.kind}: {row.status}"] += 1
        if row.status == "open" or row.settled_at is None:
            verdict.wrong.append(f"request {key} is open in the end")
        elif row.status == "done" and done != 1 and not (row.kind == "stop" and row.instance_id in of_jobs):
            verdict.wrong.append(f"request {key} to {row.kind} was settled {done} times")
        elif row.status == "refused" and (
            (done and kind != "stops") or (row.via == "slack" and f"ephemeral/{row.id}" not in private)
        ):
            verdict.wrong.append(f"request {key} to {row.kind} was refused, with {done} effects")
    verdict.counts["refused in private at once"] = sum(key.startswith("ephemeral/slack/") for key in private)


def _was_reported_lost(story: Story, pressed: Pressed) -> bool:
    """A press of someone never met is answered before it is stored: where that fails they are asked to press again."""
    return any(
        message.ephemeral_to and "could not be saved" in version.text and abs(version.at - pressed.at) < 5 * MINUTE
        for message, version in story.slack.record
    )


def _count(story: Story, verdict: Verdict) -> None:
    slack, counts = story.slack, verdict.counts
    counts["VMs"] = len(story.life.fleet.made)
    counts["lifetimes"] = sum(topic.is_run for topic in story.topics)
    counts["rests"] = sum(not topic.is_run for topic in story.topics)
    counts["subjects reminded of"] = len({topic.subject for topic, _ in story.posts})
    counts["stages"] = len({post.key.rpartition("/")[0] for _, post in story.posts})
    counts["messages posted"] = len(story.posts)
    counts["messages edited"] = sum(len(post.message.versions) - 1 for _, post in story.posts)
    counts["rate limited"] = slack.limits.refusals.total()


def _limit(preset: Preset) -> timedelta:
    assert preset.limit is not None
    return preset.limit


def _every(topic: Topic, at: datetime) -> timedelta:
    return topic.preset(at).reminders.every if topic.is_run else RULES.rest.every


def _due_at_least(topic: Topic, at: datetime) -> datetime:
    """The earliest moment at which anybody may ask about it."""
    if not topic.is_run:
        assert RULES.rest.after is not None
        due = topic.began + RULES.rest.after
    else:
        presets = topic.presets(at - _ON_ITS_WAY, at)
        due = topic.limit_from + min(map(_limit, presets))
        idle = [since for since, load in topic.vm.loads if load is not Load.BUSY and since <= at]
        for rule in (preset.idle for preset in presets):
            if rule is not None and idle:
                # Figures are of whole minutes, and a minute that began busy counts as it began.
                due = min(due, max(topic.began, idle[0]) + rule.window - MINUTE)
    return max(due, topic.kept_until(at) or due)


def _targets(story: Story, topic: Topic, stage: int, owner: str) -> set[str]:
    targets = {"owner" if story.is_known(owner) else "channel"}
    if stage >= _CHANNEL_FROM:
        targets.add("channel")
    if stage == _CONTACT_AT and owner != CONTACT:
        targets.add("contact")
    return targets
