"""The metric in a command's output: the last and the best value, with their steps, however the output is rotated."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import Vm

from costguard_vm.agent.log_reader import LogPlace, LogReader
from costguard_vm.agent.metric import MOST_BYTES, MetricReader, number_in
from costguard_vm.agent.output import OutputLog
from costguard_vm.agent.settings import AttemptSettings


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.3417,", 0.3417),
        ("'0.3417',", 0.3417),
        ("\x1b[32m2.5\x1b[0m", 2.5),
        ("-1e-05)", -1e-05),
        (".5]", 0.5),
        ("= 7", 7.0),
        ("95%|###", 95.0),
        ("1,", 1.0),
        ("1,234.5", None),
        ("12abc", None),
        ("1.2.3", None),
        ("none", None),
        ("", None),
    ],
)
def test_a_number_is_read_with_what_trainers_put_around_it(text: str, number: float | None) -> None:
    """A number that may be cut is none: 1,234 is not 1."""
    assert number_in(text) == number
    assert math.isnan(number_in("nan,") or 0)
    assert number_in("-inf") == -math.inf


# Lines as Hugging Face's Trainer (printer_callback.py prints the dictionary of logs), PyTorch Lightning's progress bar
# (its documentation of `prog_bar=True`) and Keras (progbar.py) print them.
HUGGING_FACE = (
    "{'loss': 1.4231, 'grad_norm': 3.02, 'learning_rate': 4.9e-05, 'epoch': 0.5}\n"
    "{'eval_loss': 0.8012, 'eval_runtime': 1.2, 'epoch': 1.0}\n 50%|#####     | 100/200 [00:10<00:10]\n"
    "{'eval_loss': 0.7544, 'eval_runtime': 1.2, 'epoch': 2.0}\n{'eval_loss': 0.7701, 'epoch': 3.0}\n"
)
LIGHTNING = "".join(
    f"Epoch {epoch}: 100%|####| 118/118 [00:02<00:00, 47.25it/s, v_num=3, val_acc={value}]\r"
    for epoch, value in enumerate((0.61, 0.83, 0.79))
)
KERAS = "25/25 - 1s - 40ms/step - loss: 0.31 - val_loss: 0.42\n25/25 - 1s - 41ms/step - loss: 0.28 - val_loss: 0.44\n"


@pytest.mark.parametrize(
    ("output", "pattern", "better", "last", "best"),
    [
        (HUGGING_FACE, r"'eval_loss': (\S+)", "lower", "0.7701", "0.7544"),
        (LIGHTNING, r"val_acc=([\d.]+)", "higher", "0.79", "0.83"),
        (KERAS, r"val_loss: (\S+)", "lower", "0.44", "0.42"),
        ("val 3\nval nan\n", r"val (\S+)", "lower", "nan", "3.0"),
    ],
)
def test_last_and_best_of_what_trainers_print(
    tmp_path: Path, output: str, pattern: str, better: str, last: str, best: str
) -> None:
    """The value is read also from a progress bar, which overwrites its line; nan is a last value and never the best."""
    reader = reader_of(tmp_path, output, metric_pattern=pattern, metric_better=better)
    seen = reader.look(None, is_final=True)["metric"]
    assert (seen["better"], seen["last"]["value"], seen["best"]["value"]) == (better, last, best)


def test_a_value_has_the_step_that_was_printed_last_until_the_end_of_its_line(tmp_path: Path) -> None:
    """The step is on its own line, or on one before it; the step of the job counts only where none was printed."""
    output = "step 10\nval 3.5\nstep 20 val 2.5\nval 9 step 30\nstep 31\n"
    seen = reader_of(tmp_path, output, metric_pattern=r"val (\S+)").look(99, is_final=True)["metric"]
    assert (seen["best"]["value"], seen["best"]["step"]) == ("2.5", 20)
    assert (seen["last"]["value"], seen["last"]["step"]) == ("9.0", 30)
    unprinted = reader_of(tmp_path / "more", "val 1\n", metric_pattern=r"val (\S+)").look(99, is_final=True)["metric"]
    assert unprinted["last"]["step"] == 99


def test_a_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    """Half a number is none; the last line of a command that ended needs no end."""
    log = tmp_path / "log"
    reader = reader_of(tmp_path, "val 0.7\nval 0.", metric_pattern=r"val (\S+)")
    assert reader.look(None)["metric"]["last"]["value"] == "0.7"
    with log.open("a") as file:
        file.write("25")
    assert reader.look(None)["metric"]["last"]["value"] == "0.7"
    assert reader.look(None, is_final=True)["metric"]["last"]["value"] == "0.25"


def test_of_a_flood_the_end_is_read(tmp_path: Path) -> None:
    """The end is read in a bounded time, and the best is of what was read."""
    flood = "val 0.1\n" + "x" * 100 + "\n"
    log = tmp_path / "log"
    log.write_text("val 0.01\n" + flood * (2 * MOST_BYTES // len(flood)) + "val 0.5\n")
    seen = MetricReader(AttemptSettings(metric_pattern=r"val (\S+)"), str(log)).look(None, is_final=True)["metric"]
    assert (seen["last"]["value"], seen["best"]["value"]) == ("0.5", "0.1")


values = st.integers(0, 99).map(lambda number: f"val {number}")
lines = st.lists(st.one_of(values, st.sampled_from(["step", "val", "epoch 3", ""])), max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(lines, max_size=5))
def test_it_finds_what_python_finds(tmp_path_factory: pytest.TempPathFactory, parts: list[list[str]]) -> None:
    """The result equals Python's own expressions, whatever part of the output each look sees."""
    log = tmp_path_factory.mktemp("log") / "log"
    reader = MetricReader(AttemptSettings(metric_pattern=r"val (\d+)"), str(log))
    with log.open("a") as file:
        for part in parts:
            file.write("".join(f"{line}\n" for line in part))
            file.flush()
            reader.look(None)
    seen = reader.look(None, is_final=True)
    expected = [float(number) for number in re.findall(r"val (\d+)", log.read_text())]
    if not expected:
        assert seen == {}
    else:
        assert float(seen["metric"]["last"]["value"]) == expected[-1]
        assert float(seen["metric"]["best"]["value"]) == min(expected)


