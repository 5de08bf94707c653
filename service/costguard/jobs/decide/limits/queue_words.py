"""Says in one sentence why a job waits for a limit, behind what, and when it is expected to start. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from costguard.jobs.decide.limits.expected_starts import ExpectedStart
from costguard.jobs.decide.limits.in_use import Bucket, InUse
from costguard.jobs.decide.limits.queue import Turn
from costguard.model.budget import FleetLimit
from costguard.model.moments import clock_text
from costguard.model.money import rate_text
from costguard.model.words import count_text, list_text

_MOST_NAMES = 3
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def why_it_waits(turn: Turn, start: ExpectedStart | None, titles: Mapping[str, str], now: datetime) -> str:
    """`limit gpus-vision: 8 of 8 GPUs in use; third in line, behind jobs a and b; expected to start around 14:20 ...`.

    It follows "waits: " and needs a turn that waits.
    """
    limit, bucket, wanted = turn.limit, turn.bucket, turn.wanted
    if limit is None or bucket is None:
        return ""
    name = limit_name(bucket)
    if turn.never:
        needs = amount_text(wanted.one.times(wanted.least), turn.short)
        allowed = most_text(limit, turn.short)
        return f"limit {name} allows at most {allowed}, and it needs {needs}: have the limit raised, or cancel it"
    parts = [f"limit {name}: {used_text(limit, turn.used, turn.short)}"]
    if wanted.one.unpriced and turn.short == "dollars_per_hour":
        parts[0] += ", and as its VM's price is not known it starts only where no other of unknown price runs"
    elif turn.used != InUse():
        needs = amount_text(wanted.one.times(wanted.least), turn.short)
        parts[0] += f", and it needs {needs}"
    if wanted.is_extra:
        return parts[0]
    parts.append(line_text(turn, titles))
    parts.append(start_text(start, now))
    return "; ".join(parts)


def limit_name(bucket: Bucket) -> str:
    """`gpus-each` or, of one value, `gpus-each of ana@example.com`."""
    return f"{bucket.limit} of {bucket.value}" if bucket.value else bucket.limit


def line_text(turn: Turn, titles: Mapping[str, str]) -> str:
    """`third in line, behind jobs a and b`."""
    place = len(turn.ahead)
    ordinal = _ORDINALS[place] if place < len(_ORDINALS) else f"number {place + 1}"
    if not turn.ahead:
        return f"{ordinal} in line"
    names = [titles.get(job, job) for job in turn.ahead]
    if place > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], f"{place - _MOST_NAMES + 1} more"]
    return f"{ordinal} in line, behind {'job' if place == 1 else 'jobs'} {list_text(names)}"


def start_text(start: ExpectedStart | None, now: datetime) -> str:
    if start is None or start.at is None:
        why = start.why_unknown if start is not None else ""
        return f"its start is unknown{f', since {why}' if why else ''}"
    return f"expected to start around {clock_text(start.at, now)}, when job {start.after} is expected to end"


def used_text(limit: FleetLimit, used: InUse, resource: str) -> str:
    """`8 of 8 GPUs in use`."""
    if resource == "dollars_per_hour":
        more = f" and {count_text(used.unpriced, 'VM')} of unknown price" if used.unpriced else ""
        return f"{rate_text(used.rate)} of {most_text(limit, resource)}{more} in use"
    count = used.vms if resource == "vms" else used.gpus
    return f"{count} of {most_text(limit, resource)} in use"


def most_text(limit: FleetLimit, resource: str) -> str:
    """`8 GPUs`, `1 VM` or `$40 an hour`."""
    if resource == "dollars_per_hour" and limit.dollars_per_hour is not None:
        return f"{rate_text(limit.dollars_per_hour)} an hour"
    count = (limit.vms if resource == "vms" else limit.gpus) or 0
    return count_text(count, "VM" if resource == "vms" else "GPU")


def amount_text(amount: InUse, resource: str) -> str:
    if resource == "dollars_per_hour":
        return f"{rate_text(amount.rate)} an hour" if not amount.unpriced else "VMs of unknown price"
    return count_text(amount.vms if resource == "vms" else amount.gpus, "VM" if resource == "vms" else "GPU")
