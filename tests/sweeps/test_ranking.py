"""A sweep's result is the best checkpoint of its best member, with where that was published, or why it was not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import job
from tests.jobs.world import world

from costguard.jobs.listing.jobs import JobRow, rows_of
from costguard.jobs.rows import job_rows
from costguard.ledger.accrual import accrual_at
from costguard.model.data import DataTransfer, TransferState
from costguard.model.job import CheckpointPlan, JobState
from costguard.model.money import Priced
from costguard.model.reported.metric import BestCheckpoint, MetricValue, SeenMetric
from costguard.model.sweep import SweepMember
from costguard.sweeps.ranking import MemberRow, ranked, result_of, sent_by, with_best

TO = "gs://lab/models/1"
PLAN = CheckpointPlan("gs://lab/run", "--from {checkpoint}", local="/out", publish_to=TO)
SENT = DataTransfer("result", "gs://lab/run", TO, TransferState.DONE, note="step 20, the best: its metric is 0.2")


def line(number: int, text: str | None, state: JobState | None = JobState.SUCCEEDED, **given: Any) -> MemberRow:
    value = None if text is None else MetricValue(text, 20, at("10:00"))
    finite = value if value is not None and value.value is not None else None
    kept = BestCheckpoint("gs://lab/run/step-20", 20, text) if text is not None else None
    metric = None if value is None else SeenMetric("lower", value, finite, kept)
    row = None
    if state is not None:
        of_member = replace(job(**{"checkpoint": PLAN, **given}), state=state, reason="it ended")
        row = JobRow(of_member, Priced(), (), 0, 0, 20, metric=metric)
    return MemberRow(SweepMember(number, {"lr": "1"}, jobs=("j1",) if row else ()), row, Priced(), metric)


def test_members_are_ranked_by_their_best_values() -> None:
    """The best first; those without a value last, in the order of the file."""
    lines = [line(number, text) for number, text in enumerate(("0.5", None, "0.2", "nan", "0.9"), 1)]
    assert [one.member.number for one in ranked(lines, "lower")] == [3, 1, 5, 2, 4]
    assert [one.member.number for one in ranked(lines, "higher")] == [5, 1, 3, 2, 4]
    assert [one.member.number for one in ranked(lines, "")] == [1, 2, 3, 4, 5]


def test_result_is_what_the_winner_published() -> None:
    """The text has its checkpoint at the location, too."""
    result = result_of(with_best([line(1, "0.5"), line(2, "0.2")], "lower"), SENT)
    assert result is not None
    assert (result.member, result.published_to, result.is_final) == (2, TO, True)
    assert result.text == (
        "Member 2 is the best: its metric is 0.2; step 20 lies at gs://lab/run/step-20; "
        f"published to {TO} (step 20, the best: its metric is 0.2)."
    )


@pytest.mark.parametrize(
    ("winner", "sent", "words"),
    [
        (line(2, "0.2", checkpoint=replace(PLAN, publish_to="")), None, "names no place for it (--publish-to)"),
        (line(2, "0.2", JobState.RUNNING), None, f"published to {TO} once its job has succeeded"),
        (line(2, "0.2", JobState.RUNNING), replace(SENT, state=TransferState.RUNNING), "once its job has succeeded"),
        (line(2, "0.2", JobState.CANCELLED), None, "not published: it ended"),
        (
            line(2, "0.2", JobState.FAILED),
            replace(SENT, state=TransferState.FAILED, error="no permission"),
            "not published: no permission",
        ),
    ],
)
def test_what_is_not_published_says_why(winner: MemberRow, sent: DataTransfer | None, words: str) -> None:
    """A copy that is under way, or failed, is no publication."""
    result = result_of(with_best([line(1, "0.5"), winner], "lower"), sent)
    assert result is not None
    assert result.published_to == ""
    assert words in result.text


def test_result_is_final_once_all_members_are_over() -> None:
    """A member that waits may still become better."""
    lines = with_best([line(1, "0.5"), line(2, "0.2"), line(3, None, None), line(4, "0.9", JobState.RUNNING)], "lower")
    result = result_of(lines, SENT)
    assert result is not None
    assert (result.is_final, result.open) == (False, 2)
    assert "so far, with 2 members not over" in result.text
    assert result_of(with_best([line(1, None)], "lower"), None) is None


def test_last_vms_report_of_the_result_is_read(sqlite_url: str) -> None:
    """The report comes as its agent sent it, with what it says of the checkpoint."""
    with world(sqlite_url) as w:
        w.submit(checkpoint=PLAN)
        w.until_up("cg-j1-1")
        w.start()
        sent = {"kind": "result", "source": "gs://lab/run", "target": TO, "state": "done", "note": SENT.note}
        data = {"kind": "input", "source": "gs://lab/data", "target": "/data", "state": "done"}
        w.say("cg-j1-1", ("exit", {"run": 1, "reason": "exited", "code": 0, "transfers": [data, sent]}))
        w.settle()
        with w.database.read() as connection:
            jobs = list(job_rows.of_ids(connection, ["j1"]).values())
            (row,) = rows_of(connection, accrual_at(connection, w.clock.now()), jobs)
            assert row.job.state is JobState.SUCCEEDED
            assert sent_by(connection, row) == SENT
