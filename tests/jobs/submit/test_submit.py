"""Jobs are taken in once, or refused before anything is stored; cancelling is written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs.job_service import (
    B200,
    COMPLETE,
    ON_DEMAND,
    RULES,
    SPOT,
    T4,
    JobSetup,
    Store,
    WatchedDatabase,
    asked,
    priced,
)

from costguard.access.rules import Access, JobRules
from costguard.db.transaction import Database
from costguard.errors import CheckpointLocationRefused, Conflict, Forbidden, Invalid, Missing
from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.job_rows import JobFilters
from costguard.jobs.submit.submission import OVERRIDES
from costguard.jobs.submit.submit import Overrides
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.delivery.tracker import Tracker
from costguard.model.event import Event
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, JobKind, JobState
from costguard.model.launch import Recipe
from costguard.model.money import Money
from costguard.model.reminder import Team
from costguard.trackers import rows as tracker_rows

HOUR = timedelta(hours=1)


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    return JobSetup(priced(sqlite_database))


def reported(office: JobSetup) -> list[Event]:
    with office.database.read() as connection:
        return [event.event for event in audit_log.read(connection)]


def stored(office: JobSetup) -> int:
    with office.database.read() as connection:
        return len(job_rows.page(connection, JobFilters(), None, 100))


def refused(office: JobSetup, **given: Any) -> list[tuple[str, str]]:
    """Returns the refusals by part; nothing was stored, and nobody was woken."""
    with pytest.raises(Invalid) as error:
        office.it.submit(asked(**given), None, "api")
    assert (stored(office), office.woken, reported(office)) == (0, 0, [])
    return list(error.value.fields)


def test_a_job_is_taken_in_with_its_recipe(office: JobSetup) -> None:
    """A job takes the one project that is watched, with the preset's recipe as it is now; the daemon is woken."""
    job, is_new = office.it.submit(asked(owner=" Ada@Lab.example", ceiling=Money.of(5)), None, "cli")
    assert (is_new, office.woken, job.id, job.state, job.via) == (True, 1, "j1", JobState.QUEUED, "cli")
    assert (job.spec.project, job.spec.owner, job.recipe, job.created_at) == ("lab", "ada@lab.example", T4, NOW)
    (event,) = reported(office)
    assert (event.kind, event.key, event.data["job"], event.actor) == (
        "JobSubmitted",
        "job/j1/submitted",
        "j1",
        job.spec.owner,
    )
    assert event.text.endswith("was submitted by ada@lab.example: t4 (Spot n1-standard-4), for at most $5.00.")
    with office.database.read() as connection:
        assert job_rows.read(connection, "j1") == job


def test_a_job_may_have_it_otherwise(office: JobSetup) -> None:
    """Overrides are in the job's own recipe; the preset's stays."""
    job, _ = office.it.submit(asked(Overrides(zones=("us-central1-f",), buy="demand")), None, "api")
    assert (job.recipe.zones, job.recipe.provisioning_model) == (("us-central1-f",), ProvisioningModel.STANDARD)


def test_a_development_vm_boots_its_own_image_and_needs_no_guard(office: JobSetup) -> None:
    """It has no command and no agent."""
    office.rules = replace(RULES, jobs=JobRules())
    job, _ = office.it.submit(asked(kind=JobKind.DEV, command=()), None, "api")
    assert job.recipe.image == "projects/ml/global/images/family/dev"
    assert [item[0] for item in refused_again(office)] == ["guard_url"]


def refused_again(office: JobSetup) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as error:
        office.it.submit(asked(), None, "api")
    return list(error.value.fields)


def test_the_same_request_under_the_same_key_is_one_job(office: JobSetup) -> None:
    """The key gives one job however often, also when it would be refused by now; another request under the key is
    refused.
    """
    request = asked(deadline=NOW + HOUR)
    first, _ = office.it.submit(request, "key-1", "api")
    office.clock.advance(2 * HOUR)
    again, is_new = office.it.submit(request, "key-1", "cli")
    assert (again, is_new, office.woken, stored(office)) == (first, False, 1, 1)
    with pytest.raises(Conflict, match="came with another request before"):
        office.it.submit(asked(command=("python", "other.py")), "key-1", "api")
    other, is_new = office.it.submit(asked(), "key-2", "api")
    assert (other.id, is_new, len(reported(office))) == ("j2", True, 2)


