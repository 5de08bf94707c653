"""A proxy between the guard and Google that answers 200 in Google's place: nothing that runs is taken for gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import orjson
import pytest
from tests.fakes import HandClock
from tests.gce.server import Answer, Asked, json_answer, serving
from tests.jobs.cloud import CloudOfVms
from tests.jobs.world import Outside, world
from tests.sandbox.vms import body

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger import lifetimes
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.attempt import AttemptState
from costguard.model.observation import Sighting
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 10, tzinfo=UTC)
PROJECT = "acme-training"
VMS = 8
SUBSTITUTES = [
    json_answer({}),
    json_answer({"kind": "compute#instanceList", "items": []}),
    json_answer({"kind": "compute#instance", "id": "7", "name": "someone-else", "status": "RUNNING"}),
    Answer(b"<html><body>Sign in to the network</body></html>"),
]


class Proxy:
    """Forwards what it is asked; once `substitute` is set, that answers each read of one VM, and lists hold none."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.substitute: Answer | None = None
        self.singles = 0

    def answer(self, request: Asked) -> Answer:
        is_single = "/instances/" in request.path
        if self.substitute is not None and is_single:
            self.singles += 1
            return self.substitute
        with urlopen(f"{self.upstream}{request.path}?{urlencode(request.query)}", timeout=60) as answer:
            content = answer.read()
        if self.substitute is not None and request.path.endswith("aggregated/instances"):
            listed: dict[str, Any] = orjson.loads(content)
            return json_answer({**listed, "items": {}})
        return Answer(content)


@contextmanager
def _watching(database: Database) -> Iterator[tuple[Proxy, Reconciler, HandClock]]:
    clouds = World(ManualClock(START), projects=[PROJECT])
    for number in range(VMS):
        clouds.insert(PROJECT, "us-central1-a", body(f"vm-{number}"))
    clouds.advance(timedelta(minutes=5))
    clock = HandClock(START + timedelta(minutes=5))
    with running(clouds) as upstream:
        proxy = Proxy(upstream)
        with serving(proxy.answer) as served, closing(ComputeCloud(served.url, clock, wait=lambda _: False)) as cloud:
            yield (
                proxy,
                Reconciler(database, cloud, clock, lambda: (PROJECT,), Rules({}), Belonging((), OwnerRules())),
                clock,
            )


@pytest.mark.parametrize("substitute", SUBSTITUTES, ids=["empty", "list", "another", "html"])
def test_no_vm_is_gone_behind_a_proxy_that_answers_in_googles_place(
    sqlite_database: Database, substitute: Answer
) -> None:
    """Eight VMs run on; each is asked for by its address, none is recorded as gone, and all go on billing."""
    with _watching(sqlite_database) as (proxy, guard, clock):
        assert guard.run().recorded[0].running == VMS
        proxy.substitute = substitute
        clock.advance(timedelta(minutes=1))
        (recorded,) = guard.run().recorded
    assert proxy.singles > 0
    assert (recorded.absent, recorded.missing) == (0, VMS)
    with sqlite_database.read() as connection:
        ids = list(lifetimes.standings(connection, PROJECT))
        vms = lifetimes.load(connection, PROJECT, ids)
    assert len(vms) == VMS
    assert [vm.record.gone_at for vm in vms.values()] == [None] * VMS
    assert all(life.is_open for vm in vms.values() for life in vm.lifetimes)


class BehindProxy(CloudOfVms):
    """The cloud of the job tests, whose single reads go through the real client while `client` is set."""

    client: ComputeCloud | None = None

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        return super().look(project, zone, name) if self.client is None else self.client.look(project, zone, name)


@pytest.mark.parametrize("substitute", SUBSTITUTES, ids=["empty", "list", "another", "html"])
def test_attempt_of_a_cancelled_job_stays_open_while_its_vm_runs(sqlite_url: str, substitute: Answer) -> None:
    """The guard cannot see the VM, so the attempt is not over; once it can, it deletes the VM, and then it is."""
    outside = Outside()
    outside.cloud = cloud = BehindProxy(outside.clock)
    with (
        world(sqlite_url, outside=outside) as product,
        serving(lambda _: substitute) as served,
        closing(ComputeCloud(served.url, product.clock)) as client,
    ):
        product.guard()
        product.submit()
        product.until_up("cg-j1-1")
        cloud.client = client
        product.cancel()
        for _ in range(30):
            product.step(20)
        assert product.is_up("cg-j1-1")
        (attempt,) = product.attempts()
        assert attempt.state is not AttemptState.OVER
        assert attempt.gone_at is None
        cloud.client = None
        product.settle(15)
        assert not product.is_up("cg-j1-1")
        (attempt,) = product.attempts()
        assert attempt.state is AttemptState.OVER
