"""Checks what must hold in every simulated life: functions that say what does not. Those after each visit are cheap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlalchemy import func, select
from tests.accrued import assert_totals_hold
from tests.simulation import acting, audit, budgets, job_vms, reminders, runs, untold
from tests.simulation.acting import kept_vms_are_left_alone
from tests.simulation.backups import older_databases_are_noticed
from tests.simulation.gaps import no_vm_that_works_is_given_up
from tests.simulation.settings import PROJECT
from tests.simulation.waits import no_job_waits_with_spot_to_be_had

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger import unknown_vms
from costguard_sandbox.clock import to_ms
from costguard_sandbox.gce.meter import bill as bill_of
from costguard_sandbox.gce.meter import bills
from costguard_sandbox.gce.vm import VM, Status

if TYPE_CHECKING:
    from tests.simulation.life import Life

Invariant = Callable[["Life"], list[str]]
_CENT = 10_000_000


def one_vm_for_each_attempt(life: Life) -> list[str]:
    """No attempt ever has two VMs, and no VM bears a name that no attempt has.

    A database that was put back may not know an attempt whose VM is deleted: another may bear its name after that.
    """
    made: dict[str, list[VM]] = defaultdict(list)
    for vm in sorted(_launched(life), key=lambda vm: vm.created_at):
        made[vm.name].append(vm)
    wrong = [
        f"attempt {name} had two VMs: {before.id} at {before.created_at}, {after.id} at {after.created_at}"
        for name, vms in made.items()
        for before, after in pairwise(vms)
        if before.deleted_at is None
        or not any(one.lost(before.created_at) and before.deleted_at <= one.put_back_at for one in life.restores)
    ]
    if made and not life.restores:
        with _ledger(life).read() as connection:
            names = set(connection.execute(select(tables.attempts.c.name)).scalars())
        wrong += [f"VM {name} was launched for no attempt" for name in made if name not in names]
    return wrong


def one_command_at_a_time(life: Life) -> list[str]:
    """The command of a job never runs twice at once."""
    spans = defaultdict[str, list[tuple[datetime, datetime, str]]](list)
    for agent in life.jobs.agents.values():
        for began, ended in agent.worked:
            spans[agent.job].append((began, ended, agent.name))
    wrong = []
    for ran in spans.values():
        for before, after in pairwise(sorted(ran)):
            if after[0] < before[1]:
                wrong.append(f"{before[2]} ran until {before[1]}, and {after[2]} began at {after[0]}")
    return wrong


def every_job_ends(life: Life) -> list[str]:
    """Each job is over at the end, or has an attempt whose VM works or comes; no VM is without a live attempt.

    A development VM that was merely stopped has not ended: its disk holds its owner's work.
    """
    over = ("succeeded", "failed", "cancelled")
    with _ledger(life).read() as connection:
        jobs = connection.execute(select(tables.jobs.c.id, tables.jobs.c.state, tables.jobs.c.kind)).all()
        rows = connection.execute(select(tables.attempts)).all()
    live = {row.name: row.job_id for row in rows if row.state not in ("over", "kept")}  # kept: a disk, and no VM
    last = life.visits[-1].began  # what ended in the last visit is being deleted
    ending = {row.name for row in rows if row.state == "ending" and row.ended_at is not None and row.ended_at >= last}
    up = {vm.name for vm in _launched(life) if vm.status in (Status.RUNNING, Status.PROVISIONING, Status.STAGING)}
    # What a restored ledger does not know it reports, and leaves to a person.
    with _ledger(life).read() as connection:
        reported = {one.name for one in unknown_vms.there(connection)}
    wrong = [f"VM {name} is up without a live attempt" for name in sorted(up - live.keys() - reported)]
    there = up | {vm.name for vm in _launched(life) if vm.status is Status.TERMINATED}
    for job_id, state, kind in jobs:
        mine = [name for name, job in live.items() if job == job_id]
        if state == "running" and not any(name in (there if kind == "dev" else up) for name in mine):
            wrong.append(f"job {job_id} runs, and no VM of it is up: {mine}")
        mine = [name for name in mine if name not in ending]
        if state in over and mine:
            wrong.append(f"job {job_id} is {state}, and has the open attempts {mine}")
    life.counts.update(f"job {job.state}" for job in jobs)
    return wrong


def ledger_equals_meter(life: Life) -> list[str]:
    """Once both are quiet, every VM to the cent; one that came and went unseen has its runs, and a price if it is ours.

    A disk that Google did not show in its time is reported as not priced, and the rest of its VM's bill is right.
    """
    ledger, unread = _amounts(life), _with_unread_disks(life)
    wrong = []
    with _ledger(life).read() as connection:
        watched_since = untold.first_looks(connection)
        launched = set(connection.scalars(select(tables.attempts.c.name)))
    for bill in bills(life.world.every_vm(), life.world.prices, life.settled_at):
        key = (bill.vm.project, str(bill.vm.id))
        name = f"{bill.vm.name} ({key[1]})"
        least, most = untold.least_and_most(bill.vm, life.witness)
        if key not in ledger:
            is_old = untold.came_and_went_before(bill.vm, watched_since.get(bill.vm.project))
            if least.runs and bill.nanos and not is_old:
                wrong.append(f"{name} billed {bill.nanos}, and is not in the ledger")
            continue
        mine, is_priced = ledger.pop(key)
        life.counts["VMs compared"] += 1
        if bill.vm.name in launched and not any(life.witness.saw(run) for run in bill.vm.runs):
            life.counts["jobs' VMs that no look saw"] += 1
        if not is_priced:
            wrong += [f"{name} has no price, and is the guard's own"] if bill.vm.name in launched else []
            life.counts["VMs that came and went unseen"] += 1
            ran = [(to_ms(run.began), to_ms(run.ended) if run.ended else None) for run in bill.vm.runs]
            if least is most and _runs(life, *key) != ran:
                wrong.append(f"{name}: the ledger has the runs {_runs(life, *key)}, and Google {ran}")
            continue
        if key in unread:
            life.counts["VMs with disks that nobody could read"] += 1
            disks = sum(one.nanos for resource, one in bill.resources.items() if resource.startswith("disk:"))
            if not -_CENT // 2 < bill.nanos - mine < disks + _CENT // 2:
                wrong.append(
                    f"{name}: the ledger has {mine} without a disk, and the meter {bill.nanos}, {disks} of disks"
                )
            continue
        low, high = (
            bill.nanos if vm is bill.vm else bill_of(vm, life.world.prices, life.settled_at).nanos
            for vm in (least, most)
        )
        if not low - _CENT // 2 < mine < high + _CENT // 2:
            wrong.append(f"{name}: the ledger has {mine}, and the meter {bill.nanos}")
    return wrong + [f"{key} is in the ledger and never was" for key in ledger]


def runs_are_googles(life: Life) -> list[str]:
    """Every VM's runs, from start to end."""
    with _ledger(life).read() as connection:
        return list(runs.otherwise_than_google(life.world, connection, life.witness))


