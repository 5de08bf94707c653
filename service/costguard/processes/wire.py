"""Messages between the watching process and each that serves: JSON lines over a pair of sockets.

All run the same code, so the messages have no versions. None is ever logged: `Begin` holds secrets.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import structlog
from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from costguard.doctor.finding import Finding, SetupReport
from costguard.spend.loose.memory import LooseAnswer, LooseMemory

_SILENT_AFTER = timedelta(seconds=10)  # it speaks every second

log = structlog.get_logger(__name__)


class Watcher:
    """The watching process, as the serving one sees it. Never waits for it: repeated wakes are sent once.

    `gone` is called once when the wire is cut.
    """

    def __init__(self, wire: Wire, gone: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wire = wire
        self._gone = gone
        self._monotonic = monotonic
        self._heard_at_s = monotonic()
        self._news = threading.Condition()
        self._wakes: set[Asked] = set()
        self._is_alive = False
        self._counts: Counts | None = None
        self.state = State()
        self.setup: SetupReport | None = None  # None: it was not checked (yet)
        self.others: tuple[Family, ...] = ()  # what other serving processes have counted
        self.loose = LooseMemory()
        self._loose_wanted: list[AskLoose] = []

    def start(self) -> None:
        for work in (self._listen, self._speak):
            threading.Thread(target=work, name=f"watcher-{work.__name__}", daemon=True).start()

    @property
    def silent_for(self) -> timedelta | None:
        """Returns how long it has said nothing, where that is too long."""
        silence = timedelta(seconds=self._monotonic() - self._heard_at_s)
        return silence if silence > _SILENT_AFTER else None

    def wake(self, what: Asked) -> None:
        with self._news:
            self._wakes.add(what)
            self._news.notify()

    def ask_loose(self, projects: Collection[str] | None) -> None:
        """Has Google asked now about the loose things of these projects, or of all."""
        with self._news:
            self._loose_wanted.append(AskLoose(projects=None if projects is None else tuple(projects)))
            self._news.notify()

    def alive(self) -> None:
        """Requests are answered; to be said every now and then."""
        with self._news:
            self._is_alive = True
            self._news.notify()

    def counted(self, metrics: tuple[Family, ...]) -> None:
        """This process has counted so much; to be said every now and then."""
        with self._news:
            self._counts = Counts(metrics=metrics)
            self._news.notify()

    def _listen(self) -> None:
        try:
            while (message := self._wire.receive()) is not None:
                if isinstance(message, State):
                    self.state = message
                elif isinstance(message, Counts):
                    self.others = message.metrics
                elif isinstance(message, Loose):
                    self.loose.put(*message.answers)
                elif isinstance(message, Checked):
                    self.setup = SetupReport(message.as_of, message.findings)
                self._heard_at_s = self._monotonic()
        except (OSError, ValueError) as error:
            log.error("watching_process_not_understood", error=str(error))
        self._gone()

    def _speak(self) -> None:
        try:
            while True:
                with self._news:
                    self._news.wait_for(lambda: self._wakes or self._is_alive or self._counts or self._loose_wanted)
                    wakes, is_alive, counts = self._wakes, self._is_alive, self._counts
                    self._wakes, self._is_alive, self._counts = set(), False, None
                    wanted, self._loose_wanted = list(dict.fromkeys(self._loose_wanted)), []
                if is_alive:
                    self._wire.send(Alive())
                for what in sorted(wakes):
                    self._wire.send(Wake(what=what))
                for ask in wanted:
                    self._wire.send(ask)
                if counts is not None:
                    self._wire.send(counts)
        except OSError:
            pass  # it is gone, as the thread that listens finds, too


_READ_BYTES = 1 << 16

Asked = Literal["pass", "jobs", "look"]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Pace(_Message):
    """A clock that was sped up: at the real time `since` it showed `origin`."""

    origin: AwareDatetime
    since: AwareDatetime
    speed: float


class Begin(_Message):
    """The watching process's first message. `settings` is what `Settings` is made from, secrets included.

    `speed` is the clock's seconds in a real second; without a `pace` the clock shows real time.
    """

    kind: Literal["begin"] = "begin"
    settings: dict[str, Any]
    holder: str
    speed: float = 1.0
    pace: Pace | None = None


class SlackTrouble(_Message):
    """The trouble that keeps messages from being sent; all empty when there is none."""

    workspace: str = ""
    channels: Mapping[str, str] = Field(default_factory=dict)


class Family(_Message):
    """A family of metrics, with its samples: name, labels, value."""

    name: str
    text: str
    type: str
    samples: tuple[tuple[str, dict[str, str], float], ...]


class State(_Message):
    """The state of the watching process, sent when it changes and at least every second."""

    kind: Literal["state"] = "state"
    last_pass_at: datetime | None = None
    last_error: str = ""
    slack: SlackTrouble = SlackTrouble()
    socket_trouble: str = ""
    slack_refused: Mapping[str, int] = Field(default_factory=dict)
    metrics: tuple[Family, ...] = ()


class Counts(_Message):
    """Carries the counts of a serving process; to it, those of all others together."""

    kind: Literal["counts"] = "counts"
    metrics: tuple[Family, ...]


class Checked(_Message):
    """Carries what the check of the set-up found, once it has ended."""

    kind: Literal["checked"] = "checked"
    as_of: datetime
    findings: tuple[Finding, ...]


class Loose(_Message):
    """Carries what projects last answered about loose things."""

    kind: Literal["loose"] = "loose"
    answers: tuple[LooseAnswer, ...]


class AskLoose(_Message):
    """A user wants the loose things of these projects fresh; None: of all."""

    kind: Literal["ask_loose"] = "ask_loose"
    projects: tuple[str, ...] | None = None


class Wake(_Message):
    """The serving process stored something that the watching one should act on now."""

    kind: Literal["wake"] = "wake"
    what: Asked


class Alive(_Message):
    """The serving process answers requests: its event loop turns."""

    kind: Literal["alive"] = "alive"


Message = Begin | State | Counts | Checked | Loose | AskLoose | Wake | Alive
_MESSAGES: TypeAdapter[Message] = TypeAdapter(
    Annotated[Message, Field(discriminator="kind")],
    config=ConfigDict(hide_input_in_errors=True),  # the models' own does not reach here, and an input holds secrets
)


class Wire:
    """An end of the wire. One thread at a time sends, and one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._incoming, self._outgoing = end, end.dup()  # each with a time limit of its own
        self._read = bytearray()

    def send(self, message: Message, patience_s: float | None = None) -> None:
        """Raises OSError where the other process is gone, or does not listen in time."""
        self._outgoing.settimeout(patience_s)
        self._outgoing.sendall(message.model_dump_json().encode() + b"\n")

    def receive(self, patience_s: float | None = None) -> Message | None:
        """Receives a message. None: the other process is gone.

        Raises TimeoutError, and ValueError for what is no message.
        """
        while (end := self._read.find(b"\n")) < 0:
            self._incoming.settimeout(patience_s)
            try:
                more = self._incoming.recv(_READ_BYTES)
            except ConnectionError:
                return None
            if not more:
                return None
            self._read += more
        line, self._read = bytes(self._read[:end]), self._read[end + 1 :]
        return _MESSAGES.validate_json(line)

    def close(self) -> None:
        self._incoming.close()
        self._outgoing.close()


def families_of(metrics: Iterable[Metric]) -> tuple[Family, ...]:
    """Returns the present counts, as they are sent."""
    return tuple(_family(metric) for metric in metrics)


def _family(metric: Metric) -> Family:
    samples = tuple((sample.name, dict(sample.labels), float(sample.value)) for sample in metric.samples)
    return Family(name=metric.name, text=metric.documentation, type=metric.type, samples=samples)


def metrics_of(families: Iterable[Family]) -> Iterator[Metric]:
    """The same, as Prometheus's own client has them."""
    for family in families:
        metric = Metric(family.name, family.text, family.type)
        metric.samples = [Sample(name, labels, value) for name, labels, value in family.samples]
        yield metric
