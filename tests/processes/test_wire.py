"""The two processes talk, and notice silence, nonsense and the end of the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.settings.reading import read
from tests.waiting import until

from costguard.clock import ScaledClock
from costguard.daemon.meters import Meters, WatchMeters
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.observation import LooseKind, LooseListing, LooseThing, UnreadList
from costguard.processes.loose import messages_of
from costguard.processes.serving_process import Process, WebProcess
from costguard.processes.web_process import WebProcesses
from costguard.processes.wire import (
    Alive,
    Asked,
    AskLoose,
    Begin,
    Counts,
    Family,
    Pace,
    SlackTrouble,
    State,
    Wake,
    Watcher,
    Wire,
    families_of,
    metrics_of,
)
from costguard.settings import Settings
from costguard.settings.environment import is_secret, of_serving
from costguard.spend.loose.memory import LooseAnswer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@contextmanager
def wires() -> Iterator[tuple[Wire, Wire]]:
    here, there = socket.socketpair()
    with here, there:
        one, other = Wire(here), Wire(there)
        yield one, other
        one.close()
        other.close()


class Spawned:
    """A process that is started, as the test plays it: `wire` is its own end."""

    pid = 1

    def __init__(self, serves: str, wire: socket.socket) -> None:
        self.serves, self.wire = serves, Wire(wire)
        self.signals: list[str] = []
        self._code: int | None = None
        self._over = threading.Event()

    def end(self, code: int) -> None:
        self._code = code
        self._over.set()
        self.wire.close()

    def wait(self, timeout: float | None = None) -> int:
        self._over.wait(timeout)
        return self._code if self._code is not None else self._killed()

    def terminate(self) -> None:
        self.signals.append("SIGTERM")
        if not self._over.is_set():
            self.end(0)

    def kill(self) -> None:
        self._killed()

    def _killed(self) -> int:
        self.signals.append("SIGKILL")
        self.end(-9)
        return -9


class Spawner:
    """Starts processes that the test plays."""

    def __init__(self) -> None:
        self.made: list[Spawned] = []

    def __call__(self, serves: str, wire: socket.socket, *_others: socket.socket) -> Process:
        self.made.append(Spawned(serves, wire.dup()))
        return self.made[-1]


@contextmanager
def supervised(
    wake: Callable[[], None] = lambda: None, alive: Callable[[], None] = lambda: None
) -> Iterator[tuple[Spawner, WebProcess]]:
    spawner = Spawner()
    wakes: dict[Asked, Callable[[], None]] = {"pass": wake, "jobs": wake, "look": wake}
    web = WebProcess("pages", lambda wire: spawner("pages", wire))
    web.begin(Begin(settings={}, holder="one"), lambda: State(last_error="It broke."), lambda: ((), ()), wakes, alive)
    try:
        yield spawner, web
        for process in spawner.made:
            process.wire.close()
    finally:
        web.ask_to_stop()
        web.wait_for_end(30)
        web.close()


def test_settings_arrive_as_they_were_read(tmp_path: Path) -> None:
    """The secrets come too, which no dump of the settings holds, and by the same checks."""
    text = '[watch]\nprojects = ["ml-training"]\nevery = "90s"\n[slack]\nchannel = "#gpu"\n'
    text += '[reminders]\ndaily_digest = "08:30"\n'
    given = read(tmp_path, text, COSTGUARD_SLACK_TOKEN="xoxb-1-secret", COSTGUARD_TOKEN="0123456789abcdef")
    with wires() as (here, there):
        here.send(Begin(settings=dict(given.given), holder="one"))
        message = there.receive(30)
    assert isinstance(message, Begin)
    made = Settings.of(message.settings)
    assert made == given
    assert made.slack is not None
    assert made.slack.token.get_secret_value() == "xoxb-1-secret"
    assert made.rules() == given.rules()
    assert "xoxb" not in repr(given)


def test_a_clock_that_was_sped_up_shows_the_same_in_both_processes() -> None:
    """The times are the same however long the message took."""
    clock = ScaledClock(NOON, 60)
    with wires() as (here, there):
        here.send(Begin(settings={}, holder="", pace=Pace(origin=clock.origin, since=clock.since, speed=clock.speed)))
        message = there.receive(30)
    assert isinstance(message, Begin)
    assert message.pace is not None
    other = ScaledClock(message.pace.origin, message.pace.speed, since=message.pace.since)
    first, second, third = clock.now(), other.now(), clock.now()
    assert first <= second <= third


def test_counts_arrive_as_the_other_process_counted_them() -> None:
    """Counters, and histograms with all their buckets."""
    meters = WatchMeters()
    meters.message("reminder", "accepted")
    meters.passed(0.3, None)
    with wires() as (here, there):
        here.send(
            State(
                last_pass_at=NOON,
                slack=SlackTrouble(channels={"#a": "archived"}),
                metrics=families_of(meters.registry.collect()),
            )
        )
        state = there.receive(30)
    assert isinstance(state, State)
    assert (state.last_pass_at, dict(state.slack.channels)) == (NOON, {"#a": "archived"})
    values = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for one in metrics_of(state.metrics)
        for sample in one.samples
    }
    same = {
        (sample.name, frozenset(sample.labels.items())) for one in meters.registry.collect() for sample in one.samples
    }
    assert values.keys() == same
    assert values["costguard_pass_duration_seconds_count", frozenset({("outcome", "failed")})] == 1.0


def test_what_is_no_message_is_refused_and_never_repeated() -> None:
    """An error must not bring a secret into the log."""
    here, there = socket.socketpair()
    with here, there:
        here.sendall(b'{"kind": "begin", "settings": {"token": "s3cret"}, "odd": 1}\n')
        wire = Wire(there)
        with pytest.raises(ValueError, match="holder") as refused:
            wire.receive(30)
        wire.close()
    assert "s3cret" not in str(refused.value)


def test_the_same_wake_is_sent_once_while_the_other_process_does_not_listen() -> None:
    """A frozen watch holds up no request, however many there are."""
    with wires() as (here, there):
        watcher = Watcher(here, lambda: None)
        for _ in range(10_000):
            watcher.wake("pass")
        watcher.wake("jobs")
        watcher.start()
        assert {there.receive(30), there.receive(30)} == {Wake(what="pass"), Wake(what="jobs")}
        watcher.alive()
        assert there.receive(30) == Alive()


def test_silence_of_the_watch_is_noticed_and_over_with_its_next_word() -> None:
    """The silence lasts ten seconds; it speaks every second."""
    seconds = [0.0]
    with wires() as (here, there):
        watcher = Watcher(here, lambda: None, lambda: seconds[0])
        watcher.start()
        seconds[0] = 9.0
        assert watcher.silent_for is None
        seconds[0] = 12.0
        assert watcher.silent_for == timedelta(seconds=12)
        there.send(State(last_error="The disk is full."))
        until(lambda: watcher.state.last_error == "The disk is full.")
        until(lambda: watcher.silent_for is None)


def test_the_end_of_the_watch_is_noticed_at_once() -> None:
    """The kernel cuts the wire, however it ended."""
    gone = threading.Event()
    with wires() as (here, there):
        Watcher(here, gone.set).start()
        there.close()
        assert gone.wait(30)


def test_every_new_process_hears_how_to_begin_and_then_the_state() -> None:
    """A process that ended after it served is started again with one line that says how it ended."""
    with capture_logs() as lines, supervised() as (spawner, web):
        for number in range(2):
            until(lambda: spawner.made[number:] != [])  # noqa: B023 - it is over before the number changes
            made = spawner.made[number]
            assert made.wire.receive(30) == Begin(settings={}, holder="one")
            assert made.wire.receive(30) == Counts(metrics=())
            assert made.wire.receive(30) == State(last_error="It broke.")
            made.wire.send(Alive())
            assert web.has_served(30)
            if number == 0:
                made.end(-9)
    ended = [line for line in lines if line["event"] == "web_process_ended"]
    assert [line["how"] for line in ended] == ["it was killed by SIGKILL, as the kernel does when memory runs out"]


def test_a_process_that_never_served_is_not_started_again() -> None:
    """The command fails with what it said, rather than try for ever where nobody looks."""
    with capture_logs() as lines, supervised() as (spawner, web):
        spawner.made[0].end(1)
        assert web.has_served(30) is False
    assert len(spawner.made) == 1
    assert [line["how"] for line in lines if line["event"] == "web_process_did_not_start"] == ["it exited with 1"]


def test_wakes_reach_the_watch() -> None:
    """A message that is not understood ends the process that sent it, which is then replaced."""
    woken = threading.Event()
    with supervised(woken.set) as (spawner, _web):
        spawner.made[0].wire.send(Alive())
        spawner.made[0].wire.send(Wake(what="jobs"))
        assert woken.wait(30)


def test_each_sign_of_life_is_passed_on() -> None:
    """Agents are heard while these come."""
    signs = threading.Semaphore(0)
    with supervised(alive=signs.release) as (spawner, _web):
        for _ in range(2):
            spawner.made[0].wire.send(Alive())
            assert signs.acquire(timeout=30)


def counts(*, answers: int, memory: int) -> Counts:
    meters = Meters()
    for _ in range(answers):
        meters.answered("/jobs", "GET", 200, 0.1)
    families = families_of(meters.registry.collect())
    resident = Family(
        name="process_resident_memory_bytes", text="", type="gauge",
        samples=(("process_resident_memory_bytes", {}, float(memory)),),
    )  # fmt: skip
    return Counts(metrics=(*(one for one in families if not one.name.startswith("process_")), resident))


def answers_in(families: tuple[Family, ...]) -> tuple[float, float]:
    """Returns the number of answers and the bytes of memory."""
    values = {name: value for one in families for name, labels, value in one.samples if "le" not in labels}
    count = values.get("costguard_http_request_duration_seconds_count", 0.0)
    return count, values.get("process_resident_memory_bytes", 0.0)


def test_each_hears_what_the_others_have_counted() -> None:
    """Any of them may be asked for the sum. What a process counted stays when it is killed, or the sum would fall."""
    spawner = Spawner()
    wakes: dict[Asked, Callable[[], None]] = {}
    with socket.socket() as listener, WebProcesses(listener, "http://127.0.0.1:1", spawn=spawner) as web:
        web.begin(Begin(settings={}, holder="one"), State, tuple, wakes)
        pages = spawner.made[0]
        pages.wire.send(Alive())
        until(lambda: len(spawner.made) == 2)
        pages.wire.send(counts(answers=3, memory=100))
        assert heard(spawner.made[1], lambda: (3.0, 100.0))
        spawner.made[1].wire.send(Alive())
        spawner.made[1].wire.send(counts(answers=4, memory=50))
        assert heard(pages, lambda: (4.0, 50.0))
        spawner.made[1].end(-9)
        assert heard(pages, lambda: (4.0, 0.0))
        for process in spawner.made:
            process.wire.close()


def heard(process: Spawned, expected: Callable[[], tuple[float, float]]) -> bool:
    """Says whether the process gets so many answers, and so much memory, of the others."""
    for _ in range(300):
        message = process.wire.receive(30)
        if isinstance(message, Counts) and answers_in(message.metrics) == expected():
            return True
    return False


def test_reports_have_a_process_of_their_own() -> None:
    """It is started once the first serves pages, with a socket of its own in place of the listener."""
    spawner, signs = Spawner(), threading.Event()
    with socket.socket() as listener, WebProcesses(listener, "http://127.0.0.1:1", 3, spawner) as web:
        web.begin(Begin(settings={}, holder="one"), State, tuple, {}, signs.set)
        assert len(spawner.made) == 1
        spawner.made[0].wire.send(Alive())
        until(lambda: len(spawner.made) == 4)
        assert sorted(made.serves for made in spawner.made) == ["pages", "pages", "pages", "reports"]
        assert not signs.is_set()
        next(made for made in spawner.made if made.serves == "reports").wire.send(Alive())
        assert signs.wait(30)
        for process in spawner.made:
            process.wire.close()


def test_none_is_started_once_it_is_to_stop() -> None:
    """No process is started even where it ended in the same moment."""
    with supervised() as (spawner, web):
        spawner.made[0].wire.send(Alive())
        assert web.has_served(30)
        web.ask_to_stop()
        web.wait_for_end(30)
    assert len(spawner.made) == 1
    assert spawner.made[0].signals[0] == "SIGTERM"


def test_serving_process_gets_only_the_secrets_that_it_uses(tmp_path: Path) -> None:
    """It delivers no webhook, logs to no tracker, and opens no socket to Slack; signed requests come to it."""
    text = '[watch]\nprojects = ["ml-training"]\n[slack]\nchannel = "#gpu"\nsocket_mode = true\n'
    text += '[webhooks.pager]\nurl = "https://pager.example/hook"\n[trackers.mlflow]\nurl = "https://mlflow.example"\n'
    signs = "whsec_" + "A" * 43 + "="
    secrets = {
        "COSTGUARD_TOKEN": "0123456789abcdef",
        "COSTGUARD_SLACK_TOKEN": "xoxb-1-secret",
        "COSTGUARD_SLACK_APP_TOKEN": "xapp-1-secret",
        "COSTGUARD_WEBHOOK_PAGER_SECRET": signs,
        "COSTGUARD_MLFLOW_TOKEN": "tracker-secret",
    }
    given = read(tmp_path, text, **secrets)
    serving = of_serving(given.given)
    assert [secret for secret in secrets.values() if secret in repr(serving)] == ["0123456789abcdef"]
    made = Settings.of(serving)
    assert [webhook.name for webhook in made.webhook_list()] == ["pager"]
    signed = read(tmp_path, text, **secrets, COSTGUARD_SLACK_SIGNING_SECRET="0" * 32)
    assert "xoxb-1-secret" in repr(of_serving(signed.given))
    assert all(map(is_secret, [*secrets, "COSTGUARD_TOKEN_FILE", "CREDENTIALS_DIRECTORY"]))
    assert not any(map(is_secret, ("COSTGUARD_CONFIG", "AWS_SECRET_ACCESS_KEY", "PATH")))


def test_loose_things_go_over_the_wire_as_they_are() -> None:
    """Fractions, shapes and moments arrive exact, and the user's wish goes the other way."""
    shape = Shape("a4-highgpu-8g", 224, 3968 * 1024, "nvidia-b200", 8)
    thing = LooseThing(
        LooseKind.RESERVATION, "lab", "zones/us-central1-b", "held", "unused", NOON, labels={"owner": "ana"},
        quantity=Fraction(1, 3), shape=shape, model=ProvisioningModel.RESERVATION_BOUND,
    )  # fmt: skip
    unread = UnreadList("lab", LooseKind.DISK, "It answered 403.", "compute.disks.list")
    listing = LooseListing("lab", (thing,), cluster_disks=3, unread=(unread,))
    answers = (LooseAnswer("lab", NOON, listing, NOON), LooseAnswer("dark", NOON, trouble="It did not answer."))
    with wires() as (here, there):
        watcher = Watcher(there, lambda: None)
        watcher.start()
        for message in messages_of(answers):
            here.send(message)
        until(lambda: watcher.loose.of("dark") is not None)
        watcher.ask_loose(["lab"])
        assert here.receive(30) == AskLoose(projects=("lab",))
        here.close()
    assert watcher.loose.answers(["lab", "dark"]) == list(answers)
