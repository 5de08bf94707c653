"""Data stages as API and commands show them: what each stores, what that costs, and who used it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.model.data import StageRules
from costguard.model.money import ZERO, Money
from costguard.stages import stage_rows, storage_price
from costguard.stages.stage import DataStage
from costguard.stages.stage_rows import StageUse


@dataclass(frozen=True, slots=True)
class StorageShare:
    """The part of a stage's cost that one owner's jobs in one project have."""

    owner: str
    project: str
    cost: Money


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage with the jobs that used it, the last first. Amounts are None where its bucket's price is not known.

    `stored_cost` is for all of its present bytes since it was made: it is at most that. `shares` divides it by owner
    and project, in equal parts for each job.
    """

    stage: DataStage
    location: str
    uses: tuple[StageUse, ...]
    a_month: Money | None
    stored_cost: Money | None
    in_use: bool

    @property
    def from_source(self) -> int:
        """Returns the bytes that all VMs together fetched from the source."""
        return sum(use.from_source for use in self.uses)

    @property
    def shares(self) -> tuple[StorageShare, ...]:
        """Returns each owner's and project's part of the stored cost; empty where it is not known."""
        if self.stored_cost is None or not self.uses:
            return ()
        parts: dict[tuple[str, str], Money] = {}
        part, rest = divmod(self.stored_cost.nanos, len(self.uses))
        for number, use in enumerate(self.uses):
            key = use.owner, use.project
            parts[key] = parts.get(key, ZERO) + Money(part + (number < rest))
        return tuple(StorageShare(owner, project, cost) for (owner, project), cost in sorted(parts.items()))


def views(connection: Connection, rules: StageRules, now: datetime) -> list[StageView]:
    """Lists all stages whose objects may be there, the one used last first."""
    stages = stage_rows.stored(connection)
    if not stages:
        return []  # and the specs of all open jobs are not read
    uses = stage_rows.uses(connection, [stage.digest for stage in stages])
    in_use, locations = stage_rows.in_use(connection), rules.locations
    return [
        StageView(
            stage=stage,
            location=(location := locations.get(stage.address, "")),
            uses=tuple(uses.get(stage.digest, ())),
            a_month=storage_price.a_month(stage.staged, location),
            stored_cost=storage_price.over(stage.staged, location, now - stage.made_at),
            in_use=stage.digest in in_use,
        )
        for stage in stages
    ]