def no_run_is_over_too_early(life: Life) -> list[str]:
    """A run that goes on is not taken for ended, once a pass has seen it while nothing hinders it."""
    if life.visits[-1].bad:
        return []
    with _ledger(life).read() as connection:
        return list(runs.over_too_early(life.world, connection))


def running_totals_hold(life: Life) -> list[str]:
    """The sums on pages equal the single charges."""
    with _ledger(life).read() as connection:
        try:
            assert_totals_hold(connection, life.now)
        except AssertionError as error:
            return [f"running totals do not hold: {error}"]
    return []


def no_vm_is_alone(life: Life) -> list[str]:
    """No VM that the guard made bills without a live attempt for longer than the grace, while nothing hinders it."""
    with _ledger(life).read() as connection:
        return list(life.alone.look(life.world, connection, is_good=not life.visits[-1].bad))


def jobs_succeed_by_their_commands(life: Life) -> list[str]:
    """A job has succeeded where its command ended by itself with its work done, and nowhere else.

    What a cancel after a checkpoint waited for was written after it was asked, and before the job was cancelled for it.
    """
    with _ledger(life).read() as connection:
        jobs = connection.execute(select(tables.jobs)).all()
        columns = tables.events.c.key, tables.events.c.text, tables.events.c.occurred_at
        cancels = connection.execute(select(*columns).where(tables.events.c.kind == "CancelAsked"))
        cancels_by_key = {row.key: row for row in cancels}
    wrong, clock_off = list[str](), 2 * life.guard_clock.worst
    for job in jobs:
        if job.kind == "training" and job.state == "succeeded" and job.id not in life.jobs.finished:
            wrong.append(f"job {job.id} has succeeded, and its command never came to its end: {job.reason}")
        cancel = cancels_by_key.get(f"job/{job.id}/cancel_asked")
        if (
            job.cancel_after_at is not None
            and cancel is not None
            and "is saved" in cancel.text
            and not job.spec["checkpoint"]["location"].startswith("/")
        ):
            written = life.jobs.shelf.saved.get(job.spec["checkpoint"]["location"], {}).values()
            if not any(job.cancel_after_at - clock_off < at <= cancel.occurred_at + clock_off for at in written):
                wrong.append(
                    f"job {job.id} was cancelled after a checkpoint, and nothing was saved since that was asked"
                )
    return wrong


