"""Tests what is recorded of each round of a gang, for its goodput and the price of its steps over any number."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.builders import at
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import World, world

from costguard.jobs.listing.jobs import JobOverview, job_detail
from costguard.ledger.accrual import accrual_at
from costguard.model.attempt import GangRound, MemberRun, Outcome, span_of_round
from costguard.model.job import JobState
from costguard.spend import goodput_rows
from costguard.spend.goodput import Goodput, TimeUse

PEER = "torch.distributed.DistNetworkError: Connection closed by peer [10.0.0.3]:29400"
NODES = 3


@pytest.fixture
def jobs_of_either(database_url: str) -> Iterator[World]:
    """A world on each database: past rounds are read by SQL, and the rows of short stories are those of long ones."""
    with world(database_url) as made:
        yield made


@pytest.fixture(scope="module")
def story(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The four rounds, played once for the tests that only read what is left of them."""
    path = tmp_path_factory.mktemp("rounds") / "costguard.db"
    shutil.copy(sqlite_template, path)
    with world(f"sqlite:///{path}") as made:
        yield four_rounds(made)


@dataclass
class Played:
    """A gang of three, and when its commands really worked together."""

    jobs: World
    agents: GangAgents = field(init=False)
    began: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.jobs.submit(nodes=NODES, max_crashes=3, max_preemptions=2)
        self.agents = GangAgents(self.jobs)

    def until_round(self, number: int) -> None:
        together = self.agents.until_running(NODES, turns=120)
        assert {one.round for one in together} == {number}
        self.began.append(self.jobs.clock.now())

    def work(self, seconds: int, step: int) -> None:
        """Has all commands work for these seconds, and reach this step."""
        self.agents.at_step = step
        for _ in range(seconds // 10):
            self.agents.step()

    def crash(self, node: int, output: str = "step 700") -> None:
        """The command of a node fails by itself, and the others lose it."""
        names = {one.node: one.name for one in self.jobs.attempts() if one.is_open}
        for member in self.agents.running().values():
            self.agents.fail(member, output=output if member.name == names[node] else PEER)

    def lose(self, *nodes: int) -> None:
        names = {one.name for one in self.jobs.attempts() if one.is_open and one.node in nodes}
        self.jobs.cloud.preempt(*(vm for vm in self.jobs.cloud.running() if vm.name in names))

    def finish(self) -> None:
        for member in self.agents.running().values():
            self.agents.finish(member)
        for _ in range(20):
            self.agents.step()
        assert self.jobs.job().state is JobState.SUCCEEDED, self.jobs.job().reason

    def shown(self) -> tuple[JobOverview, Goodput]:
        with self.jobs.database.read() as connection:
            accrual = accrual_at(connection, self.jobs.clock.now())
            detail = job_detail(connection, accrual, "j1")
            used = goodput_rows.of_job(connection, accrual, "j1")
        assert detail is not None
        assert used is not None
        return detail, used


def four_rounds(jobs: World) -> Played:
    """Round 1 saves after 400 s of 600, 2 crashes right after a save, 3 loses two VMs without a save, 4 succeeds."""
    gang = Played(jobs)
    gang.until_round(1)
    gang.work(400, step=400)
    jobs.shelf.save(400)
    gang.work(200, step=600)
    gang.lose(1)
    gang.until_round(2)
    gang.work(300, step=700)
    jobs.shelf.save(700)
    gang.crash(2)
    gang.until_round(3)
    gang.work(500, step=1200)
    gang.lose(0, 2)
    gang.until_round(4)
    gang.work(800, step=1500)
    gang.finish()
    return gang


def spans(rounds: tuple[GangRound, ...]) -> list[timedelta]:
    return [one.ended_at - one.started_at for one in rounds if one.ended_at is not None and one.started_at is not None]


def test_goodput_and_the_price_of_steps_over_four_rounds(story: Played) -> None:
    """The rounds keep 400, 300, 0 and 800 s, and lose 200 and 500 s; the bill pays for 1,500 steps."""
    detail, used = story.shown()
    assert [one.started_at for one in detail.rounds] == story.began
    assert spans(detail.rounds) == [timedelta(seconds=seconds) for seconds in (600, 300, 500, 800)]
    assert used.spans[TimeUse.KEPT] == timedelta(seconds=1500)
    assert used.spans[TimeUse.LOST] == timedelta(seconds=700)
    assert used.spans[TimeUse.UNSAVED] == timedelta()
    assert used.useful_gpu_time == NODES * timedelta(seconds=1500), "each VM has one GPU"
    assert detail.pace.steps == 1500
    assert detail.row.cost.whole
    assert detail.pace.cost_per_1000 is not None
    assert detail.pace.cost_per_1000.nanos == detail.row.cost.amount.nanos * 1000 // 1500
    lived = sum(((vm.gone_at or vm.made_at) - vm.made_at for vm in story.jobs.cloud.all), timedelta())
    hours = lived / timedelta(hours=1)
    rate = story.jobs.attempts()[0].rate
    assert rate is not None
    assert detail.row.cost.amount.nanos / (rate.nanos * hours) == pytest.approx(1, rel=0.1)


def test_each_round_says_what_it_did(story: Played) -> None:
    """A round shows where it resumed, how far it came, how it ended, and what was lost of it."""
    detail, _ = story.shown()
    assert [(one.number, one.resume_step, one.step) for one in detail.rounds] == [
        (1, None, 600),
        (2, 400, 700),
        (3, 700, 1200),
        (4, 700, 1500),
    ]
    assert [one.outcome for one in detail.rounds] == [
        Outcome.PREEMPTED,
        Outcome.CRASHED,
        Outcome.PREEMPTED,
        Outcome.SUCCEEDED,
    ]
    assert [one.lost if one.lost is None else one.lost.total_seconds() for one in detail.rounds] == [200, 0, 500, None]
    assert "the command failed on node 2" in detail.rounds[1].reason


def test_a_round_counts_once_whatever_it_recorded(story: Played) -> None:
    """Two preempted rounds are two preemptions, though three VMs were lost; the rounds of survivors count for none."""
    detail, _ = story.shown()
    assert (detail.row.preemptions, detail.row.crashes) == (2, 1)
    assert len(story.jobs.attempts()) == NODES + 3


def test_a_round_that_goes_on_is_shown_by_its_attempts(jobs_of_either: World) -> None:
    """It has no end, and what it has done is not saved yet."""
    gang = Played(jobs_of_either)
    gang.until_round(1)
    gang.work(300, step=300)
    gang.lose(1)
    gang.until_round(2)
    gang.work(120, step=60)
    detail, used = gang.shown()
    assert [(one.number, one.ended_at is None, one.step) for one in detail.rounds] == [(1, False, 300), (2, True, 60)]
    assert detail.pace.steps == 60
    assert used.spans[TimeUse.LOST] == timedelta(seconds=300)
    assert timedelta() < used.spans[TimeUse.UNSAVED] <= timedelta(seconds=120)


def test_a_round_in_which_a_vm_never_began_has_done_nothing(jobs_of_either: World) -> None:
    """Commands wait for each other: without the last one, none of them gets anywhere."""
    gang = Played(jobs_of_either)
    gang.until_round(1)
    gang.lose(1)
    gang.until_round(2)
    gang.work(100, step=100)
    gang.finish()
    detail, used = gang.shown()
    assert [one.number for one in detail.rounds] == [1, 2]
    assert detail.rounds[0].lost in (None, timedelta())
    assert used.spans[TimeUse.KEPT] == timedelta(seconds=100)


def test_a_round_begins_with_its_last_command_and_ends_with_the_first() -> None:
    """A start that was never reported leaves it without one, unless steps prove that all had begun."""
    first, last = MemberRun(at("12:00"), at("13:00")), MemberRun(at("12:05"), at("12:40"))
    silent = MemberRun(None, at("12:50"))
    assert span_of_round([first, last], has_steps=False) == (at("12:05"), at("12:40"))
    assert span_of_round([first, silent], has_steps=False) == (None, at("12:50"))
    assert span_of_round([first, silent], has_steps=True) == (at("12:00"), at("12:50"))
    done = [MemberRun(at("12:00"), at(moment), is_success=True) for moment in ("13:00", "13:01")]
    assert span_of_round(done, has_steps=True) == (at("12:00"), at("13:01"))
    assert span_of_round([done[0], MemberRun(at("12:00"), None)], has_steps=True) == (at("12:00"), None)
