"""Two guards at once: one stands still, another takes over and works, and the first goes on as if nothing had been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Table, select
from tests.scenario.fleet import HOUR, MINUTE
from tests.simulation.crashing import CrashPoint
from tests.simulation.guard import Place, Process
from tests.simulation.job_vms import asked_by_the_guard

from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.db import lease as leases
from costguard.db import tables
from costguard.model.attempt import AttemptState

if TYPE_CHECKING:
    from tests.simulation.life import Life

# What a guard writes under its lease alone. People and agents are heard by any process.
_FENCED: tuple[Table, ...] = (
    tables.instances, tables.lifetimes, tables.storage_spans, tables.charges, tables.keeps, tables.claims, tables.stops,
)  # fmt: skip
_OF_ATTEMPTS = ("name", "state", "zone", "asked_at", "gce_id", "request_uuid", "tries")
_STATE = _OF_ATTEMPTS.index("state")
_CHANGES = ("insert", "start", "stop", "delete")
_Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _State:
    """The state as the guard went on: rows by table, and how many changes guards had asked of Google."""

    rows: Mapping[str, frozenset[_Row]]
    asked: int


@dataclass
class TwoGuards:
    """Lets one stand still. `wrong` are what two at once did that only one may, as sentences."""

    life: Life
    wrong: list[str] = field(default_factory=list)
    _since: _State | None = None  # when another had taken over, while the first has not noticed

    def meanwhile(self, place: Place, number: int, held_by: Process | None) -> None:
        """Called while a guard stands still: another takes over once the lease has run out, works, and ends."""
        life = self.life
        life.counts["freezes"] += 1
        lot = life.plan.lot("freeze", life.counts["freezes"])
        frozen = life.wire.step
        self.wrong += life.shown()
        self._nobody_else_gets_in(held_by)
        # Short ones too: what a guard had just looked at is still fresh then.
        waits, works_for = (HOUR, 5 * MINUTE) if lot.random() < 0.5 else (MINUTE / 2, MINUTE / 2)
        life.move(LEASE_TTL + lot.random() * waits)
        life.people.read()
        life.people.answer_now(lot, life.plan.aim.answers)
        other = Process(place, number, CrashPoint())
        other.begin()
        try:
            for _ in range(2):
                if not other.hold():
                    self.wrong.append(f"the lease ran out, and could not be had at {life.now}")
                    break
                life.work_of(other)
                life.move(works_for)
        finally:
            other.close()
            life.wire.step = frozen
        self._since = self._state()

    def noticed(self) -> None:
        """The guard that stood still knows by now that the lease is another's: it has changed nothing since."""
        if self._since is None:
            return
        before, self._since = self._since, None
        after = self._state()
        for table, rows in after.rows.items():
            changed = rows ^ before.rows[table]
            if table == tables.attempts.name:
                changed -= _begun_by_agents(before.rows[table], rows)
            if changed:
                self.wrong.append(f"a guard whose lease was taken over wrote {len(changed)} rows of {table}")
        if after.asked > before.asked:
            self.wrong.append(
                f"a guard whose lease was taken over asked {after.asked - before.asked} changes of Google"
            )

    def _nobody_else_gets_in(self, held_by: Process | None) -> None:
        """Checks that nobody else gets in until the lease runs out."""
        life, now = self.life, self.life.guard_clock.now()
        if held_by is None or held_by.lease is None or held_by.lease.expires_at <= now + timedelta(seconds=1):
            return
        with life.trouble.quiet():
            if leases.acquire(life.ledger, LEASE, "rival", LEASE_TTL, now) is not None:
                self.wrong.append(f"another guard got the lease at {now}, held until {held_by.lease.expires_at}")

    def _state(self) -> _State:
        with self.life.trouble.quiet(), self.life.ledger.read() as connection:
            rows = {
                table.name: frozenset(tuple(map(str, row)) for row in connection.execute(select(table)))
                for table in _FENCED
            }
            columns = [tables.attempts.c[name] for name in _OF_ATTEMPTS]
            rows["attempts"] = frozenset(tuple(map(str, row)) for row in connection.execute(select(*columns)))
        return _State(rows, len(asked_by_the_guard(self.life.world, *_CHANGES)))


def _begun_by_agents(before: frozenset[_Row], after: frozenset[_Row]) -> frozenset[_Row]:
    """The rows before and after of attempts whose agent said that the command runs, and nothing else changed."""
    running = AttemptState.RUNNING.value
    begun = {_without_state(row): row for row in after - before if row[_STATE] == running}
    pairs = [(row, begun[_without_state(row)]) for row in before - after if _without_state(row) in begun]
    return frozenset(row for pair in pairs for row in pair)


def _without_state(row: _Row) -> _Row:
    return (*row[:_STATE], *row[_STATE + 1 :])
