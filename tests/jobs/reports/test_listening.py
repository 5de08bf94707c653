"""Silence is held against an agent only while this guard could hear it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from tests.builders import at
from tests.fakes import HandClock
from tests.jobs.world import Outside, World, world

from costguard.db.lease import Lease
from costguard.jobs.reports.listening import Listening
from costguard.model.attempt import Outcome
from costguard.model.job import JobState, Terms

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
WEB, DATABASE = "web process", "database"
NOON = at("12:00")


@dataclass
class Host:
    """The machine of a guard: its wall clock, by which the guard goes, and how much time elapsed."""

    wall: HandClock = field(default_factory=lambda: HandClock(NOON))
    elapsed: float = 1000.0

    def __post_init__(self) -> None:
        self.listening = Listening(self.wall, lambda: self.wall.now().timestamp(), lambda: self.elapsed)
        self.listening.expect(WEB, DATABASE)

    def works(self, span: timedelta, *parts: str) -> None:
        """Time goes on, and these parts give signs of life."""
        for _ in range(span // SECOND):
            self.sleeps(SECOND)
            for part in parts or (WEB, DATABASE):
                self.listening.sign(part)

    def sleeps(self, span: timedelta) -> None:
        self.wall.advance(span)
        self.elapsed += span.total_seconds()


def test_listening_goes_on_while_everything_works() -> None:
    """Short pauses, as a busy machine has them, are no gap."""
    host = Host()
    host.works(10 * MINUTE)
    host.sleeps(9 * SECOND)
    host.works(10 * MINUTE)
    assert host.listening.since == NOON
    assert host.listening.answers_since is None


def test_a_process_that_stood_still_listens_again() -> None:
    """SIGSTOP, or the sleep of a machine: noticed at the next look, and by a part that speaks first."""
    for speaks_first in (False, True):
        host = Host()
        host.works(MINUTE)
        host.sleeps(MINUTE)
        if speaks_first:
            host.works(SECOND)
        assert host.listening.since == host.wall.now()
        assert host.listening.answers_since == host.wall.now()


def test_a_short_gap_keeps_nobody_from_answering() -> None:
    """A grace of hours does not begin again because a busy machine gave no sign of life for some seconds."""
    host = Host()
    host.works(MINUTE)
    host.sleeps(30 * SECOND)
    host.works(SECOND)
    assert host.listening.since == host.wall.now()
    assert host.listening.answers_since is None


@pytest.mark.parametrize("away", [WEB, DATABASE])
def test_nothing_is_heard_while_one_part_is_away(away: str) -> None:
    """Where the web process is gone, or the database takes nothing, listening begins when it is back."""
    host = Host()
    other = {WEB: DATABASE, DATABASE: WEB}[away]
    host.works(10 * MINUTE, other)
    assert host.listening.since == host.wall.now()
    host.works(SECOND)
    back = host.wall.now()
    host.works(10 * MINUTE)
    assert host.listening.since == back


def test_a_part_that_never_came_is_not_heard() -> None:
    """Before the web process serves, agents report to nobody."""
    host = Host()
    host.works(MINUTE, DATABASE)
    assert host.listening.since == host.wall.now()


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 20 * SECOND, -20 * SECOND])
def test_a_clock_that_is_set_begins_again(jump: timedelta) -> None:
    """The wall's clock moved alone, ahead or back; also after a hypervisor halted the machine."""
    host = Host()
    host.works(MINUTE)
    host.wall.advance(jump)
    assert host.listening.since == NOON + MINUTE + jump
    assert host.listening.answers_since == (NOON + MINUTE + jump if abs(jump) >= MINUTE else None)
    host.works(HOUR)
    assert host.listening.since == NOON + MINUTE + jump


def test_a_clock_that_is_turned_slowly_goes_on() -> None:
    """A time server corrects seconds over hours."""
    host = Host()
    for _ in range(10):
        host.works(10 * MINUTE)
        host.wall.advance(timedelta(milliseconds=400))
    assert host.listening.since == NOON


def test_listening_begins_with_each_lease() -> None:
    """Another guard heard what came before. People could answer it, unless nobody held the lease for long."""
    host = Host()
    host.works(MINUTE)
    host.listening.under(Lease("daemon", "a", 1, NOON))
    assert host.listening.since == NOON + MINUTE
    assert host.listening.answers_since is None
    host.works(MINUTE)
    host.listening.under(Lease("daemon", "a", 1, NOON))
    assert host.listening.since == NOON + MINUTE
    host.listening.under(Lease("daemon", "a", 3, NOON, unheld=2 * HOUR))
    assert host.listening.since == NOON + 2 * MINUTE
    assert host.listening.answers_since == NOON + 2 * MINUTE


# One job on a guard that was interrupted.


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def one_job(sqlite_url: str, host: Host) -> Iterator[World]:
    terms = Terms(silence=30 * SECOND)
    with world(sqlite_url, outside=Outside(host.wall), terms=terms, listening=host.listening) as w:
        w.submit()
        w.until_up("cg-j1-1")
        host.works(SECOND)
        w.start()
        w.turn.run()
        assert w.job().state is JobState.RUNNING
        yield w


def _goes_on(w: World, host: Host) -> None:
    """The guard's turn comes first; its agent tries again within a minute, and reports from then on."""
    w.turn.run()
    for second in range(600):
        host.works(SECOND)
        if second >= 60 and second % 15 == 0:
            w.beat()
        w.turn.run()
    assert w.job().state is JobState.RUNNING
    assert w.is_up("cg-j1-1")
    assert len(w.attempts()) == 1


def test_a_guard_that_stood_still_gives_up_no_vm(one_job: World, host: Host) -> None:
    """A minute of SIGSTOP, and a silence of 30 s."""
    host.sleeps(MINUTE)
    _goes_on(one_job, host)


def test_a_laptop_that_slept_gives_up_no_vm(one_job: World, host: Host) -> None:
    """A lid that was closed over night gives up no VM."""
    host.sleeps(9 * HOUR)
    _goes_on(one_job, host)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_jumps_gives_up_no_vm(one_job: World, host: Host, jump: timedelta) -> None:
    """An hour ahead, and an hour back."""
    host.wall.advance(jump)
    _goes_on(one_job, host)


def test_a_silent_vm_is_given_up_once_it_could_have_been_heard(one_job: World, host: Host) -> None:
    """An agent may try again a minute after the gap, and a call takes time too: 90 s."""
    host.sleeps(MINUTE)
    for _ in range(89):
        host.works(SECOND)
        one_job.turn.run()
    assert [attempt.outcome for attempt in one_job.attempts()] == [None]
    host.works(2 * SECOND)
    one_job.turn.run()
    assert one_job.attempts()[0].outcome is Outcome.LOST


def test_a_command_that_is_to_stop_has_its_time_after_a_gap(one_job: World, host: Host) -> None:
    """The agent could not hear of it while the guard stood still."""
    one_job.cancel()
    one_job.turn.run()
    host.sleeps(5 * MINUTE)
    one_job.turn.run()
    assert one_job.job().state is not JobState.CANCELLED
    assert one_job.beat() is True
