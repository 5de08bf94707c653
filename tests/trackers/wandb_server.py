"""A stand-in for W&B: the two GraphQL requests by which its public client reads a run and writes its summary.

They are those of wandb 0.31: `Run.load` in wandb/apis/public/runs.py and `HTTPSummary._write` in
wandb/apis/public/summary.py. `make trackers` lets that client itself read from it what Costguard wrote.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "4" * 40


@dataclass
class StandInWandb:
    """`runs` holds the summary of each run as JSON, by ENTITY/PROJECT/RUN. Any key but KEY is refused."""

    url: str = ""
    runs: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def summary(self, run: str) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads(self.runs[run])
        return summary

    def _answer(self, authorization: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if b64decode(authorization.removeprefix("Basic ")).decode() != f"api:{KEY}":
            return 401, {"errors": [{"message": "user is not logged in"}]}
        query, given = request["query"], request.get("variables") or {}
        if "upsertBucket(" in query:
            self.requests.append("change")
            self.runs[given["id"]] = given["summaryMetrics"]
            return 200, {"data": {"upsertBucket": {"bucket": {"id": given["id"]}}}}
        if "run(name:" in query:
            self.requests.append("read")
            run = f"{given['entity']}/{given['project']}/{given['name']}"
            there = None if run not in self.runs else self._run(run, given["name"])
            return 200, {"data": {"project": {"run": there}}}
        return 200, {"data": {"viewer": {"id": "1", "username": "ana", "entity": "lab", "flags": "{}", "teams": None}}}

    def _run(self, run: str, name: str) -> dict[str, Any]:
        """Returns what the client's fragment of a run asks for. The summary is text."""
        user = {"name": "ana", "username": "ana"}
        texts = {"config": "{}", "systemMetrics": "{}", "summaryMetrics": self.runs[run], "state": "running"}
        return {"id": run, "projectId": "1", "name": name, "displayName": name, "tags": [], "user": user, **texts}

    @contextmanager
    def listening(self) -> Iterator[StandInWandb]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                is_there = self.path == "/graphql"
                status, answer = (
                    outer._answer(self.headers["authorization"], json.loads(body)) if is_there else (404, {})
                )
                content = json.dumps(answer).encode()
                self.send_response_only(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

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
