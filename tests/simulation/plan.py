"""Draws the events of one simulated life from its seed as data before it is lived."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tests.simulation.aims import AIMS, Aim
from tests.simulation.faults import KINDS

START = datetime(2026, 9, 28, tzinfo=UTC)  # the clocks of Europe and of America change within the quarter after it
DAY = timedelta(days=1)
_TIGHT = 0.4  # of all lives
# What a plan holds, by the name that `--only` and `--without` take.
PARTS = ("vms", "events", "jobs", "faults", "kills", *(_WHOLE := ("presses", "budgets")))


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned event at a moment; all else about it is drawn from its own number."""

    number: int
    at: datetime


@dataclass(frozen=True, slots=True)
class PlannedFault:
    number: int
    at: datetime
    ends: datetime
    kind: str


@dataclass(frozen=True, slots=True)
class PlannedKill:
    """The guard's process ends, or stands still, `steps` of its steps after `at`; it is started again `off` later.

    Only steps of the name `where` count, if it is given.
    """

    number: int
    at: datetime
    steps: int
    off: timedelta
    freezes: bool
    where: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    start: datetime
    days: float
    size: int  # VMs of people that there are at once, about
    vms: tuple[Planned, ...] = ()
    events: tuple[Planned, ...] = ()  # of a second project, where anything happens to any VM
    jobs: tuple[Planned, ...] = ()
    faults: tuple[PlannedFault, ...] = ()
    kills: tuple[PlannedKill, ...] = ()
    presses: bool = True  # whether people press buttons
    budgets: bool = False  # whether jobs have budgets that fill up
    aim_name: str = ""  # an aim's name
    cut: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # what a shrunk plan keeps of each part

    @property
    def aim(self) -> Aim:
        return AIMS[self.aim_name]

    @property
    def end(self) -> datetime:
        return self.start + self.days * DAY

    def lot(self, *what: object) -> random.Random:
        """Draws that depend on the seed and on what they are for, and on no order."""
        return random.Random("/".join(map(str, (self.seed, *what))))

    def keeping(self, part: str, numbers: Iterable[int]) -> Plan:
        """The same plan with only these of one part."""
        kept = frozenset(numbers)
        if part in _WHOLE:
            is_kept = bool(kept) and getattr(self, part)
            return replace(self, **{part: is_kept}, cut={**self.cut, part: tuple(sorted(kept))})  # type: ignore[arg-type]
        items = tuple(item for item in getattr(self, part) if item.number in kept)
        return replace(self, **{part: items}, cut={**self.cut, part: tuple(sorted(kept))})  # type: ignore[arg-type]

    def numbers(self, part: str) -> tuple[int, ...]:
        if part in _WHOLE:
            return (0,) if getattr(self, part) else ()
        return tuple(item.number for item in getattr(self, part))

    @property
    def command(self) -> str:
        """Returns the command that replays it."""
        cut = "".join(f" --only {part}={','.join(map(str, numbers))}" for part, numbers in sorted(self.cut.items()))
        aim = f" --aim {self.aim_name}" if self.aim_name else ""
        return f"python -m tests.simulation --first {self.seed} --days {self.days:g} --vms {self.size}{aim}{cut}"


def draw(seed: int, days: float, size: int, kinds: Iterable[str] | None = None, aim_name: str = "") -> Plan:
    """`kinds` are the names of the faults that may come; by default those of the aim `aim_name`, or all."""
    span, aim = days * DAY, AIMS[aim_name]
    kinds = aim.kinds if kinds is None else kinds
    start = _month_end(seed, days) if aim.is_at_months_end else random.Random(f"{seed}/start").randrange(60) * DAY
    plan = Plan(seed, START + start, days, size, aim_name=aim_name)
    lot = plan.lot("plan")
    settled = max(span - 2 * DAY, span / 2)  # what begins late is not seen to its end

    def moments(count: int) -> list[datetime]:
        return sorted(plan.start + lot.random() * settled for _ in range(count))

    vms = [
        Planned(number, at)
        for number, at in enumerate(moments(max(aim.people > 0, round(size * (0.4 + days / 14) * aim.people))))
    ]
    events = [Planned(number, at) for number, at in enumerate(moments(round(size * days / 4 * aim.events)))]
    jobs = [
        Planned(number, at)
        for number, at in enumerate(moments(max(1, round(size * days / 40 * aim.jobs)) if aim.jobs else 0))
    ]
    faults: list[PlannedFault] = []
    wanted = [kind for kind in KINDS if (not kind.is_named if kinds is None else kind.name in kinds)]
    for kind in wanted:
        count = int(kind.times * days / 91 * aim.often * aim.more.get(kind.name, 1) + lot.random())
        for at in moments(count):
            lasts = min(kind.least + lot.random() * (kind.most - kind.least), span / 6)
            faults.append(PlannedFault(len(faults), at, at + lasts, kind.name))
    kills = [
        PlannedKill(
            number,
            at,
            1 + int(lot.expovariate(1) * 40),
            timedelta(hours=lot.uniform(1, 30)) if lot.random() < 0.15 else timedelta(),
            lot.random() < 0.25,
        )
        for number, at in enumerate(moments(round(days * (8 if aim.is_shared else 0.6) + lot.random())))
    ]
    freezes = [
        PlannedKill(len(kills) + number, at, lot.randint(1, 2), timedelta(), freezes=True, where=lot.choice(aim.places))
        for number, at in enumerate(moments(round(days * aim.freezes)))
    ]
    kills = sorted([*(() if freezes else kills), *freezes], key=lambda kill: kill.at)
    return replace(
        plan, vms=tuple(vms), events=tuple(events), jobs=tuple(jobs), faults=tuple(faults), kills=tuple(kills),
        budgets=plan.lot("budgets").random() < _TIGHT,
    )  # fmt: skip


def _month_end(seed: int, days: float) -> timedelta:
    """Returns the time from the first day of simulated lives to a day before which a month ends in California, within
    the life.
    """
    lot = random.Random(f"{seed}/start")
    ends = lot.choice((datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)))
    return max(timedelta(), ends - START - lot.uniform(0.3, 0.6) * days * DAY)


def gap_after(now: datetime, lot: random.Random, pace: float) -> timedelta:
    """Long idle, and longer while most are asleep; now and then some minutes, as a real guard's passes are.

    Some lives are looked at often, and some seldom: what no visit sees has to be found out afterwards.
    """
    if lot.random() < 0.2:
        return lot.uniform(1, 15) * timedelta(minutes=1)
    if now.weekday() >= 5 or not 6 <= now.hour < 20:
        return lot.uniform(3, 9) * pace * timedelta(hours=1)
    return lot.uniform(1, 5) * pace * timedelta(hours=1)
