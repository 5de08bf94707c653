"""What went wrong with a bucket or a folder, in Costguard's own errors."""

from __future__ import annotations

import errno
import re

from costguard.checkpoints.location import Location
from costguard.errors import (
    CheckpointError,
    CheckpointLocationMissing,
    CheckpointLocationRefused,
    CheckpointLocationUnavailable,
)

_AGAIN = "It is tried again at the next look."
_NETWORK = f"Check the network, proxy and endpoint. {_AGAIN}"
_KEYS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (a profile is not read: "
    '`eval "$(aws configure export-credentials --format env)"` sets them), or run where a role gives them.',
    "gs": "Run `gcloud auth application-default login`, or run where a service account gives them.",
}
_ALLOW = {
    "s3": "Allow s3:ListBucket on the bucket and s3:GetObject on what is in it.",
    "gs": "Grant the role Storage Object Viewer (roles/storage.objectViewer) on the bucket.",
}
_CREDENTIAL_SIGNS = (
    "169.254.169.254",
    "/latest/api/token",
    "token request",
    "valid authentication credentials",  # obstore, when google-auth gave none
    "InvalidAccessKeyId",
    "ExpiredToken",
    "InvalidToken",
    "SignatureDoesNotMatch",
)


def of_store(wrong: Exception, where: Location) -> CheckpointError:
    """obstore tells most failures as one kind of error; the status and S3's code stand in its text alone."""
    text = str(wrong).partition("\n\nDebug source")[0]
    status = re.search(r"status code: ([0-9]{3})", text)
    code = status[1] if status else ""
    shown = _short(text)
    if "TransportError" in text:  # google-auth did not reach who gives out tokens
        return CheckpointLocationUnavailable(f"{where}: Google's tokens cannot be fetched ({shown}).", _NETWORK)
    if any(sign in text for sign in _CREDENTIAL_SIGNS) or code == "401":
        return CheckpointLocationRefused(
            f"{where}: there are no credentials that it accepts ({shown}).", _KEYS[where.scheme]
        )
    if code == "403":
        return CheckpointLocationRefused(f"{where}: it may not be read ({shown}).", _ALLOW[where.scheme])
    if code == "404":
        return CheckpointLocationMissing(
            f"There is no bucket {where.bucket} at {where.scheme}://.", "Check its name, its endpoint and its region."
        )
    if "incorrectly configured region" in text or code in ("301", "307", "400"):
        return CheckpointLocationRefused(
            f"{where}: the bucket is of another region, or the endpoint is not its own ({shown}).",
            "Set checkpoints.s3_region or AWS_REGION to the bucket's region, and check the endpoint.",
        )
    if code in ("429", "503"):
        return CheckpointLocationUnavailable(f"{where}: it is asked too often for now ({shown}).", _AGAIN)
    if code:
        return CheckpointLocationUnavailable(f"{where}: the store answers with {code} ({shown}).", _AGAIN)
    return CheckpointLocationUnavailable(f"{where}: the store does not answer ({shown}).", _NETWORK)


def of_system(wrong: OSError, where: Location) -> CheckpointError:
    path = str(where)
    if wrong.errno == errno.ENOENT:
        return CheckpointLocationMissing(f"There is no folder {path}.", "Check the path; on a VM's disk, look there.")
    if wrong.errno == errno.ENOTDIR:
        return CheckpointLocationMissing(f"{path} is no folder.", "Name the folder that holds the checkpoints.")
    if wrong.errno in (errno.EACCES, errno.EPERM):
        return CheckpointLocationRefused(f"{path} may not be read.", "Let this user read the folder and what is in it.")
    return CheckpointLocationUnavailable(
        f"{path} cannot be read: {wrong.strerror or wrong}.", "Check the disk or mount."
    )


def _short(text: str) -> str:
    """S3's own code and words where there are any, else the end of the sentence."""
    code, words = re.search(r"<Code>([^<]{1,80})", text), re.search(r"<Message>([^<]{1,200})", text)
    if code:
        return f"{code[1]}: {words[1]}" if words else code[1]
    text = text.rpartition("credential provider: ")[2]
    told = re.split(r" in [0-9.]+[mµn]?s(?:, after [^-]*)? +- ", text)[-1]
    return " ".join(told.split())[:200].rstrip(": .")
