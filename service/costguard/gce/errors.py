"""Errors of Google's APIs in plain words: which project, what happened, what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from costguard.errors import (
    AlreadyExists,
    BadAnswer,
    CloudError,
    CloudUnavailable,
    CredentialsRefused,
    NotFound,
    NoticeRefused,
    PermissionDenied,
    RateLimited,
    RequestRefused,
)
from costguard.model.mending import enabling
from costguard.refusals.explanation import Explanation, RefusalKind
from costguard.refusals.reader import explain, is_about_notice

_LOOKED_AT = 4096  # bytes of an answer
_LIMITS = frozenset({RefusalKind.RATE_LIMITED, RefusalKind.QUOTA})
_NOT_YET = re.compile("resourceNotReady|RESOURCE_NOT_READY")
_MISSING = re.compile(r"resource '([^']+)' was not found", re.IGNORECASE)
# Read by itself it is a 404: The resource 'projects/p/zones/z/machineTypes/m' was not found. In an insert it is a 400:
# Invalid value for field 'resource.machineType': 'zones/z/machineTypes/m'. Machine type with name 'm' does not exist in
# zone 'z' (seen in taskcluster/community-tc-config#75).
_MACHINE_TYPE = re.compile(
    r"zones/(?P<zone>[^/']+)/machineTypes/(?P<name>[^/']+)'(?: was not found|\. .*does not exist)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Service:
    """A service of Google's, as error messages name it."""

    name: str
    host: str
    role: str  # what allows everything that we ask of it
    role_file: str = "deploy/iam-role.yaml"
    tells_refusals: bool = False  # a 400 or 409 is about what was asked for, and not about how it was asked


COMPUTE = Service("Compute Engine", "compute.googleapis.com", "roles/compute.viewer")
STOPPING = Service(
    "Compute Engine", COMPUTE.host, "roles/compute.instanceAdmin.v1", role_file="deploy/iam-role-stop.yaml"
)
_KEPT_ROLE = "deploy/iam-role-stop-kept.yaml"
GROUPS = Service("Compute Engine", COMPUTE.host, "roles/compute.instanceAdmin.v1", role_file=_KEPT_ROLE)
WORKBENCH = Service("Workbench", "notebooks.googleapis.com", "roles/notebooks.runner", role_file=_KEPT_ROLE)
WORKSTATIONS = Service(
    "Cloud Workstations", "workstations.googleapis.com", "roles/workstations.admin", role_file=_KEPT_ROLE
)
TPU = Service("Cloud TPU", "tpu.googleapis.com", "roles/tpu.viewer")
LAUNCHING = Service(
    "Compute Engine",
    COMPUTE.host,
    "roles/compute.instanceAdmin.v1",
    role_file="deploy/iam-role-launch.yaml",
    tells_refusals=True,
)
ASSETS = Service(
    "Cloud Asset Inventory",
    "cloudasset.googleapis.com",
    "roles/cloudasset.viewer",
    role_file="deploy/iam-role-discovery.yaml",
)
MONITORING = Service("Cloud Monitoring", "monitoring.googleapis.com", "roles/monitoring.viewer")


class ServiceOff(PermissionDenied):
    """The API is not enabled in the project, so nothing of it can be there."""


class NoAnswer(CloudUnavailable):
    """The server was not reached, or stopped answering half-way."""

    _code = "unreachable"


def owner_text(project: str) -> str:
    """`project P` of a project; `organization N` or `folder N` of `organizations/N` and `folders/N`."""
    kind, is_place, number = project.partition("s/")
    return f"{kind} {number}" if is_place and kind in ("organization", "folder") else f"project {project}"


