"""Sweeps are taken in, quoted, cancelled and resumed, or refused with what to change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.jobs.archives import MemoryArchives, packed
from tests.jobs.job_service import RULES, JobSetup, asked, priced
from tests.sweeps import sweep_story
from tests.sweeps.sweep_story import order

from costguard.access.rules import Access
from costguard.db.lease import acquire
from costguard.db.named import RowFilters
from costguard.db.transaction import Database
from costguard.errors import Conflict, Forbidden, Invalid, LeaseLost, Missing
from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.data import StageRules, StoredSize
from costguard.model.job import CheckpointPlan, JobCode, JobInput, JobState
from costguard.model.money import Money, Priced
from costguard.model.reported.metric import MetricValue, SeenMetric
from costguard.model.sweep import SweepMember, SweepState
from costguard.sweeps import listing, ranking, sweep_rows
from costguard.sweeps.turn import SweepsTurn

ADA, BEN = "ada@lab.example", "ben@lab.example"
FORTY = Money.of("40")


@pytest.fixture
def office(database: Database) -> JobSetup:
    return JobSetup(priced(database))


def turn(office: JobSetup) -> None:
    ids = (f"t{number}" for number in range(1, 100))
    SweepsTurn(office.database, office.clock, lambda: next(ids)).run()


def detail(office: JobSetup, sweep_id: str = "s1") -> listing.SweepOverview:
    with office.database.read() as connection:
        overview = listing.sweep_detail(connection, accrual_at(connection, office.clock.now()), sweep_id)
    assert overview is not None
    return overview


def states(office: JobSetup, sweep_id: str = "s1") -> list[str]:
    return [member.state for member in detail(office, sweep_id).members]


def settle(office: JobSetup, job_id: str, state: JobState) -> None:
    with office.database.write() as connection:
        job_rows.set_state(connection, job_id, state, f"it {state.value}", None, office.clock.now())


def kinds(office: JobSetup) -> list[str]:
    with office.database.read() as connection:
        return [stored.event.kind for stored in audit_log.read(connection)]


def test_members_are_launched_as_jobs_of_their_own(office: JobSetup) -> None:
    """The jobs are as many as may run at once, each with its parameters, its location, and the sweep that it belongs
    to.
    """
    sweep, is_new = office.sweeps.submit(order(), FORTY, "key", "cli")
    assert (is_new, sweep.state, office.woken) == (True, SweepState.RUNNING, 1)
    turn(office)
    assert states(office) == ["queued", "queued", "waiting", "waiting"]
    with office.database.read() as connection:
        job = job_rows.read(connection, "t2")
    assert job is not None
    assert job.spec.command[3:6] == ("1e-4", "--seed", "2")
    assert job.spec.checkpoint is not None
    assert job.spec.checkpoint.location == "gs://lab/s1/1e-4-2"
    assert (job.spec.sweep, job.spec.owner, job.via) == ("s1", ADA, "cli")


def test_members_pay_for_their_inputs_and_once_for_a_staged_one(office: JobSetup) -> None:
    """Each member's job has the price of its input, by which ceilings and budgets count it."""
    inputs, size = (JobInput("s3://acme/v7", "/data"),), StoredSize(100 << 30, 7, region="us-east-1")
    office.buckets.sizes["s3://acme/v7"] = size
    template = order().template
    with_data = order(template=replace(template, spec=replace(template.spec, inputs=inputs)))
    budget = Budget("all", Scope(), Money.of(40), Period.MONTH, at_limit=AtLimit.REFUSE)
    office.rules = replace(office.rules, budgets=(budget,))
    ten = timedelta(hours=10)
    assert [one.left_after for one in office.sweeps.quote(with_data, None, ten).budgets] == [Money.of("-2.86")]
    stage = replace(office.rules.jobs, stage=StageRules("gs://acme-stage"))
    office.rules = replace(office.rules, jobs=stage)
    assert [one.left_after for one in office.sweeps.quote(with_data, None, ten).budgets] == [Money.of("24.14")]
    office.sweeps.submit(with_data, None, None, "cli")
    turn(office)
    with office.database.read() as connection:
        launched = job_rows.open_jobs(connection)
    assert {job.spec.inputs for job in launched} == {(JobInput("s3://acme/v7", "/data", Money.of(9), staged=True),)}


