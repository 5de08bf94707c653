"""What a page's address asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from http import HTTPStatus

from costguard.ledger.fleet_rows import Filters
from costguard.model.instance import InstanceKey
from costguard.pages.show import link
from costguard.spend.fleet import Cursor, Sort

LONGEST = 500
_LATEST = 2**62


class BadAddress(Exception):
    """The address asks for something that cannot be."""

    def __init__(self, message: str, what_next: str, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY) -> None:
        super().__init__(message)
        self.message, self.what_next, self.status = message, what_next, status


def key_of(project: str, gce_id: str) -> InstanceKey:
    """Raises BadAddress where no VM can be called that."""
    key = InstanceKey(project, gce_id)
    if any(len(part) > 200 or "\x00" in part for part in (project, gce_id)):
        raise never_seen(key)
    return key


def never_seen(key: InstanceKey) -> BadAddress:
    return BadAddress(
        f"No VM with the id {key.gce_id[:200]} was ever seen in project {key.project[:200]}.",
        "Ids are Google's numbers, not names. Look for the VM in the fleet; gone VMs can be shown there too.",
        HTTPStatus.NOT_FOUND,
    )


@dataclass(frozen=True, slots=True)
class FleetAsked:
    """None asks for nothing; an owner of "" asks for the unclaimed."""

    project: str | None = None
    preset: str | None = None
    owner: str | None = None
    status: str | None = None
    name: str | None = None  # a part of it
    sort: Sort = Sort.RATE
    gone: bool = False
    after: Cursor | None = None

    @property
    def filters(self) -> Filters:
        def one(value: str | None) -> tuple[str, ...]:
            return () if value is None else (value,)

        return Filters(one(self.project), one(self.preset), one(self.owner), one(self.status), name_holds=self.name)

    @property
    def is_filtered(self) -> bool:
        return any(value is not None for value in (self.project, self.preset, self.owner, self.status, self.name))

    def address(self, **changed: str | bool | None) -> str:
        """This page's address with other filters, from its first row on."""
        given: dict[str, str | bool | None] = {
            "project": self.project,
            "preset": self.preset,
            "owner": UNCLAIMED if self.owner == "" else self.owner,
            "status": self.status,
            "name": self.name,
            "sort": None if self.sort is Sort.RATE else self.sort.value,
            "gone": "yes" if self.gone else None,
        }
        return link("/", **{**given, **changed})

    def next_address(self, cursor: Cursor) -> str:
        after = f"{int(cursor.gone)}.{cursor.rank}.{cursor.id}.{cursor.name}"
        return self.address(after=after)


UNCLAIMED = "-"  # in an address: an empty value means no filter, because that is what an empty choice sends


def fleet_asked(query: Mapping[str, str]) -> FleetAsked:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = {name: value for name, value in query.items() if value}
    for name, value in text.items():
        if len(value) > LONGEST or "\x00" in value:
            raise BadAddress(f"The address's {name} is no name that a VM can have.", "Start again from the first page.")
    sort = text.get("sort", Sort.RATE.value)
    if sort not in list(Sort):
        raise BadAddress(f"The fleet is not sorted by {sort[:40]}.", f"Choose one of {', '.join(Sort)}.")
    return FleetAsked(
        project=text.get("project"),
        preset=text.get("preset"),
        owner="" if text.get("owner") == UNCLAIMED else text.get("owner"),
        status=text.get("status"),
        name=text.get("name", "").strip() or None,
        sort=Sort(sort),
        gone="gone" in text,
        after=_cursor(text["after"]) if "after" in text else None,
    )


def _cursor(text: str) -> Cursor:
    gone, _, rest = text.partition(".")
    rank, _, rest = rest.partition(".")
    row_id, _, name = rest.partition(".")
    try:
        found = Cursor(gone == "1", int(rank), name, int(row_id))
    except ValueError as error:
        raise BadAddress("The address names no page of the fleet.", "Start again from the first page.") from error
    if abs(found.rank) > _LATEST or abs(found.id) > _LATEST or (found.gone and not 0 <= found.rank <= 2**53):
        raise BadAddress("The address names no page of the fleet.", "Start again from the first page.")
    return found


def place_before(text: str, of: str, first: str = "the first page") -> tuple[datetime, str] | None:
    """Where a page of a list by time ended: the moment and the id of its last. Raises BadAddress."""
    if not text:
        return None
    moment, _, row_id = text.partition(" ")
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise BadAddress(f"The address names no page of {of}.", f"Start again from {first}.")
    return at, row_id


def day(query: Mapping[str, str], name: str, default: date) -> date:
    """Raises BadAddress where it is not a day between 2000 and 2999."""
    text = query.get(name, "")
    if not text:
        return default
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.min
    if not 2000 <= found.year <= 2999:
        raise BadAddress(
            f"{name}={text[:40]} is not a day between 2000 and 2999.", "Write it like 2026-11-20, or choose a range."
        )
    return found
