"""The faults of the simulated Compute Engine and Cloud Monitoring."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from random import Random
from typing import Any

from costguard_sandbox.faults import ActiveFaults, BadFault
from costguard_sandbox.gce.catalogue.prices import Misprint, MisprintedList, PriceList
from costguard_sandbox.gce.catalogue.regions import ZONES, project_number, region_of, zones_of
from costguard_sandbox.gce.errors import Refused, bad_request, not_found
from costguard_sandbox.gce.operations import Failure
from costguard_sandbox.gce.vm import Shape

LONGEST_SILENCE_S = 60.0
_NOTICE = "preemptionNoticeDuration"
_AIMED = ("count", "chance", "method", "path", "project")
# (required keys, optional keys) of each kind.
_KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unreachable_zone": (("zone",), ("project",)),
    "stockout": ((), ("after", "zone", "gpu", "spot", "project", "count")),
    "flex_start": ((), ("seconds", "never", "fails", "zone", "gpu", "project", "count")),
    "no_notice": ((), ("zone", "project", "count")),
    "quota": (("metric", "limit"), ("region", "project")),
    "rate_limit": (("limit",), ("project", "writes")),
    "lost_answer": ((), ("when", "how", "code", "seconds", *_AIMED)),
    "repeated": ((), _AIMED),
    "unauthenticated": ((), ("project", "count", "chance")),
    "forbidden": (("project",), ("path",)),
    "project_gone": (("project",), ()),
    "server_error": ((), ("code", *_AIMED)),
    "too_many_requests": ((), ("seconds", *_AIMED)),
    "slow": (("seconds",), _AIMED),
    "garbage": ((), ("what", "when", *_AIMED)),
    "misprinted_prices": ((), ("misprint",)),
    "operation_error": ((), ("project", "count")),
    "failing_page": (("page",), ("code", "count", "path", "project")),
}
# Whether a request takes effect: when its answer is lost, if at all, and `seconds` later, when nobody waits any more.
_WHEN = ("after", "before", "later")
_HOW = ("reset", "error", "silence", "half")
_WHAT = ("cut", "empty", "html", "other")
_CHOICES = {"when": _WHEN, "how": _HOW, "what": _WHAT, "misprint": tuple(Misprint)}
_TYPES = {
    "spot": bool,
    "never": bool,
    "fails": bool,
    "writes": bool,
    "limit": int,
    "code": int,
    "count": int,
    "after": int,
    "seconds": float,
    "page": int,
    "chance": float,
}
_WORDS = {bool: "true or false", int: "a whole number from 0 up", float: "a number from 0 up", str: "a text"}


@dataclass(slots=True)
class CloudFault:
    """A fault; which fields matter depends on its kind."""

    id: int
    kind: str
    project: str = ""
    zone: str = ""
    region: str = ""
    gpu: str = ""
    spot: bool | None = None
    metric: str = ""
    limit: int = 0
    code: int = 503
    count: int | None = None
    after: int | None = None  # the VMs that can still be had before the stockout begins
    method: str = ""
    path: str = ""  # a regular expression, searched for in the request's path
    seconds: float = 0.0
    fails: bool = False  # whether a resize request fails after `seconds`, instead of being granted
    never: bool = False  # whether a flex-start request is granted at all; else after `seconds`
    page: int = 0
    writes: bool = False  # limits writes instead of reads
    when: str = ""  # when the request takes effect: "after" (it did), "before" (it never does), "later"
    how: str = _HOW[0]  # the connection breaks, at once, after `seconds` or half of the answer; or the answer is `code`
    what: str = _WHAT[0]  # a 200 with broken JSON, `{}`, a proxy's page, or what another request asked for
    chance: float = 1.0  # of a request to meet it
    misprint: str = Misprint.ZERO  # what is wrong with the prices that the catalogue shows

    def applies_to(self, project: str, method: str = "", path: str = "") -> bool:
        return (
            self.project in ("", project)
            and self.method.upper() in ("", method)
            and (not self.path or re.search(self.path, path) is not None)
        )

    def shown(self) -> dict[str, Any]:
        """The keys of its kind."""
        required, optional = _KINDS[self.kind]
        values = asdict(self)
        keys = ("id", "kind", *required, *(key for key in optional if values[key] not in ("", None)))
        return {key: values[key] for key in keys}


class CloudFaults(ActiveFaults[CloudFault]):
    """The faults of the cloud, and what each does to a request."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        self._random = Random(f"{seed}/cloud-faults")
        self._requests: dict[tuple[str, bool], tuple[datetime, int]] = {}

    def add(self, kind: str, **values: Any) -> CloudFault:
        """Raises BadFault for an unknown kind or key, a missing key or an invalid value."""
        if kind not in _KINDS:
            raise BadFault(f"unknown fault {kind!r}; expected one of {', '.join(_KINDS)}")
        required, optional = _KINDS[kind]
        for key in required:
            if key not in values:
                raise BadFault(f"a fault of kind {kind!r} needs {key!r}")
        for key, value in values.items():
            if key not in required + optional:
                raise BadFault(f"{key!r} is unknown to {kind!r}; it takes {', '.join(required + optional)}")
            _check_value(key, value)
        return self.activate(CloudFault(self.next_id(), kind, **values))

    def _of(self, kind: str) -> Iterator[CloudFault]:
        return (fault for fault in self.listed() if fault.kind == kind)

    def _met(self, kind: str, project: str, method: str = "", path: str = "") -> CloudFault | None:
        """The first of this kind that the request meets, counted."""
        for fault in self._of(kind):
            if fault.applies_to(project, method, path) and (fault.chance >= 1 or self._random.random() < fault.chance):
                self.count_down(fault)
                return fault
        return None

    def unreachable_zones(self, project: str) -> frozenset[str]:
        return frozenset(fault.zone for fault in self._of("unreachable_zone") if fault.applies_to(project))

    def delay(self, project: str, method: str, path: str) -> float:
        """Real seconds to delay the answer, at most a minute."""
        fault = self._met("slow", project, method, path)
        return min(LONGEST_SILENCE_S, fault.seconds) if fault is not None else 0.0

    def garble(self, project: str, method: str, path: str) -> CloudFault | None:
        """The fault that answers this request with something that is no answer to it, if any."""
        return self._met("garbage", project, method, path)

    def shown(self, prices: PriceList) -> PriceList:
        """The list as the catalogue prints it."""
        fault = next(self._of("misprinted_prices"), None)
        return prices if fault is None else MisprintedList(prices, Misprint(fault.misprint))

    def repeats(self, project: str, method: str, path: str) -> bool:
        """Says whether this request arrives twice, as one that a proxy sends again does."""
        return self._met("repeated", project, method, path) is not None

    def refuse(self, project: str, method: str, path: str, now: datetime) -> None:
        """Raises Refused when a fault refuses this request."""
        if broken := self._met("server_error", project, method, path):
            raise server_error(broken.code)
        if limited := self._met("too_many_requests", project, method, path):
            raise _too_many_requests(int(limited.seconds))
        if self._met("unauthenticated", project):
            raise _unauthenticated()
        for fault in self._of("project_gone"):
            if fault.applies_to(project):
                raise not_found(f"projects/{project}")
        for fault in self._of("forbidden"):
            if fault.applies_to(project, method, path):
                raise _forbidden(project, path)
        is_wait = method == "POST" and path.endswith("/wait")
        self._count(project, now, is_write=method != "GET" and not is_wait)

    def _count(self, project: str, now: datetime, *, is_write: bool) -> None:
        """Google's limits start again at each full minute, not a minute after the first request."""
        minute = now.replace(second=0, microsecond=0)
        for fault in self._of("rate_limit"):
            if fault.applies_to(project) and fault.writes is is_write:
                since, number = self._requests.get((project, is_write), (minute, 0))
                number = number + 1 if since == minute else 1
                self._requests[project, is_write] = minute, number
                if number > fault.limit:
                    raise _rate_limited(project, is_write=is_write)

    def lose(self, project: str, method: str, path: str) -> CloudFault | None:
        """The fault that loses the answer to this request, if any."""
        return self._met("lost_answer", project, method, path)

    def refuse_page(self, project: str, path: str, page: int) -> None:
        for fault in self._of("failing_page"):
            if fault.page == page and fault.applies_to(project, path=path):
                self.count_down(fault)
                raise server_error(fault.code)

    def operation_error(self, project: str) -> str:
        """Returns the error of an operation of Workbench or Cloud Workstations; "" where it succeeds."""
        met = self._met("operation_error", project)
        return "" if met is None else "An internal error has occurred."

    def check_notice(self, project: str, zone: str, scheduling: Mapping[str, Any]) -> None:
        """Refuses the notice of a preemption, in the words in which Google's APIs refuse a field that they do not know
        (as in google-marketing-solutions/dv360-api-appsscript-samples issue 7).
        """
        for fault in self._of("no_notice"):
            if scheduling.get(_NOTICE) and fault.applies_to(project) and fault.zone in ("", zone):
                self.count_down(fault)
                where = "at 'resource.scheduling': Cannot find field."
                raise bad_request(f'Invalid JSON payload received. Unknown name "{_NOTICE}" {where}')

    def flex_start(self, project: str, zone: str, shape: Shape) -> CloudFault | None:
        """The fault that says when this flex-start request is granted, if any; of several, the first."""
        for fault in self._of("flex_start"):
            if fault.applies_to(project) and fault.zone in ("", zone) and fault.gpu in ("", shape.gpu_type):
                self.count_down(fault)
                return fault
        return None

    def stockout(self, project: str, zone: str, shape: Shape, *, spot: bool | None) -> Failure | None:
        """Flex-start has a pool of its own (`spot` is None): only a stockout of every VM is one of it, too."""
        fault = self._shortage(project, zone, shape, spot)
        if fault is None:
            return None
        if fault.after:
            fault.after -= 1
            return None
        self.count_down(fault)
        elsewhere = [other for other in zones_of(region_of(zone)) if other != zone] if fault.zone else []
        return stockout_failure(project, zone, shape, elsewhere)

    def _shortage(self, project: str, zone: str, shape: Shape, spot: bool | None) -> CloudFault | None:
        for fault in self._of("stockout"):
            if (
                fault.applies_to(project)
                and fault.zone in ("", zone)
                and fault.gpu in ("", shape.gpu_type)
                and fault.spot in (None, spot)
            ):
                return fault
        return None

    def is_short(self, project: str, zone: str, shape: Shape, *, spot: bool) -> bool:
        """Says whether a VM of this kind cannot be had there now, or a flex-start request never is."""
        never = any(
            fault.never and fault.applies_to(project) and fault.zone in ("", zone) for fault in self._of("flex_start")
        )
        shortage = self._shortage(project, zone, shape, spot or None)
        return (shortage is not None and not shortage.after) or (never and not spot)

    def quota_limits(self, project: str, region: str = "") -> dict[str, float]:
        """The limits that faults set; `region` is empty for those that span regions."""
        return {
            fault.metric: float(fault.limit)
            for fault in self._of("quota")
            if fault.applies_to(project) and fault.region in ("", region)
        }


