"""Rows of attempts: committed before Google is called, and changed only from the states a change is meant for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict, Unpack

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, select, text, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import LIVE_ATTEMPT, attempts, jobs
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.jobs.rows import agent_fields
from costguard.model.attempt import AgentState, Attempt, AttemptState, EndedRound, Exit, Outcome
from costguard.model.generation import FIRST
from costguard.model.instance import ProvisioningModel
from costguard.model.job import EarlyEnd
from costguard.model.launch import AddressChoice
from costguard.model.money import Money
from costguard.model.reported.metric import SeenMetric

EXIT = TypeAdapter(Exit)
METRIC = TypeAdapter(SeenMetric)
ENDED_ROUND = TypeAdapter(EndedRound)

_TEXTS = frozenset({"machine", "output", "transfers"})
# Of a thousand attempts their outputs alone are tens of megabytes.
WITHOUT_TEXTS = tuple(column for column in attempts.c if column.name not in _TEXTS)

# Thousands are read for a list, and calling an enum is slow.
_STATES = {state.value: state for state in AttemptState}
OUTCOMES = {outcome.value: outcome for outcome in Outcome}
MODELS = {model.value: model for model in ProvisioningModel}


def attempt_of(row: Row[*tuple[Any, ...]], *, with_texts: bool = False) -> Attempt:
    """`with_texts` where the row has them."""
    return Attempt(
        id=row.id,
        job_id=row.job_id,
        number=row.number,
        name=row.name,
        project=row.project,
        zone=row.zone,
        provisioning_model=MODELS[row.provisioning_model],
        request_uuid=row.request_uuid,
        max_run=timedelta(seconds=row.max_run_s),
        state=_STATES[row.state],
        intended_at=row.intended_at,
        generation=row.generation,
        rate=None if row.rate_nanos is None else Money(row.rate_nanos),
        resume_from=row.resume_from,
        resume_step=row.resume_step,
        resume_why=row.resume_why,
        image=row.image,
        outcome=None if row.outcome is None else OUTCOMES[row.outcome],
        reason=row.reason,
        asked_at=row.asked_at,
        operation=row.operation,
        gce_id=row.gce_id,
        made_at=row.made_at,
        stop_asked_at=row.stop_asked_at,
        stop_why=row.stop_why,
        ended_at=row.ended_at,
        zones_available=tuple(row.zones_available),
        delete_asked_at=row.delete_asked_at,
        gone_at=row.gone_at,
        rested_at=row.rested_at,
        restarts=row.restarts,
        tries=row.tries,
        try_after=row.try_after,
        error=row.error,
        address=None if row.address is None else AddressChoice(**row.address),
        follows=row.follows,
        ready_at=row.ready_at,
        released_at=row.released_at,
        notice=None if row.notice_s is None else timedelta(seconds=row.notice_s),
        node=row.node,
        formation=row.formation,
        round=row.round,
        vm_group=row.vm_group,
        resize_request=row.resize_request,
        claimed_by=row.claimed_by,
        agent=_heard(row, with_texts),
    )


def columns_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt's fields as its columns take them."""
    columns: dict[str, Any] = {}
    for name, value in changes.items():
        match name, value:
            case "rate", _:
                columns["rate_nanos"] = value.nanos if isinstance(value, Money) else None
            case "max_run" | "notice", timedelta():
                columns[f"{name}_s"] = value // timedelta(seconds=1)
            case _, StrEnum():
                columns[name] = value.value
            case _, str():
                columns[name] = storable(value)
            case _:
                columns[name] = value
    return columns


def _heard(row: Row[*tuple[Any, ...]], with_texts: bool) -> AgentState:
    return AgentState(
        at=row.heard_at,
        run=row.run,
        booted_at=row.booted_at,
        started_at=row.started_at,
        noticed_at=row.noticed_at,
        maintenance_at=row.maintenance_at,
        step=row.step,
        step_at=row.step_at,
        metric=None if row.metric is None else METRIC.validate_python(row.metric),
        progress=agent_fields.progress_of_column(row.progress),
        machine=row.machine if with_texts else {},
        output=row.output if with_texts else "",
        image_digest=row.image_digest,
        setup=None if row.setup_s is None else timedelta(seconds=row.setup_s),
        phase=row.phase,
        transfers=agent_fields.transfers_of((), getattr(row, "transfers", None)),  # few queries read them
        hang=agent_fields.hang_of_column(row.hang),
        exit=None if row.exit is None else EXIT.validate_python(row.exit),
        accepted_through=row.accepted_through,
        internal_address=row.internal_address,
        ready_round=row.ready_round,
        ended_round=None if row.ended_round is None else ENDED_ROUND.validate_python(row.ended_round),
    )


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """An attempt as it is intended."""

    job_id: str
    number: int
    name: str
    project: str
    zone: str
    gpu_type: str
    provisioning_model: ProvisioningModel
    request_uuid: str
    max_run: timedelta
    intended_at: datetime
    generation: int = FIRST
    rate: Money | None = None
    resume_from: str = ""
    resume_step: int | None = None
    resume_why: str = ""
    image: str = ""
    follows: int | None = None
    address: AddressChoice | None = None
    notice: timedelta | None = None  # None: not known
    node: int = 0
    formation: int = 0
    vm_group: str = ""
    resize_request: str = ""


