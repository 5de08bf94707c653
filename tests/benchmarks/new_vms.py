"""VMs that are made while a benchmark runs: the first audit entry of each, and what listings show of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any

import orjson
from tests.gce.fleet_bodies import Mask, made_at, shown, started_at
from tests.scenario.fleet import body

from costguard_sandbox.clock import ManualClock, pacific, zulu
from costguard_sandbox.world import World

MADE = "/made"  # where new VMs are posted to a served organisation
ZONE = "us-central1-a"
TOPIC = "projects/acme-events/topics/costguard"
_PATTERN = 30  # the number of a running Spot VM in that zone, as fleets have them
_PROJECT, _NAME = "fleet-00000", f"trainer-{_PATTERN:05d}"
_INSTANCES, _DISKS, _OPERATIONS = (kind * 10**18 for kind in (7, 8, 9))  # how ids of new ones begin


@dataclass(frozen=True)
class NewVm:
    """A VM by its number among the new ones, in the project of this number."""

    number: int
    project: int
    at: datetime  # its insert

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> NewVm:
        return cls(values["number"], values["project"], datetime.fromisoformat(values["at"]))

    @property
    def values(self) -> dict[str, Any]:
        return {**asdict(self), "at": self.at.isoformat()}

    @property
    def gce_id(self) -> str:
        return str(_INSTANCES + self.number)

    @cached_property
    def _names(self) -> list[tuple[str, str]]:
        return [
            (_PROJECT, f"fleet-{self.project:05d}"),
            (_NAME, f"new-{self.number:08d}"),
            (str(4 * 10**18 + _PATTERN), self.gce_id),
            (str(5 * 10**18 + _PATTERN), str(_DISKS + self.number)),
            (str(6 * 10**18 + _PATTERN), str(_OPERATIONS + self.number)),
            (made_at(_PATTERN), pacific(self.at)),
            (started_at(_PATTERN), pacific(self.at)),
        ]

    @property
    def _operation(self) -> str:
        milliseconds = int(self.at.timestamp() * 1000)
        return f"operation-{milliseconds}-64{self.number:011x}-{self.number:08x}-{self.number:08x}"

    def shown(self, collection: str, mask: Mask) -> bytes:
        """The VM, its disk or its insert as lists show them."""
        text = _listed(collection, mask)
        return _replaced(text, [*self._names, (_operation_of_pattern(), self._operation)]).encode()

    def entry(self) -> bytes:
        """The first entry of its insert's operation, in the form that the simulated cloud gives it."""
        text, operation = _entry()
        names = [*self._names, (operation["name"], self._operation), (operation["id"], str(_OPERATIONS + self.number))]
        names += [(operation["targetId"], self.gce_id), ("INSERT-ID", f"new{self.number:09d}")]
        return _replaced(text, [*names, ("ZULU", zulu(self.at)), ("PACIFIC", pacific(self.at))]).encode()


def _replaced(text: str, names: list[tuple[str, str]]) -> str:
    for before, after in names:
        text = text.replace(before, after)
    return text


@cache
def _listed(collection: str, mask: Mask) -> str:
    return orjson.dumps(shown(collection, _PATTERN, mask, project=_PROJECT, is_new=True)).decode()


@cache
def _operation_of_pattern() -> str:
    return str(shown("operations", _PATTERN, Mask.FULL, project=_PROJECT, is_new=True)["name"])


@cache
def _entry() -> tuple[str, Mapping[str, str]]:
    """The text of an entry with the pattern's names, and the operation that it is of."""
    world = World(ManualClock(datetime(2026, 11, 20, 8, tzinfo=UTC)), projects=[_PROJECT])
    world.pubsub.add_topic(TOPIC)
    world.audit.send_to(TOPIC)
    gpu = ("nvidia-tesla-t4", 1)
    wanted = body(_NAME, ZONE, "n1-standard-4", gpu, spot=True, labels={"owner": f"person-{_PATTERN}"})
    world.insert(_PROJECT, ZONE, wanted)
    world.advance(timedelta(minutes=1))
    entry = next(one for one in world.audit.written if one["operation"].get("first"))
    operation = entry["protoPayload"]["response"]
    stamps = {entry[key] for key in ("timestamp", "receiveTimestamp")}
    text = orjson.dumps(entry | {"insertId": "INSERT-ID"}).decode()
    text = _replaced(text, [*((stamp, "ZULU") for stamp in stamps), (operation["insertTime"], "PACIFIC")])
    return text, operation
