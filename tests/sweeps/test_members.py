"""Members of a sweep: combinations of parameters in a job's texts, and what keeps them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.job_service import asked
from tests.sweeps.sweep_story import order

from costguard.jobs.submit.submission import JobRefusal
from costguard.model.job import CheckpointPlan, JobKind, JobMetric, JobOutput, JobSpec
from costguard.sweeps.members import (
    SweepOrder,
    described,
    parameter_problems,
    planned,
    seeded,
    sharing_problems,
    text_problems,
)
from costguard_vm.model.checkpoint import LookFor


def specs(given_order: SweepOrder) -> list[JobSpec]:
    return [plan.submission.spec for plan in planned(given_order, "s1")]


def said(refusals: object) -> str:
    return " ".join(f"{one.where}: {one.message}" for one in refusals)  # type: ignore[attr-defined]


def with_command(*words: str, **changed: Any) -> SweepOrder:
    return order(template=asked(command=words, **changed))


def test_grid_makes_every_combination_in_order() -> None:
    """The last parameter changes first, and each member has its own texts."""
    commands = [spec.command for spec in specs(order())]
    pairs = [(command[3], command[5]) for command in commands]
    assert pairs == [("1e-4", "1"), ("1e-4", "2"), ("3e-4", "1"), ("3e-4", "2")]


def test_list_makes_one_member_for_each_entry() -> None:
    """Sets that belong together are not combined with each other."""
    listed = ({"lr": "1", "seed": "7"}, {"lr": "2", "seed": "8"})
    assert [spec.command[3:6:2] for spec in specs(order(grid={}, listed=listed))] == [("1", "7"), ("2", "8")]


def test_list_is_combined_with_the_grid() -> None:
    """Each entry of the list with each combination of the grid."""
    both = order(grid={"seed": ("1", "2")}, listed=({"lr": "a"}, {"lr": "b"}))
    assert [tuple(plan.parameters.values()) for plan in planned(both, "s1")] == [
        ("a", "1"),
        ("a", "2"),
        ("b", "1"),
        ("b", "2"),
    ]


def test_every_text_but_patterns_is_filled_in() -> None:
    """Command, variables, locations and outputs; braces of regular expressions and file patterns stay as they are."""
    template = asked(
        command=("train", "{lr}"),
        environment={"SEED": "{seed}"},
        checkpoint=CheckpointPlan(
            "gs://b/{lr}", "--from {checkpoint} --lr {lr}", LookFor(pattern="ckpt_{step}.pt"), uploads_itself=True
        ),
        outputs=(JobOutput("/out", "gs://m/{member}"),),
        metric=JobMetric(r"seed (\d{seed})"),
        step_pattern=r"{lr} (\d+)",
    )
    spec = specs(order(template=template))[0]
    assert spec.command == ("train", "1e-4")
    assert spec.environment == {"SEED": "1"}
    assert spec.checkpoint is not None
    assert spec.checkpoint.location == "gs://b/1e-4"
    assert spec.checkpoint.resume == "--from {checkpoint} --lr 1e-4"
    assert spec.checkpoint.look_for.pattern == "ckpt_{step}.pt"
    assert spec.outputs[0].destination == "gs://m/1"
    assert spec.metric == template.spec.metric
    assert spec.step_pattern == r"{lr} (\d+)"


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{lr}", "1e-4"),
        ("x{lr}y{seed}", "x1e-4y1"),
        ("{{lr}}", "{lr}"),
        ("${lr}", "${lr}"),
        ("{sweep}-{member}", "s1-1"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
    ],
)
def test_braces_that_are_no_placeholder_stay(text: str, filled: str) -> None:
    """A shell's variables, JSON, and doubled braces are left to the command."""
    assert specs(with_command("train", text))[0].command[1] == filled


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.lists(st.text("xyz{}$", max_size=4), min_size=1, max_size=3, unique=True),
        min_size=1,
        max_size=3,
    )
)
def test_values_are_put_in_as_they_are(grid: dict[str, list[str]]) -> None:
    """A value with braces is never filled in again, and every member is different."""
    words = tuple(f"{{{name}}}" for name in grid)
    several = order(
        template=asked(command=("run", *words)), grid={name: tuple(values) for name, values in grid.items()}
    )
    plans = planned(several, "s1")
    for plan in plans:
        assert plan.submission.spec.command[1:] == tuple(plan.parameters[name] for name in grid)
    assert len({plan.submission.spec.command for plan in plans}) == len(plans)


def test_names_tell_members_apart() -> None:
    """People see which parameters a job has; a name with placeholders is theirs."""
    assert specs(order())[1].name == "lr 2: lr=1e-4 seed=2"
    named = replace(order().template, spec=replace(order().template.spec, name="run-{lr}-{seed}"))
    assert specs(order(template=named))[1].name == "run-1e-4-2"


def test_placeholder_without_parameter_is_refused() -> None:
    """A slip of the pen would run with braces in the command."""
    problems = said(text_problems(with_command("train", "{lrr}", "{lr}", "{seed}")))
    assert "{lrr} stands for no parameter" in problems


