"""A ledger with running VMs, what may be done about them, and an executor that can be ended at any step."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select
from tests.builders import PROJECT, at, observation, operation, seen
from tests.crashing import CrashPoint
from tests.fakes import FakeActuator, FakeCloud, FakeVm, HandClock

from costguard.db.tables import lifetimes, messages, requests
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger import fleet_rows
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import record
from costguard.model.action import StopInstance
from costguard.model.instance import InstanceKey, Status
from costguard.model.observation import Sighting
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind
from costguard.reminders import request_rows, stop_rows
from costguard.reminders.execute import LiveExecutor
from costguard.reminders.stop_case import StopCase, StopHold
from costguard.reminders.stop_rows import StopRecord

ZONE = "us-central1-a"
ANA = "ana@example.com"
BELONGING = Belonging((), OwnerRules(domain="example.com"))


def due(_connection: Connection, _case: StopCase, _sighting: Sighting, _now: datetime) -> StopHold | None:
    """Returns the hold: as due as it was."""
    return None


@dataclass
class Scene:
    """The VM `vm-1` has run since 10:00, in the ledger and at Google; it is 12:00."""

    database: Database
    clock: HandClock = field(default_factory=lambda: HandClock(at("12:00")))
    google: FakeActuator = field(default_factory=FakeActuator)

    def executor(self, **other: Any) -> LiveExecutor:
        parts: dict[str, Any] = {
            "database": self.database,
            "actuator": self.google,
            "clock": self.clock,
            "still_due": due,
        }
        return LiveExecutor(**{**parts, **other})

    def run(self, number: int = 1, **given: Any) -> Subject:
        """A VM that runs, as the ledger and Google know it."""
        name, key = f"vm-{number}", InstanceKey(PROJECT, str(1000 + number))
        self.look(seen(key=key, name=name, **given))
        self.google.vms[PROJECT, ZONE, name] = FakeVm(key.gce_id, started_at=at("10:00"))
        with self.database.read() as connection:
            row = fleet_rows.instance_id(connection, key)
            query = select(lifetimes.c.id).where(lifetimes.c.instance_id == row)
            life = connection.execute(query).scalar_one()
        assert row is not None
        return Subject(SubjectKind.RUN, row, life)

    def look(self, *vms: Any, **given: Any) -> None:
        look = observation(*vms, **given)
        record(self.database, FakeCloud(), look, BELONGING, None)

    def come_to_rest(self, number: int = 1, kind: str = "stop", **given: Any) -> None:
        """Records what a look at Google shows of a VM whose stop began just now."""
        gce_id, begun = str(1000 + number), f"{self.clock.now():%H:%M}"
        ended = operation(
            kind, begun, f"{begun}:59", target_id=gce_id, user="guard@acme.iam.gserviceaccount.com", **given
        )
        vm = seen(key=InstanceKey(PROJECT, gce_id), name=f"vm-{number}", status=Status.STOPPED, fingerprint="stopped")
        self.look(vm, operations=(ended,), read=f"{begun}:59")

    def stop_by_rule(self, subject: Subject, number: int = 1, cycle: int = 0, **given: Any) -> StopInstance:
        values: dict[str, Any] = {
            "subject": subject,
            "key": InstanceKey(PROJECT, str(1000 + number)),
            "name": f"vm-{number}",
            "zone": ZONE,
            "rule": "preset a100: stop after 3 unanswered reminders and 1 h",
            "reason": "no answer to 3 reminders",
            "due_at": at("11:00"),
            "started_at": at("10:00"),
            "reminder": f"reminder/{subject}/{cycle}/2/owner",
            "evidence": {"idle": "0 % for 3 h"},
        }
        return StopInstance(**{**values, **given})

    def ask(self, subject: Subject, request_kind: RequestKind = RequestKind.STOP, **given: Any) -> Request:
        """Stores a person's request."""
        values: dict[str, Any] = {
            "key": f"press/{subject}/{request_kind.value}",
            "kind": request_kind,
            "subject": subject,
            "by": ANA,
            "user_id": "UANA",
            "via": "slack",
            "at": self.clock.now(),
        }
        wanted = Request(**{**values, **given})
        with self.database.write() as connection:
            assert request_rows.add(connection, wanted)
        with self.database.read() as connection:
            return next(request for _, request in request_rows.open_requests(connection) if request.key == wanted.key)

    def stop_by_ana(self, subject: Subject, number: int = 1, **given: Any) -> StopInstance:
        request = given.get("request") or self.ask(subject)
        more = {"request": request, "reminder": "", "reason": "she is done with it", **given}
        return self.stop_by_rule(subject, number, **more)

    def stops(self, subject: Subject) -> tuple[StopRecord, ...]:
        with self.database.read() as connection:
            return stop_rows.of_subjects(connection, [subject]).get(subject, ())

    def stop(self, subject: Subject) -> StopRecord:
        (only,) = self.stops(subject)
        return only

    def event_texts(self, kind: str) -> list[str]:
        with self.database.read() as connection:
            return [stored.event.text for stored in audit_log.read(connection, kind=kind)]

    def requests(self) -> list[tuple[str, str]]:
        """Status and outcome of all."""
        with self.database.read() as connection:
            query = select(requests.c.status, requests.c.outcome).order_by(requests.c.id)
            return [(row.status, row.outcome) for row in connection.execute(query)]

    def ephemerals(self) -> list[tuple[str, str]]:
        """Returns ephemeral messages: to whom, and what."""
        with self.database.read() as connection:
            query = select(messages.c.address, messages.c.data).where(messages.c.kind == "ephemeral")
            return [(row.address, row.data["text"]) for row in connection.execute(query)]


class FragileActuator:
    """May end the process before each call and right after Google has done what was asked."""

    def __init__(self, google: FakeActuator, fuse: CrashPoint) -> None:
        self._google = google
        self._fuse = fuse

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        self._fuse.step()
        sighting = self._google.look(project, zone, name)
        self._fuse.step()
        return sighting

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        self._fuse.step()
        operation = self._google.stop(project, zone, instance, request_id)
        self._fuse.step()
        return operation


MINUTE = timedelta(minutes=1)
