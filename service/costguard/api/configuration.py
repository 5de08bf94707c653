"""What is set, and which projects are watched how well."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from fastapi import APIRouter
from pydantic import Field

from costguard.api import mapping, schemas
from costguard.api.deps import Given
from costguard.api.fields import Moment, Out
from costguard.api.problems import RESPONSES
from costguard.model import preset as model
from costguard.model.utilisation import IdleRule
from costguard.store import projects as stored_projects

router = APIRouter(prefix="/api/v1", tags=["configuration"], responses=RESPONSES)


_SECOND = timedelta(seconds=1)


class Match(Out):
    labels: dict[str, str]
    gpu_types: list[str]
    gpu_count_min: int
    gpu_count_max: int | None


class WhenIdle(Out):
    window_seconds: int = Field(description="How long a VM must stay below to be idle.")
    gpu_below_percent: int = Field(description="Of every GPU of the VM.")
    cpu_below_percent: int = Field(description="Where no GPU is measured.")


class Reminders(Out):
    every_seconds: int = Field(description="How often an owner is asked again after the limit.")
    keeps: int = Field(description="How often an owner may keep one lifetime; then an admin must.")
    longest_keep_seconds: int
    when_unanswered: Literal["remind", "stop", "suspend"]
    stop_after: int = Field(description="Unanswered reminders before a VM is stopped or suspended.")
    grace_seconds: int = Field(description="From when the last of them was accepted.")


class Preset(Out):
    name: str
    description: str
    limit_seconds: int | None = Field(
        description="How long a lifetime may last before its owner is asked; null: never."
    )
    match: Match = Field(description="How a VM is recognised: all that is given must hold.")
    idle: WhenIdle | None = Field(description="What counts as idle; null: that is not asked.")
    reminders: Reminders


class Presets(Out):
    presets: list[Preset]


class Project(Out):
    project: str
    instances: int = Field(description="In the last look that read every zone.")
    first_seen_at: Moment
    last_tried_at: Moment
    last_complete_at: Moment | None = Field(description="The last look that read every zone; null: none did.")
    operations_through_at: Moment | None = Field(description="Up to here it is known who did what.")
    is_stale: bool = Field(description="The last complete look is older than it should be, or there is none.")
    unread: list[schemas.Unread]


class Projects(Out):
    as_of: Moment
    projects: list[Project]


@router.get("/presets", summary="The presets, in the order they are tried")
def presets(deps: Given) -> Presets:
    """The kinds of VM, how they are recognised and how long they may run."""
    return Presets(presets=[_preset(each) for each in deps.presets])


@router.get("/projects", summary="The projects that are watched")
def projects(deps: Given) -> Projects:
    """What the last looks at each project gave, and what they could not read."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        looks = stored_projects.read_all(connection)
    return Projects(
        as_of=now,
        projects=[
            Project(
                project=look.project,
                instances=look.instance_count,
                first_seen_at=look.first_seen_at,
                last_tried_at=look.last_tried_at,
                last_complete_at=look.last_complete_at,
                operations_through_at=look.operations_through_at,
                is_stale=look.last_complete_at is None or now - look.last_complete_at > deps.stale_after,
                unread=mapping.unread([look]),
            )
            for look in looks
        ],
    )


def _preset(of: model.Preset) -> Preset:
    rule = of.reminders
    return Preset(
        name=of.name,
        description=of.description,
        limit_seconds=None if of.limit is None else of.limit // _SECOND,
        match=Match(
            labels=dict(of.match.labels),
            gpu_types=sorted(of.match.gpu_types),
            gpu_count_min=of.match.gpu_count_min,
            gpu_count_max=of.match.gpu_count_max,
        ),
        idle=None if of.idle is None else _idle(of.idle),
        reminders=Reminders(
            every_seconds=rule.every // _SECOND,
            keeps=rule.keeps,
            longest_keep_seconds=rule.longest_keep // _SECOND,
            when_unanswered=rule.enforcement.value,
            stop_after=rule.stop_after,
            grace_seconds=rule.grace // _SECOND,
        ),
    )


def _idle(rule: IdleRule) -> WhenIdle:
    return WhenIdle(
        window_seconds=rule.window // _SECOND,
        gpu_below_percent=rule.gpu_below // 100,
        cpu_below_percent=rule.cpu_below // 100,
    )
