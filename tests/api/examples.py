"""The examples in the OpenAPI document are answers that the API gave: `python -m tests.api.examples` asks it again."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi.testclient import TestClient
from tests.api import story
from tests.api.story import ADA, AGENTS, MASTER, Story
from tests.jobs import job_rows
from tests.jobs.archives import packed

import costguard.api
from costguard.db.migrate import upgrade
from costguard.db.transaction import Database
from costguard.model.access import Role

FILE = Path(costguard.api.__file__).with_name("examples.json")
_AT_MOST = 3  # of a list
TOKEN_ID = "5e1f0c2a9b"
JOB = {
    "preset": "t4",
    "name": "resnet",
    "image": "ghcr.io/lab/train:v1",
    "command": ["python", "train.py", "--epochs", "90"],
    "checkpoint": {
        "location": "gs://lab/resnet",
        "local": "/data/out",
        "resume": "--from_checkpoint {checkpoint}",
    },
    "mounts": ["/var/out:/data/out"],
    "secrets": {"WANDB_API_KEY": "projects/lab/secrets/wandb"},
    "ceiling": "60",
    "work_hours": 12,
}
SWEEP = {
    "name": "learning rate",
    "grid": {"lr": ["1e-4", "3e-4"], "seed": [1, 2]},
    "at_once": 2,
    "ceiling": "40",
    "halving": {"eta": 3, "metric": "val_loss"},
    "job": {
        "preset": "t4",
        "command": ["python", "train.py", "--lr", "{lr}", "--seed", "{seed}"],
        "checkpoint": {
            "location": "gs://lab/{sweep}/{member}",
            "local": "/data/out",
            "resume": "--from_checkpoint {checkpoint}",
        },
    },
}
SCHEDULE = {
    "name": "nightly",
    "every": "day",
    "at": "02:00",
    "time_zone": "Europe/Berlin",
    "job": {
        "preset": "t4",
        "command": ["python", "train.py", "--day", "{date}"],
        "checkpoint": {
            "location": "gs://lab/nightly/{date}",
            "local": "/data/out",
            "resume": "--from_checkpoint {checkpoint}",
        },
        "deadline_in_hours": 24,
        "work_hours": 2,
    },
}
ACT = {"reason": "done for today"}
VM = "/api/v1/instances/lab/4711"
# What each operation is asked, in this order: the method, the address, and what is sent.
ASKED: dict[str, tuple[str, str, Any]] = {
    "listInstances": ("GET", "/api/v1/instances?name=trainer-3", None),
    "getInstance": ("GET", VM, None),
    "getSetup": ("GET", "/api/v1/doctor", None),
    "adviseCommitments": ("GET", "/api/v1/commitments", None),
    "readCommitmentHours": ("GET", "/api/v1/commitments/hours?days=1", None),
    "listLifetimes": ("GET", "/api/v1/lifetimes", None),
    "keepInstance": ("POST", f"{VM}/keep", {"hours": 4, "reason": "one more epoch"}),
    "stopInstance": ("POST", f"{VM}/stop", {**ACT, "started_at": "2026-11-20T03:00:00Z"}),
    "disownInstance": ("POST", f"{VM}/disown", {"reason": "it is of the team"}),
    "claimInstance": ("POST", "/api/v1/instances/lab/4712/claim", {"reason": "I took it over"}),
    "getBill": ("GET", "/api/v1/bill?from=2026-11-14&to=2026-11-16", None),
    "listRequests": ("GET", "/api/v1/requests", None),
    "getRequest": ("GET", "/api/v1/requests/1", None),
    "listJobs": ("GET", "/api/v1/jobs?state=running", None),
    "getJob": ("GET", "/api/v1/jobs/j7k2m9q4", None),
    "getJobProgress": ("GET", "/api/v1/jobs/j7k2m9q4/progress", None),
    "compareAlike": ("GET", "/api/v1/jobs/j7k2m9q4/alike", None),
    "listAttempts": ("GET", "/api/v1/jobs/j7k2m9q4/attempts", None),
    "getDiagnosis": ("GET", "/api/v1/jobs/j7k2m9q4/diagnosis", None),
    "getOutput": ("GET", "/api/v1/jobs/j7k2m9q4/output", None),
    "quoteJob": ("POST", "/api/v1/quotes", {**JOB, "hours": 12}),
    "launchJob": ("POST", "/api/v1/jobs", JOB),
    "cancelJob": ("POST", "/api/v1/jobs/j1/cancel", {"reason": "wrong data"}),
    "neverMind": ("POST", "/api/v1/jobs/j7k2m9q4/never-mind", {}),
    "drillJob": ("POST", "/api/v1/jobs/j7k2m9q4/drill", {}),
    "deleteDisk": ("POST", "/api/v1/jobs/d5saved1/delete-disk", {}),
    "listSweeps": ("GET", "/api/v1/sweeps", None),
    "getSweep": ("GET", "/api/v1/sweeps/s7k2m9q4", None),
    "quoteSweep": ("POST", "/api/v1/sweep-quotes", {**SWEEP, "hours": 12}),
    "launchSweep": ("POST", "/api/v1/sweeps", SWEEP),
    "resumeSweep": ("POST", "/api/v1/sweeps/s7k2m9q4/resume", {"ceiling": "60"}),
    "keepSweepMembers": ("POST", "/api/v1/sweeps/s7k2m9q4/keep", {"members": [3]}),
    "cancelSweep": ("POST", "/api/v1/sweeps/s7k2m9q4/cancel", {"reason": "wrong data"}),
    "listSchedules": ("GET", "/api/v1/schedules", None),
    "getSchedule": ("GET", "/api/v1/schedules/c7k2m9q4", None),
    "quoteSchedule": ("POST", "/api/v1/schedule-quotes", {**SCHEDULE, "hours": 2}),
    "createSchedule": ("POST", "/api/v1/schedules", SCHEDULE),
    "pauseSchedule": ("POST", "/api/v1/schedules/c7k2m9q4/pause", {}),
    "resumeSchedule": ("POST", "/api/v1/schedules/c7k2m9q4/resume", {}),
    "runSchedule": ("POST", "/api/v1/schedules/c1/run", {}),
    "endSchedule": ("POST", "/api/v1/schedules/c7k2m9q4/end", {}),
    "listPlaces": ("GET", "/api/v1/places", None),
    "listTraces": ("GET", "/api/v1/traces?days=1&gap_seconds=3600", None),
    "getRecoveries": ("GET", "/api/v1/recoveries", None),
    "listEvents": ("GET", "/api/v1/events?kind=LifetimeStarted", None),
    "listPrices": ("GET", "/api/v1/prices", None),
    "getSpend": ("GET", "/api/v1/spend?group_by=day,preset", None),
    "getSpendByLabel": ("GET", "/api/v1/spend/labels/experiment", None),
    "listBudgets": ("GET", "/api/v1/budgets", None),
    "getForecast": ("GET", "/api/v1/forecast?owner=ada@lab.example", None),
    "listReminders": ("GET", "/api/v1/reminders", None),
    "previewReminders": ("GET", "/api/v1/reminders/preview", None),
    "listLoose": ("GET", "/api/v1/loose", None),
    "getSavings": ("GET", "/api/v1/savings", None),
    "getGoodput": ("GET", "/api/v1/goodput?group_by=preset,owner", None),
    "getEnforcement": ("GET", "/api/v1/enforcement", None),
    "getReport": ("GET", "/api/v1/report?days=7", None),
    "listPresets": ("GET", "/api/v1/presets", None),
    "listLimits": ("GET", "/api/v1/limits", None),
    "listProjects": ("GET", "/api/v1/projects", None),
    "getProblem": ("GET", "/problems/job-over", None),
    "getMe": ("GET", "/api/v1/me", None),
    "createToken": ("POST", "/api/v1/tokens", {"name": "nightly", "permissions": ["read", "jobs"], "days": 90}),
    "listTokens": ("GET", "/api/v1/tokens", None),
    "listSessions": ("GET", "/api/v1/sessions", None),
    "getLiveness": ("GET", "/healthz", None),
    "getReadiness": ("GET", "/readyz", None),
    "reportAgentEvents": (
        "POST",
        "/api/v1/attempts/cg-j7k2m9q4-3/events",
        {"events": [{"seq": 9, "kind": "heartbeat", "at": "2026-11-20T12:00:00Z"}]},
    ),
}


def made(story: Story) -> dict[str, Any]:
    """Returns requests and their answers, by operation and by status; long lists are cut."""
    client, shown = TestClient(story.app), {}
    mine = story.token(Role.OPERATOR, ADA)
    with story.office.database.write() as connection:
        job_rows.failed_on_disk(connection, "d5saved1", ADA)
    for operation, (method, address, body) in ASKED.items():
        token = AGENTS.of("cg-j7k2m9q4-3") if operation == "reportAgentEvents" else mine
        answer = client.request(method, address, json=body, headers=_bearer(token))
        assert answer.status_code < 300, (operation, answer.text)
        shown[operation] = {"body": body} if body is not None else {}
        shown[operation][str(answer.status_code)] = _shown(answer.json())
    content, sha256 = packed({"train.py": "print('step 1')"})
    archive = f"/api/v1/code/{sha256}"
    shown["putCode"] = {"200": client.put(archive, content=content, headers=_bearer(mine)).json()}
    shown["getCode"] = {"200": client.get(archive, headers=_bearer(mine)).json()}
    token = shown["createToken"]["201"]["token"]["id"]
    answer = client.post(f"/api/v1/tokens/{token}/confirm", json={}, headers=_bearer(MASTER))
    shown["confirmToken"] = {"200": answer.json()}
    answer = client.delete(f"/api/v1/tokens/{token}", headers=_bearer(MASTER))
    shown["revokeToken"] = {"200": answer.json()}
    for operation, address in (("endSession", "/0000000000000000"), ("endSessions", f"?address={ADA}")):
        shown[operation] = {"200": client.delete(f"/api/v1/sessions{address}", headers=_bearer(MASTER)).json()}
    shown["getReadiness"]["200"]["leases"][0]["expires_at"] = "2026-11-20T12:00:25Z"  # by the machine's clock
    shown["createToken"]["201"]["secret"] = f"cgt_{token}_..."
    return {operation: _renamed(answers, token, TOKEN_ID) for operation, answers in shown.items()}


def _renamed(value: Any, name: str, new_name: str) -> Any:
    """The route draws the id of a token, and the examples are to be the same each time."""
    if isinstance(value, dict):
        return {key: _renamed(item, name, new_name) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, name, new_name) for item in value]
    return value.replace(name, new_name) if isinstance(value, str) else value


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    return [_shown(item) for item in value[:_AT_MOST]] if isinstance(value, list) else value


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/story.db"
        upgrade(url)
        lab = story.make_story(Database.open(url))
        FILE.write_text(json.dumps(made(lab), indent=1, ensure_ascii=False) + "\n")
        lab.authenticator.close()
