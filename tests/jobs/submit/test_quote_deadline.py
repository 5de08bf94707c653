"""A job with a deadline is looked at with what the fleet has measured, in its quote and when it is submitted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Connection, update
from tests.api.rows import NOW
from tests.jobs.job_rows import added, attempt
from tests.jobs.job_service import PRESETS, RULES, T4, JobSetup, asked, priced

from costguard.access.rules import by_name
from costguard.db.tables import attempts
from costguard.db.transaction import Database
from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.model.buying import DEMAND, SPOT, bought
from costguard.model.job import CheckpointPlan
from costguard.model.launch import SpotListPrice
from costguard.model.money import Money

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
PLAIN = replace(T4, gpu_type="", gpu_count=0, attaches_gpus=False, falls_back_to_on_demand=True)
WITH_PLAIN = replace(RULES, presets=by_name([*PRESETS, replace(PRESETS[0], name="plain", launch=PLAIN)]))

WITH_CHEAPEST = replace(
    RULES, presets=by_name([*PRESETS, replace(PRESETS[0], name="cheap", launch=bought(T4, "cheapest"))])
)


def _started(connection: Connection, job_id: str, asked_at: datetime, started_at: datetime) -> None:
    """A job of the same preset, whose VM was asked for and whose command began at these moments."""
    added(connection, job_id)
    made = attempt(connection, job_id)
    values = {"intended_at": asked_at, "started_at": started_at, "run": 1, "restarts": 0}
    connection.execute(update(attempts).where(attempts.c.id == made.id).values(**values))


def test_deadline_with_steps_alone_is_planned_later_and_the_answers_say_so(sqlite_database: Database) -> None:
    """The warning is in the quote and in the job's reason; with the work there is nothing to say."""
    office = JobSetup(priced(sqlite_database))
    spec = asked(deadline=NOW + 9 * HOUR, total_steps=10_000)
    (warning,) = office.it.quote(spec, HOUR).warnings
    assert warning.startswith("Its deadline is planned for once its output gives the pace of its steps")
    job, _ = office.it.submit(spec, None, "api")
    assert warning in job.reason
    with_work = asked(deadline=NOW + 9 * HOUR, total_steps=10_000, work=HOUR)
    assert not [note for note in office.it.quote(with_work, HOUR).warnings if "output" in note]


def test_deadline_is_checked_with_starts_as_they_were_measured(sqlite_database: Database) -> None:
    """Starts took 9 minutes, and a lost VM 2 to be noticed: then 11 to spare will do, which 20 unmeasured do not."""
    tight = asked(deadline=NOW + HOUR + 14 * MINUTE, work=HOUR)
    unmeasured = JobSetup(priced(sqlite_database))
    assert "deadline" in {refusal.where for refusal in unmeasured.it.quote(tight, HOUR).refusals}
    for number in range(6):
        began = NOW - timedelta(days=1, minutes=number)
        with sqlite_database.write() as connection:
            _started(connection, f"earlier{number}", began, began + 9 * MINUTE)
    measured = JobSetup(sqlite_database).it.quote(tight, HOUR)
    assert "deadline" not in {refusal.where for refusal in measured.refusals}
    assert measured.feasibility.ends_at == NOW + HOUR + 11 * MINUTE


def test_quote_counts_on_googles_advice_for_zones_without_history(sqlite_database: Database) -> None:
    """The cheapest zone is by far the most preempted: the expected cost is another than with the prior alone."""
    database = priced(sqlite_database)
    saves = CheckpointPlan("gs://runs/train", "--from {checkpoint}")
    spec = asked(preset="plain", deadline=NOW + 9 * HOUR, work=5 * HOUR, checkpoint=saves)
    plain = JobSetup(database, WITH_PLAIN).it.quote(spec, HOUR)
    zones = [place.zone for place in plain.places]
    looked_up: list[str] = []

    def read(_project: str, zone: str, _machine_type: str) -> float:
        looked_up.append(zone)
        return 0.9 if zone == zones[0] else 0.01

    advised = JobSetup(database, WITH_PLAIN, advice=ZoneAdvice(read, patience=timedelta(seconds=30))).it.quote(
        spec, HOUR
    )
    assert set(looked_up) == set(zones)
    assert plain.expected is not None
    assert advised.expected is not None
    assert advised.expected.mean != plain.expected.mean


@pytest.mark.parametrize(("share", "is_said"), [(1, False), (2, True)])
def test_quote_names_a_price_that_google_has_otherwise(sqlite_database: Database, share: int, is_said: bool) -> None:
    """The price of the preset's Spot VM, as Google recorded it yesterday, stands next to the one that is counted."""
    database, spec = priced(sqlite_database), asked(preset="plain", work=HOUR)
    rate = JobSetup(database, WITH_PLAIN).it.quote(spec, HOUR).places[0].spot
    assert rate.machine is not None
    assert rate.gpu is not None
    listed = [SpotListPrice(NOW - timedelta(days=1), NOW, Money(share * (rate.machine + rate.gpu).nanos))]
    advice = RegionAdvice(lambda *_: None, lambda *_: listed, timedelta(seconds=30))
    warnings = JobSetup(database, WITH_PLAIN, capacity=advice).it.quote(spec, HOUR).warnings
    assert any("Google's own record" in warning for warning in warnings) is is_said


def test_quote_without_a_deadline_asks_for_no_advice(sqlite_database: Database) -> None:
    """The cost of a job without a deadline does not depend on it."""
    looked_up: list[str] = []

    def read(_project: str, zone: str, _machine_type: str) -> None:
        looked_up.append(zone)

    office = JobSetup(priced(sqlite_database), WITH_PLAIN, advice=ZoneAdvice(read, patience=timedelta(seconds=30)))
    office.it.quote(asked(preset="plain", work=HOUR), HOUR)
    assert looked_up == []


def test_quote_of_the_cheapest_way_begins_with_the_one_that_it_would_launch(sqlite_database: Database) -> None:
    """Sixty hours that are never saved are expected to cost more on Spot than on demand, at a third of the price."""
    office = JobSetup(priced(sqlite_database), WITH_CHEAPEST)
    saved = CheckpointPlan("gs://runs/train", "--from {checkpoint}")
    models = {
        plan is not None: office.it.quote(asked(preset="cheap", work=60 * HOUR, checkpoint=plan), HOUR)
        for plan in (saved, None)
    }
    for quoted in models.values():
        assert quoted.first is not None
        assert quoted.first.provisioning_model is quoted.ways[0].model
        assert len(quoted.ways) == 2, "N1 is not sold by flex-start"
    assert models[True].ways[0].model is SPOT
    assert models[False].ways[0].model is DEMAND
