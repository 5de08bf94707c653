"""Decides which VM fetches a source's data, and which stages go. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from costguard.stages.stage import LEASE, DataStage, StageAnswer, StageReport, StageState


def reported(
    stage: DataStage | None, report: StageReport, attempt: str, now: datetime, *, holder_lives: bool
) -> tuple[DataStage, StageAnswer]:
    """Returns the stage after an agent's report, and the answer to it.

    One VM at a time holds the right to fetch: it keeps it while its attempt is open (`holder_lives`) and it renews it.
    A note counts only from the holder: another VM that writes to the bucket cannot make its own one trusted. A stage
    that is being deleted is not used; once it is gone, it is made again.
    """
    if stage is None or stage.state is StageState.DELETED:
        stage = DataStage(report.digest, report.address, report.source, report.size, report.files, now, now)
    if stage.state is StageState.DELETING:
        return stage, StageAnswer(use=False, fetch=False)
    is_held_by_other = holder_lives and is_held(stage, now)
    is_holder = stage.holder == attempt
    if is_holder and not report.wants:
        stage = _by_holder(stage, report, now)
        stage = replace(stage, holder="", renewed_at=None)
    elif report.wants and (is_holder or not is_held_by_other):
        stage = _by_holder(stage, report, now) if is_holder else stage
        stage = replace(stage, holder=attempt, renewed_at=now)
    if report.is_whole and stage.state is StageState.FILLING:
        stage = replace(stage, state=StageState.WHOLE, whole_at=now, error="")
    stage = replace(stage, used_at=now, staged=max(stage.staged, min(report.staged, stage.size)))
    return stage, StageAnswer(use=True, fetch=stage.holder == attempt, note=stage.note)


def is_held(stage: DataStage, now: datetime) -> bool:
    """Says whether a VM has renewed its right to fetch lately."""
    return stage.holder != "" and stage.renewed_at is not None and now - stage.renewed_at < LEASE


def _by_holder(stage: DataStage, report: StageReport, now: datetime) -> DataStage:
    return replace(stage, note=report.note or stage.note, renewed_at=now, error=report.error)


def is_due(stage: DataStage, now: datetime, keep: timedelta, *, is_in_use: bool) -> bool:
    """Says whether a stage goes: unused for as long as stages are kept, and no open job's.

    One whose deletion has begun is due until it is done.
    """
    if stage.state is StageState.DELETING:
        return True
    return stage.is_there and not is_in_use and now - stage.used_at >= keep


def over_the_most(stages: list[DataStage], most: int | None, in_use: frozenset[str]) -> list[DataStage]:
    """Returns the stages that go so that no more than `most` bytes are stored, those first that were used longest ago.

    None of them is an open job's, so that more may stay stored than `most`.
    """
    there = [stage for stage in stages if stage.is_there and stage.state is not StageState.DELETING]
    stored = sum(stage.staged for stage in there)
    gone: list[DataStage] = []
    for stage in sorted(there, key=lambda one: (one.used_at, one.digest)):
        if most is None or stored <= most:
            break
        if stage.digest not in in_use:
            gone.append(stage)
            stored -= stage.staged
    return gone
