"""Lineages: whose place an address is in, which job is the parent, and what a tree of them cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from sqlalchemy import Connection, event
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.within import charge_due

from costguard.db.transaction import Database
from costguard.jobs.decide.lineage import (
    LineageLink,
    Origin,
    Uses,
    below,
    folders_of,
    origins_of,
    place_key,
    places_of,
    tree_of,
)
from costguard.jobs.listing.lineage import Lineage, lineage_of
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.jobs.rows.job_rows import save_look
from costguard.jobs.rows.lineage import lineage_rows
from costguard.ledger.accrual import accrual_at
from costguard.model.job import CheckpointPlan, JobInput, JobOutput, SeenCheckpoint
from costguard.model.money import Money, Priced

HOUR = timedelta(hours=1)


def spec(location: str = "gs://lab/run", **given: Any) -> Any:
    plan = None if not location else CheckpointPlan(location)
    return replace(job_rows.SPEC, **{"checkpoint": plan, "environment": {}, **given})


# Addresses.


@pytest.mark.parametrize(
    ("address", "folders"),
    [
        ("gs://lab/a/b/", ["gs://lab/a/b", "gs://lab/a"]),
        ("gs://lab/a", ["gs://lab/a"]),
        ("gs://lab", []),
        ("gs://lab/", []),
        ("/ckpt/a", []),
        (
            "file:///runs/a",
            [
                "file:///runs/a",
                "file:///runs",
            ],
        ),
    ],
)
def test_a_whole_bucket_and_a_path_of_a_vm_are_no_jobs_place(address: str, folders: list[str]) -> None:
    """An address is in the place of each folder above it, the most specific first."""
    assert folders_of(address) == folders


def test_a_slash_at_the_end_makes_no_other_place() -> None:
    """Both name the same folder; names that only begin alike do not."""
    assert place_key("gs://lab/run/") == place_key("gs://lab/run")
    assert place_key("gs://lab/run2") != place_key("gs://lab/run")


def test_a_job_stores_its_checkpoints_and_its_outputs() -> None:
    """A folder on its VM's disk is no place that another job can start from."""
    outputs = (JobOutput("/out", "gs://lab/model/"), JobOutput("/log", "s3://acme/logs"))
    assert places_of(spec(outputs=outputs)) == ["gs://lab/run", "gs://lab/model", "s3://acme/logs"]
    assert places_of(spec("/ckpt", outputs=outputs)) == ["gs://lab/model", "s3://acme/logs"]
    assert places_of(spec("")) == []


def test_inputs_and_addresses_in_the_command_are_origins() -> None:
    """Addresses in a variable and the setup count too, each once; what the job itself stores is none."""
    origins = origins_of(
        spec(
            command=("python", "train.py", "--init=gs://lab/base/step-9", "--out", "gs://lab/run/logs"),
            environment={"TEACHER": "s3://acme/teacher/best.pt", "SAME": "gs://lab/base/step-9/"},
            setup="gsutil cp 'gs://lab/vocab/v1.txt' .; echo done",
            inputs=(JobInput("gs://lab/data/", "/data"), JobInput("gs://lab/base/step-9", "/base")),
        ),
        "",
    )
    assert origins == [
        Origin("gs://lab/data", Uses.INPUT),
        Origin("gs://lab/base/step-9", Uses.INPUT),
        Origin("gs://lab/vocab/v1.txt", Uses.COMMAND),
        Origin("s3://acme/teacher/best.pt", Uses.COMMAND),
    ]


@pytest.mark.parametrize(
    ("resume_from", "origins"),
    [
        ("gs://lab/run/step-40", [Origin("gs://lab/run/step-40", Uses.CHECKPOINT)]),
        (None, [Origin("gs://lab/run", Uses.CHECKPOINT, is_certain=False)]),
        ("", []),
    ],
)
def test_a_checkpoint_at_its_own_location_is_an_origin(resume_from: str | None, origins: list[Origin]) -> None:
    """A job starts from nothing where a look found none; where nobody could look it may start from one."""
    assert origins_of(spec(command=()), resume_from) == origins


# Which job is the parent.


def submitted(connection: Connection, job_id: str, hours: float, resume_from: str | None = "", **given: Any) -> None:
    """Submits a job so many hours before NOW."""
    location = given.pop("location", f"gs://lab/{job_id}")
    plan = CheckpointPlan(location)
    values = {"checkpoint": plan, "environment": {}, "command": (), "created_at": NOW - hours * HOUR, **given}
    lineage_rows.record(connection, job_rows.added(connection, job_id, **values), resume_from)


def saw(connection: Connection, job_id: str, checkpoint: str, at: datetime) -> None:
    save_look(connection, job_id, SeenCheckpoint(at, checkpoint, 1, at))
    checkpoint_rows.add_checkpoint(connection, job_id, checkpoint, at, 1, at)