def test_members_that_end_make_room_for_others(office: JobSetup) -> None:
    """The sweep is over when none is left, and its cost and result are recorded once."""
    office.sweeps.submit(order(), None, None, "api")
    turn(office)
    settle(office, "t1", JobState.SUCCEEDED)
    settle(office, "t2", JobState.SUCCEEDED)
    ids = iter(("u1", "u2"))
    SweepsTurn(office.database, office.clock, lambda: next(ids)).run()
    assert states(office) == ["succeeded", "succeeded", "queued", "queued"]
    settle(office, "u1", JobState.SUCCEEDED)
    settle(office, "u2", JobState.SUCCEEDED)
    for _ in range(2):
        turn(office)
    assert detail(office).row.sweep.state is SweepState.SUCCEEDED
    assert kinds(office).count("SweepSucceeded") == 1


def test_repeat_with_the_same_key_changes_nothing(office: JobSetup) -> None:
    """The repeat changes nothing whatever became of the first request; another sweep under the key is refused."""
    first, _ = office.sweeps.submit(order(), FORTY, "key", "api")
    again, is_new = office.sweeps.submit(order(), FORTY, "key", "api")
    assert (again.id, is_new) == (first.id, False)
    with pytest.raises(Conflict, match="came with another request"):
        office.sweeps.submit(order(at_once=3), FORTY, "key", "api")


def test_everything_wrong_with_any_member_is_told_at_once(office: JobSetup) -> None:
    """The errors are as for a job by itself, with the members that they are about; nothing is stored."""
    wrong = order(template=asked(command=("{lr}",), environment={"lr": "{seed}", "COSTGUARD_X": "1"}, preset="none"))
    with pytest.raises(Invalid) as refused:
        office.sweeps.submit(wrong, FORTY, None, "api")
    assert refused.value.kind == "sweep-refused"
    assert {where for where, _ in refused.value.fields} == {"job.preset", "job.environment", "halving"}
    with pytest.raises(Missing):
        office.sweeps.cancel("s1", ADA, "")


def test_ceiling_that_pays_for_no_member_is_refused(office: JobSetup) -> None:
    """The cheapest ten minutes of one VM cost more."""
    with pytest.raises(Invalid, match="less than 10 minutes cost"):
        office.sweeps.submit(order(), Money.of("0.01"), None, "api")


def test_ceiling_that_pays_for_some_members_is_a_warning(office: JobSetup) -> None:
    """Known from how long each takes: four members of ten hours in the cheapest zone."""
    template = replace(order().template, spec=replace(order().template.spec, work=timedelta(hours=10)))
    office.sweeps.submit(order(template=template), Money.of("4"), None, "api")
    with office.database.read() as connection:
        (event,) = audit_log.read(connection, kind="SweepSubmitted")
    assert "4 members cost at least $6.86, and its ceiling is $4.00: some would not finish." in event.event.text


def test_budget_holds_for_all_members_together(office: JobSetup) -> None:
    """Each alone would fit, and all together would not."""
    budget = Budget("all", Scope(), Money.of("5"), Period.MONTH, contact=ADA, at_limit=AtLimit.REFUSE)
    office.rules = replace(RULES, budgets=(budget,))
    template = replace(order().template, spec=replace(order().template.spec, work=timedelta(hours=10)))
    with pytest.raises(Invalid, match="budget all"):
        office.sweeps.submit(order(template=template), None, None, "api")
    assert office.sweeps.submit(order(template=template), Money.of("4"), None, "api")[1]


