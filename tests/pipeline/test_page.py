"""The page that `make pipeline` wrote last, and how the harness decides that a run was right."""

from __future__ import annotations

from tests.pipeline.journeys import JOURNEYS, LAST_STEP, MODELS, RUNS
from tests.pipeline.report import PAGE
from tests.pipeline.runs import JourneyRun

RIGHT = JourneyRun(
    JOURNEYS[0],
    attempts=[{"outcome": "preempted"}] * 3 + [{"outcome": "succeeded"}],
    output=["hugging_face/_SUCCESS", "hugging_face/config.json", "hugging_face/model.safetensors"],
    step=LAST_STEP,
    final="ab",
    uninterrupted="ab",
)


def _rows() -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]


def test_the_page_shows_three_scripts_with_the_weights_of_uninterrupted_runs() -> None:
    """The scripts are of Transformers, Lightning and plain PyTorch; the first was preempted three times."""
    rows = {row[0]: row for row in _rows()}
    for journey in JOURNEYS:
        row = rows[journey.title]
        assert row[1] == ", ".join(["preempted"] * len(journey.interruptions) + ["succeeded"])
        assert row[-1] == "equal"
    assert rows["Transformers Trainer"][1].count("preempted") == 3


def test_the_page_names_a_held_upload_and_a_held_download() -> None:
    """The objects were in the middle of their transfer when the VM was taken away."""
    text = PAGE.read_text()
    assert f"during an upload of a checkpoint: /{RUNS}/hugging_face/" in text
    assert f"during the download of the checkpoint to resume from: /{RUNS}/hugging_face/" in text
    assert f"while the output was being uploaded: /{MODELS}/torch_loop/" in text


def test_two_hundred_kills_did_no_harm() -> None:
    """While data came, in the setup, and from then on to the end; the sum is that of the rows."""
    rows = [row for row in _rows() if len(row) == 2 and row[1].isdecimal()]
    counts = {name: int(count) for name, count in rows}
    total = counts.pop("All")
    assert total == sum(counts.values()) >= 200
    assert {"downloading", "setup"} <= set(counts)
    assert "Harm done: 0." in PAGE.read_text()


def test_a_run_that_is_right_has_nothing_wrong() -> None:
    """All attempts as planned, the model published, its weights equal."""
    assert RIGHT.wrong == []


def test_whatever_is_wrong_with_a_run_is_said() -> None:
    """Other weights or ends, a model that is half published, an old checkpoint, a page that lacks something."""
    for field, value, part in (
        ("final", "cd", "weights differ"),
        ("attempts", [{"outcome": "succeeded"}], "the attempts ended succeeded"),
        ("output", ["hugging_face/_SUCCESS"], "the output holds"),
        ("output", ["hugging_face/model.safetensors"], "the output holds"),
        ("output", [*RIGHT.output, "hugging_face/.costguard/a1/model.safetensors"], "the output holds"),
        ("step", 75, "the newest checkpoint is of step 75"),
        ("missing", ["its setup (x)"], "the page lacks its setup"),
        ("downloads", {"/acme-data/v7/a": 9}, "/acme-data/v7/a was downloaded 9 times"),
    ):
        run = JourneyRun(**{**vars(RIGHT), field: value})
        assert [sentence for sentence in run.wrong if part in sentence], field
