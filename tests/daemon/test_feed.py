"""The task that takes events off their subscription: what it writes, when it acknowledges, what no failure may do."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from tests.fakes import HandClock

from costguard.daemon.feed import FeedTask, NoFeedSigns, entry_in
from costguard.db.lease import Hold, Lease
from costguard.errors import CloudError, CloudUnavailable, DatabaseUnreachable, LeaseLost, NotFound
from costguard.model.observation import FeedBacklog, FeedMessage

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


@dataclass
class FakeFeed:
    """Gives one batch a pull, or raises it; notes acknowledgements and holds in the order in which they came."""

    batches: list[Sequence[FeedMessage] | CloudError] = field(default_factory=list)
    log: list[tuple[str, Any]] = field(default_factory=list)
    unable: CloudError | None = None  # to acknowledge
    unread: FeedBacklog | CloudError = field(default_factory=lambda: FeedBacklog(None, None, None))
    measured: int = 0

    def pull(self, wait: timedelta) -> Sequence[FeedMessage]:
        del wait
        self.log.append(("pull", None))
        batch = self.batches.pop(0) if self.batches else ()
        if isinstance(batch, CloudError):
            raise batch
        return batch

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        if self.unable is not None:
            raise self.unable
        self.log.append(("acknowledge", list(ack_ids)))

    def hold(self, ack_ids: Sequence[str], by: timedelta) -> None:
        self.log.append(("hold", (list(ack_ids), by)))

    def publish(self, messages: Sequence[tuple[bytes, Mapping[str, str]]]) -> None:
        self.log.append(("publish", list(messages)))

    def backlog(self, now: datetime) -> FeedBacklog:
        del now
        self.measured += 1
        if isinstance(self.unread, CloudError):
            raise self.unread
        return self.unread

    @property
    def steps(self) -> list[str]:
        return [name for name, _ in self.log]


class Ledger:
    """Notes what it is to write; raises what it is given, once each."""

    def __init__(self, feed: FakeFeed, *errors: Exception) -> None:
        self.batches: list[list[Mapping[str, Any]]] = []
        self.errors = list(errors)
        self._feed = feed

    def __call__(self, entries: Sequence[Mapping[str, Any]], lease: Lease) -> int:
        assert lease.holder == "me"
        self._feed.log.append(("write", len(entries)))
        if self.errors:
            raise self.errors.pop(0)
        if any(entry.get("poison") for entry in entries):
            raise ValueError("poison")
        self.batches.append(list(entries))
        return len(entries)


class Seconds:
    """A monotonic clock that pauses move on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pause(self, _stop: threading.Event, seconds: float) -> None:
        self.now += seconds


def message(number: int, data: bytes | None = None, **entry: Any) -> FeedMessage:
    body = orjson.dumps({"insertId": str(number), **entry}) if data is None else data
    return FeedMessage(f"ack-{number}", body, NOW, str(number))


def preemption(number: int) -> FeedMessage:
    return message(number, protoPayload={"methodName": "compute.instances.preempted"})


def a_lease(hold: Hold | None = None) -> Lease:
    return Lease("main", "me", 1, NOW, hold)


@dataclass
class Setup:
    feed: FakeFeed
    ledger: Ledger
    seconds: Seconds
    task: FeedTask
    wakes: list[int]

    def turn(self, lease: Lease | None = None, stop: threading.Event | None = None) -> None:
        self.task.run(lease or a_lease(), stop or threading.Event())


def made(*batches: Sequence[FeedMessage] | CloudError, errors: Sequence[Exception] = (), signs: Any = None) -> Setup:
    feed, seconds, wakes = FakeFeed(list(batches)), Seconds(), list[int]()
    ledger = Ledger(feed, *errors)
    task = FeedTask(
        feed, ledger, HandClock(NOW), signs, lambda: wakes.append(1), monotonic=seconds, pause=seconds.pause
    )
    return Setup(feed, ledger, seconds, task, wakes)


def test_a_batch_is_acknowledged_after_it_was_written() -> None:
    """First the commit, then the acknowledgement, and both once for the whole batch."""
    setup = made([message(1), message(2)])
    setup.turn()
    assert setup.feed.steps == ["pull", "write", "acknowledge", "pull"]
    assert [[entry["insertId"] for entry in batch] for batch in setup.ledger.batches] == [["1", "2"]]
    assert ("acknowledge", ["ack-1", "ack-2"]) in setup.feed.log


