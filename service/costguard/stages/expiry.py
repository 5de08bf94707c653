"""Deletes data stages: those that no job has used for long, and those that a person asked to delete.

That a stage goes is committed before its first object does; from then on no VM uses it. A deletion that was cut off is
done again by the next turn.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime

import structlog

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CheckpointError, Conflict, Missing
from costguard.events import audit_log
from costguard.model.data import StageRules, StageStore
from costguard.model.duration import span_text
from costguard.model.ports import Clock
from costguard.stages import decide, stage_events, stage_rows
from costguard.stages.stage import DataStage, StageState

MANIFEST = "manifest.json"  # the agent's; it goes first, so that nobody takes what is left for a whole stage

log = structlog.get_logger(__name__)


class StageExpiry:
    """`store` deletes objects; `rules` say for how long stages are kept, and how much in all."""

    def __init__(self, database: Database, clock: Clock, store: StageStore, rules: StageRules) -> None:
        self._database, self._clock, self._store, self._rules = database, clock, store, rules

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> int:
        """Deletes what is due. Returns how many stages it deleted."""
        with self._database.read() as connection:
            if not stage_rows.stored(connection):
                return 0
        count = 0
        for stage, why in self._decided(fence):
            if stop is not None and stop.is_set():
                break
            count += self._delete(stage, why, fence)
        return count

    def _decided(self, fence: Lease | None) -> list[tuple[DataStage, str]]:
        now = self._clock.now()
        with self._database.write(fence) as connection:
            stored, in_use = stage_rows.stored(connection), stage_rows.in_use(connection)
            old = [
                one
                for one in stored
                if decide.is_due(one, now, self._rules.keep, is_in_use=one.digest in in_use or decide.is_held(one, now))
            ]
            rest = [one for one in stored if one not in old]
            too_many = decide.over_the_most(rest, self._rules.most, in_use)
            going = []
            for one in [*old, *too_many]:
                leaving = replace(one, state=StageState.DELETING, holder="", renewed_at=None)
                stage_rows.save(connection, leaving, is_new=False)
                going.append((leaving, self._why(one, now)))
            return going

    def _why(self, stage: DataStage, now: datetime) -> str:
        if stage.delete_asked_by:
            return f"{stage.delete_asked_by} asked for it."
        if now - stage.used_at >= self._rules.keep:
            return f"No job had used it for {span_text(now - stage.used_at)}."
        return "More was stored than [stage] max_gib, and it was used longest ago."

    def _delete(self, stage: DataStage, why: str, fence: Lease | None) -> bool:
        try:
            files = self._store.delete(stage.place, MANIFEST)
        except CheckpointError as error:  # the next turn tries again
            log.warning("stage_not_deleted", place=stage.place, error=str(error))
            with self._database.write(fence) as connection:
                stage_rows.save(connection, replace(stage, error=str(error)), is_new=False)
            return False
        now = self._clock.now()
        gone = replace(stage, state=StageState.DELETED, deleted_at=now, error="")
        with self._database.write(fence) as connection:
            stage_rows.save(connection, gone, is_new=False)
            audit_log.append(connection, [stage_events.deleted(stage, files, why, now)], now)
        return True


class StageService:
    """Takes people's requests to delete a stage; the daemon's next turn does it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def delete(self, digest: str, by: str) -> tuple[DataStage, bool]:
        """Returns the stage, and whether this request is the first. Raises Missing, or Conflict while it is in use."""
        now = self._clock.now()
        with self._database.write() as connection:
            stage = stage_rows.lock(connection, digest)
            if stage is None or not stage.is_there:
                raise Missing(f"There is no stage {digest[:12]}.", "GET /api/v1/stages lists all stages.")
            if stage.state is StageState.DELETING:
                return stage, False
            if digest in stage_rows.in_use(connection):
                raise Conflict(
                    f"Open jobs use the staged copy of {stage.source}.",
                    "Wait until they have ended: costguard stages names them.",
                    kind="stage-in-use",
                )
            leaving = replace(stage, state=StageState.DELETING, holder="", renewed_at=None, delete_asked_by=by)
            stage_rows.save(connection, leaving, is_new=False)
            audit_log.append(connection, [stage_events.deletion_asked(leaving, by, now)], now)
            return leaving, True
