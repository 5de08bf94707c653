"""The fleet's history is read again every quarter of an hour, for plans and for quotes alike."""

from __future__ import annotations

from datetime import timedelta

from tests.jobs.cloud_vms import Vm
from tests.jobs.world import RECIPE, World, world

from costguard.jobs.rows.history.fleet_history import FleetHistory, SeenByFleet
from costguard.jobs.rows.history.zone_history import VMKind

MINUTE = timedelta(minutes=1)


def test_starts_and_preemptions_are_seen_after_a_quarter_of_an_hour(sqlite_url: str) -> None:
    """The earlier reading is given until then: it is months of rows. A preemption counts in its zone alone."""
    with world(sqlite_url) as w:
        history = FleetHistory()
        assert _seen(w, history) == SeenByFleet()
        w.submit()
        w.until_up("cg-j1-1")
        w.start()
        w.step(60, passing=True)
        vm: Vm = w.vm()
        w.cloud.preempt(vm)
        w.step(60, passing=True)
        assert _seen(w, history) == SeenByFleet()
        w.clock.advance(15 * MINUTE)
        seen = _seen(w, history)
        counts = seen.counts[VMKind.of_recipe(RECIPE)]
        assert sum(counts[vm.zone].preemptions) == 1
        assert seen.starts["t4"][vm.zone].count == 1


def _seen(w: World, history: FleetHistory) -> SeenByFleet:
    with w.database.read() as connection:
        return history.read(connection, w.clock.now())
