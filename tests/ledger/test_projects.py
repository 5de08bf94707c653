"""Projects: one row each, and what could not be read leaves what was known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from costguard.db.transaction import Database
from costguard.ledger import projects
from costguard.ledger.projects import ProjectLook
from costguard.model.instance import InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.observation import Observation, Unread

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
VM = SeenInstance(
    key=InstanceKey("lab", "77"),
    name="trainer",
    zone="us-central1-a",
    status=Status.RUNNING,
    created_at=T0,
    shape=Shape("n1-standard-4", 4, 15360),
    provisioning_model=ProvisioningModel.STANDARD,
    fingerprint="f",
)
WHOLE = Observation("lab", T0, instances=(VM,), operations_through_at=T0)
ZONE = Unread("europe-west4-a", "The zone did not answer.", "unreachable")


def look(database: Database, observation: Observation, now: datetime) -> None:
    with database.write() as connection:
        projects.record_look(connection, observation, now)


def test_the_first_look_makes_the_row(database: Database) -> None:
    """All that a whole look gave is there to read."""
    look(database, WHOLE, T0 + MINUTE)
    expected = ProjectLook("lab", T0 + MINUTE, T0 + MINUTE, T0, T0, (), 1)
    with database.read() as connection:
        assert projects.read_all(connection) == [expected]
        assert projects.last_look(connection, "lab") == expected
        assert projects.watched_since(connection, "lab") == T0 + MINUTE


def test_a_project_never_looked_at_is_not_known(database: Database) -> None:
    """There is no look and no beginning of one."""
    with database.read() as connection:
        assert projects.read_all(connection) == []
        assert projects.last_look(connection, "lab") is None
        assert projects.watched_since(connection, "lab") is None


def test_an_incomplete_look_leaves_what_was_known(database: Database) -> None:
    """Count, last whole look and read operations stay; what is unread and when we tried is new."""
    look(database, WHOLE, T0)
    blind = Observation("lab", T0 + MINUTE, unread_zones=frozenset({ZONE.scope}), unread=(ZONE,))
    look(database, blind, T0 + MINUTE)
    with database.read() as connection:
        assert projects.last_look(connection, "lab") == ProjectLook("lab", T0, T0 + MINUTE, T0, T0, (ZONE,), 1)


def test_a_whole_look_clears_what_was_unread(database: Database) -> None:
    """The list is empty as soon as everything is read again."""
    look(database, Observation("lab", T0, instances_complete=False, unread=(ZONE,)), T0)
    look(database, WHOLE, T0 + MINUTE)
    with database.read() as connection:
        assert projects.last_look(connection, "lab") == ProjectLook("lab", T0, T0 + MINUTE, T0, T0, (), 1)


def test_projects_come_by_name(database: Database) -> None:
    """Each has a row of its own."""
    for name in ("zoo", "art"):
        look(database, Observation(name, T0), T0)
    with database.read() as connection:
        assert [row.project for row in projects.read_all(connection)] == ["art", "zoo"]
