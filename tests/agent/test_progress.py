"""The agent reads the command's progress: its output, the step file, a trainer's own state."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import Vm

from costguard_vm.agent.progress import MOST_WORK_S, ProgressReader, TrainerStates, shown
from costguard_vm.agent.settings import AttemptSettings

BAR = "\r {0}%|#####     | {0}/100 [00:10<01:30,  5.00it/s]"


class Watched:
    """A reader with the files that it reads."""

    def __init__(self, folder: Path, settings: AttemptSettings) -> None:
        self.log, self.step_file, self.settings = folder / "log", folder / "step", settings
        self.reader = self.new()

    def new(self) -> ProgressReader:
        return ProgressReader(self.settings, str(self.log), str(self.step_file), "")

    def prints(self, text: str) -> dict[str, Any]:
        with self.log.open("a") as log:
            log.write(text)
        return self.look()

    def look(self, step: int | None = None) -> dict[str, Any]:
        self.reader.look(step)
        state: dict[str, Any] = self.reader.state().get("progress", {})
        return state

    def points(self) -> list[dict[str, Any]]:
        return self.reader.points({}, is_final=True)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    begun = Watched(tmp_path, AttemptSettings())
    yield begun
    begun.reader.look(None, is_final=True)


def test_a_real_run_reports_progress_and_points(vm: Vm, guard: FakeGuard) -> None:
    """A bar drawn with carriage returns, a dictionary, an evaluation: heartbeats carry them, then the points come."""
    script = f"""{WAIT}
import sys
for n in (1, 20, 40): sys.stderr.write({BAR!r}.format(n))
print("\\n{{'loss': 1.25, 'learning_rate': 1e-05, 'epoch': 0.4}}")
print("{{'eval_loss': 1.5, 'epoch': 0.4}}")
wait('go')
"""
    vm.train(script)
    vm.boot()
    beat = guard.wait_for("heartbeat", lambda event: event.get("progress", {}).get("phase") == "eval")
    progress = beat["progress"]
    assert (beat["step"], progress["done"], progress["of"], progress["loss"]) == (40, 40, 100, 1.25)
    assert progress["metrics"]["eval_loss"] == 1.5
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert vm.finished() == 0
    [points] = [event["points"] for event in guard.events if event["kind"] == "progress"]
    # Of bars that are read in one look only the last is seen; the first that was seen is never left out.
    *first, train, evaluation = [(one["phase"], one["done"]) for one in points]
    assert (train, evaluation) == (("train", 40), ("eval", 40))
    assert first in ([("train", 1)], [("train", 20)], [("train", 40)])


def test_the_owners_pattern_wins(watched: Watched) -> None:
    """The pattern's match is the step, whatever else the line seems to count."""
    watched.settings = AttemptSettings(step_pattern=r"optimized (\d+)")
    watched.reader = watched.new()
    watched.prints("step: 900 loss: 0.5 optimized 7\n")
    state = watched.look(7)
    assert (state["done"], state["loss"]) == (7, 0.5)


def test_the_step_file_holds_a_number(watched: Watched) -> None:
    """It wins over the output."""
    watched.prints("step: 900 loss: 0.5\n")
    watched.step_file.write_text("step 1201\n")
    assert watched.look()["done"] == 1201


def test_the_step_file_holds_json_lines(watched: Watched) -> None:
    """Appended or written again whole, each line is read once."""
    watched.step_file.write_text('{"step": 10, "total": 400, "loss": 0.9}\n')
    assert watched.look()["of"] == 400
    with watched.step_file.open("a") as file:
        file.write('{"step": 20, "loss": 0.8, "eval_acc": 0.6}\n{"step": 30, "lo')
    state = watched.look()
    assert (state["done"], state["of"], state["loss"], state["metrics"]) == (20, 400, 0.8, {"eval_acc": 0.6})
    watched.step_file.write_text('{"step": 40, "loss": 0.7}')
    assert watched.look()["done"] == 40


def test_a_pipe_as_step_file_holds_nothing_up(watched: Watched) -> None:
    """Opening one that nobody writes to would wait forever, and no heartbeat would be sent."""
    os.mkfifo(watched.step_file)
    assert watched.prints("step: 3 loss: 0.5\n")["done"] == 3


