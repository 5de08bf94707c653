"""The presets: what kinds of VM there are, how long they may run, and how they are launched."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from costguard.api import job_mapping, job_schemas
from costguard.api.deps import Given
from costguard.api.fields import Out
from costguard.api.route import routes
from costguard.model import preset as model
from costguard.model.utilisation import IdleRule

router = routes("configuration")

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
    when_unanswered: Literal["remind", "stop"]
    stop_after: int = Field(description="Unanswered reminders before a VM is stopped.")
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
    launch: job_schemas.Recipe | None = Field(description="How a VM of it is launched; null: it cannot be.")
    dev_image: str = Field(description="What development VMs boot from; empty: the recipe's image.")
    overrides: list[str] = Field(description="What of the recipe operators may have otherwise; admins may all.")


class Presets(Out):
    presets: list[Preset]


@router.get("/presets", summary="The presets, in the order they are tried", operation_id="listPresets")
def presets(deps: Given) -> Presets:
    """The kinds of VM, how they are recognised, how long they may run, and how they are launched."""
    return Presets(presets=[_preset(each) for each in deps.presets])


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
        launch=None if of.launch is None else job_mapping.recipe(of.launch),
        dev_image=of.dev_image,
        overrides=list(of.may_override) if of.launch is not None else [],
    )


def _idle(rule: IdleRule) -> WhenIdle:
    return WhenIdle(
        window_seconds=rule.window // _SECOND,
        gpu_below_percent=rule.gpu_below // 100,
        cpu_below_percent=rule.cpu_below // 100,
    )
