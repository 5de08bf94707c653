"""Lookups of people are stored by their address."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.api.rows import NOW

from costguard.db.transaction import Database
from costguard.model.delivery.person import AccountLookup, Person
from costguard.reminders import slack_accounts

ADA = Person("U0ADA", "ada@lab.example", "Ada", "Europe/Madrid")


def test_addresses_are_the_same_in_any_case(database: Database) -> None:
    """Saved and asked for in capitals, they are found in lower case; nobody asks for the empty one."""
    lookup = AccountLookup("Ada@Lab.example", ADA, NOW)
    with database.write() as connection:
        slack_accounts.save(connection, lookup)
        slack_accounts.save(connection, AccountLookup("none@lab.example", None, NOW))
        lookups = slack_accounts.of_addresses(
            connection, ["ADA@lab.example", "none@lab.example", "other@lab.example", ""]
        )
        assert slack_accounts.of_addresses(connection, None) == lookups
    assert lookups == {
        "ada@lab.example": replace(lookup, address="ada@lab.example"),
        "none@lab.example": AccountLookup("none@lab.example", None, NOW),
    }


def test_direct_messages_are_kept_with_the_person(database: Database) -> None:
    """Found by their id, with the channel that was opened."""
    with database.write() as connection:
        slack_accounts.save(connection, AccountLookup(ADA.address, ADA, NOW))
        slack_accounts.set_direct_channel(connection, "ADA@lab.example", "D1")
        assert slack_accounts.by_user_id(connection, "U0ADA") == AccountLookup(ADA.address, ADA, NOW, "D1")


def test_an_id_belongs_to_the_address_it_was_last_found_under(database: Database) -> None:
    """People change their address; those who are not in Slack have no id to be found by."""
    later = NOW + timedelta(days=1)
    moved = replace(ADA, address="ada@other.example")
    with database.write() as connection:
        slack_accounts.save(connection, AccountLookup(moved.address, moved, later))
        slack_accounts.save(connection, AccountLookup(ADA.address, ADA, NOW))
        slack_accounts.save(connection, AccountLookup("none@lab.example", None, later))
        assert slack_accounts.by_user_id(connection, "U0ADA") == AccountLookup(moved.address, moved, later)
        assert slack_accounts.by_user_id(connection, "") is None


def test_more_addresses_than_one_query_takes_are_all_found(database: Database) -> None:
    """Two and a half thousand."""
    addresses = [f"p{n}@lab.example" for n in range(2500)]
    with database.write() as connection:
        for address in addresses[::500]:
            slack_accounts.save(connection, AccountLookup(address, None, NOW))
        assert sorted(slack_accounts.of_addresses(connection, addresses)) == sorted(addresses[::500])