def test_of_two_equal_requests_at_once_one_makes_the_job(office: JobSetup) -> None:
    """The other finds it when it comes to write, and gives it back."""
    ids = office.ids

    def racing() -> Iterator[str]:
        """While the first request is about to write, the second one is through."""
        office.ids = iter(["j-second"])
        office.it.submit(asked(), "key", "api")
        yield "j-first"

    office.ids = racing()
    job, is_new = office.it.submit(asked(), "key", "api")
    assert (job.id, is_new, stored(office), office.woken) == ("j-second", False, 1, 1)
    office.ids = ids


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"preset": "h100"}, "preset", "no preset 'h100': choose one that can be launched (t4)"),
        ({"preset": "other"}, "preset", "does not say how it is launched: choose one that does (t4)"),
        ({"project": "elsewhere"}, "project", "'elsewhere' is not watched: name one of lab"),
        ({"command": ()}, "command", "neither a command nor an image"),
        ({"overrides": Overrides(machine_type="n1-standard-8")}, "overrides.machine_type", "operators choose this"),
        ({"overrides": Overrides(zones=("mars-north1-a",))}, "overrides.zones", "No price is known"),
        ({"ceiling": Money.of("0.02")}, "ceiling", "the cheapest at $0.17 an hour"),
        ({"mlflow_run": "a" * 32}, "mlflow_run", "does not log to MLflow: add [trackers.mlflow] to its settings"),
        ({"wandb_run": "lab/bert/1"}, "wandb_run", "does not log to W&B: add [trackers.wandb] to its settings"),
    ],
)
def test_what_cannot_be_launched_is_refused(office: JobSetup, given: dict[str, Any], where: str, words: str) -> None:
    """The refusal says what to change, before anything is stored."""
    ((part, message),) = refused(office, **given)
    assert part == where
    assert words in message


def test_runs_of_trackers_are_checked_and_stored(office: JobSetup) -> None:
    """The forms are those that MLflow and W&B give them."""
    office.rules = replace(RULES, jobs=replace(RULES.jobs, trackers=frozenset(Tracker)))
    assert refused(office, mlflow_run="runs:/abc", wandb_run="bert/1") == [
        (
            "mlflow_run",
            "'runs:/abc' is no id of an MLflow run: letters, digits, hyphens and underscores, as the run's "
            "page shows it.",
        ),
        ("wandb_run", "'bert/1' is no path of a W&B run: give ENTITY/PROJECT/RUN, such as lab/bert/3k2j9x1p."),
    ]
    job, _ = office.it.submit(asked(mlflow_run="a" * 32, wandb_run="lab/bert/1"), None, "api")
    with office.database.read() as connection:
        runs = [(run.tracker, run.run) for run in tracker_rows.of_job(connection, job.id)]
    assert runs == [(Tracker.MLFLOW, "a" * 32), (Tracker.WANDB, "lab/bert/1")]


def test_everything_that_is_wrong_is_said_at_once(office: JobSetup) -> None:
    """The refusals go from the words of the request to the price, the budget and the bucket."""
    office.store.trouble = CheckpointLocationRefused("gs://lab/run: access is denied.", "Grant it.")
    office.rules = replace(
        RULES, budgets=(Budget("lab", Scope(project="lab"), Money(1), Period.DAY, at_limit=AtLimit.REFUSE),)
    )
    with office.database.write() as connection:
        vm = rows.instance(connection, "one")
        rows.lifetime(connection, vm, NOW - HOUR)
    result = refused(
        office,
        owner="",
        command=(),
        deadline=NOW,
        ceiling=Money(1),
        overrides=Overrides(machine_type="n1-huge", disk_gib=1),
        checkpoint=CheckpointPlan("gs://lab/run", "--from", uploads_itself=True),
    )
    assert [part for part, _ in result] == [
        "owner",
        "command",
        "checkpoint.resume",
        "checkpoint.resume",
        "deadline",
        "overrides.machine_type",
        "overrides.disk_gib",
        "ceiling",
        "budget",
        "checkpoint.location",
    ]
    assert result[-1][1] == "gs://lab/run: access is denied. Grant it."
    assert "budget lab is spent" in result[-2][1]


def test_viewers_may_not_launch(office: JobSetup) -> None:
    """Where roles are given, an operator's is needed; overrides that a preset keeps to itself need an admin's."""
    office.rules = replace(
        RULES, access=Access(operators=frozenset({"ada@lab.example"}), admins=frozenset({"@it.example"}))
    )
    ((part, message),) = refused(office, owner="eve@lab.example")
    assert (part, "may not launch" in message) == ("owner", True)
    bigger = Overrides(machine_type="n1-standard-8")
    assert [part for part, _ in refused(office, overrides=bigger)] == ["overrides.machine_type"]
    job, _ = office.it.submit(asked(bigger, owner="root@it.example"), None, "api")
    assert job.recipe.machine_type == "n1-standard-8"


