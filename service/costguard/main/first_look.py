"""Looks once at projects that Costguard does not watch yet. Reads only, and keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from costguard.gce.client import ComputeCloud, Patience
from costguard.gce.prices import snapshot_prices
from costguard.gce.vertex.look import EVERYWHERE_AT_ONCE
from costguard.ledger.price_book import PriceBook
from costguard.model.mending import with_command
from costguard.model.ports import Clock
from costguard.settings.fitted import FirstLook, SeenFleet, seen_fleet

_AT_ONCE, _LOOK_S = 8, 60.0


def first_look(
    projects: Sequence[str], endpoint: str | None, clock: Clock, wait: Callable[[float], bool] | None = None
) -> SeenFleet:
    """The VMs of all projects, and what Vertex AI runs, at the prices that ship with Costguard.

    What could not be read is in each look.

    `endpoint`: another Compute Engine, such as the simulated cloud; None: Google's. `wait` waits so many seconds before
    a request is repeated; None: it really does.
    """
    google = ComputeCloud(endpoint, clock, wait=wait, patience=Patience(look_s=_LOOK_S), tpu_nodes=True)
    with closing(google.watch_vertex(EVERYWHERE_AT_ONCE)) as cloud:

        def look(project: str) -> FirstLook:
            seen = cloud.observe(project, None)
            parts = [part for part in seen.unread if part.scope != "operations"]
            return FirstLook(project, seen.instances, tuple(with_command(project, part) for part in parts))

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            looks = list(pool.map(look, projects))
    return seen_fleet(looks, PriceBook(snapshot_prices()), clock.now())
