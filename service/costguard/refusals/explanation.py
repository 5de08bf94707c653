"""The explanation of an error: its kind, who answered, what lacks, and the step that mends it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


class RefusalKind(StrEnum):
    """The kinds of errors that people mend in different ways."""

    API_DISABLED = "api_disabled"
    PERMISSION = "permission"
    SCOPE = "scope"
    BILLING = "billing"
    QUOTA = "quota"
    STOCKOUT = "stockout"
    RESERVATION = "reservation"
    ORG_POLICY = "org_policy"
    VPC_SERVICE_CONTROLS = "vpc_service_controls"
    CREDENTIALS = "credentials"
    SLACK_SCOPE = "slack_scope"
    SLACK_CHANNEL = "slack_channel"
    SLACK_TOKEN = "slack_token"  # noqa: S105  a kind
    RATE_LIMITED = "rate_limited"
    REQUEST = "request"
    NOT_FOUND = "not_found"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class QuotaLack:
    """A quota that is used up. Figures as Google writes them; "" where it does not say."""

    metric: str  # NVIDIA_A100_GPUS, aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus
    name: str = ""  # Google's id of the limit: DISKS-TOTAL-GB-per-project-region
    region: str = ""  # a region, a zone, or "global"
    limit: str = ""
    usage: str = ""
    requested: str = ""
    family: str = ""  # of GPUs, where one quota has a limit for each: NVIDIA_H100
    future_limit: str = ""  # a higher limit is being rolled out


@dataclass(frozen=True, slots=True)
class Lacks:
    """Names what lacks, as the answer does; empty where it does not."""

    permissions: tuple[str, ...] = ()
    api: str = ""  # tpu.googleapis.com
    scopes: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()  # of organisation policies
    quota: QuotaLack | None = None
    reservation: str = ""
    principal: str = ""  # the account that was refused
    resource: str = ""
    project: str = ""  # its id or number
    zone: str = ""  # or region
    zones_available: tuple[str, ...] = ()
    identifier: str = ""  # of a denial by VPC Service Controls
    billing_account: str = ""

    def as_json(self) -> dict[str, Any]:
        """Leaves out everything that the answer does not name."""
        return _named(self)


@dataclass(frozen=True, slots=True)
class Explanation:
    """`service` is its short name (`compute`, `slack`), or `unknown`; `mend` is "" where nothing is known."""

    kind: RefusalKind
    service: str
    sentence: str  # what happened, to what and where; of an unknown answer, its own words
    mend: str
    missing: Lacks = field(default_factory=Lacks)
    status: int = 0  # of HTTP; 0 where the answer does not say
    said: str = ""  # the service's own words, in one line

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "service": self.service,
            "missing": self.missing.as_json(),
            "mend": self.mend,
            "sentence": self.sentence,
            "status": self.status or None,
            "said": self.said,
        }


def _named(value: Any) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for one in fields(value):
        part = getattr(value, one.name)
        if isinstance(part, QuotaLack):
            named[one.name] = _named(part)
        elif part:
            named[one.name] = list(part) if isinstance(part, tuple) else part
    return named
