"""Reads a page's query string: texts, days and cursors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from http import HTTPStatus

from costguard.model.instance import InstanceKey

LONGEST = 500
UNOWNED = "-"  # in an address: an empty value means no filter, because that is what an empty choice sends


class BadAddress(Exception):
    """The address asks for something that does not exist or cannot be read."""

    def __init__(self, message: str, what_next: str, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY) -> None:
        super().__init__(message)
        self.message, self.what_next, self.status = message, what_next, status


def texts(query: Mapping[str, str], path: str) -> dict[str, str]:
    """The parameters that hold something. Raises BadAddress for one that no name could be; `path` starts again."""
    given = {name: value.strip() for name, value in query.items() if value.strip()}
    for name, value in given.items():
        if len(value) > LONGEST or "\x00" in value:
            raise BadAddress(
                f"The address's {name} is too long or has characters that no name has.", f"Start again from {path}."
            )
    return given


def instance_key(project: str, gce_id: str) -> InstanceKey:
    """Raises BadAddress where no VM can have this project or id."""
    key = InstanceKey(project, gce_id)
    if any(len(part) > 200 or "\x00" in part for part in (project, gce_id)):
        raise never_seen(key)
    return key


def never_seen(key: InstanceKey) -> BadAddress:
    return BadAddress(
        f"Costguard has never seen anything with the name or id {key.gce_id[:200]} in project {key.project[:200]}.",
        "Look for it in the fleet, which can show what is deleted, too.",
        HTTPStatus.NOT_FOUND,
    )


def place_before(text: str, what: str, path: str) -> tuple[datetime, str] | None:
    """Reads the end of a page of a list by time: the moment and the id of its last row. Raises BadAddress."""
    if not text:
        return None
    moment, _, row_id = text.partition(" ")
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise BadAddress(f"The address does not point to a page of the {what}.", f"Start again from {path}.")
    return at, row_id


def day(query: Mapping[str, str], name: str, default: date) -> date:
    """Raises BadAddress where it is not a day between 2000 and 2999."""
    text = query.get(name, "")
    if not text:
        return default
    try:
        given = date.fromisoformat(text)
    except ValueError:
        given = date.min
    if not 2000 <= given.year <= 2999:
        raise BadAddress(
            f"{name}={text[:40]} is not a day between 2000 and 2999.", "Write it like 2026-11-20, or choose a range."
        )
    return given