class Changes(TypedDict, total=False):
    """The parts of an attempt that can change, as in `Attempt`."""

    state: AttemptState
    outcome: Outcome
    reason: str
    rate: Money | None
    max_run: timedelta
    notice: timedelta
    resume_from: str
    resume_step: int | None
    asked_at: datetime | None
    operation: str
    gce_id: str
    made_at: datetime | None
    stop_asked_at: datetime | None
    stop_why: str
    ended_at: datetime | None
    zones_available: Sequence[str]
    delete_asked_at: datetime | None
    gone_at: datetime | None
    rested_at: datetime | None
    restarts: int
    tries: int
    try_after: datetime | None
    error: str
    claimed_by: str


@dataclass(frozen=True, slots=True)
class JobVm:
    """An attempt as the ledger needs it: which VM it is, or will be, and whose."""

    attempt_id: int
    job_id: str
    owner: str
    name: str
    zone: str
    gce_id: str  # "" until it is known
    is_live: bool
    request_uuid: str = ""


def intend(connection: Connection, new: NewAttempt) -> Attempt | None:
    """Intends an attempt. None: the job has an attempt with this number already."""
    row = {
        "job_id": new.job_id,
        "number": new.number,
        "generation": new.generation,
        "name": storable(new.name),
        "project": storable(new.project),
        "zone": storable(new.zone),
        "gpu_type": storable(new.gpu_type),
        "provisioning_model": new.provisioning_model.value,
        "request_uuid": new.request_uuid,
        "max_run_s": new.max_run // timedelta(seconds=1),
        "rate_nanos": None if new.rate is None else new.rate.nanos,
        "resume_from": storable(new.resume_from),
        "resume_step": new.resume_step,
        "resume_why": storable(new.resume_why),
        "image": storable(new.image),
        "follows": new.follows,
        "address": None if new.address is None else storable(asdict(new.address)),
        "notice_s": None if new.notice is None else new.notice // timedelta(seconds=1),
        "node": new.node,
        "formation": new.formation,
        "vm_group": new.vm_group,
        "resize_request": new.resize_request,
        "state": AttemptState.INTENDED.value,
        "intended_at": new.intended_at,
    }
    if upsert(connection, attempts, [row], ["job_id", "number"], update_columns=[]) == 0:
        return None
    return by_name(connection, new.project, new.name)


def live(connection: Connection) -> list[Attempt]:
    """Lists the attempts that are not over, in their order.

    The last output and the machine's figures are left out: see `read`.
    """
    return sorted((attempt_of(row) for row in connection.execute(_LIVE)), key=lambda attempt: attempt.id)


def of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, list[Attempt]]:
    """Returns attempts in the order in which their commands ran or would have; jobs without any are left out.

    An attempt whose VM stands by, or did so in vain, comes before the one that it was to follow. Of a gang, the open
    attempt that speaks for it is the last: of the first node in the newest round. Texts are left out.
    """
    by_job: dict[str, list[Attempt]] = {}
    for some in chunks(set(job_ids)):
        for row in connection.execute(*_of_jobs(some)):
            by_job.setdefault(row.job_id, []).append(attempt_of(row))
    for some_of_job in by_job.values():
        if any(one.follows is not None for one in some_of_job):
            some_of_job.sort(key=_place)
        if any(one.formation for one in some_of_job):
            some_of_job.sort(key=_in_gang)
    return by_job


@prepared
def _of_jobs(job_ids: list[str]) -> Select[Any]:
    return select(*WITHOUT_TEXTS).where(attempts.c.job_id.in_(job_ids)).order_by(attempts.c.job_id, attempts.c.number)


def _in_gang(attempt: Attempt) -> tuple[int, int, int, int]:
    """A VM of an elastic gang that has not joined a round yet, or was never there, does not speak for the others."""
    return (attempt.formation, attempt.round if attempt.is_open else 0, -attempt.node, attempt.number)


