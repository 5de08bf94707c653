"""What the two processes of a guard say to each other: one JSON object a line, over a private pair of sockets.

Both run the same code, so the messages have no versions. None is ever logged: `Begin` holds secrets.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

_READ_BYTES = 1 << 16

Asked = Literal["pass", "jobs", "look"]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Pace(_Message):
    """A clock that was sped up: at the machine's `since` it showed `origin`."""

    origin: AwareDatetime
    since: AwareDatetime
    speed: float


class Begin(_Message):
    """The watching process's first words. `settings` is what `Settings` is made from, secrets included.

    `speed` is the clock's seconds in one of the machine's; without a `pace` the clock is the machine's own.
    """

    kind: Literal["begin"] = "begin"
    settings: dict[str, Any]
    holder: str
    speed: float = 1.0
    pace: Pace | None = None


class SlackTrouble(_Message):
    """What keeps messages from being sent; all empty when nothing does."""

    workspace: str = ""
    channels: Mapping[str, str] = Field(default_factory=dict)


class Family(_Message):
    """One family of metrics, with its samples: name, labels, value."""

    name: str
    text: str
    type: str
    samples: tuple[tuple[str, dict[str, str], float], ...]


class State(_Message):
    """What the watching process says of itself, when it changes and at least every second."""

    kind: Literal["state"] = "state"
    last_pass_at: datetime | None = None
    last_error: str = ""
    slack: SlackTrouble = SlackTrouble()
    socket_trouble: str = ""
    slack_refused: Mapping[str, int] = Field(default_factory=dict)
    metrics: tuple[Family, ...] = ()


class Wake(_Message):
    """The serving process stored something that the watching one should act on now."""

    kind: Literal["wake"] = "wake"
    what: Asked


class Alive(_Message):
    """The serving process answers requests: its event loop turns."""

    kind: Literal["alive"] = "alive"


Message = Begin | State | Wake | Alive
_MESSAGES: TypeAdapter[Message] = TypeAdapter(
    Annotated[Message, Field(discriminator="kind")],
    config=ConfigDict(hide_input_in_errors=True),  # the models' own does not reach here, and an input holds secrets
)


class Wire:
    """One end. One thread at a time sends, and one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._incoming, self._outgoing = end, end.dup()  # each with a time limit of its own
        self._read = bytearray()

    def send(self, message: Message, patience_s: float | None = None) -> None:
        """Raises OSError where the other process is gone, or does not listen in time."""
        self._outgoing.settimeout(patience_s)
        self._outgoing.sendall(message.model_dump_json().encode() + b"\n")

    def receive(self, patience_s: float | None = None) -> Message | None:
        """None: the other process is gone. Raises TimeoutError, and ValueError for what is no message."""
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