def links(connection: Connection, job_id: str) -> list[LineageLink]:
    every, is_whole = lineage_rows.links_of(connection, job_id)
    assert is_whole
    return [link for link in every if link.job_id == job_id]


def parents(connection: Connection, job_id: str) -> set[tuple[str | None, Uses]]:
    return {(link.parent, link.uses) for link in links(connection, job_id)}


def test_an_input_below_what_another_job_stores_makes_it_the_parent(database: Database) -> None:
    """The most specific place counts; what is in no job's place is data, and no parent."""
    with database.write() as connection:
        submitted(connection, "outer", 9, location="gs://lab/all")
        submitted(connection, "inner", 8, location="gs://lab/all/inner")
        submitted(connection, "maker", 7, outputs=(JobOutput("/out", "gs://lab/tokens"),))
        inputs = (
            JobInput("gs://lab/all/inner/step-4", "/a"),
            JobInput("gs://lab/tokens/", "/b"),
            JobInput("gs://public/data", "/c"),
        )
        submitted(connection, "child", 1, inputs=inputs)
        assert parents(connection, "child") == {("inner", Uses.INPUT), ("maker", Uses.INPUT)}


def test_a_name_that_only_begins_alike_is_no_place(database: Database) -> None:
    """gs://lab/run2 is not in gs://lab/run."""
    with database.write() as connection:
        submitted(connection, "run", 9)
        submitted(connection, "child", 1, inputs=(JobInput("gs://lab/run2/step-1", "/a"),))
        assert parents(connection, "child") == set()


def test_of_jobs_at_one_location_the_one_that_saved_the_checkpoint_is_the_parent(database: Database) -> None:
    """It saw it first; without a checkpoint that is known the newest job there is."""
    with database.write() as connection:
        submitted(connection, "first", 9, location="gs://lab/run")
        saw(connection, "first", "gs://lab/run/step-1", NOW - 8 * HOUR)
        submitted(connection, "second", 7, "gs://lab/run/step-1", location="gs://lab/run")
        saw(connection, "second", "gs://lab/run/step-1", NOW - 6 * HOUR)
        saw(connection, "second", "gs://lab/run/step-2", NOW - 5 * HOUR)
        submitted(connection, "early", 3, inputs=(JobInput("gs://lab/run/step-1", "/a"),))
        submitted(connection, "late", 2, inputs=(JobInput("gs://lab/run/step-2", "/a"),))
        submitted(connection, "any", 1, inputs=(JobInput("gs://lab/run", "/a"),))
        assert parents(connection, "second") == {("first", Uses.CHECKPOINT)}
        assert parents(connection, "early") == {("first", Uses.INPUT)}
        assert parents(connection, "late") == {("second", Uses.INPUT)}
        assert parents(connection, "any") == {("second", Uses.INPUT)}


def test_where_nobody_could_look_a_job_that_saved_there_counts(database: Database) -> None:
    """A job that was never seen to save left nothing to start from."""
    with database.write() as connection:
        submitted(connection, "silent", 9, location="s3://acme/a")
        submitted(connection, "after", 8, None, location="s3://acme/a")
        submitted(connection, "saver", 7, location="s3://acme/b")
        saw(connection, "saver", "s3://acme/b/step-1", NOW - 6 * HOUR)
        submitted(connection, "again", 5, None, location="s3://acme/b")
        assert parents(connection, "after") == set()
        assert parents(connection, "again") == {("saver", Uses.CHECKPOINT)}


def test_a_checkpoint_that_no_known_job_saved_is_unknown(database: Database) -> None:
    """The cost of that checkpoint is unknown, which is not nothing."""
    with database.write() as connection:
        submitted(connection, "tuned", 1, "gs://lab/tuned/step-7")
        assert parents(connection, "tuned") == {(None, Uses.CHECKPOINT)}
        answer = lineage_of(connection, accrual_at(connection, NOW), "tuned")
    assert answer is not None
    assert [link.address for link in answer.unknown] == ["gs://lab/tuned/step-7"]
    assert not answer.is_alone


# Trees.


def link(job_id: str, parent: str) -> LineageLink:
    return LineageLink(job_id, parent, f"gs://lab/{parent}", Uses.INPUT)


def ranks(*job_ids: str) -> dict[str, int]:
    return {job_id: rank for rank, job_id in enumerate(job_ids)}


def test_each_job_stands_once_in_a_tree() -> None:
    """A merge of two fine-tunings stands below the first, and names the other."""
    every = [link("a", "base"), link("b", "base"), link("merged", "a"), link("merged", "b"), link("last", "merged")]
    order = ranks("base", "a", "b", "merged", "last")
    tree = tree_of("base", every, order)
    assert [(node.job_id, node.depth, node.others) for node in tree.descendants] == [
        ("a", 1, ()),
        ("merged", 2, ("b",)),
        ("last", 3, ()),
        ("b", 1, ()),
    ]
    up = tree_of("merged", every, order)
    assert [(node.job_id, node.depth) for node in up.ancestors] == [("base", -2), ("a", -1), ("b", -1)]
    assert below("base", every)["a"] == {"a", "merged", "last"}
    assert below("base", every)["base"] == {"base", "a", "b", "merged", "last"}


