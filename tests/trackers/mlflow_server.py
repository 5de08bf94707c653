"""A stand-in for an MLflow server: the requests that Costguard makes, answered as MLflow 3.17 answers them.

`make trackers` runs the same tests against a real server, reached through the same front. The stand-in does what that
server's own code does: `_log_batch` and `_get_metric_history` of mlflow/server/handlers.py, `_check_run_is_active` and
`_update_latest_metrics_if_necessary` of mlflow/store/tracking/sqlalchemy_store.py, and the limits of
mlflow/utils/validation.py. As MLflow's file store does, it keeps what is logged twice twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

import httpx2
from tests.ports import free_port
from tests.waiting import until

_API = "/api/2.0/mlflow/"
_MOST_METRICS, _MOST_BYTES = 1000, 1_000_000


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass
class Logged:
    """A value of a metric, as the run keeps it."""

    key: str
    value: float
    timestamp: int
    step: int


class Mlflow(Protocol):
    """An MLflow server, as its own clients see it."""

    def create_run(self) -> str: ...

    def delete_run(self, run: str) -> None: ...

    def restore_run(self, run: str) -> None: ...

    def history(self, run: str, key: str) -> Sequence[Logged]:
        """The oldest first."""

    def latest(self, run: str) -> Mapping[str, float]:
        """Returns the latest values on the page of the run."""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Carries a request out: the status and the JSON of its answer."""


@dataclass
class MlflowFront:
    """Listens for what Costguard sends to MLflow. `backend` carries it out.

    `trouble` is a status that every request gets instead of an answer. `loses_answers`: requests are carried out, and
    their connections closed. `most_written`: so many metrics of a batch are written before it fails. `then` is called
    after each request was carried out, before its answer is sent.
    """

    backend: Mlflow
    url: str = ""
    paths: list[str] = field(default_factory=list)
    authorization: list[str] = field(default_factory=list)
    trouble: int | None = None
    loses_answers: bool = False
    most_written: int | None = None
    location: str = ""  # where an answer sends its reader
    then: Callable[[str], object] = lambda _path: None

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if self.trouble is not None:
            return self.trouble, {"error_code": "TEMPORARILY_UNAVAILABLE", "message": "try later"}
        if self.most_written is not None and path.endswith("runs/log-batch"):
            batch = json.loads(body)
            batch["metrics"] = batch["metrics"][: self.most_written]
            self.backend.answer(method, path, json.dumps(batch).encode())
            return 500, {"error_code": "INTERNAL_ERROR", "message": "the disk is full"}
        return self.backend.answer(method, path, body)

    @contextmanager
    def listening(self) -> Iterator[MlflowFront]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.paths.append(urlsplit(self.path).path.removeprefix(_API))
                outer.authorization.append(self.headers.get("authorization", ""))
                status, answer = outer._answer(self.command, self.path, body)
                outer.then(outer.paths[-1])
                if outer.loses_answers:
                    self.close_connection = True
                    return
                content = json.dumps(answer).encode()
                self.send_response_only(status)
                self.send_header("Content-Type", "application/json")
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


