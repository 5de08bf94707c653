"""A claim changes the owner: in the ledger, and in what is spent from then on, on both databases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from tests.builders import PROJECT, at, observation, operation, seen
from tests.fakes import FakeCloud
from tests.reminders.execute_setup import ANA, Scene
from tests.within import charge_due

from costguard.db.tables import daily_spend, instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.ledger import prices, projects
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import close_account, record
from costguard.model.action import AssignOwner
from costguard.model.instance import InstanceKey, ProvisioningModel, SeenInstance, Status
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit
from costguard.model.reminder import RequestKind, Subject

BO = "bo@example.com"


def _listed(**given: Any) -> SeenInstance:
    return seen(key=InstanceKey(PROJECT, "1001"), name="vm-1", labels={"owner": "bo"}, **given)


def _claimed(scene: Scene, subject: Subject, owner: str, key: str = "press") -> None:
    request = scene.ask(subject, RequestKind.CLAIM if owner else RequestKind.DISOWN, key=key)
    scene.executor().carry_out([AssignOwner(request, owner, f"{ANA} said so")])


def _owners(database: Database) -> dict[str, list[str]]:
    with database.read() as connection:
        return {
            table.name: list(connection.execute(select(table.c.owner).order_by(table.c.id)).scalars())
            for table in (instances, lifetimes, storage_spans)
        }


def test_a_claim_moves_what_runs(database: Database) -> None:
    """The next look counts the VM, its open run and its storage for who claimed it, without any news from Google."""
    scene = Scene(database)
    subject = scene.run(labels={"owner": "bo"})
    assert _owners(database)["lifetimes"] == [BO]
    _claimed(scene, subject, ANA)
    scene.look(_listed(), read="12:05")
    assert _owners(database) == {"instances": [ANA], "lifetimes": [ANA], "storage_spans": [ANA]}
    with database.read() as connection:
        assert connection.execute(select(instances.c.owner_source)).scalar_one() == "claim"
    assert scene.event_texts("InstanceReassigned") == [
        f"vm-1 is now counted for {ANA} under preset other; before, for {BO} under other."
    ]


def test_a_claim_adds_no_storage(database: Database) -> None:
    """The VM is accounted for again, and not as one that was never seen: its disks stay the spans that they were."""
    scene = Scene(database)
    subject = scene.run(labels={"owner": "bo"})
    with database.read() as connection:
        before = connection.execute(select(storage_spans.c.id, storage_spans.c.started_at)).all()
    _claimed(scene, subject, ANA)
    scene.look(_listed(), read="12:05")
    with database.read() as connection:
        assert connection.execute(select(storage_spans.c.id, storage_spans.c.started_at)).all() == before


def test_runs_that_are_over_stay_whose_they_were(database: Database) -> None:
    """A claim is about what is spent from now on; the next run is the claimer's, whatever the label says."""
    scene = Scene(database)
    subject = scene.run(labels={"owner": "bo"})
    stopped = operation("stop", "12:10", "12:11", target_id="1001")
    scene.look(_listed(status=Status.STOPPED, fingerprint="stopped"), operations=(stopped,), read="12:15")
    _claimed(scene, subject, ANA)
    again = operation("start", "12:20", "12:21", target_id="1001")
    scene.look(_listed(started="12:21", fingerprint="again"), operations=(again,), read="12:25")
    assert _owners(database)["lifetimes"] == [BO, ANA]


def test_the_latest_claim_holds(database: Database) -> None:
    """Each claim goes over the ones before, and anyone who disowns a VM leaves it without an owner."""
    scene = Scene(database)
    subject = scene.run(labels={"owner": "bo"})
    for number, owner in enumerate([ANA, BO, ""]):
        _claimed(scene, subject, owner, key=str(number))
        scene.look(_listed(), read=f"12:1{number}")
        assert _owners(database)["instances"] == [owner]


def test_a_claim_lasts(database: Database) -> None:
    """A change of the VM, other settings and a project that is not watched any more leave it whose it is."""
    scene = Scene(database)
    subject = scene.run(labels={"owner": "bo"})
    _claimed(scene, subject, ANA)
    scene.look(_listed(fingerprint="changed"), read="12:05")
    other = Belonging((), OwnerRules(domain="acme.io"))
    record(database, FakeCloud(), observation(_listed(fingerprint="changed"), read="12:06"), other, None)
    with database.read() as connection:
        (look,) = projects.read_all(connection)
    close_account(database, look, other, None)
    assert _owners(database) == {"instances": [ANA], "lifetimes": [ANA], "storage_spans": [ANA]}


def test_a_claim_without_a_look_changes_nothing_yet(database: Database) -> None:
    """The ledger changes at a look alone, so that two writers never tell two stories."""
    scene = Scene(database)
    subject = scene.run(labels={"owner": "bo"})
    _claimed(scene, subject, ANA)
    assert _owners(database)["instances"] == [BO]
    assert at("12:00") == scene.clock.now()


def test_spend_follows_the_claim(database: Database) -> None:
    """The open run is charged again for who claimed it, and what its VM stores as well: nothing is left behind."""
    scene = Scene(database)
    rate = Money.of(1).nanos
    with database.write() as connection:
        for resource, unit in (("a2:core", Unit.HOUR), ("a2:ram", Unit.GIB_HOUR), ("gpu:nvidia-tesla-a100", Unit.HOUR)):
            key = PriceKey(resource, "us-central1", ProvisioningModel.STANDARD)
            prices.add(connection, [Price(key, unit, rate, at("00:00"), "test")], at("00:00"))
    subject = scene.run(labels={"owner": "bo"})
    spent = []
    for hour in ("01:00", "02:00"):
        morning = at(f"2026-11-03T{hour}:00")
        with database.write() as connection:
            charge_due(connection, morning)
        with database.read() as connection:
            query = select(daily_spend.c.owner, daily_spend.c.machine_nanos).where(daily_spend.c.machine_nanos > 0)
            spent.append(connection.execute(query).all())
        if len(spent) == 1:
            _claimed(scene, subject, ANA)
            scene.look(_listed(), read="2026-11-03T01:30:00")
    ((before, amount),), ((after, same),) = spent
    assert (before, after) == (BO, ANA)
    assert same == amount > 0
