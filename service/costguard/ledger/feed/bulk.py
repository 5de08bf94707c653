"""Joins the VMs of bulk inserts with what was asked for all of them. Pure.

Recorded (GoogleCloudPlatform/gce-license-tracker, `BulkInsertInstanceEvent`): the first entry of a bulk insert names no
VM, has the request, and is of an `audited_resource`. Each VM has one entry, first and last at once, of an operation of
its own (2.9 s later in the recording), without a request and without anything that names the bulk insert. So they are
joined by what both say: the project, the zone or its region, the caller, the name, and when.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from costguard.ledger.feed.request import FeedRequest, read_request
from costguard.ledger.feed.values import field as key
from costguard.ledger.feed.values import items, text
from costguard.model.observation import SeenOperation

_PLACE = re.compile(r"(?:^|/)((?:zones|regions)/[a-z0-9-]+)(?:/instances)?$")
_HASHES = re.compile(r"#+")
_CLOCKS_DIFFER = timedelta(seconds=5)
LATEST_CHILD = timedelta(minutes=10)
"""A VM whose insert begins this long after a bulk insert was made by another one. Recorded: 2.9 s."""


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """Holds what one bulk insert asked for. `place` is `zones/Z` or `regions/R`, `user` "" where it is not known.

    The VMs have these names, or names by the pattern, in which `####` stands for a number.
    """

    place: str
    at: datetime
    user: str
    request: FeedRequest
    names: tuple[str, ...] = ()
    pattern: str = ""

    def made(self, insert: SeenOperation) -> bool:
        """Says whether this insert of a VM may be one of its own."""
        return (
            -_CLOCKS_DIFFER <= insert.inserted_at - self.at <= LATEST_CHILD
            and _is_in(insert.zone, self.place)
            and (not self.user or not insert.user or self.user == insert.user)
            and (insert.target_name in self.names or self._is_by_pattern(insert.target_name))
        )

    def _is_by_pattern(self, name: str) -> bool:
        head, hashes, tail = _HASHES.sub("#", self.pattern, count=1).partition("#")
        if not hashes or not name.startswith(head) or not name.endswith(tail):
            return False
        number = name[len(head) : len(name) - len(tail)]
        return number.isdecimal() and len(number) >= len(_HASHES.findall(self.pattern)[0])


def read_bulk(raw: Mapping[str, Any], places: Iterable[Any], user: str | None, at: datetime) -> BulkRequest | None:
    """Reads what is of all VMs in the request of a first entry. `places` are its links that may name zone or region.

    None: it is no request of a bulk insert, or says too little to find its VMs by. The API's discovery document
    describes it as `BulkInsertInstanceResource`.
    """
    place = next((match for one in places if isinstance(one, str) and (match := _PLACE.search(one))), None)
    request = read_request(raw, "insert")
    if place is None or request is None:
        return None
    if key(raw, "instanceFlexibilityPolicy"):  # Google chose the machine type of each VM from several
        request = replace(request, machine_type=None)
    names = tuple(sorted(set(_names(key(raw, "perInstanceProperties")))))
    pattern = text(key(raw, "namePattern")) or ""
    return BulkRequest(place[1], at, user or "", request, names, pattern) if names or pattern else None


def _names(given: Any) -> Iterator[str]:
    """The names, which are the keys: the audit log has maps as lists of key and value, as it has labels."""
    pairs = given.items() if isinstance(given, dict) else ((key(one, "key"), key(one, "value")) for one in items(given))
    for name, properties in pairs:
        named = text(key(properties, "name")) or name
        if isinstance(named, str):
            yield named


def request_of(insert: SeenOperation, bulks: Iterable[BulkRequest]) -> FeedRequest | None:
    """Returns what a VM of a bulk insert is; None where none may have made it, or several that asked for different VMs.

    An additional disk without a name has that of its VM and a number, as one of a single insert.
    """
    requests = {repr(bulk.request): bulk.request for bulk in bulks if bulk.made(insert)}
    if len(requests) != 1:
        return None
    [request] = requests.values()
    disks = tuple(
        replace(disk, name=f"{insert.target_name}{disk.name}") if disk.name.startswith("-") else disk
        for disk in request.disks
    )
    return replace(request, disks=disks)


def _is_in(zone: str, place: str) -> bool:
    kind, _, name = place.partition("/")
    return zone == name if kind == "zones" else zone.rpartition("-")[0] == name