@dataclass
class StandInMlflow:
    """Keeps what is logged twice twice."""

    logged: dict[str, list[Logged]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def create_run(self) -> str:
        run = f"{len(self.logged) + 1:032x}"
        self.logged[run] = []
        return run

    def delete_run(self, run: str) -> None:
        self.deleted.add(run)

    def restore_run(self, run: str) -> None:
        self.deleted.discard(run)

    def history(self, run: str, key: str) -> list[Logged]:
        metrics = [one for one in self.logged[run] if one.key == key]
        return sorted(metrics, key=lambda one: (one.timestamp, one.step, one.value))

    def latest(self, run: str) -> dict[str, float]:
        newest: dict[str, Logged] = {}
        for one in self.logged[run]:
            other = newest.get(one.key)
            if other is None or (one.step, one.timestamp, one.value) > (other.step, other.timestamp, other.value):
                newest[one.key] = one
        return {key: one.value for key, one in newest.items()}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        try:
            match method, parts.path.removeprefix(_API):
                case "POST", "runs/log-batch":
                    return 200, self._log_batch(json.loads(body), len(body))
                case "GET", "metrics/get-history":
                    return 200, self._get_history(dict(parse_qsl(parts.query)))
            raise _Refused(404, "ENDPOINT_NOT_FOUND", f"No such endpoint: {parts.path}")
        except _Refused as refused:
            return refused.status, {"error_code": refused.code, "message": str(refused)}

    def _run(self, run: str) -> list[Logged]:
        if run not in self.logged:
            raise _Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Run with id={run} not found")
        return self.logged[run]

    def _log_batch(self, request: dict[str, Any], size: int) -> dict[str, Any]:
        metrics = request.get("metrics", [])
        if len(metrics) > _MOST_METRICS or size > _MOST_BYTES:
            raise _Refused(400, "INVALID_PARAMETER_VALUE", "A batch logging request can contain at most 1000 metrics.")
        run = self._run(request["run_id"])
        if request["run_id"] in self.deleted:
            message = f"The run {request['run_id']} must be in the 'active' state. Current state is deleted."
            raise _Refused(400, "INVALID_PARAMETER_VALUE", message)
        for one in metrics:
            assert {type(one["value"]), type(one["timestamp"]), type(one["step"])} <= {float, int}
            run.append(Logged(one["key"], one["value"], one["timestamp"], one["step"]))
        return {}

    def _get_history(self, query: dict[str, str]) -> dict[str, Any]:
        is_there = query["run_id"] in self.logged  # of a run that there is not, MLflow says the same as of an empty one
        history = self.history(query["run_id"], query["metric_key"]) if is_there else []
        begin, most = int(query.get("page_token", 0)), int(query.get("max_results", len(history) + 1))
        page = [vars(one) for one in history[begin : begin + most]]
        answer: dict[str, Any] = {"metrics": page} if page else {}  # protobuf leaves out what is empty
        return answer | ({"next_page_token": str(begin + most)} if len(history) > begin + most else {})


class RealMlflow:
    """The server of `make trackers`."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.Client(base_url=url, timeout=60, trust_env=False)

    def create_run(self) -> str:
        body = {"experiment_id": "0", "start_time": 1}
        run: str = self._posted("runs/create", body)["run"]["info"]["run_id"]
        return run

    def delete_run(self, run: str) -> None:
        self._posted("runs/delete", {"run_id": run})

    def restore_run(self, run: str) -> None:
        self._posted("runs/restore", {"run_id": run})

    def history(self, run: str, key: str) -> list[Logged]:
        query = {"run_id": run, "metric_key": key}
        answer = self._client.get(f"{_API}metrics/get-history", params=query).raise_for_status().json()
        return [Logged(one["key"], one["value"], one["timestamp"], one["step"]) for one in answer.get("metrics", ())]

    def latest(self, run: str) -> dict[str, float]:
        answer = self._client.get(f"{_API}runs/get", params={"run_id": run}).raise_for_status().json()
        return {one["key"]: one["value"] for one in answer["run"]["data"].get("metrics", ())}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        headers = {"content-type": "application/json"} if body else {}
        response = self._client.request(method, path, content=body, headers=headers)
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return response.status_code, response.json() if is_json else {}

    def close(self) -> None:
        self._client.close()

    def _posted(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.post(f"{_API}{path}", json=dict(body)).raise_for_status().json()
        return answer


@contextmanager
def real_server(python: Path, folder: Path) -> Iterator[str]:
    """The address of a server with a new SQLite database, from an environment that has MLflow."""
    port = free_port()
    options = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
    command = [str(python), "-m", "mlflow", "server", *options, "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    with (folder / "server.log").open("wb") as output:
        server = subprocess.Popen(
            [*command, "--workers", "1"], stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _answers(url), patience_s=300)
            yield url
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx2.HTTPError:
        return False