def test_nothing_is_acknowledged_where_the_database_failed() -> None:
    """The messages come again after their deadline; the task waits a little before it pulls on."""
    setup = made([message(1)], [message(2)], errors=[DatabaseUnreachable("No connection.")])
    with pytest.raises(DatabaseUnreachable):
        setup.turn()
    setup.turn()
    assert setup.feed.steps == ["pull", "write"]
    setup.seconds.now += 1
    setup.turn()
    assert ("acknowledge", ["ack-2"]) in setup.feed.log


def test_a_lost_lease_gives_the_messages_to_the_next_holder_at_once() -> None:
    """They are let go rather than held to their deadline, and not acknowledged."""
    setup = made([message(1)], errors=[LeaseLost("Another acts.")])
    with pytest.raises(LeaseLost):
        setup.turn()
    assert setup.feed.log[-1] == ("hold", (["ack-1"], timedelta(0)))
    assert "acknowledge" not in setup.feed.steps


def test_without_a_certain_lease_nothing_is_pulled() -> None:
    """A holder that froze for longer than its lease pulls nothing that another could have."""
    setup = made([message(1)])
    setup.turn(a_lease(Hold(0.0, elapsed_s=lambda: 60.0)))
    assert setup.feed.log == []


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b"7", b'{"torn": ', b"\xff\xfe"])
def test_a_foreign_message_is_acknowledged_and_counted(data: bytes) -> None:
    """A message without a JSON object never comes again, and holds no other up."""
    setup = made([message(1, data), message(2)])
    setup.turn()
    assert entry_in(message(1, data)) is None
    assert len(setup.ledger.batches[0]) == 1
    assert ("acknowledge", ["ack-1", "ack-2"]) in setup.feed.log
    assert (setup.task.state.foreign, setup.task.state.recorded) == (1, 1)


def test_an_entry_that_cannot_be_written_is_set_aside_and_the_others_are_written() -> None:
    """A fault of ours in one entry is counted and logged; it is acknowledged, so that it never comes for ever."""
    setup = made([message(1), message(2, poison=True), message(3)])
    setup.turn()
    assert [entry["insertId"] for batch in setup.ledger.batches for entry in batch] == ["1", "3"]
    assert (setup.task.state.set_aside, setup.task.state.recorded) == (1, 2)
    assert ("acknowledge", ["ack-1", "ack-2", "ack-3"]) in setup.feed.log


def test_a_pull_that_fails_raises_nothing_and_is_repeated_later_and_later() -> None:
    """The passes never learn of it; the pauses grow from a second, and end with the first answer."""
    missing = NotFound("No subscription.", "Make it.")
    setup = made(missing, missing, [message(1)])
    setup.turn()
    assert setup.task.state.trouble == "No subscription. Make it."
    setup.seconds.now += 0.9
    setup.turn()
    assert setup.feed.steps == ["pull"]
    setup.seconds.now += 0.1
    setup.turn()
    setup.seconds.now += 1.9
    setup.turn()
    assert setup.feed.steps == ["pull", "pull"]
    setup.seconds.now += 0.1
    setup.turn()
    assert setup.task.state.trouble == ""
    assert len(setup.ledger.batches) == 1


def test_google_says_when_to_pull_again() -> None:
    """A Retry-After that is longer than our own pause is kept."""
    busy = CloudUnavailable("Busy.")
    busy.retry_after = 30.0
    setup = made(busy, [message(1)])
    setup.turn()
    setup.seconds.now += 29
    setup.turn()
    assert setup.feed.steps == ["pull"]
    setup.seconds.now += 1
    setup.turn()
    assert len(setup.ledger.batches) == 1


def test_what_could_not_be_acknowledged_is_no_failure_of_the_turn() -> None:
    """It was written: it comes again and changes nothing."""
    setup = made([message(1)])
    setup.feed.unable = CloudUnavailable("Busy.")
    setup.turn()
    assert len(setup.ledger.batches) == 1
    assert setup.task.state.trouble == "Busy."


def test_small_batches_are_half_a_second_apart_and_full_ones_follow_at_once() -> None:
    """Many events share a transaction; a backlog is worked off without pauses."""
    setup = made([message(1)], [message(2)])
    setup.turn()
    assert setup.seconds.now == 101.0
    many = [message(number) for number in range(200)]
    setup = made(many, many)
    setup.turn()
    assert setup.seconds.now == 100.0


