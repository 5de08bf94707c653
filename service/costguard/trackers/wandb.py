"""Writes a job's newest figures into the summary of its W&B run, as W&B's public client does.

The history of a run belongs to the one process that streams it by line numbers (`JsonlFilePolicy` in
wandb/sdk/internal/file_stream.py of wandb/wandb at 0032841c): a second writer would overwrite its lines. The summary
may be changed from outside at any time, by the mutation `UpsertBucket` with `summaryMetrics`
(wandb/apis/public/summary.py, `HTTPSummary._write`, of wandb 0.31). It is replaced as a whole, so it is read just
before; writing it twice changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from costguard.errors import TrackerRunRefused
from costguard.model.delivery.tracker import TrackerPoint
from costguard.trackers.answers import TrackerHttp, words

# As the public client asks for a run (`Run.load` in wandb/apis/public/runs.py).
_RUN = """
query Run($project: String!, $entity: String!, $name: String!) {
    project(name: $project, entityName: $entity) {
        run(name: $name) { id summaryMetrics }
    }
}
"""
_CHANGE = """
mutation UpsertBucket($id: String, $summaryMetrics: JSONString) {
    upsertBucket(input: {id: $id, summaryMetrics: $summaryMetrics}) { bucket { id } }
}
"""
_REFUSED_NEXT = "Its newest figures are kept, and tried again each hour."


class WandbClient:
    """`key` is an API key of an account that may write to the run."""

    def __init__(self, url: str, version: str, key: str, timeout_s: float = 10.0) -> None:
        self._http = TrackerHttp("W&B", url, version, httpx2.BasicAuth("api", key), timeout_s)

    def log(self, run: str, points: Sequence[TrackerPoint]) -> None:
        """Logs points. A summary shows only the newest of them."""
        entity, project, name = run.split("/")
        answer = self._ask(run, _RUN, {"entity": entity, "project": project, "name": name})
        stored = (answer.get("project") or {}).get("run")
        if not stored:
            raise TrackerRunRefused(f"W&B knows no run {run}.", _REFUSED_NEXT)
        summary = _summary(stored.get("summaryMetrics"))
        figures = {key: float(value) for key, value in points[-1].metrics.items()}
        if any(summary.get(key) != value for key, value in figures.items()):
            changed = json.dumps({**summary, **figures})
            self._ask(run, _CHANGE, {"id": stored["id"], "summaryMetrics": changed})

    def close(self) -> None:
        self._http.close()

    def _ask(self, run: str, query: str, variables: Mapping[str, str]) -> Mapping[str, Any]:
        """Returns the data of the query. Raises TrackerRunRefused, and TrackerError where it is no W&B server."""
        response = self._http.post("/graphql", {"query": query, "variables": variables})
        if response.status_code == 404:
            raise self._http.not_there()
        answer = self._http.json(response)
        if errors := answer.get("errors"):
            message = (
                errors[0].get("message", "") if isinstance(errors, list) and isinstance(errors[0], dict) else errors
            )
            raise TrackerRunRefused(f"W&B refuses the run {run}: {str(message)[:300].rstrip('.')}.", _REFUSED_NEXT)
        if response.status_code != 200 or not isinstance(answer.get("data"), dict):
            raise TrackerRunRefused(f"W&B refuses the run {run}: {words(response)}", _REFUSED_NEXT)
        data: Mapping[str, Any] = answer["data"]
        return data


def _summary(text: object) -> dict[str, Any]:
    """A run that logged nothing yet has none. It may hold NaN, which Python's own module reads."""
    summary = json.loads(text) if isinstance(text, str) and text else {}
    return summary if isinstance(summary, dict) else {}
