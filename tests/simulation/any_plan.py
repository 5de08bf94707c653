"""Plans that hypothesis draws, and makes smaller where one breaks an invariant."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from tests.simulation.faults import ORDINARY, Kind
from tests.simulation.plan import DAY, START, Plan, Planned, PlannedFault, PlannedKill

_MINUTE = timedelta(minutes=1)
_KILLS = st.tuples(
    st.integers(1, 200), st.sampled_from((timedelta(), timedelta(hours=3), timedelta(hours=20))), st.booleans()
)


@st.composite
def plans(draw: st.DrawFn, most_days: int) -> Plan:
    """Draws plans of two days or more, with any faults and kills at any moments: several of one kind, or many at once,
    too.
    """
    days = draw(st.integers(2, most_days))
    start = START + draw(st.integers(0, 60)) * DAY
    moments = st.integers(0, (days - 1) * 24 * 60).map(lambda minute: start + minute * _MINUTE)

    def planned(most: int) -> tuple[Planned, ...]:
        times = sorted(draw(st.lists(moments, max_size=most)))
        return tuple(Planned(number, at) for number, at in enumerate(times))

    begun = sorted(
        draw(st.lists(st.tuples(moments, st.sampled_from(ORDINARY), st.floats(0, 1)), max_size=8)),
        key=lambda one: (one[0], one[1].name),
    )
    killed = sorted(draw(st.lists(st.tuples(moments, _KILLS), max_size=6)))
    return Plan(
        draw(st.integers(0, 1000)),
        start,
        days,
        draw(st.integers(2, 8)),
        vms=planned(8),
        events=planned(8),
        jobs=planned(4),
        faults=tuple(
            PlannedFault(number, at, at + _lasts(kind, share, days), kind.name)
            for number, (at, kind, share) in enumerate(begun)
        ),
        kills=tuple(
            PlannedKill(number, at, steps, off, freezes) for number, (at, (steps, off, freezes)) in enumerate(killed)
        ),
        presses=draw(st.booleans()),
        budgets=draw(st.booleans()),
    )


def _lasts(kind: Kind, share: float, days: int) -> timedelta:
    return min(kind.least + share * (kind.most - kind.least), days * DAY / 3)
