"""[presets.NAME.launch], [jobs] and [checkpoints]: how VMs are launched, and how jobs are watched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from costguard.access.rules import JobRules
from costguard.keepers.reading import keeper_of
from costguard.model import buying
from costguard.model.job import Terms
from costguard.model.launch import LONGEST_WAIT, NOTICES, Recipe
from costguard.model.money import Money
from costguard.model.words import list_text
from costguard.settings.values import (
    Duration,
    Endpoint,
    GpuType,
    LabelValue,
    Listed,
    Section,
    between,
    dollars,
    endpoint,
    is_loopback,
    label_key,
    mail_address,
    matching,
    or_never,
    percent,
)

OURS = "costguard-"  # Costguard itself sets labels that begin like this
_WORDS = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PROJECT = r"(?:projects/[a-z0-9.:-]+/)?"
_NETWORK = re.compile(rf"{_PROJECT}global/networks/{_NAME}")
_PLACE = re.compile(r"(?:(?:gs|s3)://[A-Za-z0-9][A-Za-z0-9._-]{1,221}|file://)(?:/[A-Za-z0-9._=+@-]+)*/?")
_SECOND, _MINUTE, _HOUR, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_SHORTEST, _LONGEST = 10 * _MINUTE, 120 * _DAY  # the latter is Google's limit
_WITHOUT_LIMIT = 7 * _DAY
_ATTACHING = ("n1-", "custom-")  # GPUs can be attached to no other machine types
_TERMS = Terms()
_NO_TERMS = {"guard_url", "guard_ca_file", "code", "logs", "profile", "heartbeat", "confirm_above"}
_RULES = JobRules()


def distinct_zones(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("each zone once, the preferred one first")
    return names


def network(value: str) -> str:
    """A name alone is a network of the VM's own project."""
    full = value if "/" in value else f"global/networks/{value}"
    if not _NETWORK.fullmatch(full):
        raise ValueError('a network\'s name, such as "default", or projects/PROJECT/global/networks/NAME')
    return full


def region_of(path: str) -> str:
    """The region of a subnetwork that names one, else ""."""
    match = re.search(r"regions/([^/]+)/", path)
    return match[1] if match else ""


def service_account(value: str) -> str:
    if value != "default" and not (value.endswith(".gserviceaccount.com") and mail_address(value)):
        raise ValueError(
            'a service account\'s address such as trainer@my-project.iam.gserviceaccount.com, or "default"'
        )
    return value


def own_labels(given: Mapping[str, str]) -> Mapping[str, str]:
    for key in given:
        if label_key(key).startswith(OURS):
            raise ValueError(f"labels that do not begin with {OURS}, which Costguard sets itself")
    if (keeper := keeper_of(given, {})) is not None:
        named = list_text([key for key in given if key in keeper.evidence])
        raise ValueError(f"labels without {named}, which marks VMs that something else keeps: Costguard stops none")
    if len(given) > 32:
        raise ValueError("at most 32 labels: Google allows 64 on a VM, and Costguard adds its own")
    return given


def way_to_buy(value: str) -> str:
    if buying.problem(value):
        raise ValueError(f"a way to buy a VM: {buying.EXAMPLES}")
    return value


def flex_wait(value: timedelta) -> timedelta:
    if buying.wait_problem(value):
        raise ValueError('"0s" (now or not at all), or 90s to 2h: Google\'s limits of a flex-start request')
    return value


def guard_url(value: str) -> str:
    """VMs send tokens there, so it needs TLS except on loopback."""
    try:
        address = endpoint(value)
        parts = urlsplit(address)
        usable = parts.scheme == "https" or is_loopback(parts.hostname or "")
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            "where VMs reach this server, such as https://costguard.example.com (http:// on 127.0.0.1 only)"
        )
    return address