def trainer_state(step: int) -> dict[str, Any]:
    """Returns a state as transformers 4.46 writes it: github.com/huggingface/transformers,
    src/transformers/trainer_callback.py.
    """
    history = [{"epoch": n / 100, "grad_norm": 1.5, "learning_rate": 1e-05, "loss": 3 - n / 500, "step": n}
               for n in range(100, step + 1, 100)]  # fmt: skip
    evaluation = {"epoch": step / 100, "eval_loss": 1.75, "eval_runtime": 2.5, "eval_samples_per_second": 40.0,
                  "eval_steps_per_second": 5.0, "step": step}  # fmt: skip
    return {"best_metric": None, "epoch": step / 100, "eval_steps": 100, "global_step": step,
            "is_world_process_zero": True, "log_history": [*history, evaluation], "logging_steps": 100,
            "max_steps": 2000, "num_input_tokens_seen": 0, "num_train_epochs": 20, "save_steps": 500}  # fmt: skip


def write_state(folder: Path, step: int, document: dict[str, Any], age_s: float = -5) -> None:
    place = folder / f"checkpoint-{step}"
    place.mkdir()
    (place / "trainer_state.json").write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    written_s = (place / "trainer_state.json").stat().st_mtime - age_s
    os.utime(place / "trainer_state.json", (written_s, written_s))


def test_a_trainers_state_tells_what_the_output_does_not(tmp_path: Path) -> None:
    """Step, total, loss and evaluation of a run that prints nothing; one from before this run tells nothing."""
    write_state(tmp_path, 300, trainer_state(300), age_s=3600)
    states = TrainerStates(str(tmp_path))
    assert states.look() == []
    write_state(tmp_path, 500, trainer_state(500))
    readings = states.look()
    assert [(one.phase, one.step, one.total) for one in readings][-2:] == [("train", 500, 2000), ("eval", 500, 2000)]
    assert readings[-1].metrics == {"eval_loss": 1.75}
    assert states.look() == []


def test_of_a_trainers_long_state_the_numbers_are_read(tmp_path: Path) -> None:
    """A history of megabytes would take the agent's memory. The names are sorted: step and total stand at its ends."""
    document = trainer_state(500)
    document["log_history"] = document["log_history"] * 4000
    states = TrainerStates(str(tmp_path))
    write_state(tmp_path, 500, document)
    assert [(one.step, one.total, one.epoch_total) for one in states.look()] == [(500, 2000, 20)]


def test_a_later_agent_repeats_no_points(watched: Watched) -> None:
    """It reads the output from the beginning, to know where the training stands."""
    watched.prints("step: 900 loss: 0.5\n")
    assert [one["done"] for one in watched.points()] == [900]
    watched.reader.look(None, is_final=True)
    watched.reader = watched.new()
    assert watched.look()["done"] == 900
    assert watched.points() == []
    watched.prints("step: 901 loss: 0.4\n")
    assert [one["done"] for one in watched.points()] == [901]


def test_points_wait_for_their_minute_but_for_values_that_are_not_finite(watched: Watched) -> None:
    """A loss that became nan is sent at once."""
    watched.prints("step: 1 loss: 0.5\n")
    assert watched.reader.points({}) == []
    watched.prints("step: 2 loss: nan\n")
    assert [one.get("loss") for one in watched.reader.points({})] == [0.5, "nan"]


def test_the_jobs_own_metric_becomes_a_point_once(watched: Watched) -> None:
    """The point has the position at which it was seen."""
    watched.prints("step: 5 loss: 0.5\n")
    metric = {"metric": {"last": {"value": "0.31", "at": "2026-11-22T10:00:00+00:00", "step": 5}}}
    named = [one for one in watched.reader.points(metric, True) if one["phase"] == "named"]
    assert [(one["done"], one["metrics"]) for one in named] == [(5, {"metric": 0.31})]
    assert watched.reader.points(metric, True) == []


def test_a_bar_that_is_drawn_again_is_read_once() -> None:
    """The last of thousands of drawings says where the training is; other lines stay."""
    bars = [f" {n}%|###| {n}/100 [00:10<01:30]" for n in range(1, 90)]
    assert shown(["Epoch 1", *bars, "loss: 0.5"]) == ["Epoch 1", bars[-1], "loss: 0.5"]


def test_costly_output_is_left_unread(watched: Watched) -> None:
    """A megabyte of lines that take long to read costs about as much as the bound, and not minutes."""
    before = time.thread_time()
    watched.prints(("a-" * 1900 + "\n") * 270)
    assert time.thread_time() - before < 10 * MOST_WORK_S