def rules_leave_work_alone(life: Life) -> list[str]:
    """No rule about forgotten VMs stops one that works on a job."""
    with _ledger(life).read() as connection:
        return [*acting.work_is_stopped_by_rule(life, connection)]


def only_copies_stay(life: Life) -> list[str]:
    """A job's save on its VM's disk is deleted once the job has succeeded, or its owner lets it go."""
    with _ledger(life).read() as connection:
        return list(job_vms.only_copies_deleted(life.world, connection, life.jobs.on_disk, life.restores))


def events_explain_every_change(life: Life) -> list[str]:
    """Every change in the ledger, and every request to Google, has its event."""
    with _ledger(life).read() as connection:
        return list(audit.unexplained(life.world, connection, life.restores))


def restored_ledger_deletes_nothing(life: Life) -> list[str]:
    """VMs of jobs that a restored database did not know are neither stopped nor deleted, unless they were adopted.

    A database that was put back later may not know of that any more.
    """
    adopted = life.adopted | job_vms.of_attempts(_ledger(life))
    since = life.restores[0].put_back_at if life.restores else life.now
    unknown = job_vms.asked_for_before(life.world, life.lost_requests, adopted)
    return list(job_vms.unknown_vms_ended(life.world, dict.fromkeys(life.lost - adopted, since) | unknown))


def restored_ledger_warns_again(life: Life) -> list[str]:
    """After a restore no rule stops a VM before a reminder about it was posted once more, nor a protected one."""
    wrong = []
    stops, instances = tables.stops, tables.instances
    of_requests = select(instances.c.gce_id, stops.c.intended_at).where(
        stops.c.instance_id == instances.c.id, stops.c.request_id.is_not(None)
    )
    with _ledger(life).read() as connection:
        of_people = [(int(row.gce_id), row.intended_at) for row in connection.execute(of_requests)]
    late = 2 * life.guard_clock.worst
    for operation in job_vms.asked_by_the_guard(life.world, "stop", "delete"):
        made, at = life.fleet.made.get(operation.target_id), operation.insert_time
        before = [one for one in life.restores if one.put_back_at <= at]
        if made is None or not before or any(one.lost(at) for one in life.restores):
            continue
        vm = next(one for one in life.world.every_vm() if one.id == operation.target_id)
        since = before[-1].put_back_at
        if operation.kind == "stop" and any(
            vm_id == vm.id and since <= moment <= at + late for vm_id, moment in of_people
        ):
            continue
        warned = any(
            version is message.versions[0] and since <= version.at <= at and vm.name in version.text
            for message, version in life.world.slack.record
        )
        if operation.kind != "stop" or vm.id in life.fleet.protected or not warned:
            wrong.append(f"{operation.kind} of {vm.name} at {at}, restored at {since}: no new warning")
    return wrong


def people_are_reminded_rightly(life: Life) -> list[str]:
    """Every due reminder once, none about what is gone, no stop without its warnings: see `reminders`.

    A restored database gives numbers of VMs and runs out again: the keys of its reminders name other ones.
    """
    if life.restores:
        return restored_ledger_warns_again(life)
    with _ledger(life).read() as connection:
        verdict = reminders.judge(life, connection)
    life.counts.update(verdict.counts)
    return verdict.wrong


def no_error_is_unforeseen(life: Life) -> list[str]:
    """Errors that the guard keeps apart from its other work are known ones: refusals, outages, not mistakes of
    its own.
    """
    return sorted(set(life.unforeseen))


def budgets_hold(life: Life) -> list[str]:
    """A spent budget is reported once, launches nothing more, and stops Spot jobs where it says so.

    A restored ledger has forgotten what was spent from it.
    """
    if life.restores:
        return []
    every, steps = life.settings.rules().budgets, life.visits
    world, trainings = life.world, {vm_id: agent.training for vm_id, agent in life.jobs.agents.items()}
    with _ledger(life).read() as connection:
        return [
            *budgets.launched_though_spent(world, every, steps),
            *budgets.spot_goes_on_though_spent(world, every, steps, trainings),
            *budgets.reached_without_an_event(world, connection, every, steps),
        ]