def certificates(value: str) -> str:
    """A file with the certificate of an authority, or several, as PEM."""
    try:
        text = Path(value).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"a file with certificates as PEM, but it cannot be read: {reason}") from None
    if "-----BEGIN CERTIFICATE-----" not in text or "PRIVATE KEY" in text:
        raise ValueError("a file with certificates as PEM (-----BEGIN CERTIFICATE-----), and no private key")
    return value


def place(value: str) -> str:
    """A place in a bucket, or a folder that all servers share."""
    if not _PLACE.fullmatch(value) or "/../" in f"{value}/":
        raise ValueError('a place such as "gs://bucket/code", "s3://bucket/code", or "file:///srv/costguard/code"')
    return value.rstrip("/")


Zone = Annotated[
    str,
    AfterValidator(
        matching(
            r"[a-z]+(?:-[a-z]+)+[0-9]+-(?:[a-z]|ai[0-9]+[a-z])",
            "a zone such as us-central1-a, with the letter at its end",
        )
    ),
]
Image = Annotated[
    str,
    AfterValidator(
        matching(
            rf"{_PROJECT}global/images/(?:family/)?{_NAME}",
            "an image or a family of images, such as projects/PROJECT/global/images/family/FAMILY",
        )
    ),
]
Subnetwork = Annotated[
    str,
    AfterValidator(
        matching(
            rf"(?:{_PROJECT}regions/[a-z0-9-]+/subnetworks/)?{_NAME}",
            "a subnetwork's name, or [projects/PROJECT/]regions/REGION/subnetworks/NAME",
        )
    ),
]
Scope = Annotated[
    str,
    AfterValidator(
        matching(
            r"https://www\.googleapis\.com/auth/[a-z0-9._-]+",
            "an access scope such as https://www.googleapis.com/auth/cloud-platform",
        )
    ),
]
MachineType = Annotated[
    str, AfterValidator(matching(_WORDS, "a machine type as Google writes it, such as n1-standard-8 or a2-highgpu-1g"))
]
DiskType = Annotated[
    str, AfterValidator(matching(_WORDS, "a disk type as Google writes it, such as pd-balanced or pd-ssd"))
]
ServiceAccount = Annotated[str, AfterValidator(service_account)]
VmNetwork = Annotated[str, AfterValidator(network)]
WayToBuy = Annotated[str, AfterValidator(way_to_buy)]
FlexWait = Annotated[Duration, AfterValidator(flex_wait)]
GuardUrl = Annotated[str, AfterValidator(guard_url)]
Override = Literal[
    "zones",
    "buy",
    "flex_wait_hours",
    "notice",
    "on_demand_fallback",
    "machine_type",
    "disk_gib",
    "max_run_hours",
    "image",
]


