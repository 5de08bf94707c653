"""Errors in Compute Engine's own form."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A request that is answered with an error; nothing was changed."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        domain: str = "global",
        status: str = "",
        retry_after: int = 0,
        details: tuple[dict[str, Any], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.domain = domain
        self.status = status
        self.retry_after = retry_after  # seconds; 0: the answer does not say
        self.details = details

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.reason:  # newer APIs have a status instead
            error["errors"] = [{"message": self.message, "domain": self.domain, "reason": self.reason}]
        if self.status:
            error["status"] = self.status
        if self.details:
            error["details"] = list(self.details)
        return {"error": error}


def not_found(resource: str) -> Refused:
    return Refused(404, "notFound", f"The resource '{resource}' was not found")


def already_exists(resource: str) -> Refused:
    return Refused(409, "alreadyExists", f"The resource '{resource}' already exists")


def bad_request(message: str) -> Refused:
    return Refused(400, "badRequest", message)


def invalid_usage(why: str) -> Refused:
    return Refused(400, "invalidResourceUsage", f"Invalid resource usage: '{why}'.")


def invalid(field: str, value: object, why: str) -> Refused:
    return Refused(400, "invalid", f"Invalid value for field '{field}': '{value}'. {why}")


def condition_not_met(message: str) -> Refused:
    return Refused(412, "conditionNotMet", message)


def never_written(name: str) -> Refused:
    """A `workload` metric has no descriptor in a project before its first point."""
    hint = "If a metric was created recently, it could take up to 10 minutes to become available."
    message = f'Cannot find metric(s) that match type = "{name}". {hint} Please try again soon.'
    return Refused(404, "", message, status="NOT_FOUND")


def service_disabled(number: int, title: str, api: str) -> Refused:
    """A call of an API that the project has not enabled, in Google's words, as recorded of several APIs."""
    url = f"https://console.developers.google.com/apis/api/{api}/overview?project={number}"
    return Refused(
        403,
        "",
        f"{title} has not been used in project {number} before or it is disabled. Enable it by visiting {url} then "
        "retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and "
        "retry.",
        status="PERMISSION_DENIED",
        details=(
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "SERVICE_DISABLED",
                "domain": "googleapis.com",
                "metadata": {"service": api, "consumer": f"projects/{number}"},
            },
        ),
    )


def bad_argument(message: str) -> Refused:
    return Refused(400, "", message, status="INVALID_ARGUMENT")


def bad_value(field: str, given: str, why: str = "") -> Refused:
    """Refuses a value in Google's words, such as `Field filter had an invalid value of "x": ...`."""
    return bad_argument(f'Field {field} had an invalid value of "{given}"' + (f": {why}" if why else "."))