@drawn(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_no_rows_whatever_make_a_cycle(pairs: list[tuple[int, int]]) -> None:
    """A link to a younger job is left out, so that nothing is its own ancestor, and each job is there once."""
    every = [link(f"j{child}", f"j{parent}") for child, parent in pairs]
    order = ranks(*(f"j{number}" for number in range(10)))
    tree = tree_of("j5", every, order)
    above, under = [one.job_id for one in tree.ancestors], [one.job_id for one in tree.descendants]
    assert all(order[one] < 5 for one in above)
    assert all(order[one] > 5 for one in under)
    assert len({*above, *under}) == len(above) + len(under)


# What it cost.


def ran(connection: Connection, job_id: str, hours: int) -> None:
    """A T4 for so many hours, at 0.18 + 0.35 an hour."""
    vm = rows.instance(connection, f"cg-{job_id}-1", job=job_id)
    started = NOW - 100 * HOUR
    rows.lifetime(connection, vm, started, ended_at=started + hours * HOUR, job=job_id)


def family(connection: Connection) -> None:
    """A pretraining of 10 h, two fine-tunings of 2 and 4 h, and one of 1 h that started from the first."""
    rows.prices(connection)
    submitted(connection, "base", 40)
    for job_id, parent, hours in (("tune1", "base", 2), ("tune2", "base", 4), ("tune3", "tune1", 1)):
        inputs = (JobInput(f"gs://lab/{parent}/step-9", "/base"),)
        submitted(connection, job_id, 30 - int(job_id[-1]), inputs=inputs)
        ran(connection, job_id, hours)
    submitted(connection, "other", 20)
    ran(connection, "base", 10)
    ran(connection, "other", 50)


def cost(hours: float) -> Priced:
    return Priced(Money.of("0.53").times(int(hours)))


def lineage(database: Database, job_id: str) -> Lineage:
    with database.read() as connection:
        answer = lineage_of(connection, accrual_at(connection, NOW), job_id)
    assert answer is not None
    return answer


def test_a_lineage_is_added_up_and_down(database: Database) -> None:
    """The way up from tune1 holds the pretraining and not its sibling, the way down what started from it."""
    with database.write() as connection:
        family(connection)
        charge_due(connection, NOW)
    base, tune1 = lineage(database, "base"), lineage(database, "tune1")
    assert (base.upward, base.downward, base.total) == (cost(10), cost(17), cost(17))
    assert [(one.job.id, one.depth, one.cost, one.with_below) for one in base.descendants] == [
        ("tune1", 1, cost(2), cost(3)),
        ("tune3", 2, cost(1), cost(1)),
        ("tune2", 1, cost(4), cost(4)),
    ]
    assert (tune1.upward, tune1.downward, tune1.total) == (cost(12), cost(3), cost(13))
    assert [one.job.id for one in tune1.ancestors] == ["base"]
    assert lineage(database, "other").is_alone
    with database.read() as connection:
        assert lineage_of(connection, accrual_at(connection, NOW), "nothere") is None


def test_a_cost_that_is_not_known_makes_the_sum_partly_unknown(database: Database) -> None:
    """The sum says that it is not whole."""
    with database.write() as connection:
        family(connection)
        vm = rows.instance(connection, "cg-tune2-2", job="tune2")
        rows.lifetime(connection, vm, NOW - 9 * HOUR, ended_at=NOW - HOUR, job="tune2", gpu_type="nvidia-unpriced")
    base = lineage(database, "base")
    assert not base.downward.whole
    assert base.upward.whole


def test_every_step_of_a_lineage_goes_by_an_index(sqlite_database: Database) -> None:
    """Neither a submission nor the tree reads the rows of jobs that have nothing to do with it."""
    run: list[tuple[str, Any]] = []
    with sqlite_database.write() as connection:
        family(connection)
        event.listen(connection, "before_cursor_execute", lambda *given: run.append((given[2], given[3])))
        submitted(connection, "tune4", 1, inputs=(JobInput("gs://lab/base/step-9", "/base"),))
        assert len(lineage_rows.links_of(connection, "base")[0]) == 4
        queries = [one for one in run if one[0].startswith("SELECT") and "job_" in one[0].partition("FROM")[2]]
        plans = [
            str(row)
            for statement, values in queries
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
        ]
    assert len(queries) >= 5
    assert [plan for plan in plans if "SCAN job_" in plan or "SCAN jobs" in plan] == []