class LaunchSection(Section):
    """The recipe that launches a VM of a preset."""

    machine_type: MachineType
    gpu_type: GpuType | None = None
    gpu_count: Annotated[int, Field(ge=0, le=16)] = 0
    zones: Annotated[
        tuple[Zone, ...],
        Listed,
        AfterValidator(distinct_zones),
        Field(min_length=1),
    ]
    buy: WayToBuy = "spot"
    flex_wait: FlexWait = LONGEST_WAIT
    notice: Literal["120s", "0s"] = "120s"
    on_demand_fallback: bool = False
    image: Image = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580"
    dev_image: Image | None = None
    install_drivers: bool = True
    max_run: Annotated[Duration, between(_SHORTEST, _LONGEST)] | None = None  # None: the preset's limit
    disk_gib: Annotated[int, Field(ge=10, le=65536)] = 100
    disk_type: DiskType = "pd-balanced"
    service_account: ServiceAccount | None = None
    scopes: Annotated[tuple[Scope, ...], Listed] = ("https://www.googleapis.com/auth/cloud-platform",)
    network: VmNetwork = "global/networks/default"
    subnetwork: Subnetwork | None = None
    external_address: bool | None = None  # None: decided at each launch
    labels: Annotated[Mapping[str, LabelValue], AfterValidator(own_labels)] = Field(default_factory=dict)
    overrides: Annotated[tuple[Override, ...], Listed] = (
        "zones",
        "buy",
        "flex_wait_hours",
        "notice",
        "on_demand_fallback",
        "disk_gib",
        "max_run_hours",
        "image",
    )

    @model_validator(mode="before")
    @classmethod
    def _as_before(cls, given: object) -> object:
        """Reads `spot`, which `buy` replaced: a guard that did not start after an upgrade would watch nothing."""
        if not isinstance(given, Mapping) or not isinstance(given.get("spot"), bool):
            return given
        rest = {key: value for key, value in given.items() if key != "spot"}
        return {"buy": "spot" if given["spot"] else "demand", **rest}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.gpu_type is None) != (self.gpu_count == 0):
            raise ValueError("gpu_type and gpu_count together, or neither for VMs without a GPU")
        region = region_of(self.subnetwork or "")
        elsewhere = [name for name in self.zones if region and not name.startswith(f"{region}-")]
        if elsewhere:
            raise ValueError(f"zones of {region}, where the subnetwork is, and not {', '.join(elsewhere)}")
        if unsold := buying.not_sold(self.machine_type, buying.models_of(self.recipe(None))):
            raise ValueError(f"a machine type that is sold this way. {unsold}")
        return self

    def recipe(self, limit: timedelta | None) -> Recipe:
        """Makes the recipe. Without `max_run`, a VM runs no longer than its preset's limit."""
        usual = min(max(limit or _WITHOUT_LIMIT, _SHORTEST), _LONGEST)
        recipe = Recipe(
            machine_type=self.machine_type,
            zones=self.zones,
            image=self.image,
            max_run=self.max_run or usual,
            gpu_type=self.gpu_type or "",
            gpu_count=self.gpu_count,
            attaches_gpus=self.gpu_count > 0 and self.machine_type.startswith(_ATTACHING),
            falls_back_to_on_demand=self.on_demand_fallback,
            notice=NOTICES[self.notice],
            wait=self.flex_wait,
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
        return buying.bought(recipe, self.buy)


class JobsSection(Section):
    """Where VMs reach this server, and the terms of jobs."""

    guard_url: GuardUrl | None = None
    guard_ca_file: Annotated[str, AfterValidator(certificates)] | None = None
    code: Annotated[str, AfterValidator(place)] | None = None  # where archives of code are kept
    logs: Annotated[str, AfterValidator(place)] | None = None  # where output is stored that is next to no checkpoints
    profile: bool = _RULES.profiles  # whether profiles are taken of jobs that do not say
    confirm_above: Annotated[Money | None, BeforeValidator(or_never(dollars))] = _RULES.confirm_above
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
    waiting_saves: Annotated[int, BeforeValidator(percent)] = _TERMS.waiting_saves

    @model_validator(mode="after")
    def _waits(self) -> Self:
        if self.first_wait > self.longest_wait:
            raise ValueError("first_wait no longer than longest_wait")
        return self

    @property
    def rules(self) -> JobRules:
        """Raises OSError where the file of certificates is gone since the settings were read."""
        terms = self.model_dump(exclude=_NO_TERMS)
        ca = Path(self.guard_ca_file).read_text("ascii") if self.guard_ca_file is not None else ""
        return JobRules(
            self.guard_url or "",
            ca,
            self.heartbeat,
            Terms(**terms),
            self.logs or "",
            profiles=self.profile,
            confirm_above=self.confirm_above,
        )


Region = Annotated[str, AfterValidator(matching(r"[a-z0-9-]{2,40}", 'a region\'s name, such as "eu-west-1"'))]


class CheckpointsSection(Section):
    """Object stores other than Amazon's and Google's. Keys come from the environment, as for all tools."""

    s3_endpoint: Endpoint | None = None  # None: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else Amazon's
    s3_region: Region | None = None  # None: AWS_REGION
    gcs_endpoint: Endpoint | None = None
