"""Records looks at many projects: those that showed nothing new all in one transaction, the others one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import structlog
from sqlalchemy import Connection

from costguard.db import project_leases
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, StoreError
from costguard.isolation import Isolated
from costguard.ledger import lifetimes as ledger
from costguard.ledger import operations, projects
from costguard.ledger.feed import heard_projects
from costguard.ledger.launched import launched_by_label
from costguard.ledger.lifetimes import ListedVm
from costguard.ledger.looks.compared import compared, deleted, may_be_gone, recorded_part, running
from costguard.ledger.narrate import tell_gap, tell_looks
from costguard.ledger.observe import Belonging
from costguard.ledger.projects import ProjectLook
from costguard.ledger.record import Recorded, failed, record
from costguard.model.observation import Observation
from costguard.model.ports import Cloud
from costguard.model.record import LaunchedFor

log = structlog.get_logger(__name__)


def record_each(
    database: Database,
    cloud: Cloud,
    observations: Sequence[Observation],
    belonging: Belonging,
    fences: Mapping[str, Lease | None],
    is_shared: bool,
    stop: threading.Event | None,
    troubles: list[StoreError],
) -> Iterator[Recorded]:
    """Records these looks, and yields what came of each; those that showed nothing new are recorded together.

    A look that cannot be written down is reported as failed, and an error of the database joins `troubles`. Where
    projects are shared, one that was passed on meanwhile is left out; else LeaseLost is raised. Once `stop` is set,
    only looks that showed nothing new come.
    """
    unchanged: dict[str, Recorded] = {}
    with Isolated("projects_not_recorded", passing=LeaseLost):  # each is then tried by itself
        unchanged = record_unchanged(database, observations, belonging, fences)
    for observation in observations:
        project = observation.project
        if project in unchanged:
            yield unchanged[project]
            continue
        if stop is not None and stop.is_set():
            continue
        try:
            with Isolated("project_not_recorded", passing=LeaseLost, project=project) as failure:
                report = record(database, cloud, observation, belonging, fences[project])
        except LeaseLost as lost:
            if not is_shared:
                raise
            log.info("project_passed_on", project=project, why=lost.message)
            continue
        yield report if failure.error is None else failed(observation, failure.error)
        if isinstance(failure.error, StoreError):
            troubles.append(failure.error)


def record_unchanged(
    database: Database,
    observations: Sequence[Observation],
    belonging: Belonging,
    fences: Mapping[str, Lease | None],
) -> dict[str, Recorded]:
    """Records those looks that showed nothing new, and returns them by project. The others are for `record`.

    `fences` are the leases to record under, by project: the daemon's for all, or one for each. A project whose lease
    was lost is among the others.

    What is read and written takes a number of statements that does not grow with VMs, nor with projects up to 1,000.
    Each look is of another project.
    """
    with database.read() as connection:
        quiet = _quiet(connection, observations, belonging)
    if not quiet:
        return {}
    leases = {look.project: fences[look.project] for look, _ in quiet}
    of_projects = [lease for lease in leases.values() if lease is not None and lease.is_of_project]
    with database.write(None if of_projects else next(iter(leases.values()))) as connection:
        ours = set(leases) if not of_projects else project_leases.still_held(connection, of_projects)
        quiet = [(look, recorded) for look, recorded in quiet if look.project in ours]
        projects.record_looks(connection, [look for look, _ in quiet])
    return {look.project: recorded for look, recorded in quiet}


def _quiet(
    connection: Connection, observations: Sequence[Observation], belonging: Belonging
) -> list[tuple[Observation, Recorded]]:
    names = [observation.project for observation in observations]
    before = projects.last_looks(connection, names)
    seen_before = [observation for observation in observations if observation.project in before]
    every = [operation for observation in seen_before for operation in observation.operations]
    with_news = {operation.project for operation in operations.news(connection, every)}
    without_news = [observation for observation in seen_before if observation.project not in with_news]
    left_out = heard_projects.left_out(connection, without_news, before)  # which is news as well
    without_news = [observation for observation in without_news if observation.project not in left_out]
    standings = ledger.standings_of(connection, [observation.project for observation in without_news])
    ours = launched_by_label(connection, without_news)
    quiet = []
    for observation in without_news:
        project = observation.project
        recorded = _recorded(observation, standings[project], ours[project], before[project], belonging)
        if recorded is not None:
            quiet.append(recorded)
    return quiet


def _recorded(
    observation: Observation,
    standings: Mapping[str, ListedVm],
    ours: Mapping[str, LaunchedFor],
    before: ProjectLook,
    belonging: Belonging,
) -> tuple[Observation, Recorded] | None:
    """The look as it is to be recorded, and what comes of it; None where there is more to it than the look itself."""
    if tell_looks(observation, before.unread):
        return None
    through = before.operations_through_at
    if through and observation.operations_through_at and tell_gap(observation.project, through, observation.read_at):
        return None
    mark = f".{belonging.mark}"
    marks = {gce_id: f"{mark}.{vm.job}" for gce_id, vm in ours.items()}
    look = recorded_part(observation, standings.keys() | ours.keys() if belonging.gpu_only else (), belonging.gpu_only)
    vms = compared(look, standings, marks, mark)
    if vms.changed or vms.to_read or any(may_be_gone(look, standing) for _, standing in vms.unlisted):
        return None
    if vms.unlisted and not deleted(look).isdisjoint(gce_id for gce_id, _ in vms.unlisted):
        return None
    return look, Recorded(
        project=look.project,
        seen=len(vms.listed) + len(look.unchanged),
        running=running(look),
        missing=len(vms.unlisted),
        unread=look.unread,
    )
