"""Says of what failed, a call or a transfer of rclone's, whether trying again, here or on another VM, may help.

The codes are those of S3 (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html) and of Google's JSON API
(cloud.google.com/storage/docs/json_api/v1/status-codes); rclone's exit codes stand under rclone.org/docs/#exit-code.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Trouble(Exception):
    """A server could not be reached (status 0), or refused."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.may_pass = status in (0, 408, 429) or status >= 500


def patiently(call: Callable[[], T], wait: Callable[[float], object], tries: int, first_s: float) -> T:
    """Repeats a call after passing trouble, with exponential backoff and jitter; `tries` 0: for ever."""
    attempt = 0
    while True:
        try:
            return call()
        except Trouble as trouble:
            attempt += 1
            if not trouble.may_pass or attempt == tries:
                raise
            wait(min(60.0, first_s * 2 ** min(attempt, 10)) * random.uniform(0.5, 1))


class TransferFailed(Exception):
    """A transfer came to nothing. `repeats`: nor would it come to anything on another VM."""

    def __init__(self, message: str, repeats: bool = False, is_mismatch: bool = False) -> None:
        super().__init__(message)
        self.repeats, self.is_mismatch = repeats, is_mismatch


class NothingThere(TransferFailed):
    """The source to read does not exist."""


NO_FOLDER, NO_FILE = 3, 4  # rclone's exit codes
MOST_KEPT = 20
NO_BUCKET = re.compile(r"NoSuchBucket|bucket does not exist|specified bucket", re.IGNORECASE)
NO_CREDENTIALS = re.compile(
    r"get credentials|no EC2 IMDS role|failed to (?:refresh cached|retrieve) credentials"
    r"|could not find default credentials|EC2 IMDS|anonymous caller|Anonymous credentials"
    r"|metadata: GCE metadata .* not defined"
)
WRONG = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|UnrecognizedClient|AuthorizationHeaderMalformed|Error 401"
    r"|StatusCode: 401|InvalidIdentityToken|AssumeRoleWithWebIdentity"
)
EXPIRED = re.compile(r"ExpiredToken|TokenRefreshRequired|RequestTimeTooSkewed")
DENIED = re.compile(r"AccessDenied|StatusCode: 403|Error 403|Forbidden|AllAccessDisabled")
FULL = re.compile(r"no space left on device|disk quota exceeded|too big for remaining disk", re.IGNORECASE)
MISMATCH = re.compile(
    r"corrupted on transfer|hash(?:es)? differ|BadDigest|InvalidDigest|checksum mismatch", re.IGNORECASE
)
LOCAL = re.compile(r"permission denied|read-only file system|not a directory|file name too long", re.IGNORECASE)


class Failures:
    """The reports of one call of rclone."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def hear(self, line: bytes) -> Mapping[str, Any] | None:
        """Takes a line of the log. Returns statistics where the line holds them."""
        try:
            entry = json.loads(line)
        except ValueError:
            self._add(line.decode("utf-8", "replace").strip())
            return None
        if "stats" in entry:
            stats: Mapping[str, Any] = entry["stats"]
            return stats
        if entry.get("level") in ("error", "critical", "fatal", "notice"):
            name = entry.get("object")
            self._add(f"{name}: {entry.get('msg', '')}" if name else str(entry.get("msg", "")))
        return None

    def _add(self, text: str) -> None:
        if text and len(self._said) < MOST_KEPT:
            self._said.append(text)

    def text(self) -> str:
        return "\n".join(self._said)

    def first(self) -> str:
        """The first report, without the service's request ids and rclone's words around it."""
        for said in self._said:
            short = re.sub(r"operation error S3: \w+, https response error .*?api error ", "", said)
            return short.replace("Failed to copy: ", "").strip()[:300]
        return "rclone said nothing"


def failure(
    uri: str, code: int, failures: Failures, is_bucket: Callable[[str], bool], is_needed: bool
) -> TransferFailed | None:
    """Interprets a failed call; None where nothing lies at the place, which is no failure unless it is needed."""
    text, first = failures.text(), failures.first()
    bucket = "/".join(uri.split("/")[:3])
    if NO_BUCKET.search(text):
        return TransferFailed(f"the bucket {bucket} does not exist: create it, or correct its name", True)
    if code in (NO_FOLDER, NO_FILE) or "object not found" in text or "directory not found" in text:
        if not uri.startswith("file:") and not is_bucket(uri):
            return TransferFailed(f"the bucket {bucket} does not exist: create it, or correct its name", True)
        return NothingThere(f"nothing is at {uri}", True) if is_needed else None
    if FULL.search(text):
        return TransferFailed(f"the disk is full ({uri}): {first}; take a larger one, with --disk-gb", True)
    if MISMATCH.search(text):
        return TransferFailed(f"a checksum differs after the transfer ({uri}): {first}", is_mismatch=True)
    if NO_CREDENTIALS.search(text):
        needed = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY as secrets, or an AWS role"
        how = needed if uri.startswith("s3:") else "the VM's service account a scope for Cloud Storage"
        return TransferFailed(f"there are no credentials for {bucket}: give the job {how} ({first})", True)
    if EXPIRED.search(text):
        return TransferFailed(f"the credentials for {bucket} have expired: {first}")
    if WRONG.search(text):
        return TransferFailed(f"the credentials for {bucket} are wrong: {first}", True)
    if DENIED.search(text):
        return TransferFailed(f"the job's credentials have no permission at {uri}: {first}", True)
    if LOCAL.search(text):
        return TransferFailed(f"a file on this VM cannot be used for {uri}: {first}", True)
    return TransferFailed(f"the transfer to or from {uri} failed: {first}")