def one_guard_acts(life: Life) -> list[str]:
    """No other guard gets the lease before it runs out; one that lost it changes nothing."""
    return life.two_guards.wrong + life.sharing.wrong


AFTER_EACH_VISIT: tuple[Invariant, ...] = (
    no_error_is_unforeseen,
    one_guard_acts,
    older_databases_are_noticed,
    kept_vms_are_left_alone,
    one_vm_for_each_attempt,
    no_vm_is_alone,
    no_run_is_over_too_early,
    no_vm_that_works_is_given_up,
)
WHEN_SETTLED: tuple[Invariant, ...] = (
    one_command_at_a_time,
    every_job_ends,
    no_job_waits_with_spot_to_be_had,
    jobs_succeed_by_their_commands,
    only_copies_stay,
    rules_leave_work_alone,
    events_explain_every_change,
    restored_ledger_deletes_nothing,
    budgets_hold,
    running_totals_hold,
    people_are_reminded_rightly,
)
# After a midnight: charges of what still runs are stored up to there.
AT_THE_END: tuple[Invariant, ...] = (one_vm_for_each_attempt, ledger_equals_meter, runs_are_googles)


def ledger_lines(life: Life) -> list[str]:
    """Returns the ledger's contents for the trace: no text that names a process, a key or a request."""
    with _ledger(life).read() as connection:
        jobs = connection.execute(select(tables.jobs.c.id, tables.jobs.c.state).order_by(tables.jobs.c.id)).all()
        events = connection.execute(
            select(tables.events.c.occurred_at, tables.events.c.kind, tables.events.c.name).order_by(tables.events.c.id)
        ).all()
    amounts = [f"{key} {value}" for key, value in sorted(_amounts(life).items())]
    return [*map(str, jobs), *map(str, events), *amounts]


def _launched(life: Life) -> list[VM]:
    return [vm for vm in life.world.every_vm() if vm.project == PROJECT and vm.name.startswith("cg-")]


def _ledger(life: Life) -> Database:
    return life.ledger


def _runs(life: Life, project: str, gce_id: str) -> list[tuple[datetime, datetime | None]]:
    query = (
        select(tables.lifetimes.c.started_at, tables.lifetimes.c.ended_at)
        .join(tables.instances, tables.instances.c.id == tables.lifetimes.c.instance_id)
        .where(tables.instances.c.project == project, tables.instances.c.gce_id == gce_id)
        .order_by(tables.lifetimes.c.started_at)
    )
    with _ledger(life).read() as connection:
        return [(started_at, ended_at) for started_at, ended_at in connection.execute(query)]


def _with_unread_disks(life: Life) -> set[tuple[str, str]]:
    """VMs of which the ledger says that a disk has no price, in its row and as an event."""
    instances, spans, events = tables.instances, tables.storage_spans, tables.events
    unpriced = (
        select(instances.c.project, instances.c.gce_id)
        .join(spans, spans.c.instance_id == instances.c.id)
        .where(spans.c.unpriced != "")
    )
    reported = select(events.c.project, events.c.gce_id).where(events.c.kind == "SpanUnpriced")
    with _ledger(life).read() as connection:
        rows, events_of = connection.execute(unpriced).all(), connection.execute(reported).all()
    return {(row.project, row.gce_id) for row in rows} & {(row.project, row.gce_id) for row in events_of}


def _amounts(life: Life) -> dict[tuple[str, str], tuple[int, bool]]:
    """Nano-dollars of every VM, and whether its shape is known."""
    booked: dict[tuple[str, str], tuple[int, bool]] = {}
    instances, charges = tables.instances, tables.charges
    with _ledger(life).read() as connection:
        for row in connection.execute(select(instances.c.project, instances.c.gce_id, instances.c.vcpus)):
            booked[row.project, row.gce_id] = (0, row.vcpus > 0)
        for span, table in (("lifetime", tables.lifetimes), ("storage", tables.storage_spans)):
            sums = connection.execute(
                select(instances.c.project, instances.c.gce_id, func.sum(charges.c.amount_nanos))
                .join(table, table.c.id == charges.c.span_id)
                .join(instances, instances.c.id == table.c.instance_id)
                .where(charges.c.span == span)
                .group_by(instances.c.project, instances.c.gce_id)
            )
            for project, gce_id, nanos in sums:
                amount, is_priced = booked[project, gce_id]
                booked[project, gce_id] = (amount + int(nanos), is_priced)
    return booked
