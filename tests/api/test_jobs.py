"""Jobs are asked for over REST in bodies of any make, quoted, and cancelled."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.authenticators import ADMIT_ALL, keyed
from tests.jobs import job_rows
from tests.jobs.job_service import B200, RULES, T4, JobSetup, Store, priced

from costguard.access.rules import Access
from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.job_rows import JobFilters
from costguard.model.job import JobState
from costguard.model.price import is_address

BODY = {"preset": "t4", "owner": "ada@lab.example", "command": ["python", "train.py"]}
SECRET = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"  # of no account


@dataclass
class Api:
    """An API that lets everybody in, or who knows the token, with the job service behind it."""

    office: JobSetup
    token: str | None = None
    base: str = "http://127.0.0.1:8765"
    headers: dict[str, str] = field(default_factory=dict)
    _made: dict[object, TestClient] = field(default_factory=dict)

    @property
    def client(self) -> TestClient:
        office = self.office
        key = (self.token, self.base, *self.headers, id(office.rules), id(office.store))
        if key not in self._made:
            authenticator = ADMIT_ALL if self.token is None else keyed(self.token)
            deps = replace(deps_of(office.database), rules=office.rules, jobs=office.it, authenticator=authenticator)
            self._made[key] = TestClient(create_app(deps), self.base, headers=self.headers)
        return self._made[key]

    def post(self, path: str, body: Any, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(f"/api/v1/{path}", json=body, headers=named)

    @property
    def stored(self) -> int:
        with self.office.database.read() as connection:
            return len(jobs.page(connection, JobFilters(), None, 100))


@pytest.fixture
def api(sqlite_database: Database) -> Api:
    return Api(JobSetup(priced(sqlite_database)))


def test_a_job_is_launched(api: Api) -> None:
    """201 with where it is to be seen, and all about it."""
    whole = {
        **BODY,
        "kind": "training",
        "project": "lab",
        "name": "resnet",
        "image": "ghcr.io/lab/train:v1",
        "environment": {"EPOCHS": "3"},
        "secrets": {"WANDB_API_KEY": "projects/lab/secrets/wandb"},
        "workdir": "/work",
        "mounts": ["/var/data:/data:ro"],
        "checkpoint": {
            "location": "gs://lab/run",
            "resume": "--from {checkpoint}",
            "framework": "hugging-face",
            "uploads_itself": True,
        },
        "step_pattern": "it (\\d+)",
        "ceiling": "12.50",
        "deadline": "2026-11-21T08:00:00+01:00",
        "work_hours": 1.5,
        "max_preemptions": 7,
        "max_crashes": 0,
        "overrides": {"zones": ["us-central1-f"], "buy": "demand"},
    }
    answer = api.post("jobs", whole, Costguard_Client="cli")
    assert (answer.status_code, answer.headers["location"]) == (201, "/api/v1/jobs/j1")
    response = answer.json()
    job, spec, recipe = response["job"], response["spec"], response["recipe"]
    assert (job["id"], job["title"], job["state"], job["via"], job["owner"]) == (
        "j1",
        "resnet",
        "queued",
        "cli",
        "ada@lab.example",
    )
    assert (job["ceiling"], job["deadline"], job["command"]) == ("12.50", "2026-11-21T07:00:00Z", BODY["command"])
    assert job["cost"] == {"amount": "0.00", "currency": "USD", "complete": True}
    assert (job["place"], job["attempts"], response["ssh_command"], response["work_at_risk"]) == (None, 0, None, None)
    for same in ("environment", "secrets", "workdir", "mounts", "step_pattern", "max_preemptions", "max_crashes"):
        assert spec[same] == whole[same]
    assert (spec["work_seconds"], spec["checkpoint"]["framework"]) == (5400, "hugging-face")
    assert (recipe["zones"], recipe["provisioning_model"], recipe["max_run_seconds"]) == (
        ["us-central1-f"],
        "standard",
        86400,
    )
    assert response["next"].startswith("Its next VM will resume from the newest complete checkpoint at gs://lab/run")
    assert api.client.get("/api/v1/jobs/j1").json() == response


def test_a_development_vm_is_launched(api: Api) -> None:
    """It needs nothing but a preset and an owner."""
    answer = api.post("jobs", {"kind": "dev", "preset": "t4", "owner": "ada@lab.example"})
    assert (answer.status_code, answer.json()["job"]["kind"]) == (201, "dev")
    assert answer.json()["next"] == "Its VM is not replaced once it is gone."


def test_a_key_makes_a_repeat_harmless(api: Api) -> None:
    """The same body answers 200 with the same job, written in any order; another body is a conflict."""
    first = api.post("jobs", BODY, Idempotency_Key="k1")
    again = api.post("jobs", dict(reversed(BODY.items())), Idempotency_Key="k1")
    other = api.post("jobs", {**BODY, "name": "other"}, Idempotency_Key="k1")
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert (again.json()["job"]["id"], api.stored) == (first.json()["job"]["id"], 1)
    assert "Use a new key" in other.json()["next"]
    assert other.headers["content-type"] == "application/problem+json"


def test_a_refusal_names_every_part_that_is_wrong(api: Api) -> None:
    """The problem has one sentence for each; nothing is stored, and no secret is repeated."""
    answer = api.post("jobs", {**BODY, "preset": "h100", "owner": "", "command": ["train", f"--key={SECRET}"]})
    response = answer.json()
    assert (answer.status_code, api.stored, SECRET in answer.text) == (422, 0, False)
    assert [error["where"] for error in response["errors"]] == ["body.preset", "body.owner", "body.command"]
    assert all(error["message"] in response["detail"] for error in response["errors"])
    assert response["next"] == "Nothing was launched."


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": None},
        {"presets": "t4"},
        {"kind": "batch"},
        {"command": "python train.py"},
        {"command": [1]},
        {"environment": {"A": 1}},
        {"ceiling": 12.5},
        {"ceiling": "-1"},
        {"ceiling": "1e3"},
        {"ceiling": "1.0000000001"},
        {"deadline": 1_800_000_000},
        {"deadline": "1800000000"},
        {"deadline": "2026-11-22"},
        {"deadline": "2026-11-22T08:00:00"},
        {"work_hours": "2"},
        {"work_hours": 0},
        {"work_hours": True},
        {"max_crashes": -1},
        {"max_crashes": 1.0},
        {"max_preemptions": "3"},
        {"checkpoint": {"place": "gs://lab/run"}},
        {"checkpoint": {"location": "gs://lab/run", "framework": "jax"}},
        {"overrides": {"buy": "no"}},
        {"overrides": {"disk_gib": "100"}},
        {"overrides": {"disk": 100}},
        {"name": "x" * 1_001},
    ],
)
def test_bodies_are_strict(api: Api, wrong: dict[str, Any]) -> None:
    """A misspelt field, or one of another kind, is refused and never guessed at."""
    answer = api.post("jobs", {**BODY, **wrong})
    assert (answer.status_code, api.stored) == (422, 0)
    assert answer.json()["errors"][0]["where"].startswith("body.")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"preset": NaN}', '{"preset": "t4", "work_hours": NaN}'])
def test_what_is_no_body_is_refused(api: Api, text: str) -> None:
    """A body that is not a JSON object, or has a number that is none, is refused."""
    answer = api.client.post("/api/v1/jobs", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


@pytest.mark.parametrize("key", ["", "a b", "x" * 201])
def test_keys_are_short_and_plain(api: Api, key: str) -> None:
    """Other keys are refused, before anything is stored."""
    assert (api.post("jobs", BODY, Idempotency_Key=key).status_code, api.stored) == (422, 0)


def test_pages_of_others_launch_nothing(api: Api) -> None:
    """A browser sends forms and texts anywhere, and no token; both are refused."""
    text = json.dumps(BODY)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert api.client.post("/api/v1/jobs", content=text, headers={"Content-Type": kind}).status_code == 415
    api.token = "s3cret"
    assert api.post("jobs", BODY).status_code == 401
    assert api.stored == 0
    assert api.post("jobs", BODY, Authorization="Bearer s3cret").status_code == 201


def test_a_server_that_takes_no_jobs_says_so(api: Api) -> None:
    """The pages of jobs still answer."""
    client = TestClient(create_app(deps_of(api.office.database)), "http://localhost")
    answer = client.post("/api/v1/jobs", json=BODY)
    assert (answer.status_code, "costguard serve" in answer.json()["next"]) == (503, True)
    assert client.get("/api/v1/jobs").json()["jobs"] == []


def test_a_quote_says_whether_deadline_and_ceiling_can_be_met(api: Api) -> None:
    """The answer has typed fields with the figures; certain problems stand among the refusals too, and refuse a
    launch.
    """
    request = {"preset": "t4", "hours": 10, "work_hours": 10, "owner": "ada@lab.example", "command": ["train"]}
    limits = {"deadline": "2026-11-20T20:00:00Z", "ceiling": "1.50"}
    quoted = api.post("quotes", {**request, **limits}).json()
    ahead = quoted["outlook"]
    assert (ahead["meets_deadline"], ahead["within_ceiling"]) == ("no", "no")
    assert (ahead["ends_at"], ahead["deadline"], ahead["ceiling"]) == (
        "2026-11-20T22:20:00Z",
        "2026-11-20T20:00:00Z",
        "1.50",
    )
    assert ahead["least"]["cost"] == "1.715"
    assert [refusal["where"] for refusal in quoted["refusals"]] == ["deadline", "ceiling"]
    launched = api.post("jobs", {name: value for name, value in {**request, **limits}.items() if name != "hours"})
    assert launched.status_code == 422
    assert [error["where"] for error in launched.json()["errors"]] == ["body.deadline", "body.ceiling"]
    assert api.stored == 0


def test_a_launch_says_what_is_likely_to_fail(api: Api) -> None:
    """It is taken in, and its first answer warns with the figures."""
    request = {"preset": "t4", "work_hours": 10, "owner": "ada@lab.example", "command": ["train"]}
    job = api.post("jobs", {**request, "deadline": "2026-11-20T22:40:00Z"}).json()["job"]
    assert "Its deadline of Fri 20 Nov 22:40 UTC leaves 20 min to wait for Spot" in job["reason"]
    assert "Allow the fallback to on-demand." in job["reason"]


def test_a_quote_shows_prices_and_what_would_be_refused(api: Api) -> None:
    """Nothing is stored; neither owner nor command is needed for a price."""
    answer = api.post("quotes", {"preset": "t4", "hours": 10})
    quote = answer.json()
    assert (answer.status_code, api.stored, quote["refusals"], quote["hours"]) == (200, 0, [], "10")
    assert (quote["project"], quote["machine"]["machine_type"], quote["machine"]["gpu_count"]) == (
        "lab",
        "n1-standard-4",
        1,
    )
    place = quote["places"][0]
    parts = {"machine": "0.055", "gpu": "0.11", "disk": "0.004", "address": "0.0025"}
    assert place["spot"] == {**parts, "total": "0.1715", "unpriced": ""}
    assert (place["on_demand"]["address"], place["on_demand"]["total"]) == ("0.005", "0.539")
    assert (place["zone"], place["note"]) == ("us-central1-a", "")
    assert quote["first"] == quote["cheapest"]
    assert quote["first"] == {
        "zone": "us-central1-a",
        "provisioning_model": "spot",
        "rate_per_hour": "0.1715",
        "cost": "1.715",
    }
    assert (quote["saving_percent"], quote["warnings"]) == (68, [])
    refused = api.post("quotes", {"preset": "h100", "owner": "ada"}).json()
    assert (refused["machine"], refused["places"], refused["first"]) == (None, [], None)
    assert [refusal["where"] for refusal in refused["refusals"]] == ["preset", "owner"]


def test_a_quote_without_the_price_of_an_address_names_it(sqlite_database: Database) -> None:
    """An address whose price is not known costs something: the whole has no price then, and is not less."""
    with sqlite_database.write() as connection:
        rows.prices(connection, {key: rate for key, rate in rows.RATES.items() if not is_address(key[0])})
        rows.project(connection, "lab")
    quote = Api(JobSetup(sqlite_database)).post("quotes", {"preset": "t4"}).json()
    spot = quote["places"][0]["spot"]
    assert (spot["disk"], spot["address"], spot["total"]) == ("0.004", None, None)
    assert spot["unpriced"] == "its external address"
    assert quote["first"]["rate_per_hour"] is None


def test_a_preset_without_addresses_is_quoted_without_them(api: Api) -> None:
    """An address that a VM does not have costs nothing; that is not the same as unknown."""
    bare = replace(RULES.presets["t4"], launch=replace(T4, external_address=False))
    api.office.rules = replace(RULES, presets={"t4": bare})
    spot = api.post("quotes", {"preset": "t4"}).json()["places"][0]["spot"]
    assert (spot["address"], spot["total"], spot["unpriced"]) == ("0.00", "0.169", "")


def test_a_cancel_may_wait_for_the_next_checkpoint(api: Api) -> None:
    """Stored once, in the requester's name; a job that saves nothing is refused, with what to do instead."""
    api.office.rules = replace(RULES, access=Access(operators=frozenset({"ada@lab.example"})))
    api.office.store = Store()
    api.post("jobs", {**BODY, "checkpoint": {"location": "gs://lab/run", "uploads_itself": True}})
    wish = {"by": "ada@lab.example", "after_checkpoint": True}
    assert api.post("jobs/j1/cancel", {**wish, "by": "eve@lab.example"}).status_code == 403
    first, again = api.post("jobs/j1/cancel", wish), api.post("jobs/j1/cancel", wish)
    assert (first.status_code, again.status_code) == (202, 200)
    job = first.json()["job"]
    assert (job["cancel_after_by"], job["cancel_after_at"]) == ("ada@lab.example", "2026-11-20T12:00:00Z")
    assert job["cancel_asked_at"] is None
    assert api.post("jobs/j1/never-mind", {"by": "eve@lab.example"}).status_code == 403
    undone = api.post("jobs/j1/never-mind", {"by": "ada@lab.example"}).json()["job"]
    assert (undone["cancel_after_at"], undone["never_mind_by"]) == (None, "ada@lab.example")
    assert api.post("jobs/j1/never-mind", {"by": "ada@lab.example"}).status_code == 200
    events = api.client.get("/api/v1/events", params={"kind": "HintSilenced"}).json()["events"]
    assert ["It is not cancelled after its next checkpoint." in event["text"] for event in events] == [True]
    api.post("jobs/j1/cancel", {"by": "ada@lab.example"})
    assert api.post("jobs/j1/never-mind", {"by": "ada@lab.example"}).status_code == 409
    api.post("jobs", {**BODY, "checkpoint": None})
    refused = api.post("jobs/j2/cancel", wish)
    assert refused.status_code == 409
    assert "saves no checkpoints" in refused.json()["detail"]
    assert "costguard cancel j2" in refused.text


