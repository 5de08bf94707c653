"""Reads an entry of Compute Engine's audit log: what happened to which VM, when, and who asked for it. Pure.

A call that starts an operation writes two entries, a first one with the request and a last one when it is done. Both
are of the same kind and of the same moment: the one at which the call was made. What Google does by itself writes one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from costguard.ledger.feed.bulk import BulkRequest, read_bulk
from costguard.ledger.feed.kinds import BULK, FeedKind, kind_of, operation_type
from costguard.ledger.feed.request import FeedRequest, read_request
from costguard.ledger.feed.values import field, is_true, moment, number_text, object_of, text, within

_GOOGLES_PAYLOADS = ("protoPayload", "protopayload_auditlog")  # as Cloud Logging writes it, and as BigQuery has it
_ADDRESS = re.compile(r"projects/(?P<project>[^/]+)/zones/(?P<zone>[^/]+)/instances/(?P<name>[^/]+)$")
_OPERATION = re.compile(r"[a-z]+-(\d{13})-")  # operation-, systemevent-, and repair- of managed instance groups
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCKS_DIFFER = timedelta(seconds=5)  # recorded: a first entry is stamped up to 0.09 s before its operation's number
_LONGEST = timedelta(days=7)  # from an operation's beginning to its last entry
# Google's own: of a managed group, of its products' service agents, and of what it does by itself
# (cloud.google.com/iam/docs/service-agents: all of those are `service-NUMBER@`).
_SERVICE = re.compile(
    r"(?:.+@cloudservices\.gserviceaccount\.com|service-(?:org-|folder-)?\d+@[a-z0-9.-]+\.gserviceaccount\.com"
    r"|system@google\.com|system)$"
)


class Phase(StrEnum):
    FIRST = "first"  # the operation has begun
    LAST = "last"  # it is done, or failed
    ONLY = "only"  # both at once


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """Holds what one entry says; None where it does not say it.

    `operation` is the operation's name and `operation_id` its number, which a first entry alone tells. `ended_at` is
    when it was done, as a last entry tells.
    """

    kind: FeedKind
    method: str
    phase: Phase
    operation_type: str | None
    gce_id: str | None
    project: str | None
    zone: str | None
    name: str | None
    principal: str | None
    at: datetime | None
    written_at: datetime | None
    inserted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    operation: str | None = None
    operation_id: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    message: str | None = None
    request: FeedRequest | None = None
    is_system: bool = False
    bulk: BulkRequest | None = None  # of a bulk insert's own entry, which names no VM

    @property
    def who(self) -> str | None:
        """Returns the person or program that asked for it; None where a service of Google did, for whomever."""
        return None if self.principal is None or is_service(self.principal) else self.principal

    @property
    def machine_type(self) -> str | None:
        return self.request.machine_type if self.request is not None else None

    @property
    def provisioning(self) -> str | None:
        model = self.request.provisioning if self.request is not None else None
        return None if model is None else model.value

    def as_json(self) -> dict[str, Any]:
        request = self.request
        return {
            "kind": self.kind.value,
            "instance_id": self.gce_id,
            "who": self.who,
            "machine_type": self.machine_type,
            "provisioning": self.provisioning,
            "at": _text(self.at),
            "ended_at": _text(self.ended_at),
            "phase": self.phase.value,
            "principal": self.principal,
            "project": self.project,
            "zone": self.zone,
            "name": self.name,
            "method": self.method,
            "operation": self.operation,
            "labels": dict(request.labels) if request is not None else {},
            "error": self.error_message or self.error_code,
        }


def is_service(principal: str) -> bool:
    """Says whether an address is one of Google's own, behind which any person may stand."""
    return _SERVICE.match(principal) is not None


def read_entry(raw: Any) -> FeedEntry | None:
    """Reads a log entry; None where it is none of an audit log. Raises nothing, whatever it holds."""
    payload = _payload(raw)
    if payload is None:
        return None
    operation = field(raw, "operation")
    name, log = text(field(operation, "id")), text(field(raw, "logName")) or ""
    method = text(field(payload, "methodName")) or ""
    is_system = "system_event" in log or (name or "").startswith("systemevent-")
    kind_of_operation = operation_type(method, is_system) if _is_of_compute_engine(payload) else None
    response = object_of(field(payload, "response") or field(payload, "responseJson"))
    code, message = _error(raw, payload, response, is_system)
    kind = FeedKind.NOISE if _is_dry_run(payload) else kind_of(kind_of_operation)
    is_noise = kind is FeedKind.NOISE
    labels = within(raw, "resource", "labels")
    address = _address(payload, response)
    written_at = moment(field(raw, "timestamp"))
    inserted_at, started_at = moment(field(response, "insertTime")), moment(field(response, "startTime"))
    at = _moment_of(name, written_at) or inserted_at or written_at
    phase = _phase(operation)
    principal = _principal(field(payload, "authenticationInfo"))
    return FeedEntry(
        kind=FeedKind.REFUSED if code is not None and not is_noise else kind,
        method=method,
        phase=phase,
        operation_type=kind_of_operation,
        gce_id=number_text(field(labels, "instance_id")) or (None if is_noise else _target(response, address)),
        project=text(field(labels, "project_id")) or _project(log) or address.get("project"),
        zone=text(field(labels, "zone")) or address.get("zone"),
        name=address.get("name"),
        principal=principal,
        at=at,
        written_at=written_at,
        inserted_at=inserted_at,
        started_at=started_at,
        ended_at=None if phase is Phase.FIRST or name is None else at if is_system else written_at,
        operation=name,
        operation_id=number_text(field(response, "id")),
        error_code=code,
        error_message=message if code is not None else None,
        message=message,
        request=None if is_noise else read_request(_request(payload), kind_of_operation),
        is_system=is_system,
        bulk=_bulk(payload, response, principal, at) if method.endswith(BULK) and code is None else None,
    )