def first_of(problems: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    return problems[0] + (f"; and {len(problems) - 1} more" if len(problems) > 1 else "")


def is_worth_retrying(error: CloudError) -> bool:
    return isinstance(error, CloudUnavailable | RateLimited)


def from_status(
    status: int, body: bytes, project: str, what: str, account: str = "", service: Service = COMPUTE
) -> CloudError:
    """The error that an HTTP answer other than 200 stands for."""
    reading = explain(body, status=status, service=service.host, project=project, account=account)
    is_later = _NOT_YET.search(body[:_LOOKED_AT].decode(errors="replace")) is not None
    return _error(reading, project, what, account, service, is_later=is_later)


def from_exception(
    error: Exception, project: str, what: str, account: str = "", service: Service = COMPUTE
) -> CloudError:
    """The error that an exception of requests, urllib3, google-auth or google-api-core stands for."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    if isinstance(error, auth.TransportError) or (isinstance(error, auth.RefreshError) and error.retryable):
        return NoAnswer(f"{what} of {owner_text(project)}: no access token could be fetched ({_brief(error)}).")
    if isinstance(error, auth.GoogleAuthError):
        reading = explain(f"{type(error).__name__}: {error}", status=401, project=project)
        refused = CredentialsRefused(
            f"{what} of {owner_text(project)}: Google refused our credentials ({_brief(error)}).", reading.mend
        )
        refused.refusal = reading.kind.value
        return refused
    if isinstance(error, api.GoogleAPICallError) and error.code is not None:
        status = int(error.code)
        parts = {"message": error.message or _brief(error), "errors": error.errors, "details": error.details}
        reading = explain({"error": parts}, status=status, service=service.host, project=project, account=account)
        is_later = _NOT_YET.search(str(error.errors)) is not None
        return _error(reading, project, what, account, service, is_later=is_later)
    return NoAnswer(
        f"{what} of {owner_text(project)}: no answer from {service.name} ({_brief(error)}).",
        "Check the network, and the endpoint if one is set; it is tried again at the next pass.",
    )


def _error(
    reading: Explanation, project: str, what: str, account: str, service: Service, *, is_later: bool
) -> CloudError:
    """`is_later`: what it is about is not ready yet."""
    status, words = reading.status, reading.said.rstrip(".") or "no explanation"
    said = f"{what} of {owner_text(project)}: {service.name} answered {status}: {words}."
    error = _of_status(reading, said, project, account, service, is_later=is_later)
    error.refusal = reading.kind.value
    return error


def _of_status(
    reading: Explanation, said: str, project: str, account: str, service: Service, *, is_later: bool
) -> CloudError:
    status, kind = reading.status, reading.kind
    if status == 429 or (status == 403 and kind in _LIMITS):
        return RateLimited(said, reading.mend)
    if status == 401:
        return CredentialsRefused(said, reading.mend)
    if status == 403 and kind is RefusalKind.API_DISABLED:
        return ServiceOff(said, f"Run `{enabling(service.host, project)}`.")
    if status == 403:
        return PermissionDenied(said, _way_in(reading, project, account, service))
    unknown_type = _MACHINE_TYPE.search(reading.said)
    if unknown_type is not None and status in (400, 404):
        zone, name = unknown_type["zone"], unknown_type["name"]
        refused = RequestRefused if service.tells_refusals else NotFound
        return refused(f"Unknown machine type {name} in zone {zone} of project {project}.", _machine_types_of(zone))
    if status == 404 and missing_resource(reading.said).count("/") > 1:
        return NotFound(said, reading.mend)
    if status == 404:
        return NotFound(said, f"Check that {owner_text(project)} exists and is spelt so, or stop watching it.")
    if status >= 500 or status == 408:
        return CloudUnavailable(said, "It is tried again at the next pass.")
    if service.tells_refusals and status == 409:
        return AlreadyExists(said, "It is looked at whose it is.")
    if service.tells_refusals and kind is RefusalKind.ORG_POLICY:
        return RequestRefused(said, f"{reading.sentence} {reading.mend}")
    # A resource that is not ready yet will be: only a permanent refusal is reported as one.
    if service.tells_refusals and status == 400 and not is_later:
        refusal = NoticeRefused if is_about_notice(reading.said) else RequestRefused
        return refusal(said, reading.mend or "Change what is asked for: Google would refuse it again.")
    if kind in (RefusalKind.UNKNOWN, RefusalKind.REQUEST):
        return BadAnswer(said, f"Check the spelling of {owner_text(project)} and the endpoint, if one is set.")
    return BadAnswer(said, f"{reading.sentence} {reading.mend}")


def _way_in(reading: Explanation, project: str, account: str, service: Service) -> str:
    """Says what mends a denial: our own role for what it is made for, else what the kind of denial asks for."""
    if reading.kind is RefusalKind.UNKNOWN:
        return "The answer does not say what is missing: ask an administrator of the project."
    own = f"{service.host.partition('.')[0]}."
    if reading.kind is not RefusalKind.PERMISSION:
        return f"{reading.sentence} {reading.mend}"
    if not all(permission.startswith(own) for permission in reading.missing.permissions):
        return reading.mend
    grantee = account or "the account that Costguard runs as"
    return f"Grant the role of {service.role_file}, or {service.role}, on {owner_text(project)} to {grantee}."


def missing_resource(message: str) -> str:
    """Returns the resource that Google did not find, such as `projects/p/zones/z/instances/i`; "" where it does not
    say.
    """
    match = _MISSING.search(message)
    return match[1] if match is not None else ""


def is_missing(error: Exception, ending: str | tuple[str, ...]) -> bool:
    """Says whether an exception of Google's client is a 404 of the very thing whose path ends so.

    "No such project", "no such zone" or a stranger's 404 says nothing about it.
    """
    return getattr(error, "code", None) == 404 and missing_resource(str(error)).endswith(ending)


def _machine_types_of(zone: str) -> str:
    offered = f"gcloud compute machine-types list --zones {zone}"
    return f"Check how it is spelt, or choose one that Google offers there (`{offered}` lists them)."


def _brief(error: BaseException) -> str:
    # requests and urllib3 wrap what happened in the URL that was asked for, mask and all.
    while isinstance(inner := getattr(error, "reason", None) or (error.args or ("",))[0], Exception):
        error = inner
    if isinstance(error, OSError):
        return _cut(str(error)) or type(error).__name__
    words = [str(part).rstrip(".") for part in error.args if not isinstance(part, dict)]
    return _cut(": ".join(words)) or type(error).__name__


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 600 else text[:599] + "…"