def _place(attempt: Attempt) -> tuple[int, bool, int]:
    return (attempt.number if attempt.took_over else attempt.follows or 0, attempt.took_over, attempt.number)


def of_ids(connection: Connection, ids: Collection[int]) -> dict[int, Attempt]:
    """Returns attempts by id, without the parts that `live` leaves out."""
    query = select(*WITHOUT_TEXTS)
    rows = (row for some in chunks(ids) for row in connection.execute(query.where(attempts.c.id.in_(some))))
    return {row.id: attempt_of(row) for row in rows}


def read(connection: Connection, attempt_id: int) -> Attempt | None:
    return _one(connection, attempts.c.id == attempt_id)


def by_name(connection: Connection, project: str, name: str) -> Attempt | None:
    return _one(connection, attempts.c.name == storable(name), attempts.c.project == storable(project))


def called(connection: Connection, name: str) -> tuple[Attempt, bool] | None:
    """The attempt by its name alone, which holds its job's id, and whether its job is to be cancelled.

    Without the output, which is long and about to be replaced.
    """
    row = all_called(connection, [name]).get(name)
    return row[:2] if row is not None else None


def all_called(connection: Connection, names: Collection[str]) -> dict[str, tuple[Attempt, bool, EarlyEnd | None]]:
    """Reads attempts by their names, whether their jobs are cancelled, and why Costguard ends them early."""
    rows: dict[str, tuple[Attempt, bool, EarlyEnd | None]] = {}
    for some in chunks({str(storable(name)) for name in names}):
        for row in connection.execute(_CALLED, {"called": some}):
            early = EarlyEnd(row.early_why) if row.early_why else None
            rows.setdefault(row.name, (attempt_of(row), row.cancel_asked_at is not None, early))
    return rows


def change(
    connection: Connection, attempt_id: int, expected: Collection[AttemptState], **values: Unpack[Changes]
) -> bool:
    """False: it is in none of the expected states, and nothing was changed."""
    mine = update(attempts).where(
        attempts.c.id == attempt_id, attempts.c.state.in_([state.value for state in expected])
    )
    return connection.execute(mine.values(columns_of(values))).rowcount == 1


def resumed(connection: Connection, attempt_id: int, resume_from: str, step: int | None, why: str) -> None:
    """Records the checkpoint that its present run resumed from, "" is the beginning; `why` where that is not the newest
    complete one.
    """
    values = {"resume_from": storable(resume_from), "resume_step": step, "resume_why": storable(why)}
    connection.execute(update(attempts).where(attempts.c.id == attempt_id).values(values))


def of_instances(
    connection: Connection, project: str, gce_ids: Iterable[str] = (), names: Iterable[str] = ()
) -> list[JobVm]:
    """The attempts of a project whose VM is one of these, by its id or by its name; each once."""
    queries = [
        *(_of_instances(attempts.c.gce_id, project, some) for some in chunks({gce_id for gce_id in gce_ids if gce_id})),
        *(_of_instances(attempts.c.name, project, some) for some in chunks({str(storable(name)) for name in names})),
    ]
    return list({row.id: JobVm(*row) for query in queries for row in connection.execute(*query)}.values())


@prepared
def _of_instances(column: ColumnElement[str], project: str, values: list[str]) -> Select[Any]:
    columns = attempts.c
    what = (columns.id, columns.job_id, jobs.c.owner, columns.name, columns.zone, columns.gce_id)
    query = select(*what, _IS_LIVE, columns.request_uuid).join_from(attempts, jobs, jobs.c.id == columns.job_id)
    return query.where(columns.project == project, column.in_(values))


_LIVE = select(*WITHOUT_TEXTS).where(text(LIVE_ATTEMPT))
# Made once: a thousand agents are heard every few seconds, and making a statement takes longer than running it.
_CALLED = (
    select(*WITHOUT_TEXTS, attempts.c.transfers, jobs.c.cancel_asked_at, jobs.c.early_why)
    .join_from(attempts, jobs, jobs.c.id == attempts.c.job_id)
    .where(attempts.c.name.in_(bindparam("called", expanding=True)))
)
_IS_LIVE = (attempts.c.state != AttemptState.OVER.value).label("is_live")


def _one(connection: Connection, *conditions: ColumnElement[bool]) -> Attempt | None:
    row = connection.execute(select(attempts).where(*conditions)).first()
    return None if row is None else attempt_of(row, with_texts=True)
