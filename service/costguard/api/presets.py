"""Presets: the kinds of VM, how long each may run, and how it is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import Out, Provisioning, Seconds, read_from
from costguard.api.route import routes
from costguard.jobs.decide.measures.start_times import StartTimes
from costguard.jobs.rows.history import start_rows
from costguard.model.preset import Preset

router = routes("configuration")

# From basis points, cut off to whole percents.
_Percent = Annotated[int, BeforeValidator(lambda points: points // 100)]


class MatchOut(Out):
    labels: Mapping[str, str]
    gpu_types: Annotated[list[str], BeforeValidator(sorted)]
    gpu_count_min: int
    gpu_count_max: int | None


class IdleRuleOut(Out):
    window_seconds: Seconds = read_from("window", description="The time that a VM must stay below the thresholds.")
    gpu_below_percent: _Percent = read_from(
        "gpu_below", description="The threshold of use that applies to every GPU of the VM."
    )
    sm_below_percent: _Percent = read_from(
        "sm_below",
        description="The threshold for the multiprocessors of every GPU, which decides where DCGM measures them.",
    )
    cpu_below_percent: _Percent = read_from(
        "cpu_below", description="The threshold of CPU use where GPUs are not measured."
    )


class ReminderRuleOut(Out):
    every_seconds: Seconds = read_from("every", description="The time between reminders to the owner after the limit.")
    keeps: int = Field(
        description="The number of times that an owner may keep one lifetime; after that only an admin can."
    )
    longest_keep_seconds: Seconds = read_from("longest_keep")
    when_unanswered: Annotated[Literal["remind", "stop"], BeforeValidator(str)] = read_from("enforcement")
    stop_after: int = Field(description="The number of unanswered reminders before a VM is stopped.")
    grace_seconds: Seconds = read_from(
        "grace", description="The grace period, counted from when Slack accepted the last of them."
    )


class RecipeOut(Out):
    machine_type: str
    gpu_type: str
    gpu_count: int
    zones: Sequence[str] = Field(description="Zones in order of preference where nothing else decides.")
    image: str = Field(description="The boot image.")
    buy: str = Field(description="The way in which its VMs are bought, as `overrides.buy` takes it.")
    flex_wait_seconds: Seconds = read_from("wait", description="The longest wait of a request for a flex-start VM.")
    provisioning_model: Provisioning
    falls_back_to_on_demand: bool = Field(description="Whether on-demand is used once every zone is out of Spot stock.")
    notice_seconds: Seconds = read_from(
        "notice", description="The notice of a preemption that Spot VMs are asked for, in seconds: 120 or 0."
    )
    max_run_seconds: Seconds = read_from("max_run", description="Google ends each VM after this time.")
    disk_gib: int
    disk_type: str
    service_account: str = Field(description="The service account of its VMs; empty: the VM cannot call Google APIs.")
    network: str
    subnetwork: str
    external_address: bool | None = Field(
        description="Whether VMs get an external IPv4 address; null: only where their subnetwork has no Cloud NAT."
    )
    labels: Mapping[str, str]


class StartsOut(Out):
    """The time from the request of a VM to the first step of its job."""

    count: int = Field(description="The number of first starts in the last 90 days.")
    usual_seconds: Seconds = read_from("usual", description="The median in seconds.")
    slowest_seconds: Seconds | None = read_from(
        "slowest", description="The 99th percentile of these starts, in seconds; null: too few were seen."
    )
    phase_seconds: Mapping[str, Seconds] = read_from(
        "phases",
        description="Medians: `requested` until Google made the VM, `boot` until its agent ran, `prepare` until the "
        "command did (image, data, setup), `load` until the first step. A phase that was never seen is left out.",
    )


class PresetOut(Out):
    name: str
    description: str
    limit_seconds: Seconds | None = read_from(
        "limit", description="The length of a lifetime after which its owner gets a reminder; null: no limit."
    )
    match: MatchOut = Field(description="The conditions that recognise a VM: all must hold.")
    idle: IdleRuleOut | None = Field(description="The rule for idleness; null: idleness is not used.")
    reminders: ReminderRuleOut
    launch: RecipeOut | None = Field(description="The recipe that launches its VMs; null: they cannot be launched.")
    dev_image: str = Field(description="The boot image of development VMs; empty: the recipe's image.")
    overrides: Sequence[str] = Field(
        description="The parts of the recipe that operators may override; admins may override all."
    )
    starts: StartsOut | None = Field(description="The start times of its jobs' VMs; null: none was seen.")
    starts_by_zone: Mapping[str, StartsOut] = Field(description="The start times in each zone in which any was seen.")


class PresetsResponse(Out):
    presets: list[PresetOut]


@router.get("/presets", summary="List presets in the order they are tried", operation_id="listPresets")
def presets(deps: Given) -> PresetsResponse:
    """Lists the kinds of VM with the rules that recognise them, their limits, and the recipes that launch them."""
    with deps.database.read() as connection:
        starts = start_rows.read(connection, deps.clock.now())
    return PresetsResponse(presets=[_preset(preset, starts.get(preset.name, {})) for preset in deps.presets])


def _preset(preset: Preset, starts: Mapping[str, StartTimes]) -> PresetOut:
    """`starts` by zone; under "" those in all zones."""
    return PresetOut.read(
        preset,
        overrides=preset.may_override if preset.launch is not None else (),
        starts=StartsOut.read(starts[""]) if "" in starts else None,
        starts_by_zone={zone: StartsOut.read(times) for zone, times in sorted(starts.items()) if zone},
    )