def test_quote_is_of_each_member_and_of_all(office: JobSetup) -> None:
    """The quote has the ceiling as the most that it takes of a budget, and how long it takes with so many at once."""
    quoted = office.sweeps.quote(order(), FORTY, timedelta(hours=10))
    assert [str(one.first.cost) for one in quoted.members if one.first is not None] == ["$1.72"] * 4
    assert quoted.total == Money.of("6.86")
    assert quoted.span == timedelta(hours=20)
    assert quoted.refusals == ()


def test_cancel_stops_all_of_it(office: JobSetup) -> None:
    """Open members are cancelled as their jobs alone would be, and the others are never launched."""
    office.sweeps.submit(order(), None, None, "api")
    turn(office)
    _, is_new = office.sweeps.cancel("s1", ADA, "wrong data")
    assert is_new
    with office.database.read() as connection:
        cancelled = job_rows.of_ids(connection, ["t1", "t2"])
    assert [job.cancel_asked_by for job in cancelled.values()] == [ADA, ADA]
    turn(office)
    assert states(office) == ["queued", "queued", "waiting", "waiting"]
    settle(office, "t1", JobState.CANCELLED)
    settle(office, "t2", JobState.CANCELLED)
    turn(office)
    assert detail(office).row.sweep.state is SweepState.CANCELLED
    assert office.sweeps.cancel("s1", ADA, "")[1] is False


def test_resume_launches_what_failed_again(office: JobSetup) -> None:
    """The new job has the same location; successes stay, and their cost counts on."""
    office.sweeps.submit(order(grid={"lr": ("1",), "seed": ("1", "2")}), None, None, "api")
    turn(office)
    settle(office, "t1", JobState.SUCCEEDED)
    settle(office, "t2", JobState.FAILED)
    turn(office)
    assert detail(office).row.sweep.state is SweepState.FAILED
    resumed, numbers = office.sweeps.resume("s1", ADA)
    assert (resumed.state, resumed.round, numbers) == (SweepState.RUNNING, 2, [2])
    ids = iter(("u1",))
    SweepsTurn(office.database, office.clock, lambda: next(ids)).run()
    member = detail(office).members[1]
    assert (member.state, list(member.member.jobs)) == ("queued", ["t2", "u1"])
    settle(office, "u1", JobState.SUCCEEDED)
    turn(office)
    assert detail(office).row.sweep.state is SweepState.SUCCEEDED
    assert kinds(office).count("SweepFailed") == kinds(office).count("SweepSucceeded") == 1


def test_resume_of_a_cancelled_sweep_goes_on_with_all_that_is_left(office: JobSetup) -> None:
    """The resume launches cancelled members, and those never launched; once nothing of it runs any more."""
    office.sweeps.submit(order(), None, None, "api")
    turn(office)
    office.sweeps.cancel("s1", ADA, "")
    with pytest.raises(Conflict, match="being cancelled"):
        office.sweeps.resume("s1", ADA)
    settle(office, "t1", JobState.CANCELLED)
    settle(office, "t2", JobState.SUCCEEDED)
    turn(office)
    assert office.sweeps.resume("s1", ADA)[1] == [1]
    assert states(office) == ["waiting", "succeeded", "waiting", "waiting"]


