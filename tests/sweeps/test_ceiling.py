"""The common ceiling: whatever members run, and for however long, together they never cost more."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from costguard.model.money import Money
from costguard.sweeps.ceiling import CeilingUse, Reservation, shares

HOUR = timedelta(hours=1)
AN_HOUR = Money.of("2")


def vm(job_id: str, hours: float, rate: Money | None = AN_HOUR) -> Reservation:
    return Reservation(job_id, rate, HOUR * hours)


def test_first_members_share_the_ceiling_evenly() -> None:
    """The first does not take everything, and all that may run at once can."""
    use = CeilingUse(Money.of("80"), Money())
    assert shares(use, ["a", "b"], slots=4) == {"a": Money.of("20"), "b": Money.of("20")}


def test_what_a_vm_may_still_cost_is_reserved() -> None:
    """Google ends it after that, whatever becomes of the guard: only the rest is given to another."""
    use = CeilingUse(Money.of("80"), Money.of("10"), [vm("a", 10)])
    assert shares(use, ["a", "b"], slots=2)["b"] == Money.of("50")


def test_member_that_ends_leaves_what_it_had_reserved() -> None:
    """The share is not lost to the others."""
    before = shares(CeilingUse(Money.of("80"), Money.of("10"), [vm("a", 15), vm("b", 10)]), ["a", "b", "c"], 3)
    after = shares(CeilingUse(Money.of("80"), Money.of("11"), [vm("b", 10)]), ["b", "c"], 3)
    assert after["c"] > before["c"]


def test_vm_may_use_what_no_other_has_reserved() -> None:
    """Where others are done, the last may use all that is left."""
    use = CeilingUse(Money.of("80"), Money.of("10"), [vm("a", 10), vm("b", 5)])
    assert shares(use, ["a", "b"], 2) == {"a": Money.of("60"), "b": Money.of("50")}


def test_overdrawn_reservations_are_cut_alike() -> None:
    """Disks that are kept, or a price that rose, may take from the reservations: all give up the same part."""
    use = CeilingUse(Money.of("30"), Money.of("10"), [vm("a", 10), vm("b", 10)])
    assert shares(use, ["a", "b"], 2) == {"a": Money.of("10"), "b": Money.of("10")}


def test_vm_without_a_price_reserves_all_that_is_left() -> None:
    """The cost of the VM is not known, so nothing else is launched next to it."""
    use = CeilingUse(Money.of("80"), Money(), [vm("a", 1, rate=None)])
    assert shares(use, ["a", "b"], 2)["b"] == Money()


def test_vm_that_is_being_deleted_takes_no_members_place() -> None:
    """The job is over, and the next members share what is free among all places."""
    use = CeilingUse(Money.of("80"), Money(), [vm("over", 0.0)])
    assert shares(use, ["b"], slots=4)["b"] == Money.of("20")


AMOUNTS = st.integers(0, 10**12).map(Money)


@given(
    ceiling=AMOUNTS,
    spent=AMOUNTS,
    vms=st.lists(st.tuples(st.integers(1, 10**10), st.integers(0, 10**6)), max_size=6),
    waiting=st.integers(0, 6),
    at_once=st.integers(1, 12),
)
def test_shares_together_never_exceed_what_is_left(
    ceiling: Money, spent: Money, vms: list[tuple[int, int]], waiting: int, at_once: int
) -> None:
    """Every member with a VM uses what it has reserved, and every other one all of its share: the ceiling holds."""
    live = [Reservation(f"v{n}", Money(rate), timedelta(seconds=left)) for n, (rate, left) in enumerate(vms)]
    use = CeilingUse(ceiling, spent, live)
    jobs = [*(one.job_id for one in live), *(f"w{n}" for n in range(waiting))]
    given_shares = shares(use, jobs, max(at_once, len(jobs)))
    reserved = {one.job_id: one.amount or Money() for one in live}
    used = [min(share, reserved.get(job_id, share)) for job_id, share in given_shares.items()]
    assert sum(amount.nanos for amount in used) <= use.left.nanos
    assert all(share.nanos >= 0 for share in given_shares.values())
