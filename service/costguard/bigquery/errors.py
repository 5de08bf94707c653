"""Errors of the BigQuery API in plain words.

Codes and reasons: docs.cloud.google.com/bigquery/docs/error-messages.
"""

from __future__ import annotations

from typing import Any

import orjson

from costguard.errors import (
    CloudError,
    CloudUnavailable,
    CredentialsRefused,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestRefused,
)

_LIMIT_REASONS = frozenset({"rateLimitExceeded", "quotaExceeded", "jobRateLimitExceeded"})
_TOO_LARGE = "bytesBilledLimitExceeded"


def from_answer(status: int, body: bytes, table: str) -> CloudError:
    """The error that an answer other than 200 stands for."""
    message, reasons = _google_error(body)
    return from_reasons(status, message, reasons, table)


def from_reasons(status: int, message: str, reasons: set[str], table: str) -> CloudError:
    said = f"Reading {table}: BigQuery answered {status}: {message.rstrip('.')[:500]}."
    if _TOO_LARGE in reasons:
        return RequestRefused(said, "Nothing was billed. Raise bill.most_bytes, or read fewer days at a time.")
    if status == 429 or reasons & _LIMIT_REASONS:
        return RateLimited(said, "It is tried again at the next reading.")
    if status == 401:
        return CredentialsRefused(said, "Run `gcloud auth application-default login`, or give a service account.")
    if status == 403:
        return PermissionDenied(
            said,
            "Grant roles/bigquery.jobUser on the project that queries are billed to, and "
            "roles/bigquery.dataViewer on the export's dataset.",
        )
    if status == 404:
        return NotFound(said, "Check bill.table, as the BigQuery page of the console shows it, and bill.location.")
    if status >= 500 or status == 408:
        return CloudUnavailable(said, "It is tried again at the next reading.")
    return RequestRefused(said, "Report it with this message.")


def _google_error(body: bytes) -> tuple[str, set[str]]:
    try:
        error: Any = orjson.loads(body)["error"]
        return str(error["message"]), {str(one.get("reason", "")) for one in error.get("errors", [])}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return "no explanation", set()
