"""The sections about jobs: how VMs are launched, where they reach the guard, and how long to wait for what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from costguard.access.rules import JobRules
from costguard.jobs import submission
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Terms
from costguard.model.launch import Recipe
from costguard.settings import values_jobs as values
from costguard.settings.fields import Duration, GpuType, LabelValue, Listed, Section, between

_SECOND, _MINUTE, _HOUR, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_SHORTEST, _LONGEST = 10 * _MINUTE, 120 * _DAY  # the latter is Google's
_WITHOUT_LIMIT = 7 * _DAY
_ATTACHING = ("n1-", "custom-")  # to no other machine types GPUs can be attached
_TERMS = Terms()
_RULES = JobRules()

Image = Annotated[str, AfterValidator(values.image)]
Override = Literal["zones", "spot", "on_demand_fallback", "machine_type", "disk_gib", "max_run_hours", "image"]


class LaunchSection(Section):
    """How a VM of a preset is launched."""

    machine_type: Annotated[str, AfterValidator(values.machine_type)]
    gpu_type: GpuType | None = None
    gpu_count: Annotated[int, Field(ge=0, le=16)] = 0
    zones: Annotated[
        tuple[Annotated[str, AfterValidator(values.zone)], ...],
        Listed,
        AfterValidator(values.zones),
        Field(min_length=1),
    ]
    spot: bool = True
    on_demand_fallback: bool = False
    image: Image = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580"
    dev_image: Image | None = None
    install_drivers: bool = True
    max_run: Annotated[Duration, between(_SHORTEST, _LONGEST)] | None = None  # None: the preset's limit
    disk_gib: Annotated[int, Field(ge=10, le=65536)] = 100
    disk_type: Annotated[str, AfterValidator(values.disk_type)] = "pd-balanced"
    service_account: Annotated[str, AfterValidator(values.service_account)] | None = None
    scopes: Annotated[tuple[Annotated[str, AfterValidator(values.scope)], ...], Listed] = (
        "https://www.googleapis.com/auth/cloud-platform",
    )
    network: Annotated[str, AfterValidator(values.network)] = "global/networks/default"
    subnetwork: Annotated[str, AfterValidator(values.subnetwork)] | None = None
    external_address: bool = True
    labels: Annotated[Mapping[str, LabelValue], AfterValidator(values.labels)] = Field(default_factory=dict)
    overrides: Annotated[tuple[Override, ...], Listed] = (
        "zones",
        "spot",
        "on_demand_fallback",
        "disk_gib",
        "max_run_hours",
        "image",
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.gpu_type is None) != (self.gpu_count == 0):
            raise ValueError("gpu_type and gpu_count together, or neither for VMs without a GPU")
        region = values.region_of(self.subnetwork or "")
        elsewhere = [zone for zone in self.zones if region and not zone.startswith(f"{region}-")]
        if elsewhere:
            raise ValueError(f"zones of {region}, where the subnetwork is, and not {', '.join(elsewhere)}")
        if unsold := submission.not_sold(self.machine_type, self._models):
            raise ValueError(f"a machine type that is sold this way. {unsold}")
        return self

    @property
    def _models(self) -> list[ProvisioningModel]:
        if not self.spot:
            return [ProvisioningModel.STANDARD]
        return [ProvisioningModel.SPOT, *([ProvisioningModel.STANDARD] if self.on_demand_fallback else [])]

    def recipe(self, limit: timedelta | None) -> Recipe:
        """Where no longest run is set, a VM runs for no longer than its preset lets it before its owner is asked."""
        usual = min(max(limit or _WITHOUT_LIMIT, _SHORTEST), _LONGEST)
        return Recipe(
            machine_type=self.machine_type,
            zones=self.zones,
            image=self.image,
            max_run=self.max_run or usual,
            gpu_type=self.gpu_type or "",
            gpu_count=self.gpu_count,
            attaches_gpus=self.gpu_count > 0 and self.machine_type.startswith(_ATTACHING),
            provisioning_model=ProvisioningModel.SPOT if self.spot else ProvisioningModel.STANDARD,
            falls_back_to_on_demand=self.on_demand_fallback,
            disk_gib=self.disk_gib,
            disk_type=self.disk_type,
            service_account=self.service_account or "",
            scopes=self.scopes,
            network=self.network,
            subnetwork=self.subnetwork or "",
            external_address=self.external_address,
            installs_drivers=self.install_drivers,
            labels=dict(self.labels),
        )


class Jobs(Section):
    """Where VMs reach this guard, and the terms of jobs."""

    guard_url: Annotated[str, AfterValidator(values.guard_url)] | None = None
    guard_ca_file: Annotated[str, AfterValidator(values.certificates)] | None = None
    heartbeat: Annotated[Duration, between(_SECOND, _MINUTE)] = _RULES.heartbeat
    silence: Annotated[Duration, between(30 * _SECOND, 6 * _HOUR)] = _TERMS.silence
    boot: Annotated[Duration, between(_MINUTE, 6 * _HOUR)] = _TERMS.boot
    # Google gives 30 seconds: sooner two VMs could write to one place.
    dying: Annotated[Duration, between(30 * _SECOND, 10 * _MINUTE)] = _TERMS.dying
    cancel_grace: Annotated[Duration, between(_SECOND, _HOUR)] = _TERMS.cancel_grace
    quick_crash: Annotated[Duration, between(_SECOND, _DAY)] = _TERMS.quick_crash
    crash_loop: Annotated[int, Field(ge=1, le=20)] = _TERMS.crash_loop
    first_wait: Annotated[Duration, between(_SECOND, _HOUR)] = _TERMS.first_wait
    longest_wait: Annotated[Duration, between(_SECOND, _DAY)] = _TERMS.longest_wait
    stalled: Annotated[Duration, between(_MINUTE, 7 * _DAY)] = _TERMS.stalled
    orphan_grace: Annotated[Duration, between(10 * _SECOND, _DAY)] = _TERMS.orphan_grace

    @model_validator(mode="after")
    def _waits(self) -> Self:
        if self.first_wait > self.longest_wait:
            raise ValueError("first_wait no longer than longest_wait")
        return self

    @property
    def rules(self) -> JobRules:
        """Raises OSError where the certificates went away after the settings were read."""
        terms = self.model_dump(exclude={"guard_url", "guard_ca_file", "heartbeat"})
        ca = Path(self.guard_ca_file).read_text("ascii") if self.guard_ca_file is not None else ""
        return JobRules(self.guard_url or "", ca, self.heartbeat, Terms(**terms))
