"""Dependencies of the API, passed in by main."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Protocol

from fastapi import Depends, Request
from prometheus_client.core import Metric
from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.daemon.health import ANSWER, OneQuestion, VitalSigns
from costguard.daemon.listings import RHYTHM, Rhythm
from costguard.daemon.meters import Meters
from costguard.db.transaction import Database
from costguard.doctor.finding import SetupReport
from costguard.events.open_streams import Streams
from costguard.jobs.listing.output import OpenFolder
from costguard.jobs.reports.agent_events import AgentEvents
from costguard.jobs.reports.vm_claims import VmClaims
from costguard.jobs.submit.code import CodeArchives
from costguard.jobs.submit.submit import JobService
from costguard.messages.slack_health import OutboxTrouble
from costguard.model.budget import Budget
from costguard.model.delivery.interaction import InteractionReply
from costguard.model.delivery.webhook import WebhookState
from costguard.model.ports import Archives, Clock
from costguard.model.preset import Preset
from costguard.model.vm_tool import PinnedTool
from costguard.schedules.submit import ScheduleService
from costguard.spend.loose.things import LooseThings
from costguard.sweeps.submit import SweepService
from costguard.web.authentication import RateLimiter, RequestAuthenticator
from costguard.web.rendering import Sharing


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The report of this replica's daemon. The database says whether it acts: see `Deps.holder`."""

    last_pass_at: datetime | None = None  # when the last pass ended
    last_error: str = ""  # why the last pass failed; "" when it did not
    silent_for: timedelta | None = None  # how long it has reported nothing, where that is too long


class SlackHandler(Protocol):
    """Verifies and handles signed requests from Slack."""

    @property
    def body_limit(self) -> int: ...

    def interaction(self, headers: Mapping[str, str], body: bytes) -> InteractionReply: ...

    def command(self, headers: Mapping[str, str], body: bytes) -> InteractionReply: ...

    def refuse(self, reason: str) -> InteractionReply: ...


@dataclass(frozen=True, slots=True)
class Deps:
    """`stale_after` is how old the last complete read of a project may be before it counts as stale."""

    database: Database
    clock: Clock
    rules: Rules
    authenticator: RequestAuthenticator
    version: str
    stale_after: timedelta
    status: Callable[[], DaemonStatus]
    holder: str = ""  # the name of this replica's daemon in the table of leases; "": it has none
    vital_signs: OneQuestion[VitalSigns] = field(default_factory=lambda: OneQuestion(ANSWER))
    slack: SlackHandler | None = None  # None: Slack is not set up, or uses Socket Mode
    slack_refused: Callable[[], Mapping[str, int]] = dict  # by reason, over HTTP or a socket
    outbox_trouble: Callable[[], OutboxTrouble | None] = lambda: None  # None: Slack is not set up
    agent_events: AgentEvents | None = None  # None: no agents are accepted
    vm_claims: VmClaims | None = None  # None: no agents are accepted
    tools: Mapping[str, PinnedTool] = field(default_factory=dict)  # by name; VMs need others in their images
    output: OpenFolder | None = None  # None: nobody stores the output of jobs
    code: CodeArchives | None = None  # None: no jobs are accepted
    jobs: JobService | None = None  # None: no jobs are accepted
    sweeps: SweepService | None = None  # None: no sweeps are accepted
    schedules: ScheduleService | None = None  # None: no schedules are accepted
    loose: LooseThings | None = None  # None: nobody can be asked
    listed: frozenset[str] = frozenset()  # projects that the settings list; others are found by searches
    archive: Path | None = None  # the folder of archived records
    history: Archives | None = None  # where closed days are, outside the database
    billing_account: str | None = None  # None: the settings do not name one
    is_https: bool = False  # whether people reach it over https
    limits: RateLimiter | None = None  # None: requests are not limited
    wake: Callable[[], None] = lambda: None  # asks the daemon for a pass
    streams: Streams = field(default_factory=Streams)
    is_stopping: Callable[[], bool] = lambda: False  # streams end when it is True
    webhook_states: Callable[[Connection], Sequence[WebhookState]] = lambda _connection: ()  # of each receiver
    meters: Meters = field(default_factory=Meters)
    sharing: Sharing | None = None  # None: every response is made for one caller alone
    other_metrics: Callable[[], Iterable[Metric]] = tuple  # of the watching and the other serving processes
    setup: Callable[[], SetupReport | None] = lambda: None  # what the set-up needs; None: it was not checked (yet)
    rhythm: Rhythm = RHYTHM  # of listings while events come
    socket_trouble: Callable[[], str] = str  # why Socket Mode does not work; "" when it does

    @property
    def presets(self) -> Sequence[Preset]:
        return tuple(self.rules.presets.values())

    @property
    def budgets(self) -> Sequence[Budget]:
        return self.rules.budgets


async def _deps(request: Request) -> Deps:
    deps: Deps = request.app.state.deps
    return deps


Given = Annotated[Deps, Depends(_deps)]
