"""VMs of jobs are their job's and its owner's, from the first look on and whatever their labels come to say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, func, select
from tests.builders import PROJECT, at, observation, operation, seen
from tests.fakes import FakeCloud
from tests.jobs import job_rows

from costguard.db.tables import charges, instances, lifetimes
from costguard.db.transaction import Database
from costguard.jobs.rows import attempts
from costguard.jobs.rows import job_rows as job_table
from costguard.ledger import prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.ledger.record import record
from costguard.model.attempt import ATTEMPT_LABEL, AttemptState
from costguard.model.budget import Period, Scope
from costguard.model.instance import InstanceKey, ProvisioningModel, SeenInstance, Shape
from costguard.model.money import Money
from costguard.model.observation import Observation
from costguard.model.price import Price, PriceKey, Unit
from costguard.spend.budgets import outlooks

NAME = "cg-j7k2m9q4-1"
CPU = Shape("n2-standard-4", 4, 16384)


def _vm(gce_id: str = "71", **given: Any) -> SeenInstance:
    """The VM of the first attempt, by its name and its label."""
    values = {"name": NAME, "labels": {ATTEMPT_LABEL: NAME, "owner": "eve"}, **given}
    return seen(key=InstanceKey(PROJECT, gce_id), **values)


def _launch(database: Database, **given: Any) -> int:
    with database.write() as connection:
        job_rows.added(connection)
        return job_rows.attempt(connection, project=PROJECT, **given).id


def _look(database: Database, look: Observation, gpu_only: bool = False) -> int:
    belonging = Belonging((), OwnerRules(), gpu_only=gpu_only)
    return record(database, FakeCloud(), look, belonging, None).new_or_changed


def _whose(connection: Connection) -> list[tuple[str, str, str]]:
    columns = instances.c
    return [
        tuple(row)
        for row in connection.execute(select(columns.gce_id, columns.job, columns.owner).order_by(columns.gce_id))
    ]


def test_a_vm_is_its_jobs_from_the_first_look_on(database: Database) -> None:
    """Before its attempt knows its id, and after; a look that shows nothing new changes nothing."""
    attempt_id = _launch(database)
    assert _look(database, observation(_vm())) == 1
    with database.write() as connection:
        assert _whose(connection) == [("71", "j7k2m9q4", "ada@lab.example")]
        attempts.change(connection, attempt_id, list(AttemptState), gce_id="71")
    assert _look(database, observation(_vm(), read="12:01")) == 0
    assert _look(database, observation(_vm(labels={}, fingerprint="no labels"), read="12:02")) == 1
    with database.read() as connection:
        assert _whose(connection) == [("71", "j7k2m9q4", "ada@lab.example")]
        assert connection.execute(select(lifetimes.c.job)).scalars().all() == ["j7k2m9q4"]


def test_a_vm_that_was_not_the_attempts_is_no_ones_job(database: Database) -> None:
    """Once the attempt's VM is known to be another, the one that only bore its label is accounted for again."""
    attempt_id = _launch(database)
    _look(database, observation(_vm("71"), _vm("72", name="copy"), _vm("73", zone="us-central1-f")))
    with database.write() as connection:
        assert [job for _, job, _ in _whose(connection)] == ["j7k2m9q4", "", ""]
        attempts.change(connection, attempt_id, list(AttemptState), gce_id="74")
    _look(database, observation(_vm("71"), _vm("74"), read="12:01"))
    with database.read() as connection:
        whose = {gce_id: (job, owner) for gce_id, job, owner in _whose(connection)}
    assert whose["71"] == ("", "eve")
    assert whose["74"] == ("j7k2m9q4", "ada@lab.example")


@pytest.mark.parametrize("is_listed", [True, False])
def test_what_a_job_launched_is_recorded_without_a_gpu_too(sqlite_database: Database, is_listed: bool) -> None:
    """It bills, and so does one that came and went between two looks."""
    _launch(sqlite_database)
    operations = (
        operation("insert", "11:00", "11:01", target_id="71", target_name=NAME),
        operation("delete", "11:30", "11:31", target_id="71", target_name=NAME),
    )
    _look(sqlite_database, observation(read="10:59"), gpu_only=True)
    look = observation(_vm(shape=CPU)) if is_listed else observation(operations=operations)
    assert _look(sqlite_database, look, gpu_only=True) == 1
    with sqlite_database.read() as connection:
        assert _whose(connection) == [("71", "j7k2m9q4", "ada@lab.example")]