def _check_value(key: str, value: Any) -> None:
    wanted = _TYPES.get(key, str)
    if wanted is float:
        good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    elif wanted is int:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    else:
        good = isinstance(value, wanted)
    if not good:
        raise BadFault(f"{key!r} must be {_WORDS[wanted]}, not {value!r}")
    if key == "zone" and value not in ZONES:
        raise BadFault(f"{value!r} is not one of Google's zones")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise BadFault(f"{key!r} must be one of {', '.join(_CHOICES[key])}, not {value!r}")
    if key == "path":
        try:
            re.compile(value)
        except re.error as broken:
            raise BadFault(f"'path' must be a regular expression: {broken}") from None


assert all(key in {one.name for one in fields(CloudFault)} for pair in _KINDS.values() for keys in pair for key in keys)


def server_error(code: int) -> Refused:
    reason, message = {
        500: ("internalError", "Internal error. Please try again or contact Google Support."),
        502: ("backendError", "Error 502 (Server Error)"),
        503: ("backendError", "The service is currently unavailable."),
        504: ("backendError", "The request timed out."),
    }.get(code, ("backendError", f"Error {code}"))
    return Refused(code, reason, message)


def _forbidden(project: str, path: str) -> Refused:
    if path.startswith("/v3/"):
        text = "Permission monitoring.timeSeries.list denied (or the resource may not exist)."
        return Refused(403, "forbidden", text, status="PERMISSION_DENIED")
    return Refused(403, "forbidden", f"Required 'compute.instances.list' permission for 'projects/{project}'")