def test_parameter_that_nothing_uses_is_refused() -> None:
    """All its values would run the same; the name alone does not count."""
    assert "No text of the job uses {seed}" in said(text_problems(with_command("train", "{lr}", name="{seed}")))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"grid": {}}, "There are no parameters"),
        ({"grid": {"lr": ()}}, "lr has no values"),
        ({"grid": {"lr": ("1", "1")}}, "the same value twice"),
        ({"grid": {"1r": ("1",)}}, "no name of a parameter"),
        ({"grid": {"step": ("1",)}}, "{step} has a meaning of its own"),
        ({"grid": {"lr": ("1",)}, "listed": ({"lr": "2"},)}, "in the grid and in the list"),
        ({"grid": {}, "listed": ({"lr": "2"}, {"seed": "2"})}, "does not have the parameters of entry 1"),
        ({"grid": {"lr": ("a\nb",)}}, "cannot be a value"),
        ({"grid": {"a": tuple(map(str, range(15))), "b": tuple(map(str, range(15)))}}, "225 members"),
        ({"at_once": 0}, "may run at once"),
        ({"name": "a\nb"}, "printable characters"),
        ({"template": asked(kind=JobKind.DEV)}, "A sweep runs commands"),
    ],
)
def test_wrong_parameters_are_refused(changed: dict[str, object], message: str) -> None:
    """Each with one sentence that says what to change."""
    assert message in said(parameter_problems(order(**changed)))


def test_members_that_share_a_location_are_refused() -> None:
    """A member would resume from what another saved. A parameter in the location keeps them apart."""
    shared = with_command("{lr}", "{seed}", checkpoint=CheckpointPlan("gs://b/{lr}/", uploads_itself=True))
    assert "Members 1 and 2 would write to the same place" in said(sharing_problems(planned(shared, "s1")))
    assert said(sharing_problems(planned(order(), "s1"))) == ""


def test_location_inside_another_members_is_refused() -> None:
    """`run-1` is not inside of `run-10`, but `run/1` is inside of `run`."""
    inside = order(
        template=asked(command=("{p}",), checkpoint=CheckpointPlan("gs://b{p}", uploads_itself=True)),
        grid={"p": ("/a", "/a/b")},
    )
    assert "one inside the other" in said(sharing_problems(planned(inside, "s1")))
    similar = order(
        template=asked(command=("{p}",), checkpoint=CheckpointPlan("gs://b/{p}", uploads_itself=True)),
        grid={"p": ("1", "10")},
    )
    assert said(sharing_problems(planned(similar, "s1"))) == ""


def test_outputs_that_members_share_are_refused() -> None:
    """The last to succeed would take the place of the others' outputs. A disk of the VM's own is not shared."""
    shared = with_command("{lr}", "{seed}", outputs=(JobOutput("/m", "s3://b/model"),))
    assert "job.outputs: Members 1 and 2" in said(sharing_problems(planned(shared, "s1")))
    on_disk = with_command("{lr}", "{seed}", checkpoint=CheckpointPlan("/var/run"))
    assert said(sharing_problems(planned(on_disk, "s1"))) == ""


def test_problem_of_all_members_is_told_once() -> None:
    """A problem of some members names them."""
    of_all = [(number, JobRefusal("preset", "There is none.")) for number in (1, 2, 3)]
    merged = described([*of_all, (2, JobRefusal("name", "Too long."))], 3)
    assert [one.message for one in merged] == ["There is none.", "Member 2: Too long."]


def test_seeds_are_one_more_parameter() -> None:
    """Each set of parameters is launched with each seed; texts that have {seed} get it."""
    wanted = order(template=with_command("train", "{lr}", "{seed}").template, grid={"lr": ("1e-4", "3e-4")}, seeds=3)
    plans = planned(seeded(wanted), "s1")
    assert [dict(plan.parameters) for plan in plans[:4]] == [
        {"lr": "1e-4", "seed": "1"},
        {"lr": "1e-4", "seed": "2"},
        {"lr": "1e-4", "seed": "3"},
        {"lr": "3e-4", "seed": "1"},
    ]
    assert "SEED" not in plans[0].submission.spec.environment


def test_unchanged_job_runs_with_seeds_in_places_of_their_own() -> None:
    """A script without {seed} reads SEED; its checkpoints and outputs would otherwise be written over one another."""
    template = asked(
        command=("python", "train.py"),
        checkpoint=CheckpointPlan("gs://lab/run/", local="/out", publish_to="gs://lab/best"),
        outputs=(JobOutput("/data/model", "gs://lab/models/{member}"), JobOutput("/data/log", "gs://lab/log")),
    )
    plans = planned(seeded(SweepOrder(template, {}, seeds=2)), "s1")
    first, second = (plan.submission.spec for plan in plans)
    assert (first.environment, second.environment) == ({"SEED": "1"}, {"SEED": "2"})
    assert first.checkpoint is not None
    assert first.checkpoint.location == "gs://lab/run/seed-1"
    assert first.checkpoint.publish_to == "gs://lab/best/seed-1"
    assert [output.destination for output in second.outputs] == ["gs://lab/models/2", "gs://lab/log/seed-2"]
    assert not list(sharing_problems(plans))
    assert not list(parameter_problems(SweepOrder(template, {}, seeds=2)))


def test_seeds_next_to_a_parameter_of_that_name_are_refused() -> None:
    """The seeds' number counts with the others, too."""
    assert "seed is a parameter already" in said(parameter_problems(replace(order(), seeds=2)))
    many = SweepOrder(order().template, {"lr": tuple(str(number) for number in range(50))}, seeds=5)
    assert "This makes 250 members" in said(parameter_problems(many))
