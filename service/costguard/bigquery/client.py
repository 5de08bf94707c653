"""Reads an export's table: one bounded query, page by page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any
from urllib.parse import quote

import orjson

from costguard.bigquery.export_query import TableShape, decoded, export_query, parameters
from costguard.errors import (
    BadAnswer,
    CloudError,
    CloudUnavailable,
    CredentialsRefused,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestRefused,
)
from costguard.model.backoff import Backoff
from costguard.model.words import count_text
from costguard.refusals.explanation import RefusalKind
from costguard.refusals.reader import explain

GOOGLE = "https://bigquery.googleapis.com"
_SCOPES = ("https://www.googleapis.com/auth/bigquery",)  # the least that jobs.query takes
_TIMEOUT_S = 60.0
_WAITS_MS = 10_000  # for the first page, before it is asked for again
_LONGEST_S = 15 * 60.0
_PAGE = 20_000  # rows; BigQuery cuts a page at about 10 MB of its own
_TRIES = 4
_TABLE = re.compile(r"([a-z][a-z0-9-]{4,61}[a-z0-9]|[a-z0-9.-]+:[a-z0-9-]+)\.([A-Za-z0-9_]+)\.([A-Za-z0-9_-]+)")


class ExportTable:
    """`table` is PROJECT.DATASET.TABLE. Queries are billed to `billed_project`, `most_bytes` at most each.

    Without an endpoint it talks to Google with the machine's default credentials; with one, with none.
    """

    def __init__(
        self,
        table: str,
        *,
        billed_project: str,
        location: str | None,
        most_bytes: int,
        endpoint: str | None = None,
        wait: Callable[[float], bool],
        jitter: Callable[[], float],
    ) -> None:
        match = _TABLE.fullmatch(table)
        if match is None:
            raise BadAnswer(f"{table!r} is no name of a table.", "Name it as PROJECT.DATASET.TABLE.")
        self.name = table
        self._project, self._dataset, self._table = match.groups()
        self._billed_project = billed_project or self._project
        self._location = location
        self._most_bytes = most_bytes
        self._base = (endpoint or GOOGLE).rstrip("/")
        self._is_google = endpoint is None
        self._wait = wait
        self._jitter = jitter
        self._session: Any = None
        self.bytes_billed = 0

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def rows(self, first: date, after: date) -> Iterator[Mapping[str, Any]]:
        """Rows appended on the UTC days from first up to after. Raises CloudError.

        What they cost is added to `bytes_billed`; beyond `most_bytes` BigQuery refuses, and bills nothing.
        """
        path = f"projects/{self._project}/datasets/{self._dataset}/tables/{self._table}"
        shape = TableShape.of(self._call("GET", path))
        answer = self._started(export_query(self.name, shape), first, after)
        self.bytes_billed += int(answer.get("totalBytesBilled") or answer.get("totalBytesProcessed") or 0)
        fields: list[Mapping[str, Any]] = (answer.get("schema") or {}).get("fields") or []
        total, read = int(answer.get("totalRows") or 0), 0
        while True:
            for row in answer.get("rows") or ():
                read += 1
                yield decoded(fields, row)
            token = answer.get("pageToken")
            if not token:
                break
            answer = self._page(answer["jobReference"], {"pageToken": token, "maxResults": str(_PAGE)})
        if read != total:
            raise BadAnswer(
                f"Reading {self.name}: {count_text(read, 'row')} came of {total}.", "It is read again next time."
            )

    def _started(self, sql: str, first: date, after: date) -> dict[str, Any]:
        """The first page of the query's result, with its schema."""
        body = {
            "query": sql,
            "useLegacySql": False,
            "parameterMode": "NAMED",
            "queryParameters": [one for one in parameters(first, after) if f"@{one['name']}" in sql],
            "maximumBytesBilled": str(self._most_bytes),
            "maxResults": _PAGE,
            "timeoutMs": _WAITS_MS,
            "formatOptions": {"useInt64Timestamp": True},
            "labels": {"made-by": "costguard"},
            **({"location": self._location} if self._location else {}),
        }
        answer = self._call("POST", f"projects/{self._billed_project}/queries", body=body)
        given_up_at = time.monotonic() + _LONGEST_S
        while not answer.get("jobComplete"):
            if time.monotonic() > given_up_at or self._wait(1.0):
                raise CloudUnavailable(f"Reading {self.name}: the query did not end.", "It is read again next time.")
            billed = answer.get("totalBytesBilled")
            parameters_of_page = {"maxResults": str(_PAGE), "timeoutMs": str(_WAITS_MS)}
            answer = {"totalBytesBilled": billed, **self._page(answer["jobReference"], parameters_of_page)}
        return answer

    def _page(self, job: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
        location = {"location": str(job["location"])} if job.get("location") else {}
        path = f"projects/{job['projectId']}/queries/{quote(str(job['jobId']), safe='')}"
        return self._call("GET", path, {**query, **location, "formatOptions.useInt64Timestamp": "true"})

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """A few tries where the failure may pass. A query that ran twice was only billed twice."""
        backoff = Backoff(timedelta(seconds=0.5), timedelta(seconds=15), factor=4)
        tries = 0
        while True:
            try:
                return self._once(method, path, query or {}, body)
            except (CloudUnavailable, RateLimited):
                tries += 1
                if tries >= _TRIES or self._wait(backoff.after(tries, jitter=self._jitter()).total_seconds()):
                    raise

    def _once(self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None) -> dict[str, Any]:
        import requests
        from google.auth.exceptions import GoogleAuthError, RefreshError, TransportError

        try:
            response = self._opened().request(
                method,
                f"{self._base}/bigquery/v2/{path}",
                params=query,
                data=None if body is None else orjson.dumps(body),
                headers={"Content-Type": "application/json", "User-Agent": "costguard (gzip)"},
                timeout=_TIMEOUT_S,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            raise CloudUnavailable(f"Reading {self.name}: no answer ({error}).", "Check the network.") from error
        except GoogleAuthError as error:
            if isinstance(error, TransportError) or (isinstance(error, RefreshError) and error.retryable):
                raise CloudUnavailable(
                    f"Reading {self.name}: no access token could be fetched ({error}).", "Check the network."
                ) from error
            raise CredentialsRefused(
                f"Reading {self.name}: Google refused our credentials ({error}).",
                "Run `gcloud auth application-default login`, or give a service account.",
            ) from error
        if response.status_code != 200:
            raise from_answer(response.status_code, response.content, self.name)
        return self._checked(response.content)

    def _checked(self, content: bytes) -> dict[str, Any]:
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict) or "kind" not in answer:
            raise BadAnswer(f"Reading {self.name}: the answer is not BigQuery's.", "It is read again next time.")
        errors = answer.get("errors")
        if errors and not answer.get("jobComplete", True):
            raise _job_error(errors, self.name)
        return answer

    def _opened(self) -> Any:
        if self._session is None:
            import requests

            if self._is_google:
                import google.auth
                from google.auth.transport.requests import AuthorizedSession

                credentials, _ = google.auth.default(scopes=_SCOPES)
                self._session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
            else:
                self._session = requests.Session()
                self._session.trust_env = False  # neither .netrc nor a proxy may add what we promise not to send
        return self._session


def _job_error(errors: list[Any], table: str) -> CloudError:
    first = errors[0] if isinstance(errors[0], dict) else {}
    return from_reasons(400, str(first.get("message", "no explanation")), {str(first.get("reason", ""))}, table)


# Codes and reasons: docs.cloud.google.com/bigquery/docs/error-messages.
_LIMIT_REASONS = frozenset({"rateLimitExceeded", "quotaExceeded", "jobRateLimitExceeded"})
_TOO_LARGE = "bytesBilledLimitExceeded"
_SERVICE = "bigquery.googleapis.com"


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
    parts = [{"reason": reason} for reason in sorted(reasons)]
    reading = explain({"error": {"message": message, "errors": parts}}, status=status, service=_SERVICE)
    if status == 401:
        return CredentialsRefused(said, reading.mend)
    if status == 403 and reading.kind in (RefusalKind.PERMISSION, RefusalKind.UNKNOWN):
        return PermissionDenied(
            said,
            "Grant roles/bigquery.jobUser on the project that queries are billed to, and "
            "roles/bigquery.dataViewer on the export's dataset.",
        )
    if status == 403:
        return PermissionDenied(said, f"{reading.sentence} {reading.mend}")
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