def test_a_turn_ends_so_that_other_work_gets_its_place() -> None:
    """After five seconds a turn returns, whatever is waiting."""
    setup = made(*[[message(number)] for number in range(100)])
    setup.turn()
    assert len(setup.ledger.batches) == 10


def test_a_stop_ends_the_turn_after_the_batch() -> None:
    """The batch that was pulled is written and acknowledged; nothing more is pulled."""
    stop = threading.Event()

    class Stopping(NoFeedSigns):
        def written(self, *_: Any) -> None:
            stop.set()

    setup = made([message(1)], [message(2)], signs=Stopping())
    setup.turn(stop=stop)
    assert setup.feed.steps == ["pull", "write", "acknowledge"]


def test_messages_are_held_where_batches_take_long() -> None:
    """After a slow batch the next one's deadline is moved before it is written, so that it does not come twice."""
    setup = made([message(1)], [message(2)])

    class Slow(NoFeedSigns):
        def written(self, *_: Any) -> None:
            setup.seconds.now += 4.5

    setup.task._signs = Slow()
    setup.turn()
    assert setup.feed.steps == ["pull", "write", "acknowledge", "pull", "hold", "write", "acknowledge"]
    assert ("hold", (["ack-2"], timedelta(minutes=2))) in setup.feed.log


def test_a_preemption_wakes_the_jobs_and_many_wake_them_once_in_a_while() -> None:
    """A VM that Google took may have had a job; a thousand of them are one wake in five seconds."""
    setup = made([message(1)])
    setup.turn()
    assert setup.wakes == []
    setup = made(*[[preemption(number)] for number in range(9)])
    setup.turn()
    assert len(setup.wakes) == 1
    setup.seconds.now += 5
    setup.feed.batches.append([preemption(10)])
    setup.turn()
    assert len(setup.wakes) == 2


def test_signs_choose_what_is_an_entry_and_hear_what_was_written() -> None:
    """A heartbeat of our own is acknowledged and not written; one is sent before each pull."""

    noted: list[str] = []

    class Heartbeats(NoFeedSigns):
        def beat(self, publish: Any, now: datetime) -> None:
            publish([(b"", {"costguard-heartbeat": now.isoformat()})])

        def pulled(self, messages: Sequence[FeedMessage], now: datetime) -> Sequence[int]:
            return [place for place, one in enumerate(messages) if "costguard-heartbeat" not in one.attributes]

        def written(self, report: object, messages: Sequence[FeedMessage], now: datetime, lease: Lease) -> None:
            noted.extend(one.message_id for one in messages)

    beat = FeedMessage("ack-1", b"", NOW, "1", {"costguard-heartbeat": "x"})
    setup = made([beat, message(2)], signs=Heartbeats())
    setup.turn()
    assert setup.feed.steps[:4] == ["publish", "pull", "write", "acknowledge"]
    assert (noted, setup.task.state.foreign) == (["2"], 0)
    assert ("acknowledge", ["ack-1", "ack-2"]) in setup.feed.log


class Measurements(NoFeedSigns):
    def __init__(self) -> None:
        self.noted: list[tuple[int | None, datetime | None]] = []

    def measured(self, unread: int | None, oldest_at: datetime | None, now: datetime) -> None:
        del now
        self.noted.append((unread, oldest_at))


def test_unread_messages_are_counted_once_a_minute() -> None:
    """Google counts as often; the oldest is older than the count, which is itself some minutes old."""
    signs = Measurements()
    setup = made(signs=signs)
    setup.feed.unread = FeedBacklog(42, timedelta(seconds=30), NOW - timedelta(minutes=2))
    for _ in range(3):
        setup.turn()
    assert signs.noted == [(42, NOW - timedelta(seconds=150))]
    setup.seconds.now += 60
    setup.turn()
    assert setup.feed.measured == 2


def test_a_count_that_cannot_be_read_holds_no_event_up() -> None:
    """Events come without the right to read Cloud Monitoring, too, and it is asked again in ten minutes."""
    signs = Measurements()
    setup = made([message(1)], signs=signs)
    setup.feed.unread = CloudUnavailable("Busy.")
    setup.turn()
    setup.seconds.now += 500
    setup.turn()
    assert (signs.noted, setup.feed.measured, len(setup.ledger.batches)) == ([(None, None)], 1, 1)
    assert setup.task.state.trouble == ""