def _payload(raw: Any) -> dict[str, Any] | None:
    """Returns the audit log's part of an entry; Log Analytics has it one level deeper, in `proto_payload.audit_log`."""
    payload = next((one for name in _GOOGLES_PAYLOADS if isinstance(one := field(raw, name), dict)), None)
    deeper = field(payload, "auditLog")
    return deeper if isinstance(deeper, dict) else payload


def _is_dry_run(payload: dict[str, Any]) -> bool:
    """Says whether VPC Service Controls would have refused it, and did not: what happened has an entry of its own.

    cloud.google.com/vpc-service-controls/docs/dry-run-mode: `metadata.dryRun`.
    """
    return is_true(within(payload, "metadata", "dryRun"))


def _is_of_compute_engine(payload: dict[str, Any]) -> bool:
    """Says whether Compute Engine wrote it; entries that were shortened lack the service's name."""
    service = text(field(payload, "serviceName"))
    return service is None or service == "compute.googleapis.com"


def _phase(operation: Any) -> Phase:
    first, last = is_true(field(operation, "first")), is_true(field(operation, "last"))
    return Phase.ONLY if first == last else Phase.FIRST if first else Phase.LAST


def _moment_of(operation: str | None, written_at: datetime | None) -> datetime | None:
    """Returns the millisecond in an operation's name; None where it cannot be that of this entry.

    In recorded system events it is the operation's start to the millisecond, and the entry is up to 101 s later.
    """
    named = _OPERATION.match(operation or "")
    if named is None:
        return None
    at = _EPOCH + timedelta(milliseconds=int(named[1]))
    if written_at is None:
        return at if at.year > 2008 else None
    return at if -_CLOCKS_DIFFER <= written_at - at <= _LONGEST else None


def _error(
    raw: Any, payload: dict[str, Any], response: dict[str, Any], is_system: bool
) -> tuple[str | None, str | None]:
    """Returns the code of a refusal or failure, None for none, and what the entry says in words, which may be no error.

    The status has a code of google.rpc (7: permission denied), the response of a call that was refused one of HTTP. The
    log of policies holds denied calls alone (cloud.google.com/logging/docs/audit#policy_denied). What Google does by
    itself happened, whatever the severity.
    """
    status, error = field(payload, "status"), field(response, "error")
    message = text(field(status, "message")) or text(field(error, "message"))
    code = field(status, "code")
    if code in (None, 0, "0", "") or isinstance(code, dict | list):
        code = field(error, "code") if isinstance(error, dict) else None
    is_severe = not is_system and field(raw, "severity") in ("ERROR", "CRITICAL", "ALERT")
    if code is None and (isinstance(error, dict) or is_severe or _is_of_policies(raw)):
        code = "error"
    return (None if code is None else str(code)[:100]), message


def _is_of_policies(raw: Any) -> bool:
    return (
        re.search(r"cloudaudit\.googleapis\.com(?:%2F|/)policy$", text(field(raw, "logName")) or "", re.I) is not None
    )


def _request(payload: dict[str, Any]) -> dict[str, Any]:
    return object_of(field(payload, "request") or field(payload, "requestJson"))


def _bulk(
    payload: dict[str, Any], response: dict[str, Any], principal: str | None, at: datetime | None
) -> BulkRequest | None:
    if at is None or not _is_of_compute_engine(payload):
        return None
    places = (field(payload, "resourceName"), field(response, "zone"), field(response, "region"))
    return read_bulk(_request(payload), places, principal, at)


def _principal(info: Any) -> str | None:
    """Returns the address of the caller; the subject of one from another identity pool, which has no address."""
    address = text(field(info, "principalEmail"))
    if address is not None:
        return address
    subject = text(field(info, "principalSubject"))
    named = re.sub(r"^(?:user|serviceAccount):", "", subject or "")
    return named if "@" in named or "://" in named else None


def _address(payload: dict[str, Any], response: dict[str, Any]) -> dict[str, str]:
    """Returns project, zone and name. A resource's name has the project's number at times; the target's link never."""
    for named in (field(response, "targetLink"), field(payload, "resourceName")):
        parsed = _ADDRESS.search(named) if isinstance(named, str) else None
        if parsed is not None:
            return parsed.groupdict()
    return {}


def _target(response: dict[str, Any], address: dict[str, str]) -> str | None:
    """Returns the operation's target, where that is a VM: that of a bulk insert is its project."""
    named = field(response, "targetLink")
    is_vm = isinstance(named, str) and _ADDRESS.search(named) is not None
    return number_text(field(response, "targetId")) if is_vm and address else None


def _project(log: str) -> str | None:
    parsed = re.match(r"projects/([^/]+)/logs/", log)
    return parsed[1] if parsed else None


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