def test_member_that_was_cancelled_by_itself_is_resumed_only_by_its_number(office: JobSetup) -> None:
    """The owner had a reason."""
    office.sweeps.submit(order(), None, None, "api")
    turn(office)
    settle(office, "t1", JobState.CANCELLED)
    settle(office, "t2", JobState.FAILED)
    assert office.sweeps.resume("s1", ADA)[1] == [2]
    assert office.sweeps.resume("s1", ADA, [1])[1] == [1]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"numbers": [9]}, Invalid, "no member 9"),
        ({"numbers": [1]}, Conflict, "did not fail"),
        ({"ceiling": Money.of("0")}, Conflict, "Nothing of sweep lr failed"),
        ({"at_once": 500}, Invalid, "may run at once"),
        ({}, Conflict, "Nothing of sweep lr failed"),
    ],
)
def test_what_cannot_be_resumed_is_refused(
    office: JobSetup, given: dict[str, object], kind: type[Exception], message: str
) -> None:
    """The refusal says what it is about; nothing changes."""
    office.sweeps.submit(order(), FORTY, None, "api")
    turn(office)
    with pytest.raises(kind, match=message):
        office.sweeps.resume("s1", ADA, **given)  # type: ignore[arg-type]
    assert detail(office).row.sweep.round == 1


def test_limits_of_a_sweep_that_runs_may_change(office: JobSetup) -> None:
    """More money, or more at once, from now on."""
    office.sweeps.submit(order(), FORTY, None, "api")
    turn(office)
    changed, again = office.sweeps.resume("s1", ADA, ceiling=Money.of("90"), at_once=3)
    assert (changed.ceiling, changed.at_once, again) == (Money.of("90"), 3, [])
    ids = iter(("u1",))
    SweepsTurn(office.database, office.clock, lambda: next(ids)).run()
    assert states(office) == ["queued", "queued", "queued", "waiting"]


def test_others_may_not_touch_a_sweep(office: JobSetup) -> None:
    """Roles are those of jobs: its owner, operators of its team, and admins."""
    office.rules = replace(RULES, access=Access(operators=frozenset({ADA, BEN})))
    office.sweeps.submit(order(), None, None, "api")
    with pytest.raises(Forbidden, match="can cancel it"):
        office.sweeps.cancel("s1", BEN, "")
    with pytest.raises(Forbidden, match="can resume it"):
        office.sweeps.resume("s1", BEN)
    office.rules = replace(RULES, access=Access(viewers=frozenset({ADA}), operators=frozenset({BEN})))
    with pytest.raises(Invalid, match="may not launch"):
        office.sweeps.submit(order(), None, None, "api")


def test_code_is_kept_once_and_given_to_every_member(office: JobSetup) -> None:
    """The diff may be long, and a sweep has up to 200 members."""
    code = with_code(office)
    with office.database.read() as connection:
        job = job_rows.read(connection, "t1")
        stored = connection.exec_driver_sql("SELECT CAST(spec AS TEXT) FROM sweep_members").scalars().all()
    assert job is not None
    assert job.spec.code == code
    assert not any("+++" in text for text in stored)


def test_code_of_an_open_sweep_is_not_deleted(office: JobSetup) -> None:
    """Members may be launched for weeks; once it is over, its code may go, and it cannot be resumed."""
    with_code(office)
    settle(office, "t1", JobState.FAILED)
    settle(office, "t2", JobState.FAILED)
    office.clock.advance(timedelta(days=40))
    assert office.code.tidy() == 0
    office.sweeps.cancel("s1", ADA, "")
    turn(office)
    assert office.code.tidy() == 1
    with pytest.raises(Missing, match="Upload it"):
        office.sweeps.resume("s1", ADA)


def with_code(office: JobSetup) -> JobCode:
    """Makes the code of a sweep of which two members are launched, as t1 and t2."""
    archives = MemoryArchives()
    content, sha256 = packed({"train.py": "print(1)"})
    archives.objects[f"{sha256}.tar.gz"] = (content, office.clock.now())
    office.archives = archives
    code = JobCode(sha256, len(content), 1, diff="+" * 1000)
    template = replace(order().template, spec=replace(order().template.spec, code=code))
    office.sweeps.submit(order(template=template), None, None, "api")
    turn(office)
    return code


