"""Questions of people about their costs, to every tool that reads: answered to the cent over the real protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows, job_service
from tests.jobs.job_service import JobSetup
from tests.mcp.lab import ADA, VIC, make_lab, request_row
from tests.mcp.talking import answer_of, over_stdio, plain, talk
from tests.serving import serving

from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows
from costguard.jobs.rows import job_rows as jobs
from costguard.model.access import Role
from costguard.model.attempt import AgentState, AttemptState
from costguard.model.job import JobState
from costguard_client.mcp.reading import READING
from mcp import Client

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MIDNIGHT = NOW.replace(hour=0)
# By hand, from the rates that rows.RATES states: dollars an hour.
MACHINE = 4 * Decimal("0.03") + 15 * Decimal("0.004")
GPU = Decimal("0.35")
SPOT = 4 * Decimal("0.01") + 15 * Decimal("0.001") + Decimal("0.11")
DISK = 70 * Decimal("0.0412") / 721  # a calendar month in US Pacific time: November has 721 hours
OLD = MACHINE + GPU + DISK
CLOSED_DAY = Decimal("0.18") + Decimal("0.35")  # what rows.day is given below
STORAGE_DAY = Decimal("5.00")


@dataclass(frozen=True)
class Question:
    words: str
    tool: str
    figure: Callable[[Any], Any]
    right: Decimal | str | int | None  # Decimal: to the cent; anything else: exactly
    arguments: dict[str, Any] = field(default_factory=dict)


def _vm(name: str, figure: str) -> Callable[[Any], Any]:
    return lambda answer: next(vm[figure]["amount"] for vm in answer["instances"] if vm["name"] == name)


def _row(total: str = "total", **group: str) -> Callable[[Any], Any]:
    return lambda answer: next(row[total] for row in answer["rows"] if group.items() <= row["group"].items())


def _total(name: str = "total") -> Callable[[Any], Any]:
    return lambda answer: answer["total"][name]


def _value(value: str | None) -> Callable[[Any], Any]:
    return lambda answer: next(row["total"] for row in answer["rows"] if row["value"] == value)


def _spend(**arguments: Any) -> dict[str, Any]:
    return {"from_day": "2026-11-18", "to_day": "2026-11-20", **arguments}


JOB = "j7k2m9q4"
_LABEL = {"label": "experiment", "from_day": "2026-11-18"}
_CEILING = Decimal("12.345678901")  # as job_rows.SPEC has it
_TODAY = 12 * OLD + SPOT
_ALL = 2 * CLOSED_DAY + STORAGE_DAY + _TODAY
_ADA = 2 * CLOSED_DAY + 12 * OLD
_UNOWNED = STORAGE_DAY + SPOT
_TEN_HOURS = {"preset": "t4", "hours": 10}
JOB_SPOT, JOB_RATE = Decimal(job_service.SPOT), Decimal(job_service.ON_DEMAND)
QUESTIONS = (
    Question("What does the fleet cost an hour?", "fleet", lambda got: got["totals"]["rate_per_hour"], OLD + SPOT),
    Question("What does old cost an hour?", "fleet", _vm("old", "rate_per_hour"), OLD),
    Question("What does the Spot VM cost an hour?", "fleet", _vm("spot", "rate_per_hour"), SPOT),
    Question("What has old's run cost?", "fleet", _vm("old", "lifetime_cost"), 12 * (MACHINE + GPU)),
    Question("What has old cost with its disk?", "fleet", _vm("old", "total_cost"), 12 * OLD),
    Question("What has the Spot VM cost?", "fleet", _vm("spot", "total_cost"), SPOT),
    Question(
        "What does this VM cost?", "vm", lambda got: got["instance"]["total_cost"]["amount"], 12 * OLD, {"gce_id": "1"}
    ),
    Question("What is its rate?", "vm", lambda got: got["instance"]["rate_per_hour"]["amount"], OLD, {"gce_id": "1"}),
    Question("And the other VM?", "vm", lambda got: got["instance"]["total_cost"]["amount"], SPOT, {"gce_id": "2"}),
    Question(
        "Why was it warned, and what did it cost?",
        "explain_vm",
        lambda got: got["vm"]["total_cost"]["amount"],
        12 * OLD,
        {"gce_id": "1"},
    ),
    Question("What did we spend since Wednesday?", "spend", _total(), _ALL, _spend()),
    Question("How much of it was GPUs?", "spend", _total("gpu"), 2 * GPU + 12 * GPU + Decimal("0.11"), _spend()),
    Question(
        "How much was CPUs and memory?", "spend", _total("machine"), 14 * MACHINE + SPOT - Decimal("0.11"), _spend()
    ),
    Question("How much was storage?", "spend", _total("storage"), STORAGE_DAY + 12 * DISK, _spend()),
    Question("What did we spend on Wednesday?", "spend", _row(day="2026-11-18"), CLOSED_DAY, _spend(group_by=["day"])),
    Question("And on Thursday?", "spend", _row(day="2026-11-19"), CLOSED_DAY + STORAGE_DAY, _spend(group_by=["day"])),
    Question("And today?", "spend", _row(day="2026-11-20"), _TODAY, _spend(group_by=["day"])),
    Question("Today alone?", "spend", _total(), _TODAY, _spend(from_day="2026-11-20")),
    Question(
        "Thursday alone?",
        "spend",
        _total(),
        CLOSED_DAY + STORAGE_DAY,
        _spend(from_day="2026-11-19", to_day="2026-11-19"),
    ),
    Question("What did Ada spend?", "spend", _row(owner="ada@lab.example"), _ADA, _spend(group_by=["owner"])),
    Question("Ada alone?", "spend", _total(), _ADA, _spend(owner="ada@lab.example")),
    Question("What has no owner?", "spend", _row(owner=""), _UNOWNED, _spend(group_by=["owner"])),
    Question("Unowned VMs of preset t4?", "spend", _total(), SPOT, _spend(owner="", preset="t4")),
    Question("What did preset t4 cost?", "spend", _row(preset="t4"), _ALL - STORAGE_DAY, _spend(group_by=["preset"])),
    Question("What matched no preset?", "spend", _row(preset="other"), STORAGE_DAY, _spend(group_by=["preset"])),
    Question("What did project lab cost?", "spend", _row(project="lab"), _ALL, _spend(group_by=["project"])),
    Question("A project we do not have?", "spend", _total(), Decimal(0), _spend(project="none")),
    Question(
        "How much was Spot?", "spend", _row(provisioning_model="spot"), SPOT, _spend(group_by=["provisioning_model"])
    ),
    Question("What has the month's budget spent?", "forecast", lambda got: got["spent"], _ALL, {"period": "month"}),
    Question("And Ada's this month?", "forecast", lambda got: got["spent"], _ADA, {"owner": "ada@lab.example"}),
    Question("And experiment a's?", "forecast", lambda got: got["spent"], SPOT, {"label": "experiment:a"}),
    Question("What did experiment a cost?", "spend_by_label", _value("a"), SPOT, _LABEL),
    Question("What had no experiment?", "spend_by_label", _value(None), 12 * OLD, _LABEL),
    Question("Experiment a alone?", "spend", _total(), SPOT, _spend(label="experiment:a")),
    Question(
        "What did Spot save?",
        "savings",
        lambda got: got["spot"]["saved"],
        MACHINE + GPU - SPOT,
        {"from_day": "2026-11-18"},
    ),
    Question("How much of the budget is spent?", "budgets", lambda got: got["budgets"][0]["spent"], _ALL),
    Question("What has the training job cost?", "jobs", lambda got: got["jobs"][0]["cost"]["amount"], SPOT),
    Question("Why that much?", "explain_job", lambda got: got["job"]["cost"]["amount"], SPOT, {"job_id": JOB}),
    Question("What may it cost at most?", "explain_job", lambda got: got["job"]["ceiling"], _CEILING, {"job_id": JOB}),
    Question(
        "How much of it is not saved yet?",
        "goodput",
        lambda got: got["total"]["cost_by_use"]["unsaved"],
        SPOT,
        {"from_day": "2026-11-18", "job": JOB},
    ),
    Question("What did it print last?", "job_output", lambda got: got["output"], "loss 0.25\n", {"job_id": JOB}),
    Question("What bounds its pace?", "diagnosis", lambda got: got["held"], None, {"job_id": JOB}),
    Question("What was stopped, and saved?", "events", lambda got: got["events"][-1]["text"], "It saved $12.34."),
    Question(
        "Was my request carried out?", "request_status", lambda got: got["request"]["status"], "done", {"request_id": 1}
    ),
    Question("For how long may a t4 run?", "presets", lambda got: got["presets"][0]["limit_seconds"], 8 * 3600),
    Question("Who am I to you?", "whoami", lambda got: got["role"], "viewer"),
    Question("Ten hours on a T4?", "quote", lambda got: got["first"]["cost"], 10 * JOB_SPOT, _TEN_HOURS),
    Question(
        "An hour of it on demand?", "quote", lambda got: got["places"][0]["on_demand"]["total"], JOB_RATE, _TEN_HOURS
    ),
    Question("Does the bill agree?", "explain_bill", lambda got: got["accuracy"], None, {"from_day": "2026-11-18"}),
)


def _fill(database: Database) -> None:
    with database.write() as connection:
        rows.prices(connection)
        for back in (1, 2):
            day = (NOW - back * DAY).date()
            rows.day(connection, day, machine_nanos=180_000_000, gpu_nanos=350_000_000, seconds=3600)
        rows.day(connection, (NOW - DAY).date(), owner="", preset="other", storage_nanos=5_000_000_000)
        vm = rows.instance(connection, "old", gce_id="1")
        rows.lifetime(connection, vm, MIDNIGHT)
        rows.storage(connection, vm, MIDNIGHT)
        labels = {"experiment": "a"}
        spot = rows.instance(
            connection, "spot", gce_id="2", provisioning_model="spot", owner="", job=JOB, labels=labels
        )
        rows.lifetime(connection, spot, NOW - HOUR, provisioning_model="spot", owner="", job=JOB)
        job_rows.added(connection, JOB, created_at=NOW - 3 * HOUR)
        attempt = job_rows.attempt(connection, JOB, state=AttemptState.RUNNING, gce_id="2", made_at=NOW - HOUR)
        said = AgentState(NOW, 1, started_at=NOW - HOUR, step=900, step_at=NOW, output="loss 0.25\n")
        agent_rows.hear(connection, attempt.id, said)
        jobs.set_state(connection, JOB, JobState.RUNNING, "It runs.", None, NOW)
        rows.event(connection, "stop", NOW - DAY, text="It saved $12.34.")
        request_row(connection, vm, status="done")


@pytest.fixture
def answers(sqlite_database: Database) -> dict[str, Any]:
    """Every question asked of `costguard mcp` by a viewer's token; quotes by an operator's, who may launch jobs."""
    _fill(sqlite_database)
    lab = make_lab(sqlite_database, JobSetup(sqlite_database).it)

    async def ask_all(client: Client, questions: Sequence[Question]) -> dict[str, Any]:
        answers = {}
        for question in questions:
            needs_project = question.tool in {"vm", "explain_vm"}
            arguments = {"project": "lab", **question.arguments} if needs_project else question.arguments
            answers[question.words] = await client.call_tool(question.tool, arguments)
        return answers

    with serving(lab.app) as site:
        results: dict[str, Any] = {}
        for role, address in ((Role.VIEWER, VIC), (Role.OPERATOR, ADA)):
            questions = [one for one in QUESTIONS if (one.tool == "quote") is (role is Role.OPERATOR)]
            results |= talk(over_stdio(site, lab.token(role, address)), partial(ask_all, questions=questions))
    lab.authenticator.close()
    return results


def test_every_tool_that_reads_is_asked() -> None:
    """The last one is asked too."""
    assert {question.tool for question in QUESTIONS} == {tool.__name__ for tool in READING}


def test_questions_are_answered_to_the_cent(answers: dict[str, Any]) -> None:
    """The figures are computed by hand from the rates, not by the product."""
    assert len(QUESTIONS) == len({question.words for question in QUESTIONS}) == 49
    wrong = []
    for question in QUESTIONS:
        result = answers[question.words]
        assert not result.is_error, (question.words, result)
        shown = question.figure(plain(answer_of(result)))
        right = question.right
        if abs(Decimal(shown) - right) >= Decimal("0.005") if isinstance(right, Decimal) else shown != right:
            wrong.append((question.words, shown, right))
    assert wrong == []
