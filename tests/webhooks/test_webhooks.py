"""Each receiver of events has its own progress."""

from __future__ import annotations

from datetime import timedelta

from tests.webhooks.webhook_setup import T0, event, webhook

from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.webhooks import rows
from costguard.webhooks.rows import ReceiverPosition, WebhookBacklog


def test_places_are_kept_from_now_on_until_a_receiver_is_taken_out(database: Database) -> None:
    """New ones begin behind the latest event, known ones stay where they are, and what waits is counted by interest."""
    hour = timedelta(hours=1)
    with database.write() as connection:
        audit_log.append(connection, [event("a"), event("b")], T0)
        rows.settle(connection, ["one", "two"])
        audit_log.append(connection, [event("c"), event("d", kind="JobFailed"), event("e", project="other")], T0 + hour)
        rows.accepted(connection, "one", 3, T0 + hour)
        rows.refused(connection, "two", 2, 4, T0 + 2 * hour, "It said\0no.")
        rows.settle(connection, ["two", "new"])
    with database.read() as connection:
        assert rows.places(connection) == {
            "new": ReceiverPosition("new", 5, 0, None, None, ""),
            "two": ReceiverPosition("two", 2, 4, T0 + 2 * hour, None, "It said\N{REPLACEMENT CHARACTER}no."),
        }
        assert rows.waiting(connection, webhook(), 2) == WebhookBacklog(3, T0 + hour)
        assert rows.waiting(connection, webhook(kinds=frozenset({"JobFailed"})), 2) == WebhookBacklog(1, T0 + hour)
        assert rows.waiting(connection, webhook(projects=frozenset({"nowhere"})), 0) == WebhookBacklog(0, None)
    with database.write() as connection:
        rows.passed_over(connection, "two", 4)
        assert rows.places(connection)["two"].tries == 4
        rows.accepted(connection, "two", 5, T0 + hour)
        assert rows.places(connection)["two"] == ReceiverPosition("two", 5, 0, None, T0 + hour, "")