def test_oddity_of_one_sweep_keeps_no_other_waiting(office: JobSetup) -> None:
    """It is reported, and the others go on."""
    office.sweeps.submit(order(), None, None, "api")
    other = order(template=replace(order().template, spec=replace(order().template.spec, name="other")))
    office.sweeps.submit(other, None, None, "api")
    with office.database.write() as connection:
        connection.exec_driver_sql("UPDATE sweep_members SET recipe = '{}' WHERE sweep_id = 's1'")
    ids = (f"t{number}" for number in range(1, 100))
    report = SweepsTurn(office.database, office.clock, lambda: next(ids)).run()
    assert (report.launched, len(report.troubles)) == (2, 1)
    assert "Sweep s1 could not be advanced" in report.troubles[0]


def test_best_metric_of_all_members_is_marked() -> None:
    """The least or the greatest; what is not finite, or was not printed yet, is best of nothing."""
    lines = [_line(number, text) for number, text in enumerate(("0.5", "0.2", "nan", None), 1)]
    assert [line.is_best for line in ranking.with_best(lines, "lower")] == [False, True, False, False]
    assert [line.is_best for line in ranking.with_best(lines, "higher")] == [True, False, False, False]


def _line(number: int, text: str | None) -> ranking.MemberRow:
    value = None if text is None else MetricValue(text, 1, NOW)
    finite = value if value is not None and value.value is not None else None
    metric = None if value is None else SeenMetric("lower", value, finite)
    return ranking.MemberRow(SweepMember(number, {"lr": "1"}), None, Priced(), metric)


def test_list_of_sweeps_has_the_newest_first(office: JobSetup) -> None:
    """The list is by owner and state; a page goes on where the last one ended."""
    for _ in range(3):
        office.sweeps.submit(order(), None, None, "api")
        office.clock.advance(timedelta(minutes=1))
    with office.database.read() as connection:
        first = sweep_rows.page(connection, RowFilters(owner=(ADA,)), None, 2)
        rest = sweep_rows.page(
            connection, RowFilters(state=(SweepState.RUNNING,)), (first[-1].created_at, first[-1].id), 9
        )
        none = sweep_rows.page(connection, RowFilters(state=(SweepState.FAILED,)), None, 9)
    assert [sweep.id for sweep in (*first, *rest)] == ["s3", "s2", "s1"]
    assert none == []


def test_story_has_members_in_every_state(office: JobSetup) -> None:
    """The story is for examples and pages."""
    sweep_story.tell(office)
    assert states(office, sweep_story.ID) == ["succeeded", "failed", "waiting", "waiting"]


def test_location_that_two_members_share_is_refused(office: JobSetup) -> None:
    """The refusal comes before anything is launched."""
    shared = order(
        template=asked(command=("{lr}", "{seed}"), checkpoint=CheckpointPlan("gs://lab/run", uploads_itself=True))
    )
    with pytest.raises(Invalid, match="would write to the same place"):
        office.sweeps.submit(shared, None, None, "api")


def test_members_cannot_share_a_run_of_a_tracker(office: JobSetup) -> None:
    """Each one's cost would be logged over the other's."""
    with pytest.raises(Invalid) as error:
        office.sweeps.submit(order(template=asked(command=("{lr}", "{seed}"), mlflow_run="a" * 32)), None, None, "api")
    assert (
        "job.mlflow_run",
        "The cost of all members would be logged to one run, each over the other: leave it out.",
    ) in (error.value.fields)


def test_sweep_is_not_advanced_under_a_lease_that_was_lost(office: JobSetup) -> None:
    """Another guard launches its members: two would launch each of them twice."""
    office.sweeps.submit(order(), None, None, "api")
    lost = acquire(office.database, "daemon", "before", timedelta(seconds=9), office.clock.now())
    acquire(office.database, "daemon", "after", timedelta(seconds=9), office.clock.now() + timedelta(seconds=9))
    with pytest.raises(LeaseLost):
        SweepsTurn(office.database, office.clock, lambda: "t1").run(lost)
    assert states(office) == ["waiting"] * 4
