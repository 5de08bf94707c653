"""What Prometheus scrapes: the ledger's figures, and what both processes have counted."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from costguard.api.deps import Deps, Given
from costguard.api.metric_families import families
from costguard.daemon.metrics import figures
from costguard.db.health_rows import holders, is_held_by
from costguard.model.access import Permission
from costguard.web.problems import RESPONSES
from costguard.web.who import needs

router = APIRouter(tags=["metrics"], responses=RESPONSES, dependencies=[needs(Permission.METRICS)])

_TEXT = {"schema": {"type": "string"}}


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    operation_id="getMetrics",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
            "description": "One line a figure, in the format that Accept prefers.",
        }
    },
)
def metrics(deps: Given, request: Request) -> Response:
    """A token that may do nothing else is enough: `costguard token create prometheus --permission metrics`."""
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(_Everything(deps)), media_type=media_type, headers={"Cache-Control": "no-store"})


class _Everything(Collector):
    """All of the ledger's figures are of one moment."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def collect(self) -> Iterator[Metric]:
        deps = self._deps
        with deps.database.read() as connection:
            found = figures(connection, deps.rules, deps.clock.now(), deps.meters.facts)
            hooks = deps.webhook_states(connection)
            is_acting = is_held_by(holders(connection), deps.holder)
        yield from families(found, hooks, is_acting=is_acting)
        yield from deps.meters.registry.collect()
        yield from deps.watch_metrics()
