"""The way in over HTTP: what Slack signed and nobody repeated. Everything else is refused, and told nothing."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

import structlog
from slack_sdk.signature import Clock as SignatureClock
from slack_sdk.signature import SignatureVerifier

from costguard.errors import CostguardError
from costguard.model.message import ListContent, WhisperContent
from costguard.model.press import Answer, Command, Press
from costguard.slack import payloads

log = structlog.get_logger(__name__)


class Rendered(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def blocks(self) -> list[dict[str, Any]]: ...


class Reception:
    """Hands on what was understood. The handlers answer within 3 s and are called from many threads."""

    def __init__(
        self,
        handle_press: Callable[[Press], None],
        handle_command: Callable[[Command], ListContent | WhisperContent],
        render: Callable[[ListContent | WhisperContent], Rendered],
    ) -> None:
        self._handle_press = handle_press
        self._handle_command = handle_command
        self._render = render
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()

    @property
    def refused(self) -> Mapping[str, int]:
        """How often something was refused, by a reason out of few."""
        with self._lock:
            return dict(self._refused)

    def refuse(self, reason: str) -> None:
        with self._lock:
            self._refused[reason] += 1
        log.warning("slack_refused", reason=reason)

    def take(self, found: Press | Command | None) -> Mapping[str, object]:
        """What Slack is answered. None is a link that was followed: there is nothing to do."""
        match found:
            case Press():
                self._handle_press(found)
            case Command():
                return self._list(found)
        return {}

    def _list(self, command: Command) -> Mapping[str, object]:
        """For the person's eyes only. What went wrong is told in words: they wait for it."""
        try:
            content = self._handle_command(command)
        except CostguardError as error:
            log.error("command_failed", error=str(error))
            content = WhisperContent(f"That did not work: {error}")
        shown = self._render(content)
        return {"response_type": "ephemeral", "text": shown.text, "blocks": shown.blocks}


BODY_LIMIT = 256 * 1024  # bytes; Slack's own are a few kilobytes
_WINDOW = 300  # seconds, before and after, as the verifier has it
_FORM = "application/x-www-form-urlencoded"
# What does not look like these makes the verifier raise all kinds of errors.
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


class Clock(Protocol):
    def now(self) -> datetime: ...


class Door:
    """`clock` is the machine's, whatever time the guard keeps: Slack signs by it.

    A signature is good for once. Another process does not know of it, but there the natural keys of presses hold.
    """

    body_limit = BODY_LIMIT

    def __init__(self, signing_secret: str, clock: Clock, reception: Reception) -> None:
        self._clock = _Seconds(clock)
        self._verifier = SignatureVerifier(signing_secret, self._clock)
        self._reception = reception
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}  # signature -> when it is too old anyhow

    def refuse(self, reason: str) -> Answer:
        self._reception.refuse(reason)
        return Answer(401)

    def interaction(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """A press is stored before this answers. StoreError: it is not, and Slack shows that it failed."""
        return self._take(headers, body, payloads.interaction_of)

    def command(self, headers: Mapping[str, str], body: bytes) -> Answer:
        return self._take(headers, body, payloads.command_in)

    def _take(
        self, headers: Mapping[str, str], body: bytes, parse: Callable[[bytes], Press | Command | None]
    ) -> Answer:
        if reason := self._wrong(headers, body):
            return self.refuse(reason)
        try:
            found = parse(body)
        except ValueError:
            return self.refuse("malformed")
        return Answer(200, self._reception.take(found))

    def _wrong(self, headers: Mapping[str, str], body: bytes) -> str:
        """Why this is not Slack's, or was there before; "" when all is well."""
        given = {name.lower(): value for name, value in headers.items()}
        if len(body) > BODY_LIMIT:
            return "oversized"
        timestamp = given.get("x-slack-request-timestamp", "")
        signature = given.get("x-slack-signature", "")
        if not _TIMESTAMP.fullmatch(timestamp) or not _SIGNATURE.fullmatch(signature):
            return "unsigned"
        if abs(self._clock.now() - int(timestamp)) > _WINDOW:
            return "stale"
        try:
            is_signed = self._verifier.is_valid(body, timestamp, signature)
        except UnicodeDecodeError:
            return "encoding"
        if not is_signed:
            return "forged"
        if not self._is_new(signature, int(timestamp)):
            return "replayed"
        if given.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            return "content_type"
        return ""

    def _is_new(self, signature: str, timestamp: int) -> bool:
        now = self._clock.now()
        with self._lock:
            self._seen = {each: until for each, until in self._seen.items() if until >= now}
            if signature in self._seen:
                return False
            self._seen[signature] = timestamp + _WINDOW
            return True


class _Seconds(SignatureClock):
    """The verifier's kind of clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now().timestamp()
