"""Where people ask for jobs, and where their VMs tell how it goes: both over HTTP."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costguard.access import signing
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.jobs.agent_events import KEY_NAME, AgentEvents, AgentTokens
from costguard.jobs.quote import LaunchTargets
from costguard.jobs.submit import JobService
from costguard.main.checkpoints import InScaledTime, checkpoints
from costguard.model.instance import Shape
from costguard.model.ports import Checkpoints, Clock
from costguard.settings import Settings

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud

_ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_ID_LENGTH = 7


@dataclass(frozen=True, slots=True)
class JobServices:
    """`service` takes jobs in, `hearing` listens to the agents on their VMs."""

    service: JobService
    hearing: AgentEvents


def job_services(
    settings: Settings,
    rules: Rules,
    database: Database,
    clock: Clock,
    speed: float,
    wake: Callable[[], None],
    news: Callable[[], None],
) -> JobServices:
    """`wake` asks for a turn of the jobs, `news` for a look at the VMs as well."""
    stored: Checkpoints = checkpoints(settings, os.environ)
    if speed != 1:
        stored = InScaledTime(stored, clock, speed)
    launching = LaunchTargets(settings.watch.projects, _Shapes(settings.compute.endpoint, clock))
    tokens = AgentTokens(signing.kept(database, KEY_NAME, clock.now()))
    service = JobService(database, clock, rules, launching, stored, _new_id, wake)
    return JobServices(service, AgentEvents(database, clock, tokens, news))


class _Shapes:
    """What machine types are made of. Google's client is loaded for the first one that its name does not tell."""

    def __init__(self, endpoint: str | None, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._lock = threading.Lock()
        self._cloud: ComputeCloud | None = None

    def __call__(self, project: str, zone: str, machine_type: str) -> Shape | None:
        with self._lock:
            if self._cloud is None:
                from costguard.gce.client import ComputeCloud  # only here: most who serve never ask Google

                self._cloud = ComputeCloud(self._endpoint, self._clock)
        return self._cloud.shape(project, zone, machine_type)


def _new_id() -> str:
    return "j" + "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
