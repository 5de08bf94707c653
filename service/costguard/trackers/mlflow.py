"""Logs points to an MLflow server by its REST API, which needs no library of MLflow's.

Sources: https://mlflow.org/docs/latest/rest-api.html (`runs/log-batch`, `metrics/get-history`), and the server of
MLflow 3.17: mlflow/utils/validation.py (at most 1,000 metrics and 1,000,000 bytes in a request),
mlflow/store/tracking/sqlalchemy_store.py (`_log_metrics_once`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from costguard.errors import TrackerRunRefused
from costguard.model.delivery.tracker import TrackerPoint
from costguard.trackers.answers import TrackerHttp, words

_API = "/api/2.0/mlflow"
_PAGE = 5000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

# A metric's place in a run: its key, its timestamp in milliseconds, its step.
_Place = tuple[str, int, int]


class MlflowClient:
    """`user` and `secret` are MLflow's basic authentication; without a user the secret is a bearer token.

    `page` is how many entries of a history are asked for at a time.
    """

    def __init__(
        self, url: str, version: str, user: str = "", secret: str = "", timeout_s: float = 10.0, page: int = _PAGE
    ) -> None:
        auth: httpx2.Auth | None = None
        if user:
            auth = httpx2.BasicAuth(user, secret)
        elif secret:
            auth = _Bearer(secret)
        self._http = TrackerHttp("MLflow", url, version, auth, timeout_s)
        self._page = page

    def log(self, run: str, points: Sequence[TrackerPoint]) -> None:
        """Sends the points in one request; of those that were tried before, the metrics that the run does not have.

        MLflow appends what is logged, and may have written a part of a request that failed.
        """
        has = self._logged(run, points)
        metrics = [metric for point in points for metric in _metrics(point) if _place(metric) not in has]
        if metrics:
            self._answer(run, self._http.post(f"{_API}/runs/log-batch", {"run_id": run, "metrics": metrics}))

    def close(self) -> None:
        self._http.close()

    def _logged(self, run: str, points: Sequence[TrackerPoint]) -> set[_Place]:
        """Returns the metrics of points that were tried before and that the run has."""
        keys = sorted({key for point in points if point.is_tried for key in point.metrics})
        return {place for key in keys for place in self._history(run, key)}

    def _history(self, run: str, key: str) -> set[_Place]:
        places: set[_Place] = set()
        query = {"run_id": run, "metric_key": key, "max_results": str(self._page)}
        while True:
            answer = self._answer(run, self._http.get(f"{_API}/metrics/get-history", query))
            places |= {_place(metric) for metric in answer.get("metrics") or ()}
            token = answer.get("next_page_token")
            if not token:
                return places
            query["page_token"] = str(token)

    def _answer(self, run: str, response: httpx2.Response) -> dict[str, Any]:
        """Raises TrackerRunRefused where MLflow answers about the run, and TrackerError where it is no MLflow."""
        answer = self._http.json(response)
        if response.status_code == 200:
            return answer
        if "error_code" not in answer or answer["error_code"] == "ENDPOINT_NOT_FOUND":
            raise self._http.not_there()
        raise TrackerRunRefused(
            f"MLflow refuses the run {run}: {words(response)}",
            "Its points are kept, and tried again each hour. A deleted run can be restored in MLflow.",
        )


class _Bearer(httpx2.Auth):
    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Any:
        request.headers["authorization"] = f"Bearer {self._token}"
        yield request


def _metrics(point: TrackerPoint) -> list[dict[str, Any]]:
    timestamp = (point.at - _EPOCH) // _MILLISECOND
    # MLflow keeps doubles, and 0 where no step is known.
    return [
        {"key": key, "value": float(value), "timestamp": timestamp, "step": point.step or 0}
        for key, value in point.metrics.items()
    ]


def _place(metric: dict[str, Any]) -> _Place:
    return str(metric["key"]), int(metric["timestamp"]), int(metric.get("step") or 0)
