"""When a guard reads prices, and when figures of VMs: less often than it looks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.scenario.fleet import HOUR, MINUTE
from tests.simulation.faults import FREE, MISPRINTED
from tests.simulation.guard import Process
from tests.simulation.settings import PROJECT

from costguard_sandbox.gce.vm import Load, Status

if TYPE_CHECKING:
    from tests.simulation.life import Life

_PRICES_AGAIN = 2 * HOUR  # after a reading that failed


class Readings:
    """`are_due`: prices are read at the next visit, whenever they were read last."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._measured_at = self._priced_at = life.plan.start
        self._has_prices = True
        self.are_due = False

    def read(self, process: Process) -> None:
        if self._is_to_be_priced():
            self._priced_at, self._has_prices, self.are_due = self._life.now, False, False
            self._has_prices = process.read_prices() and not self._are_wrong()
        if self._is_to_be_measured():
            process.measure()

    def has_present_prices(self) -> bool:
        """Says whether the guard has what the catalogue shows, so that a change loses nothing."""
        changed_at = self._life.wild.prices_changed_at
        is_read = changed_at is None or (changed_at <= self._priced_at and self._has_prices)
        return is_read and not self._are_wrong()

    def _are_wrong(self) -> bool:
        return bool(self._life.weather.present & {MISPRINTED, FREE})

    def _is_to_be_priced(self) -> bool:
        changed_at = self._life.wild.prices_changed_at
        if self.are_due or (changed_at is not None and changed_at > self._priced_at):
            return True
        every = self._life.plan.aim.reads_prices * HOUR if self._has_prices else _PRICES_AGAIN
        return self._life.now - self._priced_at >= every

    def _is_to_be_measured(self) -> bool:
        """Figures are many: they are read while there is something to be seen in them, and not too often."""
        now = self._life.now
        every: timedelta = 2 * HOUR if not self._life.plan.aim.moods else 10 * MINUTE
        if now - self._measured_at < every:
            return False
        has_work = any(
            vm.status is Status.RUNNING and (vm.load_at(now) is not Load.BUSY or len(vm.loads) > 1)
            for vm in self._life.world.instances(PROJECT)
        )
        if has_work:
            self._measured_at = now
        return has_work
