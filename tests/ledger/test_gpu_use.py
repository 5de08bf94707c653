"""GPU use: measured utilisation weighted by GPU-hours, each minute once; what was not measured stays unknown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from tests.api import rows
from tests.ledger.test_idle_watch import Place, place  # noqa: F401 a fixture

from costguard.db.transaction import Database
from costguard.ledger.idle import gpu_use
from costguard.ledger.idle.gpu_use import DayUse, counted
from costguard.model.utilisation import GpuUse, Sample, Series

BEGUN = datetime(2026, 11, 20, 22, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
US = 1_000_000


def series(values: Sequence[int], first: datetime = BEGUN + MINUTE) -> Series:
    return tuple(Sample(first + index * MINUTE, value) for index, value in enumerate(values))


def total(days: dict[date, DayUse]) -> tuple[int, int]:
    """Returns known and used GPU-seconds."""
    use = sum(days.values(), DayUse())
    return use.known_us // US, use.used_us // US


def test_each_minute_counts_once_whatever_the_looks() -> None:
    """Two looks whose samples end at other seconds add up to the whole, by the UTC day."""
    shifted = series([5000] * 300, BEGUN + timedelta(seconds=30))
    whole = counted([series([5000] * 240)], 1, BEGUN, BEGUN + 4 * HOUR)
    assert whole == {
        date(2026, 11, 20): DayUse(7200 * US, 3600 * US),
        date(2026, 11, 21): DayUse(7200 * US, 3600 * US),
    }
    halves = [
        counted([series([5000] * 240)], 1, BEGUN, BEGUN + HOUR),
        counted([shifted], 1, BEGUN + HOUR, BEGUN + 4 * HOUR),
    ]
    assert total(halves[0]) == (3600, 1800)
    assert total(halves[1]) == (3 * 3600, 3 * 1800)


def test_every_gpu_counts_and_no_more_than_there_are() -> None:
    """Where one of four GPUs works, it is a quarter of the four hours. A fifth series is of an exchanged GPU."""
    four = [series([10_000] * 60), *[series([0] * 60)] * 3]
    assert total(counted(four, 4, BEGUN, BEGUN + HOUR)) == (4 * 3600, 3600)
    leftover = series([10_000] * 10)
    assert total(counted([leftover, *four], 4, BEGUN, BEGUN + HOUR)) == (4 * 3600, 3600)


def test_a_gap_is_unknown_and_not_unused() -> None:
    """Half an hour without figures is not in the known time; the sample after it stands for a minute."""
    measured = series([10_000] * 30) + series([10_000] * 10, BEGUN + 61 * MINUTE)
    assert total(counted([measured], 1, BEGUN, BEGUN + 2 * HOUR)) == (40 * 60, 40 * 60)
    assert counted([], 8, BEGUN, BEGUN + HOUR) == {}


def test_use_is_unknown_where_nothing_is_measured() -> None:
    """Nothing known is no 0 %, and no GPU at all has no known share."""
    assert GpuUse(HOUR, timedelta(), timedelta()).used_bp is None
    assert GpuUse(HOUR, timedelta(), timedelta()).known_percent == 0
    assert GpuUse(timedelta(), timedelta(), timedelta()).known_percent is None
    assert GpuUse(4 * HOUR, 2 * HOUR, 1 * HOUR).used_bp == 5000


def test_the_time_of_gpus_is_that_of_runs_in_the_span(database: Database) -> None:
    """Runs are cut to the span and count by their GPUs; TPUs, CPU VMs and other spans do not count."""
    now, since = rows.NOW, rows.NOW - 6 * HOUR
    with database.write() as connection:
        vm = rows.instance(connection, "one")
        rows.lifetime(connection, vm, now - 9 * HOUR, ended_at=now - 5 * HOUR)  # 1 h of it
        rows.lifetime(connection, vm, now - 2 * HOUR, **rows.H100)  # 16 GPU-hours
        rows.lifetime(connection, vm, now - 20 * HOUR, ended_at=now - 7 * HOUR)
        rows.lifetime(connection, vm, now - 3 * HOUR, ended_at=now + HOUR, gpu_type=None, gpu_count=0)
        rows.lifetime(connection, vm, now - 4 * HOUR, ended_at=now, gpu_type="v5e", gpu_count=4)
        gpu_use.add(connection, "lab", {now.date(): DayUse(3600 * US, 1800 * US)})
        gpu_use.add(connection, "lab", {now.date(): DayUse(3600 * US, 0), now.date() - timedelta(days=1): DayUse(1, 1)})
    with database.read() as connection:
        use = gpu_use.between(connection, since, now)
    assert use == GpuUse(17 * HOUR, 2 * HOUR, HOUR / 2)
    assert (use.used_bp, use.known_percent) == (2500, 11)


def test_a_watched_fleet_adds_up(place: Place) -> None:  # noqa: F811 the fixture
    """Six hours of six T4 at looks of different length: those with an agent are known, and none counts twice."""
    place.measure(timedelta(minutes=2))  # watching begins
    for minutes in (5, 5, 30, 50, 15, 7, 55, 33, 55, 45):
        place.measure(minutes * MINUTE)
    now = place.world.clock.now()
    with place.database.read() as connection:
        use = gpu_use.between(connection, now - 5 * HOUR, now)
    assert use.gpu_time == 6 * 5 * HOUR
    assert use.known_time <= use.gpu_time
    counted_for = (use.known_time / 5) / HOUR  # of five agents
    most = (5 * HOUR - 10 * MINUTE) / HOUR  # the last ten minutes may not be whole yet
    assert most - 1 / 60 < counted_for <= most  # the first sample comes within a minute
    assert use.used_bp is not None
    assert 0 < use.used_bp < 10_000
