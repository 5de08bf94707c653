"""Confirms, by a person, that a VM is kept or stopped: asked by the client, or in a second call with a token."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from costguard.errors import Conflict
from costguard_client import Client
from costguard_client.mcp.marking import one_line

GOOD_FOR_S = 300.0
_MOST_PENDING = 50

Verb = Literal["stop", "keep"]


@dataclass(frozen=True, slots=True)
class Intent:
    """A request about one VM's present lifetime. `started_at` binds it: a later run of the VM is not meant."""

    verb: Verb
    project: str
    gce_id: str
    name: str
    zone: str
    owner: str
    started_at: str | None
    reason: str
    hours: int | None = None

    @property
    def question(self) -> str:
        """Returns the question that a person reads before they confirm.

        The whole act stands in it; names are quoted.
        """
        until = f" for {self.hours} h more" if self.hours else " until tomorrow morning"
        since = f", running since {self.started_at}" if self.started_at else ""
        owner = f"owner {one_line(self.owner)}" if self.owner else "unowned"
        return (
            f"{'Stop' if self.verb == 'stop' else 'Keep'} {one_line(self.name)} (id {one_line(self.gce_id)}, "
            f"project {one_line(self.project)}, zone {one_line(self.zone)}, {owner}{since})"
            f"{until if self.verb == 'keep' else ''}? Reason: {one_line(self.reason)}."
        )

    @property
    def shown(self) -> dict[str, Any]:
        """The whole act for the two-step confirmation."""
        return {
            "kind": self.verb,
            "project": self.project,
            "gce_id": self.gce_id,
            "name": self.name,
            "zone": self.zone,
            "owner": self.owner,
            "started_at": self.started_at,
            "hours": self.hours,
            "reason": self.reason,
        }


def intent_of(guard: Client, verb: Verb, project: str, gce_id: str, reason: str, hours: int | None = None) -> Intent:
    """Reads the VM, so that people confirm what is there. Raises CostguardError."""
    vm = guard.get("instances", project, gce_id)["instance"]
    if verb == "stop" and vm["started_at"] is None:
        raise Conflict("It is not running, so there is nothing to stop.", "Read it with the tool vm.")
    if verb == "stop" and (why_not := vm.get("never_stopped", "")):
        raise Conflict(why_not, "Tell the user; Costguard has no way to stop it.")
    return Intent(verb, project, gce_id, vm["name"], vm["zone"], vm["owner"], vm["started_at"], reason, hours)


def send(guard: Client, intent: Intent, key: str) -> Any:
    """Stores the request by the same route as the command line, once for each `key`. Raises CostguardError."""
    body: dict[str, Any] = {"reason": intent.reason}
    if intent.started_at is not None:
        body["started_at"] = intent.started_at
    if intent.verb == "keep":
        body["hours"] = intent.hours
    return guard.post("instances", intent.project, intent.gce_id, intent.verb, body=body, key=key)["request"]


@dataclass
class Pending:
    """Intents that wait for their confirmation. Each token confirms one intent once, within five minutes."""

    seconds: Callable[[], float]
    _by_token: dict[str, tuple[float, Intent]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # tools run in threads

    def add(self, intent: Intent) -> str:
        token = secrets.token_hex(16)
        with self._lock:
            self._forget()
            while len(self._by_token) >= _MOST_PENDING:
                del self._by_token[next(iter(self._by_token))]
            self._by_token[token] = self.seconds() + GOOD_FOR_S, intent
        return token

    def take(self, token: str) -> Intent | None:
        """Takes an intent; None for a token that is unknown, used or too old."""
        with self._lock:
            self._forget()
            waiting = self._by_token.pop(token, None)
        return waiting[1] if waiting is not None else None

    def _forget(self) -> None:
        now = self.seconds()
        self._by_token = {token: waiting for token, waiting in self._by_token.items() if waiting[0] > now}
