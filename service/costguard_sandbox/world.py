"""The simulated world: a cloud and a Slack workspace on one clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TypedDict, Unpack

from costguard_sandbox.assets import AssetIndex
from costguard_sandbox.audit.log import AuditLog
from costguard_sandbox.bigquery import Tables
from costguard_sandbox.clock import WorldClock
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.guest.local import LocalGuests, LocalGuestSettings
from costguard_sandbox.pubsub import Broker
from costguard_sandbox.slack.workspace import Workspace


class CloudOptions(TypedDict, total=False):
    """The options of Cloud that the whole world has, too."""

    projects: Iterable[str]
    begins: datetime | None
    operation_retention: timedelta
    start_stamps_apart: bool
    base_url: str


class World(Cloud):
    """A cloud with a workspace.

    With `local_guests`, VMs that have a startup script run as local processes while the world is served. With
    `wait_moves_clock`, waiting for an operation moves a manual clock to its end.
    """

    def __init__(
        self,
        clock: WorldClock,
        *,
        seed: int = 1,
        local_guests: LocalGuestSettings | None = None,
        wait_moves_clock: bool = False,
        **options: Unpack[CloudOptions],
    ) -> None:
        guests = partial(LocalGuests, local_guests) if local_guests else None
        super().__init__(clock, seed=seed, guests=guests, **options)
        self.wait_moves_clock = wait_moves_clock
        self.slack = Workspace(clock, seed)
        self.bigquery = Tables()
        self.pubsub = Broker(clock)
        self.assets = AssetIndex()
        self.audit = AuditLog(self, self._publish, seed)

    def _publish(self, topic: str, data: bytes, attributes: Mapping[str, str], at: datetime) -> None:
        """An entry for a topic that is not there is lost, as at Google."""
        if topic in self.pubsub.topics:
            self.pubsub.publish(topic, [(data, attributes)], at)

    def settle(self) -> None:
        """Lets everything happen that is due."""
        with self.settled():
            pass

    def serve_at(self, url: str) -> None:
        self.slack.base_url = url
        super().serve_at(url)
