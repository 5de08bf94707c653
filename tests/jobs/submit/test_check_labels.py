"""The labels that a job asks for on its VMs: in Google's characters, and none that says what it may not."""

from __future__ import annotations

import pytest
from tests.jobs.job_rows import job

from costguard.jobs.submit.check.check_labels import MOST_LABELS, label_problems, label_value
from costguard.model.job import Job

PRESET = {"team": "vision"}


def wrong(**labels: str) -> list[tuple[str, str]]:
    given = {key.replace("__", "-"): value for key, value in labels.items()}
    return [(one.where, one.message) for one in label_problems(given, PRESET, "owner")]


def test_labels_in_googles_characters_are_taken() -> None:
    """Up to 63 of them are taken, and an empty value; one that the preset has already with the same value too."""
    assert wrong(flyte__execution="f3b1c7d2", run_7="a-b_c", empty="", team="vision", longest="x" * 63) == []


@pytest.mark.parametrize(
    ("value", "instead"),
    [("Run 7", "run-7"), ("scheduled__2026-11-29T00:00:00+00:00", "scheduled__2026-11-29t00-00-00-00-00")],
)
def test_a_value_that_google_does_not_take_is_refused_with_one_that_it_does(value: str, instead: str) -> None:
    """An id of a run of Airflow's becomes one that is as near to it as can be."""
    ((where, message),) = wrong(airflow__run=value)
    assert where == "labels.airflow-run"
    assert message.endswith(f"write {instead}.")
    assert wrong(airflow__run=instead) == []
    assert label_value("x" * 70) == "x" * 63


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        pytest.param({"costguard__job": "j1"}, "Costguard's or Google's own", id="Costguard's"),
        pytest.param({"goog__gke__node": ""}, "Costguard's or Google's own", id="Google's"),
        pytest.param({"owner": "bob"}, "names a VM's owner", id="the owner's"),
        pytest.param({"team": "speech"}, "Its preset sets this to 'vision'", id="a preset's"),
        pytest.param({"Team": "a"}, "is no label's key", id="upper case"),
        pytest.param({f"l{number}": "" for number in range(MOST_LABELS + 1)}, "16 labels at most", id="too many"),
    ],
)
def test_labels_that_would_say_what_they_may_not_are_refused(labels: dict[str, str], words: str) -> None:
    """Budgets hold jobs by labels of presets, and rules go by the owner's and Google's."""
    (message,) = [message for _, message in wrong(**labels) if words in message]
    assert message


def test_a_job_has_its_own_labels_and_its_presets() -> None:
    """The preset's stay, whatever an earlier version let in."""
    made: Job = job(labels={"flyte-execution": "f3b1", "team": "speech"})
    assert made.labels == {"flyte-execution": "f3b1", "team": "vision"}