def test_a_job_is_cancelled_once(api: Api) -> None:
    """202 first, 200 for a repeat; 403 for others, 404 for what is not there, 409 once it is over."""
    api.office.rules = replace(RULES, access=Access(operators=frozenset({"ada@lab.example"})))
    api.post("jobs", BODY)
    ada, eve = {"by": "ada@lab.example", "reason": "wrong data"}, {"by": "eve@lab.example"}
    assert api.post("jobs/j1/cancel", eve).status_code == 403
    assert api.post("jobs/j9/cancel", ada).status_code == 404
    for wrong in ({"by": "ada@lab.example", "why": ""}, {"by": ""}, {"by": "ada"}, {}):
        assert api.post("jobs/j1/cancel", wrong).status_code == 422
    first, again = api.post("jobs/j1/cancel", ada), api.post("jobs/j1/cancel", ada)
    assert (first.status_code, again.status_code) == (202, 200)
    job = first.json()["job"]
    assert (job["cancel_asked_by"], job["cancel_asked_at"]) == ("ada@lab.example", "2026-11-20T12:00:00Z")
    assert job["reason"].startswith("ada@lab.example cancels it: wrong data;")
    with api.office.database.write() as connection:
        job_rows.added(connection, "j-over")
        jobs.set_state(connection, "j-over", JobState.SUCCEEDED, "It ended.", None, NOW)
    over = api.post("jobs/j-over/cancel", ada)
    assert (over.status_code, "it succeeded" in over.json()["detail"]) == (409, True)


def test_the_checkpoints_store_is_asked_once_for_a_job(api: Api) -> None:
    """The store is not asked at all for a repeat under its key."""
    api.office.store = Store()
    body = {**BODY, "checkpoint": {"location": "gs://lab/run", "uploads_itself": True}}
    for _ in range(2):
        api.post("jobs", body, Idempotency_Key="k")
    assert api.office.store.looked_at == ["gs://lab/run"]


@pytest.mark.parametrize("path", ["jobs", "quotes"])
def test_a_machine_that_google_does_not_sell_so_is_refused_in_words(api: Api, path: str) -> None:
    """Launch and quote name the override and say what to do; nothing is stored."""
    api.office.rules = replace(
        RULES, presets={"t4": replace(RULES.presets["t4"], launch=B200, may_override=("on_demand_fallback",))}
    )
    answer = api.post(path, {**BODY, "overrides": {"on_demand_fallback": True}}).json()
    (refusal,) = answer["errors"] if path == "jobs" else answer["refusals"]
    assert refusal["where"].removeprefix("body.") == "overrides.on_demand_fallback"
    assert "not on demand: turn on_demand_fallback off" in refusal["message"]
    assert api.stored == 0
