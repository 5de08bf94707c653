"""The members of a gang: the newest attempt of each node in the present formation, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from costguard.jobs.decide.view import AttemptView, JobView, rate_of
from costguard.model.attempt import Attempt, Outcome
from costguard.model.money import Money
from costguard.model.words import count_text


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang at one moment.

    A formation is the VMs that were requested together in one place, with those that replaced some of them there.
    `members` are by node; None: this node has had no attempt in it. `round` is the one that is wanted, from 1.
    """

    view: JobView
    formation: int
    members: tuple[AttemptView | None, ...]
    round: int

    @property
    def open(self) -> list[AttemptView]:
        return [seen for seen in self.members if seen is not None and seen.attempt.is_open]

    @property
    def ended(self) -> list[AttemptView]:
        """Returns members whose attempt has ended, without those that have succeeded in this round."""
        ended = [seen for seen in self.members if seen is not None and not seen.attempt.is_open]
        return [seen for seen in ended if not self._is_present(seen)]

    @property
    def missing(self) -> list[int]:
        """Lists the nodes that need a VM."""
        return [node for node, seen in enumerate(self.members) if seen is None or not self._is_present(seen)]

    @property
    def given_back(self) -> list[int]:
        """Lists the nodes whose VM stood by in vain in the round that goes on: they get none before the next one."""
        began = [seen.attempt.released_at for seen in self.in_round if seen.attempt.released_at is not None]
        if not began:
            return []
        ended = [seen.attempt for seen in self.ended if is_spare(seen.attempt)]
        return [one.node for one in ended if one.ended_at is not None and one.ended_at >= min(began)]

    @property
    def wanted(self) -> list[int]:
        """Lists the nodes for which a VM is to be requested."""
        spare = self.given_back
        return [node for node in self.missing if node not in spare]

    @property
    def least(self) -> int:
        """Returns how many VMs it runs with at least."""
        return self.view.job.spec.fewest

    @property
    def is_elastic(self) -> bool:
        return self.view.job.spec.is_elastic

    @property
    def suffices(self) -> bool:
        """Says whether those of its VMs that are there or on their way are enough to run with, though some miss."""
        return self.is_elastic and len(self.members) - len(self.missing) >= self.least

    @property
    def in_round(self) -> list[AttemptView]:
        """Returns the attempts that were let begin the wanted round here, by node, with those that ended since."""
        begun = [seen for seen in self._of_formation if self.round and seen.attempt.round == self.round]
        return sorted(begun, key=lambda seen: seen.attempt.node)

    @property
    def has_begun(self) -> bool:
        """Says whether the wanted round was let begin."""
        return any(seen.attempt.round == self.round for seen in self.view.attempts)

    @property
    def is_whole(self) -> bool:
        """Says whether all members of the round that began are there still, or have succeeded."""
        return bool(self.in_round) and all(self._is_present(seen) for seen in self.in_round)

    @property
    def has_succeeded(self) -> bool:
        return bool(self.in_round) and all(seen.attempt.outcome is Outcome.SUCCEEDED for seen in self.in_round)

    @property
    def was_formed(self) -> bool:
        """Says whether its VMs were all there together once, in this place."""
        return any(seen.attempt.round for seen in self._of_formation)

    @property
    def rate(self) -> Money | None:
        """Returns the hourly cost of all its VMs that are there; None where that of one is not known."""
        return rate_of(seen.attempt for seen in self.open)

    @property
    def incomplete_since(self) -> datetime | None:
        """Returns since when VMs of it wait for another to be there at all; None: none does, for enough are there."""
        there = [seen.attempt.made_at for seen in self.open if seen.attempt.made_at is not None]
        waited_for = [node for node, seen in enumerate(self.members) if not self._is_there(seen)]
        short = self.least - (len(self.members) - len(waited_for))
        if not there or short <= 0:
            return None
        lost = sorted((max(self._lost_at(node) or min(there), min(there)) for node in waited_for), reverse=True)
        return lost[short - 1]  # with those that were lost before, it still had enough

    def of_node(self, node: int) -> list[AttemptView]:
        """Lists the attempts of a node in this formation, the oldest first."""
        mine = [seen for seen in self._of_formation if seen.attempt.node == node]
        return sorted(mine, key=lambda seen: seen.attempt.number)

    def seen_alone(self, seen: AttemptView) -> JobView:
        """Returns the job as if this member were its only VM, at the price of all."""
        alone = replace(seen, attempt=replace(seen.attempt, rate=self.rate))
        return replace(self.view, attempts=(alone,), vms_at_once=len(self.open))

    def with_last(self, last: AttemptView) -> JobView:
        """Returns the job as if this attempt of it were the last."""
        others = tuple(seen for seen in self.view.attempts if seen.attempt.id != last.attempt.id)
        return replace(self.view, attempts=(*others, last))

    @property
    def _of_formation(self) -> list[AttemptView]:
        return [seen for seen in self.view.attempts if seen.attempt.formation == self.formation]

    def _is_present(self, seen: AttemptView) -> bool:
        attempt = seen.attempt
        return attempt.is_open or (attempt.outcome is Outcome.SUCCEEDED and attempt.round == self.round)

    def _is_there(self, seen: AttemptView | None) -> bool:
        return seen is not None and self._is_present(seen) and seen.attempt.made_at is not None

    def _lost_at(self, node: int) -> datetime | None:
        """Returns when the node's last VM was lost; None where it has had none."""
        ended = [seen.attempt.ended_at for seen in self.of_node(node) if seen.attempt.made_at is not None]
        return max((moment for moment in ended if moment is not None), default=None)


def gang_of(view: JobView) -> Gang:
    """Reads a gang from its job's attempts."""
    formation = max((seen.attempt.formation for seen in view.attempts), default=0)
    newest: dict[int, AttemptView] = {}
    for seen in sorted(view.attempts, key=lambda seen: seen.attempt.number):
        if seen.attempt.formation == formation:
            newest[seen.attempt.node] = seen
    members = tuple(newest.get(node) for node in range(view.job.spec.nodes))
    return Gang(view, formation, members, max(1, view.job.gang_round))


def count_of(view: JobView) -> str:
    """`4 VMs`; of a gang that runs with what can be had `2..8 VMs`."""
    spec = view.job.spec
    return f"{spec.vm_count} VMs" if spec.is_elastic else count_text(spec.nodes, "VM")


def is_spare(attempt: Attempt) -> bool:
    """Says whether its VM was given back because no round began for it."""
    return attempt.outcome is Outcome.CANCELLED and attempt.round == 0


def is_in_want(view: JobView) -> bool:
    """Says whether a VM is to be requested for a node of the job."""
    return bool(gang_of(view).wanted)


def vms_wanted(view: JobView) -> int:
    """Counts the VMs for which a place must have quota now: 1 in a job of one VM; of an elastic gang, as many as it
    lacks to run with the least.
    """
    if not view.job.is_gang:
        return 1
    gang = gang_of(view)
    spare = view.job.spec.nodes - view.job.spec.fewest
    return max(1, len(gang.missing) - spare)


def place_of_gang(members: Sequence[AttemptView]) -> str:
    """`us-central1-a (Spot)`."""
    attempt = members[0].attempt
    return f"{attempt.zone} ({attempt.provisioning_model.in_words})"
