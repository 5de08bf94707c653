"""Secrets that the whole product is given are nowhere but where they have to be.

A real `costguard serve` on PostgreSQL, with a simulated cloud whose VMs run as processes and a simulated Slack, leads a
short life with all that can go wrong in it. Then everything that it wrote anywhere is searched for each secret.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from sqlalchemy import make_url, select
from tests.gce.server import Answer, Asked, serving
from tests.main.two_processes import PROJECT, TOKEN, ZONE, Served, served
from tests.ports import free_port
from tests.sandbox.guest.served_vms import processes_of
from tests.scenario.fleet import body
from tests.waiting import until

from costguard.access import signing
from costguard.clock import SystemClock
from costguard.db.tables import metadata
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import KEY_NAME, AgentTokens
from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.guest.local import LocalGuestSettings
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET
from costguard_sandbox.world import World

WEBHOOK = base64.b64encode(b"planted-webhook-secret-0123456789").decode()
# Of the guard's environment. The VMs' processes may see none of them.
OF_GUARD = {
    "the master token": TOKEN,
    "the database's password": "planted-database-password",
    "Slack's bot token": BOT_TOKEN,
    "Slack's signing secret": SIGNING_SECRET,
    "Slack's app token": APP_TOKEN,
    "a webhook's secret": WEBHOOK,
    "the OIDC client's secret": "planted-oidc-secret",
    "the S3 key's id": "AKIAPLANTEDKEYID0001",
    "the S3 secret key": "planted-s3-secret-key",
    "the S3 session": "planted-s3-session",
}
WRONG_TOKEN, WRONG_AGENT = "planted-token-of-nobody", "planted-agent-token-of-nobody"
VARIABLE = "planted-value-of-a-variable"  # of a job's environment: on its VM, and for those who may read jobs

_POLL_S = 0.3  # a token may ask so often and no more

_MORE = """
[slack]
channel = "#gpus"
endpoint = "{cloud}/slack/api"
[webhooks.audit]
url = "{hook}/hook"
[sign_in]
url = "http://127.0.0.1:{port}"
oidc_issuer = "{hook}"
oidc_client_id = "costguard"
oidc_domain = "example.com"
[access]
admins = ["ana@example.com"]
[jobs]
guard_url = "http://127.0.0.1:{port}"
[presets.t4]
limit = "10m"
[presets.t4.launch]
zones = ["{zone}"]
[checkpoints]
s3_endpoint = "{hook}"
"""


@dataclass
class Life:
    """The texts that were written, by where: each is searched whole."""

    guard: Served
    world: World
    folder: Path
    secrets: dict[str, str]
    texts: dict[str, str] = field(default_factory=dict)
    job: str = ""

    def ask(self, method: str, path: str, given: Any = None, token: str = TOKEN, **headers: str) -> tuple[int, str]:
        data = None if given is None else given if isinstance(given, bytes) else json.dumps(given).encode()
        request = Request(self.guard.url + path, data, {"Content-Type": "application/json", **headers}, method=method)
        request.add_header("Authorization", f"Bearer {token}")
        try:
            with urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def noted(self, where: str, answer: tuple[int, str]) -> int:
        self.texts[where] = answer[1]
        return answer[0]


@contextmanager
def life(folder: Path, database_url: str) -> Iterator[Life]:
    """The guard, its cloud, its Slack, a receiver of webhooks that is also what S3 and OpenID Connect should be."""
    url = make_url(database_url).set(password=OF_GUARD["the database's password"])
    secrets = dict(OF_GUARD)
    posted: list[Asked] = []
    vms = LocalGuestSettings(folder / "vms", boot=timedelta(0), stop_grace=timedelta(seconds=2), docker="shim")
    clock = ScaledClock(SystemClock().now() - timedelta(hours=1))
    world = World(clock, projects=[PROJECT], local_guests=vms)
    world.slack.add_channel("gpus")
    world.slack.add_user("ana", email="ana@example.com")

    def receive(request: Asked) -> Answer:
        posted.append(request)
        return Answer(b"no such thing", 404)

    with serving(receive) as hook, running(world) as cloud, sampled() as processes:
        port = free_port()
        more = _MORE.format(cloud=cloud, hook=hook.url, port=port, zone=ZONE)
        environ: dict[str, Any] = {
            "COSTGUARD_DATABASE_URL": url.render_as_string(hide_password=False),
            "COSTGUARD_SLACK_TOKEN": BOT_TOKEN,
            "COSTGUARD_SLACK_SIGNING_SECRET": SIGNING_SECRET,
            "COSTGUARD_SLACK_APP_TOKEN": APP_TOKEN,
            "COSTGUARD_WEBHOOK_AUDIT_SECRET": f"whsec_{WEBHOOK}",
            "COSTGUARD_OIDC_CLIENT_SECRET": secrets["the OIDC client's secret"],
            "AWS_ACCESS_KEY_ID": secrets["the S3 key's id"],
            "AWS_SECRET_ACCESS_KEY": secrets["the S3 secret key"],
            "AWS_SESSION_TOKEN": secrets["the S3 session"],
        }
        with served(folder, cloud, port=port, every="10s", more=more, **environ) as guard:
            yield (made := Life(guard, world, folder, secrets))
        made.texts["the guard's log"] = guard.log.read_text()
        made.texts["webhooks' bodies"] = "\n".join(f"{one.path} {one.body}" for one in posted)
        made.texts["process lists"] = "\n".join(sorted(processes))
    assert processes_of(folder / "vms") == []


@contextmanager
def sampled() -> Iterator[set[str]]:
    """The command lines of all processes, as anyone on this computer may read them, until the block ends."""
    lines: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    lines.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
                except OSError:  # it has just ended
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()


def test_planted_secrets_are_found_nowhere(tmp_path: Path, postgres_url: str) -> None:
    """The secrets are not in logs, events, errors, problem documents, VMs' metadata, Slack, pages, process lists or the
    database.
    """
    with life(tmp_path, postgres_url) as lived:
        _work(lived)
        _go_wrong(lived)
        _read_everything(lived, postgres_url)
    seen = {
        (what, where)
        for what, secret in lived.secrets.items()
        for where, text in lived.texts.items()
        for form in (secret, base64.b64encode(secret.encode()).decode().rstrip("="))
        if form in text
    }
    assert sorted(seen - _BELONGS) == []
    assert seen == _BELONGS, "the search no longer sees a secret where it lies"
    with_variable = {where for where, text in lived.texts.items() if VARIABLE in text}
    allowed = {"the database", "metadata of VMs", f"/jobs/{lived.job}", f"/api/v1/jobs/{lived.job}", "/api/v1/jobs"}
    assert {"the database", "metadata of VMs"} <= with_variable <= allowed
    assert "costguard.main.web" in lived.texts["process lists"]
    assert all(lived.texts[where] for where in ("the guard's log", "webhooks' bodies", "logs of VMs"))


# What a VM is given for its own job, and the answer that shows a new token once.
_BELONGS = {
    ("the agent's token", "metadata of VMs"),
    ("a person's token", "the answer that made the token"),
}


def _work(lived: Life) -> None:
    """A VM that is forgotten, a job that runs to its end on a VM of its own, and a token for a person."""
    lived.world.insert(
        PROJECT, ZONE, body("forgotten", ZONE, "n1-standard-4", ("nvidia-tesla-t4", 1)), "ana@example.com"
    )
    status, made = lived.ask(
        "POST", "/api/v1/tokens", {"name": "nightly", "owner": "ana@example.com", "role": "operator"}
    )
    assert status == 201, made
    lived.texts["the answer that made the token"] = made
    lived.secrets["a person's token"] = json.loads(made)["secret"]
    command = [sys.executable, "-c", "import os; print('trains with', len(os.environ['SETTING']))"]
    lived.job = _launched(lived, command, environment={"SETTING": VARIABLE})
    until(lambda: bool(lived.world.slack.messages("#gpus")) or bool(_direct(lived)))


def _launched(lived: Life, command: list[str], **given: Any) -> str:
    """The id of a job that has ended well."""
    status, made = lived.ask(
        "POST", "/api/v1/jobs", {"preset": "t4", "owner": "ana@example.com", "command": command, **given}
    )
    assert status == 201, made
    job = str(json.loads(made)["job"]["id"])
    until(lambda: not threading.Event().wait(_POLL_S) and _job(lived, job)["job"]["state"] == "succeeded")
    return job


def _job(lived: Life, job: str) -> Any:
    return json.loads(lived.ask("GET", f"/api/v1/jobs/{job}")[1])


def _direct(lived: Life) -> list[Any]:
    return lived.world.slack.messages(lived.world.slack.direct("ana").id)


def _go_wrong(lived: Life) -> None:
    """Strangers, broken bodies, a bucket that refuses, a Slack that is down, then one that revokes the token."""
    name = _job(lived, lived.job)["attempts"][0]["name"]
    lived.noted("a stranger", lived.ask("GET", "/api/v1/jobs", token=WRONG_TOKEN))
    report = {"events": [{"seq": 1, "kind": "boot", "at": "2026-11-22T10:00:00Z", "secret": VARIABLE}]}
    lived.noted("a wrong agent", lived.ask("POST", f"/api/v1/attempts/{name}/events", report, token=WRONG_AGENT))
    lived.noted(
        "a broken body", lived.ask("POST", "/api/v1/jobs", b'{"environment": {"SETTING": "' + VARIABLE.encode())
    )
    wrong = {
        "preset": "t4",
        "owner": "ana@example.com",
        "command": 7,
        "environment": {"SETTING": VARIABLE, "X Y": VARIABLE},
    }
    assert lived.noted("a job that is refused", lived.ask("POST", "/api/v1/jobs", wrong)) == 422
    bucket = {"location": "s3://planted/run", "resume": "--from {checkpoint}"}
    job = {"preset": "t4", "owner": "ana@example.com", "command": ["true"], "checkpoint": bucket}
    lived.noted("a job in a bucket that refuses", lived.ask("POST", "/api/v1/jobs", job))
    signed = {"X-Slack-Signature": "v0=wrong", "X-Slack-Request-Timestamp": "1", "Content-Type": "text/plain"}
    lived.noted("a click that is not Slack's", lived.ask("POST", "/slack/interactions", b"payload=x", **signed))
    lived.noted("a sign-in", lived.ask("GET", "/sign-in/oidc?code=planted&state=planted"))
    lived.world.slack.tokens.invalidate()
    status, made = lived.ask("POST", "/api/v1/jobs", {"preset": "t4", "owner": "ana@example.com", "command": ["true"]})
    assert status == 201, made
    assert lived.ask("POST", f"/api/v1/jobs/{json.loads(made)['job']['id']}/cancel", {"by": "ana@example.com"})[0] < 300


def _read_everything(lived: Life, url: str) -> None:
    with closing(Database.open(url)) as database:
        name = _job(lived, lived.job)["attempts"][0]["name"]
        tokens = AgentTokens(signing.kept(database, KEY_NAME, SystemClock().now()))
        lived.secrets |= {"the agent's token": tokens.of(name), "another agent's token": WRONG_AGENT}
        lived.secrets["a stranger's token"] = WRONG_TOKEN
        with database.read() as connection:
            rows = [str(tuple(row)) for table in metadata.sorted_tables for row in connection.execute(select(table))]
        lived.texts["the database"] = "\n".join(rows)
    paths = json.loads(lived.ask("GET", "/openapi.json")[1])["paths"]
    public = [path for path, methods in paths.items() if "get" in methods and "{" not in path and "stream" not in path]
    pages = ["/", "/jobs", f"/jobs/{lived.job}", "/spend", "/savings", "/budgets", "/presets", "/prices", "/events"]
    pages += [
        "/health",
        "/access",
        "/launch",
        "/metrics",
        "/readyz",
        "/healthz",
        f"/api/v1/jobs/{lived.job}",
        "/sign-in",
    ]
    pages += [f"/api/v1/jobs/{lived.job}/attempts", f"/api/v1/jobs/{lived.job}/output", "/events.csv", "/events.json"]
    for path in [*public, *pages]:
        status = lived.noted(path, lived.ask("GET", path))
        assert status < 500, f"{path}: {status}"
    assert "JobSucceeded" in lived.texts["/api/v1/events"]
    shown: Mapping[str, Any] = {vm.name: vm.given.get("metadata") for vm in lived.world.every_vm()}
    lived.texts["metadata of VMs"] = json.dumps(shown)
    channels = [*lived.world.slack.messages("#gpus"), *_direct(lived)]
    lived.texts["Slack's messages"] = "\n".join(str(message) for message in channels)
    assert lived.texts["Slack's messages"]
    logs = [path for path in (lived.folder / "vms").rglob("*") if path.is_file() and path.suffix in (".log", ".json")]
    lived.texts["logs of VMs"] = "\n".join(path.read_text(errors="replace") for path in logs)
