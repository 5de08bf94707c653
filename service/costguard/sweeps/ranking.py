"""The ranking of a sweep's members by their metric, and the checkpoint that is the sweep's result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from costguard.jobs.listing.jobs import JobRow
from costguard.jobs.rows import attempts
from costguard.model.data import DataTransfer, TransferState
from costguard.model.money import Priced
from costguard.model.reported.metric import HIGHER, BestCheckpoint, SeenMetric
from costguard.model.sweep import SweepMember
from costguard.model.words import count_text

WAITING = "waiting"  # the state of a member before its launch


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member with its present job. `cost` is of all jobs that it has had. `row` is None before the first."""

    member: SweepMember
    row: JobRow | None
    cost: Priced
    metric: SeenMetric | None
    is_best: bool = False

    @property
    def best_value(self) -> float | None:
        """Returns its best value; None: none is known that is finite."""
        return self.metric.best.value if self.metric is not None and self.metric.best is not None else None

    @property
    def state(self) -> str:
        return self.row.job.state.value if self.row is not None and self.member.job_id else WAITING

    @property
    def reason(self) -> str:
        return self.row.job.reason if self.row is not None else ""

    @property
    def step(self) -> int | None:
        return self.row.step if self.row is not None else None

    @property
    def attempts(self) -> int:
        return len(self.row.attempts) if self.row is not None else 0

    @property
    def preemptions(self) -> int:
        return self.row.preemptions if self.row is not None else 0

    @property
    def crashes(self) -> int:
        return self.row.crashes if self.row is not None else 0

    @property
    def job_id(self) -> str | None:
        """Returns its last job, which may have failed while the next is to be launched; None: it has had none."""
        return self.row.job.id if self.row is not None else None


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The best checkpoint of the member with the best value.

    `checkpoint` is None where none is known yet. `published_to` is the folder to which the member has copied its own
    result, with `note` about what that is; "" where it has not. `is_final`: no member may become better any more.
    """

    member: int
    job_id: str
    value: str  # of its metric, as Python writes it
    checkpoint: BestCheckpoint | None
    published_to: str
    note: str
    why: str  # why nothing is published; "" where it is
    open: int  # how many members are not over

    @property
    def is_final(self) -> bool:
        return not self.open

    @property
    def text(self) -> str:
        """`Member 3 is the best with 0.31: step 2,000 at gs://lab/run-3/step-2000, published to gs://lab/bert-3.`"""
        so_far = "" if self.is_final else f" so far, with {count_text(self.open, 'member')} not over"
        best = f"Member {self.member} is the best{so_far}: its metric is {self.value}"
        kept = self.checkpoint
        held = "no checkpoint of it is known" if kept is None else f"step {kept.step:,} lies at {kept.place}"
        sent = f"published to {self.published_to} ({self.note})" if self.published_to else self.why
        return f"{best}; {held}; {sent}."


def with_best(lines: Sequence[MemberRow], better: str) -> list[MemberRow]:
    """The same, with the best of all marked. A value that is not finite is best of nothing."""
    values = {line.member.number: number for line in lines if (number := line.best_value) is not None}
    if not better or not values:
        return list(lines)
    best = (max if better == HIGHER else min)(values, key=values.__getitem__)
    return [replace(line, is_best=line.member.number == best) for line in lines]


def ranked(lines: Sequence[MemberRow], better: str) -> list[MemberRow]:
    """Returns members by their best values, the best first; those without one come last, in the order of the file."""
    sign = -1.0 if better == HIGHER else 1.0

    def place(line: MemberRow) -> tuple[bool, float, int]:
        value = line.best_value if better else None
        return value is None, sign * value if value is not None else 0.0, line.member.number

    return sorted(lines, key=place)


def winner_of(lines: Sequence[MemberRow]) -> MemberRow | None:
    """Returns the member with the best value of all; None where no value is known."""
    return next((line for line in lines if line.is_best), None)


def sent_by(connection: Connection, row: JobRow) -> DataTransfer | None:
    """Returns what the last VMs of a job report of its result, which one of them publishes; None: nothing."""
    read = (attempts.read(connection, one.id) for one in row.attempts[-row.job.spec.nodes :])
    sent = (one for attempt in read if attempt is not None for one in attempt.agent.transfers)
    return next((one for one in sent if one.kind == "result"), None)


def result_of(lines: Sequence[MemberRow], sent: DataTransfer | None) -> SweepResult | None:
    """Returns the result of a sweep's members; None where no value of the metric is known.

    `sent` is the copy of the winner's own result to its place, as its VM reported it last.
    """
    winner = winner_of(lines)
    if winner is None or winner.row is None or winner.metric is None or winner.metric.best is None:
        return None
    job = winner.row.job
    plan = job.spec.checkpoint
    done = sent if sent is not None and sent.state is TransferState.DONE else None
    if done is not None:
        why = ""
    elif plan is None or not plan.publish_to:
        why = "it is not published, as the job names no place for it (--publish-to)"
    elif not job.state.is_over:
        why = f"it is published to {plan.publish_to} once its job has succeeded"
    else:
        why = f"it is not published: {(sent.error if sent is not None else '') or job.reason}"
    return SweepResult(
        member=winner.member.number,
        job_id=job.id,
        value=winner.metric.best.text,
        checkpoint=winner.metric.kept,
        published_to=done.target if done is not None else "",
        note=done.note if done is not None else "",
        why=why,
        open=sum(line.row is None or not line.row.job.state.is_over for line in lines),
    )
