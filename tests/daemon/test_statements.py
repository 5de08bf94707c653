"""A pass over unchanged VMs sends as many statements for many of them as for few."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.api import rows
from tests.builders import PROJECT, at, observation, seen
from tests.fakes import FakeCloud, HandClock
from tests.sent_statements import counted

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey
from costguard.model.preset import Match, Preset

_RULES = Rules({"a100": Preset("a100", Match(), timedelta(hours=1))}, spend_labels=("team",))
_PRICES = "FROM prices"


def test_statements_of_a_pass_do_not_grow_with_unchanged_vms(database: Database) -> None:
    """All of these VMs are past their limit, so that their past is read as well. Their prices are not read again."""
    with database.write() as connection:
        rows.prices(connection)
    few, many = _of_pass(database, 4), _of_pass(database, 44)
    assert len(many) == len(few)
    assert not [statement for statement in many if _PRICES in statement]


def test_quiet_pass_reads_the_database_as_it_is_at_six_moments(database: Database) -> None:
    """It reads at its begin, and for looks, charges, totals, sums by label and decisions: writes lie between them."""
    sent = _of_pass(database, 4)
    assert len([statement for statement in sent if statement == "BEGIN" or "READ ONLY" in statement]) == 6


def _of_pass(database: Database, number: int) -> list[str]:
    """The statements of a pass in which nothing changed of so many VMs, after one that recorded them."""
    vms = [seen(key=InstanceKey(PROJECT, str(one)), name=f"vm-{one}") for one in range(number)]
    clock, cloud = HandClock(at("15:00")), FakeCloud({})
    watched = Belonging((), OwnerRules(domain="example.com"))
    reconciler = Reconciler(database, cloud, clock, lambda: (PROJECT,), _RULES, watched)

    def run() -> None:
        clock.advance(timedelta(seconds=30))
        now = clock.now()
        cloud.observations[PROJECT] = replace(observation(*vms), read_at=now, operations_through_at=now)
        reconciler.run()

    for _ in range(3):  # the first ones record and charge them
        run()
    with counted(database) as sent:
        run()
    return sent