@pytest.mark.parametrize(
    ("recipe", "overrides", "where"),
    [
        (replace(B200, machine_type="a4x-highgpu-4g", gpu_type="nvidia-gb200", gpu_count=4), Overrides(), "preset"),
        (replace(B200, provisioning_model=ProvisioningModel.STANDARD), Overrides(), "preset"),
        (B200, Overrides(buy="demand"), "overrides.buy"),
        (B200, Overrides(on_demand_fallback=True), "overrides.on_demand_fallback"),
    ],
)
def test_what_google_does_not_sell_is_refused(
    office: JobSetup, recipe: Recipe, overrides: Overrides, where: str
) -> None:
    """A request to Google would never succeed; a quote says so too, and what to do."""
    preset = replace(RULES.presets["t4"], launch=recipe, may_override=OVERRIDES)
    office.rules = replace(RULES, presets={"t4": preset})
    ((part, message),) = refused(office, overrides=overrides)
    assert part == where
    assert message.startswith(f"Google sells {recipe.machine_type} ")
    quoted = office.it.quote(asked(overrides), HOUR).refusals
    assert [(item.where, item.message) for item in quoted] == [(part, message)]


def test_secrets_need_an_account_that_may_read_them(office: JobSetup) -> None:
    """The VM would be paid for otherwise, and its command never start."""
    bare = replace(RULES.presets["t4"], launch=replace(T4, service_account=""))
    office.rules = replace(RULES, presets={"t4": bare})
    ((part, message),) = refused(office, secrets={"HF_TOKEN": "projects/lab/secrets/hf"})
    assert (part, "under [presets.t4.launch]" in message) == ("secrets", True)


def test_a_location_is_looked_at_before_anything_is_stored(sqlite_url: str) -> None:
    """The look has no transaction open. Complete checkpoints there are reported; on a VM's own disk nobody can look."""
    with closing(WatchedDatabase.open(sqlite_url)) as database:
        assert isinstance(database, WatchedDatabase)
        open_while_looking: list[int] = []
        store = Store(there=COMPLETE, on_look=lambda: open_while_looking.append(database.transactions))
        office = JobSetup(priced(database), store=store)
        office.it.submit(
            asked(checkpoint=CheckpointPlan("gs://lab/run", "--from {checkpoint}", uploads_itself=True)), None, "api"
        )
        office.it.submit(asked(checkpoint=CheckpointPlan("/var/checkpoints")), None, "api")
        assert (office.store.looked_at, open_while_looking) == (["gs://lab/run"], [0])
        assert "resumes from gs://lab/run/checkpoint-500, which is there already" in reported(office)[-1].text


def test_files_that_no_layout_recognises_are_reported_at_launch(sqlite_database: Database) -> None:
    """The report is in the quote, in the job's reason and in the event: the job is accepted all the same."""
    note = "3 files lie at gs://lab/run that no layout recognises (a, b, c): work would start from the beginning."
    office = JobSetup(priced(sqlite_database), store=Store(notes=(note,)))
    submission = asked(checkpoint=CheckpointPlan("gs://lab/run", "--from {checkpoint}", uploads_itself=True))
    assert office.it.quote(submission, timedelta(hours=1)).warnings == (note,)
    job, _ = office.it.submit(submission, None, "api")
    assert job.reason.endswith(note)
    assert reported(office)[-1].text.endswith(note)


def test_one_file_on_a_vms_disk_is_warned_about(office: JobSetup) -> None:
    """Nobody can look there yet; that a lost VM may leave it torn is known without a look."""
    plan = CheckpointPlan("/var/checkpoints/checkpoint.pt", "--from {checkpoint}")
    (warning,) = office.it.quote(asked(checkpoint=plan), timedelta(hours=1)).warnings
    assert "checkpoint.pt is one file that is written over: a VM lost during a save leaves it torn" in warning


def test_google_being_away_refuses_nothing_but_what_only_google_knows(office: JobSetup) -> None:
    """The preset's machine type was good before; one that is asked for now cannot be checked."""
    office.cannot_ask = True
    assert [part for part, _ in refused(office, overrides=Overrides(machine_type="n1-standard-8"))] == [
        "overrides.machine_type",
        "overrides.machine_type",
    ]
    assert office.it.submit(asked(), None, "api")[1]


@pytest.mark.parametrize(
    ("overrides", "where", "name"),
    [
        (Overrides(), "preset", "n1-standard-4"),
        (Overrides(machine_type="n1-standard-8"), "overrides.machine_type", "n1-standard-8"),
    ],
)
def test_an_unknown_machine_type_is_refused_as_such(
    office: JobSetup, overrides: Overrides, where: str, name: str
) -> None:
    """A machine type that no zone of the job has is refused; one zone that has it is enough."""
    preset = replace(RULES.presets["t4"], may_override=OVERRIDES)
    office.rules = replace(RULES, presets={"t4": preset})
    office.lacking = frozenset(T4.zones)
    result = dict(refused(office, overrides=overrides))
    assert result[where] == f"Unknown machine type {name} in zone us-central1-a of project lab. Choose another."
    assert {refusal.where: refusal.message for refusal in office.it.quote(asked(overrides), HOUR).refusals} == result
    office.lacking = frozenset({"us-central1-a"})
    assert office.it.submit(asked(overrides), None, "api")[1]


