"""The view of a policy when it decides where a job with a deadline runs next, and its answer.

Inside this room, times are hours and prices are numbers of any one unit for an hour of a VM; money and moments are
converted where it meets the rest of the house. An hour of work is an hour of the job on a VM that is ready.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from costguard.deadlines.hazards import NO_COUNTS, TogetherCounts, ZoneCounts
from costguard.deadlines.waits import LONGEST_WAIT_H, NO_WAITS, WaitCounts

Kind = Literal["spot", "on_demand", "flex"]
LONGEST_RUN_H = 168.0  # of a flex-start VM, by Google's page on provisioning models: 7 days


class Zone(NamedTuple):
    """A zone whose Spot VMs the job may use. `is_up`: a Spot VM could be had there now; None, unknown, may be tried.

    `age_h`: for how long it has been up or down, as far as is known. `move_cost`: what copying the checkpoint costs.
    """

    name: str
    price: float  # of an hour on Spot
    is_up: bool | None = None
    age_h: float | None = None
    counts: ZoneCounts = NO_COUNTS
    move_cost: float = 0.0


class FlexOffer(NamedTuple):
    """Flex-start VMs that the job may ask for: never preempted, but granted late or not at all, and ended by Google.

    `longest_wait_h`: how long a request waits before it ends without a VM. `longest_run_h`: the age at which a VM ends.
    """

    price: float  # of an hour
    waits: WaitCounts = NO_WAITS
    longest_wait_h: float = LONGEST_WAIT_H
    longest_run_h: float = LONGEST_RUN_H


class FlexAsked(NamedTuple):
    """The job's open request for a flex-start VM. It bills nothing."""

    age_h: float  # since it was made


class HeldVM(NamedTuple):
    """The VM that the job has. It bills from its creation; the work goes on once `start_left_h` is over.

    A flex-start VM counts from when it was granted: before that there is a request, `FlexAsked`, and no VM.
    """

    kind: Kind
    zone: str
    age_h: float
    start_left_h: float = 0.0

    @property
    def is_ready(self) -> bool:
        return self.start_left_h <= 0


class Situation(NamedTuple):
    """A job, the time that it has, and the zones. `start_h`: the most that a start can cost, all included.

    That is the 99th percentile of starts, the delay until a preemption is noticed, and the most work that it can lose.
    `loss_h` is the last of them: a start on demand, from which nobody takes work, costs that much less.
    `interval_h`: hours until the next decision. `on_demand_price`: the cheapest obtainable; None while there is none.
    `elapsed_h` and `total_work_h` since the launch draw the straight line of Uniform Progress.
    `flex`: None where the job may not have a flex-start VM. `asked`: its open request for one, with a VM or without.
    """

    work_left_h: float
    time_left_h: float
    start_h: float
    interval_h: float
    on_demand_price: float | None
    zones: tuple[Zone, ...]
    held: HeldVM | None = None
    elapsed_h: float = 0.0
    total_work_h: float | None = None
    together: TogetherCounts | None = None  # where there are several zones, and their history is known
    loss_h: float = 0.0
    overspent: float = 0.0  # by VMs that were lost or left, over what their work costs on demand; below zero: saved
    flex: FlexOffer | None = None
    asked: FlexAsked | None = None

    @property
    def slack_h(self) -> float:
        """The hours that the job can afford to do nothing."""
        return self.time_left_h - self.work_left_h

    @property
    def spot_needs_h(self) -> float:
        """The slack with which a Spot VM may be started: one on demand must fit after the loss of it.

        Leaving an on-demand VM can undo work too, so that takes more.
        """
        return 2 * self.start_h - (self.loss_h if self.held is None else 0.0)

    @property
    def flex_needs_h(self) -> float:
        """The slack with which a flex-start VM may be granted: its start, and one on demand after it ends too early.

        That is less without a VM, as nobody takes work from it; with one, taking over can undo some.
        """
        one_h = self.start_h - (self.loss_h if self.held is None else 0.0)
        is_enough = self.flex is None or self.work_left_h + self.start_h <= self.flex.longest_run_h
        return one_h if is_enough else one_h + self.start_h

    def zone(self, name: str) -> Zone | None:
        return next((zone for zone in self.zones if zone.name == name), None)


class Act(StrEnum):
    """Start a VM, on Spot or on demand (instead of the one held, if there is one); keep what is held; or have none.

    A request for a flex-start VM: `START_FLEX` makes it, and what is held runs on. Once granted, its VM takes over
    from the one held, or is the first, without another decision. `STAY` and `WAIT` let it wait on; `DROP_FLEX` deletes
    it and changes nothing else; `START_SPOT` and `START_ON_DEMAND` delete it too, and so does its own end in vain.
    """

    START_SPOT = "start_spot"
    START_ON_DEMAND = "start_on_demand"
    START_FLEX = "start_flex"
    DROP_FLEX = "drop_flex"
    STAY = "stay"
    WAIT = "wait"


class Why(StrEnum):
    """The rule that decided."""

    GUARD = "guard"  # later would be too late
    TOO_LATE = "too_late"  # even on demand, the deadline can no longer be kept for certain
    SPOT_IS_UP = "spot_is_up"
    CHEAPER_ZONE = "cheaper_zone"
    KEEP_SPOT = "keep_spot"
    BEHIND = "behind"  # the line of progress, or the plan
    AHEAD = "ahead"
    PLAN = "plan"  # the least expected cost
    NO_ON_DEMAND = "no_on_demand"  # on-demand is wanted and not to be had
    SPOT_FAILS = "spot_fails"  # Spot VMs that were lost have cost more than they may
    FLEX_ENDS = "flex_ends"  # the flex-start VM will be ended by Google before the work is done


class Grounds(NamedTuple):
    """The figures behind a choice, for a sentence: unknown where None.

    `expected_life_h`: of the best Spot VM to be had or held. `behind_h`: hours of work behind the straight line to its
    end, below zero ahead of it. `expected_cost`: of all the rest, in the unit of the prices. `until_h`: hours until
    this choice is expected to change. `saves`: by waiting while Spot is to be had, the share of the rest's cost.
    """

    slack_h: float
    behind_h: float | None = None
    expected_life_h: float | None = None
    expected_cost: float | None = None
    until_h: float | None = None
    saves: float | None = None


class Choice(NamedTuple):
    """The act to take now. `latest_safe_h`: hours from now until the guard acts, if nothing is gained before then.

    `holds_h`: hours for which it stands, if only time passes: no zone comes or goes, and the VM stays as it is.
    """

    act: Act
    why: Why
    grounds: Grounds
    latest_safe_h: float
    zone: str | None = None  # to start Spot in
    holds_h: float = 0.0


class Policy(Protocol):
    """Decides from what it sees alone; what it learned of past situations it may keep to be faster, never to differ."""

    @property
    def name(self) -> str: ...

    def choose(self, situation: Situation) -> Choice: ...
