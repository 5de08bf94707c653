"""Agents' reports of the data that they move are kept and shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import agent, attempt, decided, exited, only, view

from costguard.jobs.decide.actions import EndAttempt
from costguard.jobs.reports.agent_report import AgentEvent, apply_events
from costguard.jobs.rows.agent_fields import MOST_TRANSFERS, transfers_column, transfers_of
from costguard.model.attempt import AgentState, AttemptState, Outcome
from costguard.model.data import DataTransfer, TransferState
from costguard.model.job import JobState

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
GIB = 1 << 30
INPUT = {"kind": "input", "source": "s3://acme-data/v7", "target": "/data", "state": "running"}


def heartbeat(seq: int, **fields: Any) -> AgentEvent:
    return AgentEvent(seq, "heartbeat", NOW, {"run": 1, "is_running": False, **fields})


def reported(before: AgentState, *events: AgentEvent) -> AgentState:
    return apply_events(before, AttemptState.BOOTING, events, NOW, NOW).agent


def test_a_download_is_reported_while_the_vm_prepares() -> None:
    """The report shows how far a download is, and the agent's phase."""
    transfer = {**INPUT, "bytes_done": GIB, "bytes_total": 4 * GIB, "files_done": 3, "files_total": 1000}
    state = reported(AgentState(), heartbeat(1, phase="downloading", transfers=[{**transfer, "bytes_per_s": 1e8}]))
    assert state.phase == "downloading"
    assert state.transfers[0].text == "downloading: 1.0 GiB of 4.0 GiB, 3 of 1,000 files, 95.4 MiB a second"


def test_a_later_report_takes_the_place_of_an_earlier_one() -> None:
    """A later report replaces an earlier one, and the phase ends with the first heartbeat that has none."""
    first = reported(AgentState(), heartbeat(1, phase="downloading", transfers=[INPUT]))
    done = {**INPUT, "state": "done", "bytes_done": GIB, "bytes_total": GIB, "seconds": 90}
    second = reported(first, heartbeat(2, transfers=[done]))
    assert second.phase == ""
    assert [one.text for one in second.transfers] == ["downloaded: 1.0 GiB in 1 min 30 s"]


def test_transfers_outlive_a_restart_of_the_agent() -> None:
    """The new agent reports its own alone."""
    first = reported(AgentState(), heartbeat(1, transfers=[{**INPUT, "state": "done"}]))
    output = {"kind": "output", "source": "/out", "target": "s3://acme-models/m", "state": "running"}
    second = reported(first, heartbeat(2), heartbeat(3, phase="publishing", transfers=[output]))
    assert [one.kind for one in second.transfers] == ["input", "output"]


@pytest.mark.parametrize(
    "fields",
    [None, "no list", [None], [{"kind": "input"}], [{**INPUT, "state": "odd"}], [{"state": "done", "kind": 7}]],
)
def test_what_is_no_transfer_is_left_out(fields: object) -> None:
    """A VM may report anything."""
    assert reported(AgentState(), heartbeat(1, transfers=fields)).transfers == ()


def test_odd_numbers_are_unknown() -> None:
    """Malformed numbers are unknown: not zero, and never more than the database holds."""
    odd = {**INPUT, "bytes_done": -1, "bytes_total": 2**70, "files_done": True, "bytes_per_s": float("nan")}
    (one,) = reported(AgentState(), heartbeat(1, transfers=[odd])).transfers
    assert (one.bytes_done, one.bytes_total, one.files_done, one.bytes_per_s) == (None, None, None, None)
    assert one.text == "downloading"


def test_there_is_a_most() -> None:
    """The number of transfers kept is bounded."""
    many = [{**INPUT, "target": f"/data/{number}"} for number in range(MOST_TRANSFERS + 50)]
    assert len(reported(AgentState(), heartbeat(1, transfers=many)).transfers) == MOST_TRANSFERS


def test_a_transfer_is_stored_and_read_alike() -> None:
    """A transfer is read from JSON as it was stored."""
    whole = DataTransfer("output", "/out", "s3://m", TransferState.FAILED, 1, 2, 3, 4, 5, 6, "no permission")
    assert transfers_of((), transfers_column([whole])) == (whole,)


def test_a_failure_to_publish_is_no_crash_of_the_command() -> None:
    """The attempt's outcome and the job's reason name the bucket's trouble; another VM tries again."""
    end = exited(reason="not_published", code=0, error="the transfer to s3://acme-models/m failed: timeout")
    attempted = attempt(state=AttemptState.RUNNING, agent=agent(exit=end))
    action = only(decided(view(attempted)))
    assert isinstance(action, EndAttempt)
    assert action.outcome is Outcome.NOT_PUBLISHED
    assert "the command succeeded, and its outputs could not be published: the transfer to s3://" in action.reason


def test_a_failure_to_publish_that_would_repeat_ends_the_job() -> None:
    """Such as a permission that is missing: each further VM would train in vain."""
    end = exited(reason="not_published", code=0, error="no permission", repeats=True)
    over = attempt(
        state=AttemptState.OVER,
        outcome=Outcome.NOT_PUBLISHED,
        reason="the command succeeded, and its outputs could not be published: no permission",
        ended_at=at("12:00"),
        agent=agent(exit=end),
    )
    decision = decided(view(over))
    assert decision.state is JobState.FAILED
    assert "another attempt would fail in the same way" in decision.reason


def test_the_job_says_what_its_vm_does() -> None:
    """Downloading for an hour is no boot, and publishing is no training."""
    downloading = attempt(state=AttemptState.BOOTING, agent=agent(started_at=None, phase="downloading"))
    assert "is up and downloading its data" in decided(view(downloading)).reason
    publishing = attempt(state=AttemptState.RUNNING, agent=agent(phase="publishing"))
    assert "has succeeded, and its VM is publishing its outputs" in decided(view(publishing)).reason
