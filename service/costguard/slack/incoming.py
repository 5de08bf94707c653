"""Button clicks and slash commands from Slack: verified, handed to their handlers, and refusals counted."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping

import structlog
from slack_sdk.signature import Clock as SignatureClock
from slack_sdk.signature import SignatureVerifier

from costguard.errors import CostguardError
from costguard.model.delivery.interaction import ButtonClick, InteractionReply, JobClick, SlashCommand
from costguard.model.delivery.message import EphemeralContent, ListContent
from costguard.model.ports import Clock
from costguard.slack import payloads
from costguard.slack.render import render

log = structlog.get_logger(__name__)

BODY_LIMIT = 256 * 1024  # bytes; Slack's own are a few kilobytes
_WINDOW = 300  # seconds, before and after, as the verifier has it
_FORM = "application/x-www-form-urlencoded"
# The verifier raises all kinds of errors for headers that do not look like these.
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


class InteractionDispatcher:
    """Calls the handlers of clicks and commands, whether they came over HTTP or Socket Mode.

    The handlers answer within 3 s and are called from many threads.
    """

    def __init__(
        self,
        handle_click: Callable[[ButtonClick | JobClick], None],
        handle_command: Callable[[SlashCommand], ListContent | EphemeralContent],
    ) -> None:
        self._handle_click = handle_click
        self._handle_command = handle_command
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()

    @property
    def refused(self) -> Mapping[str, int]:
        """The number of refused requests by reason."""
        with self._lock:
            return dict(self._refused)

    def refuse(self, reason: str) -> None:
        with self._lock:
            self._refused[reason] += 1
        log.warning("slack_refused", reason=reason)

    def take(self, interaction: ButtonClick | JobClick | SlashCommand | None) -> Mapping[str, object]:
        """The body of the reply to Slack. None is a clicked link, which needs no action."""
        match interaction:
            case ButtonClick() | JobClick():
                self._handle_click(interaction)
            case SlashCommand():
                return self._reply(interaction)
        return {}

    def _reply(self, command: SlashCommand) -> Mapping[str, object]:
        """An ephemeral message. Errors are answered in words: the person is waiting."""
        try:
            content = self._handle_command(command)
        except CostguardError as error:
            log.error("command_failed", error=str(error))
            content = EphemeralContent(f"That did not work: {error}")
        message = render(content)
        return {"response_type": "ephemeral", "text": message.text, "blocks": message.blocks}


class SignedRequests:
    """Accepts interactions over HTTP: only what Slack signed, and only once.

    `clock` is the computer's, whatever time the guard keeps: Slack signs by it. Another process does not know which
    signatures were used, but there the natural keys of clicks hold.
    """

    body_limit = BODY_LIMIT

    def __init__(self, signing_secret: str, clock: Clock, dispatcher: InteractionDispatcher) -> None:
        self._clock = _Seconds(clock)
        self._verifier = SignatureVerifier(signing_secret, self._clock)
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}  # signature -> when it is too old anyhow

    def refuse(self, reason: str) -> InteractionReply:
        self._dispatcher.refuse(reason)
        return InteractionReply(401)

    def interaction(self, headers: Mapping[str, str], body: bytes) -> InteractionReply:
        """Stores a click before it replies. StoreError: it was not stored, and Slack shows that it failed."""
        return self._take(headers, body, payloads.interaction_of)

    def command(self, headers: Mapping[str, str], body: bytes) -> InteractionReply:
        return self._take(headers, body, payloads.command_in)

    def _take(
        self,
        headers: Mapping[str, str],
        body: bytes,
        parse: Callable[[bytes], ButtonClick | JobClick | SlashCommand | None],
    ) -> InteractionReply:
        if reason := self._refusal(headers, body):
            return self.refuse(reason)
        try:
            interaction = parse(body)
        except ValueError:
            return self.refuse("malformed")
        return InteractionReply(200, self._dispatcher.take(interaction))

    def _refusal(self, headers: Mapping[str, str], body: bytes) -> str:
        """Explains why this request is not Slack's, or is a replay; "" when it is genuine."""
        lowered = {name.lower(): value for name, value in headers.items()}
        if len(body) > BODY_LIMIT:
            return "oversized"
        timestamp = lowered.get("x-slack-request-timestamp", "")
        signature = lowered.get("x-slack-signature", "")
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
        if lowered.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            return "content_type"
        return ""

    def _is_new(self, signature: str, timestamp: int) -> bool:
        now = self._clock.now()
        with self._lock:
            self._seen = {seen: until for seen, until in self._seen.items() if until >= now}
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