def _unauthenticated() -> Refused:
    return Refused(
        401,
        "authError",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
        status="UNAUTHENTICATED",
    )


def _rate_limited(project: str, *, is_write: bool) -> Refused:
    metric, limit = (
        ("Queries", "Queries per minute") if is_write else ("Read requests", "Read requests per minute per region")
    )
    return Refused(
        403,
        "rateLimitExceeded",
        f"Quota exceeded for quota metric '{metric}' and limit '{limit}' of service "
        f"'compute.googleapis.com' for consumer 'project_number:{project_number(project)}'.",
        domain="usageLimits",
    )


def _too_many_requests(seconds: int) -> Refused:
    """Refuses as Google's APIs do since RATE_LIMIT_EXCEEDED is a 429 (cloud.google.com/apis/design/errors)."""
    text = "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute' of service."
    return Refused(429, "rateLimitExceeded", text, "usageLimits", "RESOURCE_EXHAUSTED", seconds)


def stockout_failure(project: str, zone: str, shape: Shape, elsewhere: list[str]) -> Failure:
    """ZONE_RESOURCE_POOL_EXHAUSTED, with the details that Google gives."""
    gpus = f" with {shape.gpu_count} {shape.gpu_type} accelerator(s)" if shape.gpu_count else ""
    advice = (
        f"Consider trying your request in the {', '.join(elsewhere)} zone(s), which currently has capacity to "
        "accommodate your request. "
        if elsewhere
        else ""
    )
    text = (
        f"A {shape.machine_type} VM instance{gpus} is currently unavailable in the {zone} zone. {advice}Alternatively, "
        "you can try your request again with a different VM hardware configuration or at a later time. For more "
        "information, see the troubleshooting documentation."
    )
    help_link = {
        "description": "Troubleshooting documentation",
        "url": "https://cloud.google.com/compute/docs/resource-error",
    }
    metadatas = {
        "attachment": f"{shape.gpu_type}:{shape.gpu_count}" if shape.gpu_count else "",
        "vmType": shape.machine_type,
        "zone": zone,
        "zonesAvailable": ",".join(elsewhere),
    }
    where = (
        f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the request."
    )
    details = (
        {"help": {"links": [help_link]}},
        {"localizedMessage": {"locale": "en-US", "message": text}},
        {
            "errorInfo": {
                "reason": "resource_availability",
                "domain": "compute.googleapis.com",
                "metadatas": metadatas,
            }
        },
    )
    if elsewhere:
        code = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
        where += "  'NULL:0/NULL:0/NULL:0 (state:STOCKOUT, sub-state:STOCKOUT, resource type:compute)'."
    else:
        code = "ZONE_RESOURCE_POOL_EXHAUSTED"
        where += "  Try a different zone, or try again later."
    return Failure(code, where, 503, details)
