"""Lives one simulated life: the clock moved, faults come and gone, people at work, and guards coming and going."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from itertools import count

from sqlalchemy import delete
from tests.scenario.fleet import HOUR, MINUTE
from tests.simulation import invariants, pages
from tests.simulation.backups import Older, copied
from tests.simulation.crashing import CrashPoint, FragileDatabase, Killed
from tests.simulation.database_trouble import DatabaseTrouble
from tests.simulation.faults import GOOGLES, GUARD_OFF, FaultSchedule
from tests.simulation.fleet import DAY, Fleet, world_of
from tests.simulation.gaps import Gaps
from tests.simulation.glances import Glances, meddle, newer_words
from tests.simulation.guard import Place, Process
from tests.simulation.guarding import GuardClock, Look, Step, raised_by_the_guard
from tests.simulation.job_vms import Alone, Restore, of_attempts, requests_in, unknown_to
from tests.simulation.jobs import Jobs
from tests.simulation.operators import InForce, Operators
from tests.simulation.people import Meant, People
from tests.simulation.plan import Plan, gap_after
from tests.simulation.readings import Readings
from tests.simulation.settings import PROJECT, WILD, settings_of
from tests.simulation.sharing import Sharing
from tests.simulation.two_guards import TwoGuards
from tests.simulation.untold import PassRecord
from tests.simulation.visitors import Visitors
from tests.simulation.wild import Wild
from tests.simulation.wire import Wire

from costguard.daemon.lease_keeper import LEASE_TTL
from costguard.db.tables import prices
from costguard.errors import LeaseLost, StoreError
from costguard.model.observation import Observation
from costguard.settings import Settings
from costguard_sandbox.clock import ManualClock

_MOMENT = timedelta(milliseconds=100)
_PATIENCE = 2 * MINUTE  # for an outbox that has to wait; the next step goes on with it
_TIES = 40  # so many begins of one visit, and something goes round in circles
_NEVER = CrashPoint()
ALONE_FOR = 40 * MINUTE  # the guard's own grace, a look, a delete and a backoff, while nothing hinders it


class Why(Enum):
    """The reason why the clock is moved to a moment."""

    PASS = "the guard looks"
    AGENTS = "an agent or a person has something for the jobs"
    WEATHER = "something is well again"


class Broken(Exception):
    """An invariant did not hold after a visit."""


class Life:
    """A life, made of a plan and lived by `live`; everything that the invariants go by is in here."""

    def __init__(self, plan: Plan, database: FragileDatabase) -> None:
        self.plan = plan
        self.settings = settings_of(plan.aim, has_budgets=bool(plan.budgets))
        self.clock = ManualClock(plan.start)
        self.guard_clock = GuardClock(self.clock)
        self.trouble = DatabaseTrouble(plan.lot("database"), self.move)
        self.restores = list[Restore]()
        self.older, self.gaps = Older(), Gaps(self)
        self.writes = 0  # of guards, until nothing goes wrong any more
        self.lost: set[int] = set()  # VMs of jobs that a restored database does not know
        self.lost_requests: dict[str, datetime] = {}  # for such VMs, and since when
        self.adopted: set[int] = set()  # VMs of attempts that databases knew until they were put back
        self.alone = Alone(ALONE_FOR)
        self.world = world_of(plan, self.clock)
        self.wire = Wire(self.world, self.move)
        if plan.aim.meddles or plan.aim.restarts:
            self.wire.looked = partial(meddle, self)
        self.glances = Glances(self.world, self.move, plan)
        if plan.aim.glances:
            self.wire.looked = self.glances.before
        self.fleet = Fleet(self.world)
        self.wild = Wild(self.world)
        self.jobs = Jobs(self.world, plan)
        self.people = People(self.world.slack, plan.lot, plan.aim.presses, plan.aim.hours * HOUR)
        self.two_guards = TwoGuards(self)
        self.sharing = Sharing(self)
        self.operators = Operators(self, InForce([(plan.start, self.settings.rules())]))
        self.weather = FaultSchedule(
            self,
            sorted(plan.faults, key=lambda fault: (fault.at, fault.number)),
            lambda number: plan.lot("fault", number),
        )
        self.fuse = CrashPoint(self._meanwhile)
        self.unforeseen, self.looks = list[str](), list[Look]()  # errors that the guard kept apart from its other work
        self.visits: list[Step] = []
        self.steps: list[Step] = []  # those visits in which messages were delivered too
        self._stamps: dict[datetime, dict[int, datetime | None]] = {}
        self.passes: list[datetime] = []  # when each that came to its end had begun
        self.counts: Counter[str] = Counter()
        self._kills = list(plan.kills)
        self._off_until = plan.start
        self._off_next = timedelta()
        self._gaps = plan.lot("gaps")
        self._pace = plan.aim.pace if plan.aim.is_often else self._gaps.choice((1, 2, 3, 4))
        self._numbers = count(1)
        self._place = Place(
            database, self.guard_clock, self.wire, self.jobs.shelf, self._new_job_id, self._saw, self._wait,
            self.settings, lambda: self.now.timestamp(), plan.aim.has_gaps, plan.aim.is_shared,
        )  # fmt: skip
        self.ledger = database.of_process(_NEVER)  # for those who look on
        if plan.aim.is_unpriced:
            with self.ledger.write() as connection:
                connection.execute(delete(prices))
        self.process: Process | None = None
        self.readings, self.visitors = Readings(self), Visitors(self)
        self.wild.may_change_prices = self.readings.has_present_prices
        self._job_ids = count(1)

    def live(self) -> None:
        """Lives to the end of the plan, and on until all is settled: nothing goes wrong any more, nobody presses."""
        self.fleet.plan(self.plan)
        self.wild.plan(self.plan)
        self._light()
        self._visit()  # it watches from here on: what came and went before its first look is not its
        while self.world.now < self.plan.end:
            moment, why = self._next()
            self.move(moment - self.world.now)
            self.weather.turn(self.world.now)
            self._light()
            if self._is_off or why is Why.WEATHER:
                continue
            self.people.read()
            for meant in self.people.due() if self.plan.presses else ():
                self._press(meant)
            self._visit(is_delivered=why is not Why.AGENTS)
        self._wind_up()

    @property
    def now(self) -> datetime:
        return self.world.now

    # Time.

    def _next(self) -> tuple[datetime, Why]:
        """When something happens next, be it that the guard looks, and what it is."""
        now = self.world.now
        if self._is_off:
            moments = [(self._off_until if self._off_until > now else None, Why.PASS)]
        else:
            people = self.people.next_at() if self.plan.presses else None
            moments = [
                (now + gap_after(now, self._gaps, self._pace), Why.PASS),
                (people, Why.PASS),
                (self.visitors.next_at(), Why.PASS),
                (self.jobs.next_at(), Why.AGENTS),
            ]
        # The guard sees the beginning of what goes wrong, and of its end what comes of it later.
        moments += [(self.weather.begins_at, Why.PASS), (self.weather.ends_at, Why.WEATHER)]
        coming = [(moment, why) for moment, why in moments if moment is not None]
        moment, why = min(coming, key=lambda one: one[0], default=(self.plan.end, Why.PASS))
        return min(max(moment, now + _MOMENT), self.plan.end), why

    @property
    def _is_off(self) -> bool:
        return GUARD_OFF in self.weather.bad or self.world.now < self._off_until

    def move(self, by: timedelta) -> None:
        """Moves the clock by whole milliseconds: Google keeps no finer time."""
        self.gaps.advance(timedelta(milliseconds=max(0, -(-by // timedelta(milliseconds=1)))))

    def _wait(self, seconds: float) -> bool:
        """A pause of the guard's before it repeats a request."""
        self.move(timedelta(seconds=seconds))
        return False

    # One visit.

    def _visit(self, *, is_delivered: bool = True) -> None:
        """Messages wait for the next visit where only agents had something to say, for they take a third of a visit."""
        began, bad = self.world.now, self.weather.bad
        for tries in count(1):
            if (is_done := self._is_done(is_delivered)) or self.world.now < self._off_until:
                bad |= set() if is_done else {GUARD_OFF}
                break
            self.counts["begun again"] += 1
            if tries > _TIES:
                raise Broken(f"the visit at {began} did not come to its end in {tries} tries")
        self.visits.append(Step(began, self.world.now, bad | self.weather.bad))
        if is_delivered:
            self.steps.append(self.visits[-1])
        self._invariants(invariants.AFTER_EACH_VISIT)

    def _is_done(self, is_delivered: bool) -> bool:
        """A pass, a turn, and everything due to be sent; False when the guard ended on the way, or may not act yet."""
        try:
            process = self._booted()
            if process.lease is None:
                self.two_guards.noticed()  # a lease that it gets now is its own: it may write again
            if not process.hold():
                self.move(LEASE_TTL / 3)
                return False
            self.older.has_looked = True
            if not self.gaps.is_over_just_now:
                self._hear(process)
            self.visitors.come(process)
            self.readings.read(process)
            self._pass(process)
            self.gaps.heard()
            self._hear(process)
            if not is_delivered:
                self.two_guards.noticed()
                return True
            self._drain(process)
            while process.look_up():
                self._pass(process)
                self._drain(process)
            self.two_guards.noticed()
        except Killed:
            self._kill()
            return False
        except LeaseLost:
            self.counts["lease lost"] += 1
            self.two_guards.noticed()
            if self.process is not None:
                self.process.lease = None
            return False
        except StoreError as error:
            self.counts[f"store error: {type(error).__name__}"] += 1
            self.move(10 * timedelta(seconds=1))
            return False
        except Exception as error:
            if (where := raised_by_the_guard(error)) is None:
                raise
            raise Broken(f"the guard's visit ended in {where} with {type(error).__name__}: {error}") from error
        return True

    def _pass(self, process: Process) -> None:
        self.glances.stir()
        began = self.now
        if not self.passes or began - self.passes[-1] >= self.plan.aim.looks_apart * MINUTE:
            self.sharing.look(process, self._place, self._numbers)
            stamps = {vm.id: vm.last_stop for vm in self.world.instances(WILD)}
            process.run_pass()
            self.passes.append(began)
            self._stamps[began] = stamps
            self.counts["passes"] += 1
        process.turn()

    def _hear(self, process: Process) -> None:
        """Hears what agents and people who submit jobs have to say."""
        now = self.world.now
        self.jobs.submit_due(process.jobs, now)
        self.jobs.ask_due(process.jobs, now)
        self.jobs.live(now)
        self.jobs.report(lambda: process.agents, now)

    def _drain(self, process: Process) -> None:
        while True:
            wait = process.deliver()
            if wait is None or wait > _PATIENCE:
                return
            self.move(max(wait, _MOMENT))
            process.hold()

    def _press(self, meant: Meant) -> None:
        try:
            self.people.press(meant, self._booted().press)
        except Killed:
            self._kill()
            self.people.meant.append(meant)  # nothing came of it, so it is pressed again
        except StoreError:
            self.people.meant.append(meant)

    def shown(self) -> list[str]:
        """Returns what is wrong on pages that people read now, while no guard goes on and all prices are read."""
        if self.restores or not self.readings.has_present_prices():
            return []
        with self.trouble.quiet(), self.ledger.read() as connection:
            return list(pages.goes_on_though_gone(self.world, connection, self.witness, self.now))

    def back_up(self) -> Callable[[], object]:
        """Copies the guard's database, as an operator does; what is returned puts the copy back, later."""
        put_back, made_at = copied(self.ledger, len(self.restores)), self.now

        def restore() -> None:
            self._close()
            self.adopted |= of_attempts(self.ledger)
            before = requests_in(self.ledger)
            self.ledger.let_go()
            self.older.again = restore
            if not put_back():  # nothing was written since the copy was made
                self.counts["databases restored as they were"] += 1
                return
            self.lost_requests |= dict.fromkeys(before - requests_in(self.ledger), self.now)
            self.restores.append(Restore(made_at, self.now))
            self.lost |= unknown_to(self.ledger, self.world)
            self.counts["databases restored"] += 1
            self.older.put_back(self.ledger)

        return restore

    def show_new_statuses(self, is_on: bool) -> None:
        self.wire.reworded = newer_words if is_on else lambda _path, body: body

    def start_with(self, settings: Settings) -> None:
        self._close()
        self._place = replace(self._place, settings=settings)

    def _booted(self) -> Process:
        if self.process is None:
            self.process = Process(self._place, next(self._numbers), self.fuse)
            self.process.begin()
        return self.process

    def _light(self) -> None:
        while self._kills and self._kills[0].at <= self.world.now:
            if self._kills[0].where and self.fuse.is_lit:
                return  # one after the other, for such a step may be hours away
            kill = self._kills.pop(0)
            self.fuse.light(kill.steps, freezes=kill.freezes, where=kill.where)
            self._off_next = kill.off

    def _kill(self) -> None:
        """Kills the guard as kill -9 would: nothing is handed back, and the lease of the dead has to run out."""
        self._close(self.sharing.promoted())
        self.two_guards.wrong += self.shown()
        self.counts["crashes"] += 1
        self.counts["started again hours later"] += bool(self._off_next)
        self._off_until = self.world.now + self._off_next
        self._off_next = timedelta()

    def _meanwhile(self) -> None:
        """Goes on while a guard stands still."""
        self.two_guards.meanwhile(self._place, next(self._numbers), self.process)

    def work_of(self, other: Process) -> None:
        """A visit of a guard that took over; people press as ever."""
        self.people.read()
        for meant in self.people.due() if self.plan.presses else ():
            self.people.press(meant, other.press)
        self._hear(other)
        self._pass(other)
        self._drain(other)
        other.look_up()

    def _new_job_id(self) -> str:
        return f"j{next(self._job_ids):07d}"

    def _saw(self, seen: Observation) -> None:
        if seen.project == PROJECT:
            is_whole = seen.instances_complete and not self.weather.present & GOOGLES
            self.looks.append(Look(seen.read_at, is_whole, seen.unread_zones))

    def _wind_up(self) -> None:
        """Nothing goes wrong any more, nobody presses, and no guard ends: what is open gets settled."""
        self.writes = self.fuse.writes
        self.weather.clear()
        self.glances.is_over = self.visitors.are_gone = True
        self.people.meant.clear()
        self.jobs.to_ask.clear()
        self.fuse.light(0, freezes=False)
        self._kills.clear()
        self._off_until = self.world.now
        self.readings.are_due = True
        for gap in (HOUR, 5 * MINUTE, 5 * MINUTE, 10 * MINUTE, HOUR):
            self.move(gap)
            self._visit()
        self._invariants(invariants.WHEN_SETTLED)
        midnight = self.world.now.replace(hour=0, minute=0, second=0, microsecond=0) + DAY
        self.settled_at = midnight
        self.move(midnight + timedelta(seconds=1) - self.world.now)
        self._visit()
        self._close()

    def _close(self, successor: Process | None = None) -> None:
        self.sharing.close()
        if self.process is not None:
            self.process.close()
        self.process = successor

    @property
    def witness(self) -> PassRecord:
        return PassRecord(self.passes, self.plan.aim.keeps_operations * HOUR, self.operators.unwatched, self._stamps)

    def judge(self) -> None:
        self._invariants(invariants.AT_THE_END)

    def _invariants(self, which: Iterable[invariants.Invariant]) -> None:
        """Stops the life at the first visit after which one does not hold: later ones follow from it."""
        with self.trouble.quiet():
            wrong = [sentence for invariant in which for sentence in invariant(self)]
        if wrong:
            raise Broken("\n".join(wrong))