def test_a_quote_says_what_it_costs_where_and_stores_nothing(office: JobSetup) -> None:
    """A quote has the cost by part in every zone, where it would start, and the rest of budgets; command and owner may
    wait.
    """
    office.rules = replace(RULES, budgets=(Budget("lab", Scope(project="lab"), Money.of(10), Period.MONTH),))
    result = office.it.quote(asked(owner="", command=()), 10 * HOUR)
    first = result.places[0]
    assert [place.zone for place in result.places] == ["us-central1-a", "us-central1-b"]
    assert (first.spot.machine, first.spot.gpu, first.spot.disk) == (
        Money.of("0.055"),
        Money.of("0.11"),
        Money.of("0.004"),
    )
    assert (first.spot.total, first.on_demand.total) == (Money.of(SPOT), Money.of(ON_DEMAND))
    assert result.first is not None
    assert (result.first.zone, result.first.cost) == ("us-central1-a", Money.of("1.715"))
    assert (result.cheapest, result.saving_percent, result.refusals) == (result.first, 68, [])
    (budget,) = result.budgets
    assert (budget.left, budget.left_after) == (Money.of(10), Money.of("8.285"))
    assert (stored(office), reported(office)) == (0, [])


def test_a_quote_of_what_would_be_refused_says_why(office: JobSetup) -> None:
    """The reasons come also where there is nothing to quote."""
    wrong = office.it.quote(asked(preset="h100"), HOUR)
    assert (wrong.recipe, wrong.places, wrong.first, wrong.cheapest) == (None, [], None, None)
    assert [refusal.where for refusal in wrong.refusals] == ["preset"]
    office.cannot_ask = True
    unpriced = office.it.quote(asked(), HOUR)
    assert (unpriced.shape, unpriced.first and unpriced.first.cost) == (None, None)
    assert unpriced.places[0].spot.unpriced == "the machine, its GPUs"


def test_cancelling_is_written_down_once(office: JobSetup) -> None:
    """The owner, an operator of their team or an admin may cancel; the command's notice is the daemon's business."""
    lab = Team("lab", frozenset({"ada@lab.example", "bob@lab.example"}))
    office.rules = replace(
        RULES, access=Access(operators=frozenset({"ada@lab.example", "bob@lab.example"})), teams=(lab,)
    )
    office.it.submit(asked(), None, "api")
    with pytest.raises(Forbidden, match=r"Only ada@lab\.example, an operator of team lab or an admin"):
        office.it.cancel("j1", "eve@lab.example", "")
    job, is_new = office.it.cancel("j1", "bob@lab.example", "wrong data.")
    assert (is_new, job.cancel_asked_by, job.cancel_asked_at, job.state) == (
        True,
        "bob@lab.example",
        NOW,
        JobState.QUEUED,
    )
    assert job.reason == "bob@lab.example cancels it: wrong data; no VM is launched for it any more."
    again, is_new = office.it.cancel("j1", "ada@lab.example", "")
    assert (again, is_new, office.woken) == (job, False, 2)
    assert [event.kind for event in reported(office)] == ["CancelAsked", "JobSubmitted"]
    with pytest.raises(Missing):
        office.it.cancel("j9", "ada@lab.example", "")


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED])
def test_what_is_over_cannot_be_cancelled(office: JobSetup, state: JobState) -> None:
    """The refusal names how it ended."""
    office.it.submit(asked(), None, "api")
    with office.database.write() as connection:
        job_rows.set_state(connection, "j1", state, "It ended.", None, NOW)
    with pytest.raises(Conflict, match=state.value):
        office.it.cancel("j1", "ada@lab.example", "")


def test_a_deadline_as_a_span_counts_from_the_launch(office: JobSetup) -> None:
    """It is stored as a moment; the same request, repeated later under its key, is the same job."""
    request = asked(deadline_in=18 * HOUR)
    job, _ = office.it.submit(request, "key-1", "api")
    assert job.spec.deadline == NOW + 18 * HOUR
    office.clock.advance(HOUR)
    assert office.it.submit(request, "key-1", "api") == (job, False)
    later, _ = office.it.submit(request, "key-2", "api")
    assert later.spec.deadline == NOW + 19 * HOUR


def test_a_deadline_that_is_given_twice_is_refused(office: JobSetup) -> None:
    """Nobody could say which of the two is meant."""
    ((where, message),) = refused(office, deadline=NOW + HOUR, deadline_in=HOUR)
    assert (where, message) == ("deadline_in_hours", "Its deadline is given twice: leave one of the two out.")
