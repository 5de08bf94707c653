"""[presets]: which VMs a preset matches, its limit, its reminders, and when a VM of it is idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import Enforcement, ReminderRule
from costguard.model.utilisation import IdleRule
from costguard.settings.jobs import LaunchSection
from costguard.settings.problems import Raw, SettingProblem, table, unexpected
from costguard.settings.values import (
    Accelerator,
    Duration,
    DurationOrNever,
    LabelValue,
    Listed,
    Section,
    between,
    label_key,
)

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_TEN_MINUTES = timedelta(minutes=10)


def _label_keys(labels: Mapping[str, str]) -> Mapping[str, str]:
    for key in labels:
        label_key(key)
    return labels


Percent = Annotated[int, Field(ge=1, le=100)]


class PresetMatch(Section):
    labels: Annotated[Mapping[str, LabelValue], AfterValidator(_label_keys)] = Field(default_factory=dict)
    accelerator: Accelerator | None = None
    gpu_types: Annotated[tuple[Accelerator, ...], Listed] = ()
    gpu_count_min: Annotated[int, Field(ge=0, le=64)] = 0
    gpu_count_max: Annotated[int, Field(ge=0, le=64)] | None = None

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.gpu_count_max is not None and self.gpu_count_min > self.gpu_count_max:
            raise ValueError(
                f"gpu_count_min ({self.gpu_count_min}) no larger than gpu_count_max ({self.gpu_count_max})"
            )
        return self


class PresetIdle(Section):
    """The rule for an idle VM. Without a window, idleness of this preset's VMs is not measured."""

    gpu_below: Percent = 5
    sm_below: Percent = 5
    cpu_below: Percent = 5
    window: Annotated[DurationOrNever, between(timedelta(minutes=30), timedelta(days=1))] = timedelta(hours=1)

    @property
    def rule(self) -> IdleRule | None:
        if self.window is None:
            return None
        return IdleRule(100 * self.gpu_below, 100 * self.cpu_below, self.window, 100 * self.sm_below)


class PresetSection(Section):
    description: str = ""
    limit: DurationOrNever
    match: PresetMatch = PresetMatch()
    idle: PresetIdle = PresetIdle()
    launch: LaunchSection | None = None
    remind_every: Annotated[Duration, between(_TEN_MINUTES, 7 * _DAY)] = timedelta(hours=4)
    keeps: Annotated[int, Field(ge=0, le=100)] = 3
    longest_keep: Annotated[Duration, between(_HOUR, 30 * _DAY)] = timedelta(days=3)
    when_unanswered: Literal["remind", "stop"] = "remind"
    stop_after: Annotated[int, Field(ge=1, le=20)] = 3
    grace: Annotated[Duration, between(_TEN_MINUTES, 7 * _DAY)] = timedelta(hours=1)

    def preset(self, name: str) -> Preset:
        match = Match(
            labels=dict(self.match.labels),
            gpu_types=frozenset((*self.match.gpu_types, *(one for one in (self.match.accelerator,) if one))),
            gpu_count_min=self.match.gpu_count_min,
            gpu_count_max=self.match.gpu_count_max,
        )
        preset = Preset(name, match, self.limit, self.description, self.idle.rule, self.reminder_rule)
        if self.launch is None:
            return preset
        return replace(
            preset,
            launch=self.launch.recipe(self.limit),
            dev_image=self.launch.dev_image or "",
            may_override=self.launch.overrides,
        )

    @property
    def reminder_rule(self) -> ReminderRule:
        return ReminderRule(
            every=self.remind_every,
            keeps=self.keeps,
            longest_keep=self.longest_keep,
            enforcement=Enforcement(self.when_unanswered),
            stop_after=self.stop_after,
            grace=self.grace,
        )


def check(raw: Raw) -> Iterator[SettingProblem]:
    """Keys of `other`, labels that name owners, and stops without a warning."""
    presets = table(raw, "presets")
    other = table(presets, OTHER)
    if "match" in other:
        yield SettingProblem(("presets", OTHER, "match"), f"no such key; {OTHER} is what no preset matches")
    if "launch" in other:
        text = f"no such key; {OTHER} is what no preset matches, so it cannot be launched: name a preset for it"
        yield SettingProblem(("presets", OTHER, "launch"), text)
    label = table(raw, "owners").get("label", "owner")
    for name in presets:
        section = table(presets, name)
        if label in table(table(section, "launch"), "labels"):
            text = f"no such key; the label {label} names the owner, and Costguard sets it on each VM"
            yield SettingProblem(("presets", name, "launch", "labels", label), text)
        given = section.get("when_unanswered")
        if given == "stop" and "slack" not in raw:
            expected = '"remind": without a section [slack] nobody could be warned before it'
            yield unexpected(("presets", name, "when_unanswered"), given, expected)
