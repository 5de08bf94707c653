"""The events of data stages, for the audit log."""

from __future__ import annotations

from datetime import datetime

from costguard.model.event import Event, new_event
from costguard.model.words import count_text, size_text
from costguard.stages.stage import DataStage


def deletion_asked(stage: DataStage, by: str, now: datetime) -> Event:
    text = f"{by} asked to delete the staged copy of {stage.source}: {size_text(stage.staged)} at {stage.place}."
    return new_event(
        "StageDeletionAsked", now, text, stage.digest, now.isoformat(), actor=by, data=_data(stage), name=stage.source
    )


def deleted(stage: DataStage, files: int, why: str, now: datetime) -> Event:
    text = (
        f"The staged copy of {stage.source} was deleted: {count_text(files, 'object')}, {size_text(stage.staged)}, at "
        f"{stage.place}. {why}"
    )
    data = {**_data(stage), "files": files}
    return new_event("StageDeleted", now, text, stage.digest, stage.made_at.isoformat(), data=data, name=stage.source)


def _data(stage: DataStage) -> dict[str, object]:
    return {"stage": stage.digest, "source": stage.source, "place": stage.place, "bytes": stage.staged}
