"""Errors of Google's APIs in plain words: which project, what happened, what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from costguard.errors import (
    AlreadyExists,
    BadAnswer,
    CloudError,
    CloudUnavailable,
    CredentialsRefused,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestRefused,
)

_RATE_LIMIT_REASONS = frozenset(
    {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "RATE_LIMIT_EXCEEDED", "concurrentLimitExceeded"}
)
_API_OFF_REASONS = frozenset({"accessNotConfigured", "SERVICE_DISABLED"})
_NOT_YET_REASONS = frozenset({"resourceNotReady", "RESOURCE_NOT_READY"})
_MISSING = re.compile(r"resource '([^']+)' was not found", re.IGNORECASE)
# Read by itself it is a 404: The resource 'projects/p/zones/z/machineTypes/m' was not found. In an insert it is a 400:
# Invalid value for field 'resource.machineType': 'zones/z/machineTypes/m'. Machine type with name 'm' does not exist in
# zone 'z' (seen in taskcluster/community-tc-config#75).
_MACHINE_TYPE = re.compile(
    r"zones/(?P<zone>[^/']+)/machineTypes/(?P<name>[^/']+)'(?: was not found|\. .*does not exist)", re.IGNORECASE
)
_SIGN_IN = (
    "Run `gcloud auth application-default login`, or point GOOGLE_APPLICATION_CREDENTIALS at a valid credentials file."
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
LAUNCHING = Service(
    "Compute Engine",
    COMPUTE.host,
    "roles/compute.instanceAdmin.v1",
    role_file="deploy/iam-role-launch.yaml",
    tells_refusals=True,
)
MONITORING = Service("Cloud Monitoring", "monitoring.googleapis.com", "roles/monitoring.viewer")


class NoAnswer(CloudUnavailable):
    """The server was not reached, or stopped answering half-way."""


_CODES: tuple[tuple[type[CloudError], str], ...] = (
    (PermissionDenied, "permission"),
    (CredentialsRefused, "credentials"),
    (NotFound, "not_found"),
    (RateLimited, "rate_limit"),
    (NoAnswer, "unreachable"),
    (CloudUnavailable, "unavailable"),
)


def code_of(error: CloudError) -> str:
    """The short, stable word under which an error is counted."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), "bad_answer")


def first_of(problems: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    return problems[0] + (f"; and {len(problems) - 1} more" if len(problems) > 1 else "")


def is_worth_retrying(error: CloudError) -> bool:
    return isinstance(error, CloudUnavailable | RateLimited)


def from_status(
    status: int, body: bytes, project: str, what: str, account: str = "", service: Service = COMPUTE
) -> CloudError:
    """The error that an HTTP answer other than 200 stands for."""
    message, reasons = _google_error(body)
    return _error(status, message or "no explanation", reasons, project, what, account, service)


def from_exception(
    error: Exception, project: str, what: str, account: str = "", service: Service = COMPUTE
) -> CloudError:
    """The error that an exception of requests, urllib3, google-auth or google-api-core stands for."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    if isinstance(error, auth.TransportError) or (isinstance(error, auth.RefreshError) and error.retryable):
        return NoAnswer(f"{what} of project {project}: no access token could be fetched ({_brief(error)}).")
    if isinstance(error, auth.GoogleAuthError):
        return CredentialsRefused(
            f"{what} of project {project}: Google refused our credentials ({_brief(error)}).", _SIGN_IN
        )
    if isinstance(error, api.GoogleAPICallError) and error.code is not None:
        reasons = {str(part.get("reason", "")) for part in error.errors if isinstance(part, dict)}
        return _error(int(error.code), error.message or _brief(error), reasons, project, what, account, service)
    return NoAnswer(
        f"{what} of project {project}: no answer from {service.name} ({_brief(error)}).",
        "Check the network, and the endpoint if one is set; it is tried again at the next pass.",
    )


def _error(
    status: int, message: str, reasons: set[str], project: str, what: str, account: str, service: Service
) -> CloudError:
    said = f"{what} of project {project}: {service.name} answered {status}: {_cut(message).rstrip('.')}."
    if status == 429 or (status == 403 and reasons & _RATE_LIMIT_REASONS):
        return RateLimited(said, "Read less often (a longer interval between passes), or ask Google for more quota.")
    if status == 401:
        return CredentialsRefused(said, _SIGN_IN)
    if status == 403 and reasons & _API_OFF_REASONS:
        return PermissionDenied(said, f"Run `gcloud services enable {service.host} --project {project}`.")
    if status == 403:
        grantee = account or "the account that Costguard runs as"
        return PermissionDenied(
            said, f"Grant the role of {service.role_file}, or {service.role}, on project {project} to {grantee}."
        )
    unknown_type = _MACHINE_TYPE.search(message)
    if unknown_type is not None and status in (400, 404):
        zone, name = unknown_type["zone"], unknown_type["name"]
        kind = RequestRefused if service.tells_refusals else NotFound
        return kind(f"Unknown machine type {name} in zone {zone} of project {project}.", _machine_types_of(zone))
    if status == 404 and (missing := missing_resource(message)).count("/") > 1:
        return NotFound(said, f"Check how {missing.rpartition('/')[2]} is spelt, and where it is.")
    if status == 404:
        return NotFound(said, f"Check that project {project} exists and is spelt so, or stop watching it.")
    if status >= 500 or status == 408:
        return CloudUnavailable(said, "It is tried again at the next pass.")
    if service.tells_refusals and status == 409:
        return AlreadyExists(said, "It is looked at whose it is.")
    # A resource that is not ready yet will be: only a permanent refusal is reported as one.
    if service.tells_refusals and status == 400 and not reasons & _NOT_YET_REASONS:
        return RequestRefused(said, "Change what is asked for: Google would refuse it again.")
    return BadAnswer(said, f"Check the spelling of project {project} and the endpoint, if one is set.")


def missing_resource(message: str) -> str:
    """Returns the resource that Google did not find, such as `projects/p/zones/z/instances/i`; "" where it does not
    say.
    """
    match = _MISSING.search(message)
    return match[1] if match is not None else ""


def _machine_types_of(zone: str) -> str:
    offered = f"gcloud compute machine-types list --zones {zone}"
    return f"Check how it is spelt, or choose one that Google offers there (`{offered}` lists them)."


def _google_error(body: bytes) -> tuple[str, set[str]]:
    try:
        error: Any = orjson.loads(body)["error"]
        message = str(error.get("message", ""))
        parts = [*error.get("errors", ()), *error.get("details", ())]
        return message, {str(part["reason"]) for part in parts if isinstance(part, dict) and "reason" in part}
    except (ValueError, KeyError, TypeError, AttributeError):
        # A proxy's page: its markup helps nobody.
        return "" if body.lstrip().startswith(b"<") else body[:200].decode(errors="replace"), set()


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