def test_a_log_is_read_on_over_its_renames(tmp_path: Path) -> None:
    """Each byte once and in order; also by a later reader, from the place that the earlier one came to."""
    log = OutputLog(str(tmp_path / "log"), most_bytes=100, files=3)
    reader = LogReader(str(tmp_path / "log"))
    read, written = b"", b""
    for number in range(60):
        line = b"line %d\n" % number
        log.write(line)
        written += line
        if number % 7 == 0:
            read += reader.newest(MOST_BYTES)
        if number % 20 == 0:
            place = reader.place
            reader.close()
            reader = LogReader(str(tmp_path / "log"), place)
    log.close()
    read += reader.newest(MOST_BYTES)
    reader.close()
    assert read == written
    assert not reader.lost


def test_files_that_were_rotated_away_unread_are_noticed(tmp_path: Path) -> None:
    """The rest is read from its beginning, and that something may be missing is known."""
    log = OutputLog(str(tmp_path / "log"), most_bytes=100, files=2)
    log.write(b"first\n")
    reader = LogReader(str(tmp_path / "log"))
    assert reader.read() == b"first\n"
    for number in range(60):
        log.write(b"line %d\n" % number)
    log.close()
    rest = reader.newest(MOST_BYTES)
    assert rest.endswith(b"line 58\nline 59\n")
    assert reader.lost
    reader.close()
    later = LogReader(str(tmp_path / "log"), LogPlace(1, 7))
    assert later.lost
    later.close()


def test_the_guard_hears_of_the_metric(vm: Vm, guard: FakeGuard) -> None:
    """The metric is in heartbeats while the command runs, and in its exit."""
    vm.train(
        f"{WAIT}\nprint('step 1 val 0.5')\nprint('step 2 val 0.25')\nwait('go')\nprint('step 3 val 0.75')",
        metric_pattern=r"val (\S+)",
    )
    vm.boot()
    beat = guard.wait_for("heartbeat", lambda event: "metric" in event)
    assert (beat["metric"]["last"]["value"], beat["metric"]["last"]["step"]) == ("0.25", 2)
    (vm.work / "go").touch()
    metric = guard.wait_for("exit")["metric"]
    assert (metric["last"]["value"], metric["last"]["step"]) == ("0.75", 3)
    assert (metric["best"]["value"], metric["best"]["step"]) == ("0.25", 2)


def reader_of(folder: Path, output: str, **more: str) -> MetricReader:
    folder.mkdir(exist_ok=True)
    (folder / "log").write_text(output)
    return MetricReader(AttemptSettings(**more), str(folder / "log"))  # type: ignore[arg-type]  # all of them are text