def test_a_jobs_vm_that_no_look_saw_is_priced_by_what_was_asked_for(database: Database) -> None:
    """Half an hour of a Spot n1-standard-8 with a T4, and its boot disk from its request to its end, to the cent."""
    with database.write() as connection:
        for resource, unit, rate in (
            ("n1:core", Unit.HOUR, "0.01"),
            ("n1:ram", Unit.GIB_HOUR, "0.001"),
            ("gpu:nvidia-tesla-t4", Unit.HOUR, "0.14"),
            ("disk:pd-balanced", Unit.GIB_MONTH, "0.10"),
        ):
            model = ProvisioningModel.STANDARD if resource.startswith("disk") else ProvisioningModel.SPOT
            key = PriceKey(resource, "us-central1", model)
            prices.add(connection, [Price(key, unit, Money.of(rate).nanos, at("00:00"), "test")], at("00:00"))
    _launch(database, provisioning_model=ProvisioningModel.SPOT)
    operations = (
        operation("insert", "11:00", "11:01", target_id="71", target_name=NAME),
        operation("delete", "11:31", "11:32", target_id="71", target_name=NAME),
    )
    _look(database, observation(read="10:59"))
    _look(database, observation(operations=operations))
    charge_due(database, at("12:00"))
    with database.read() as connection:
        (life,) = connection.execute(select(lifetimes)).all()
        sums = select(charges.c.resource, func.sum(charges.c.amount_nanos)).group_by(charges.c.resource)
        charged = {resource: Money(int(nanos)) for resource, nanos in connection.execute(sums)}
    assert (life.machine_type, life.gpu_type, life.provisioning_model) == ("n1-standard-8", "nvidia-tesla-t4", "spot")
    half_an_hour = {"n1:core": "0.04", "n1:ram": "0.015", "gpu:nvidia-tesla-t4": "0.07"}
    for name, amount in half_an_hour.items():
        assert charged[name] == Money.of(amount), name
    assert Money.of("0.007") < charged["disk:pd-balanced"] < Money.of("0.0075")  # 32 minutes of a month of 30 days


def test_the_vm_of_a_machine_type_that_cannot_be_read_stays_unpriced(sqlite_database: Database) -> None:
    """A price is never guessed, and what is unpriced is shown so."""
    with sqlite_database.write() as connection:
        odd = replace(job_rows.RECIPE, machine_type="x9-odd-8")
        job_table.add(connection, replace(job_rows.job("j7k2m9q4"), recipe=odd), None, "")
        job_rows.attempt(connection, project=PROJECT)
    operations = (
        operation("insert", "11:00", "11:01", target_id="71", target_name=NAME),
        operation("delete", "11:31", "11:32", target_id="71", target_name=NAME),
    )
    _look(sqlite_database, observation(read="10:59"))
    _look(sqlite_database, observation(operations=operations))
    assert charge_due(sqlite_database, at("12:00")).unpriced == 1


def test_budgets_and_spend_can_be_of_one_job(sqlite_database: Database) -> None:
    """The spend of other VMs is not in it, neither past nor present."""
    _launch(sqlite_database)
    with sqlite_database.write() as connection:
        for resource, unit, rate in (
            ("a2:core", Unit.HOUR, "0"),
            ("a2:ram", Unit.GIB_HOUR, "0"),
            ("gpu:nvidia-tesla-a100", Unit.HOUR, "3"),
        ):
            key = PriceKey(resource, "us-central1", ProvisioningModel.STANDARD)
            prices.add(connection, [Price(key, unit, Money.of(rate).nanos, at("00:00"), "test")], at("00:00"))
    _look(sqlite_database, observation(_vm(disks=()), seen(disks=())))
    with sqlite_database.read() as connection:
        accrual = Accrual(PriceBook(prices.load(connection)), at("12:00"))
        scoped_periods = [(Scope(job="j7k2m9q4"), Period.DAY), (Scope(), Period.DAY), (Scope(job="other"), Period.DAY)]
        mine, everything, other = outlooks(connection, accrual, scoped_periods)
    assert (mine.spent, mine.rate) == (Money.of(6), Money.of(3))
    assert (everything.spent, everything.rate, other.spent) == (Money.of(12), Money.of(6), Money())
    assert str(Scope(job="j7k2m9q4")) == "job j7k2m9q4"
