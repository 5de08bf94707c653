"""What an operation's error means for the attempt: which of Google's codes move on, which are final."""

from __future__ import annotations

from costguard.model.attempt import Outcome
from costguard.model.launch import OperationAnswer

NAME_TAKEN = "RESOURCE_ALREADY_EXISTS"

_STOCKOUTS = (
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    "RESOURCE_POOL_EXHAUSTED",
    "STOCKOUT",
    # Not ready yet, or lost to a preemption while it was being made: another place, or the same one later, may do.
    "RESOURCE_NOT_READY",
    "RESOURCE_IN_USE",
    "UNSUPPORTED_OPERATION",
)
# Some failures have nothing but an HTTP status.
_STATUSES = {
    "400": Outcome.REFUSED,
    "403": Outcome.QUOTA,
    "404": Outcome.REFUSED,
    "429": Outcome.QUOTA,
    "503": Outcome.STOCKOUT,
}
_QUOTAS = ("QUOTA_EXCEEDED", "QUOTAS_EXCEEDED", "LIMIT_EXCEEDED")
_REFUSALS = (
    "INVALID",
    "BAD_REQUEST",
    "PERMISSIONS_ERROR",
    "PERMISSION_DENIED",
    "FORBIDDEN",
    "RESOURCE_NOT_FOUND",
    NAME_TAKEN,
    "CONDITION_NOT_MET",
    "REQUIRED",
    "UNSUPPORTED",
)


def outcome_of(answer: OperationAnswer) -> Outcome:
    """How the attempt ended. What nobody knows counts as LOST: it is tried again, though not for ever."""
    code = answer.error_code.upper()
    for outcome, codes in ((Outcome.STOCKOUT, _STOCKOUTS), (Outcome.QUOTA, _QUOTAS), (Outcome.REFUSED, _REFUSALS)):
        if code.startswith(codes):
            return outcome
    return _STATUSES.get(code, Outcome.LOST)


def words_of(answer: OperationAnswer) -> str:
    """Google's words without a full stop, with its code where the words do not hold it."""
    said = " ".join(answer.error_message.split()).rstrip(".")
    if not said:
        return f"Google says {answer.error_code}"
    return said if answer.error_code in said else f"{said} ({answer.error_code})"
