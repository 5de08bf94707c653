"""`costguard alike` and the presets in a quote, as the terminal shows them."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from tests.cli.test_launch import QUOTE

from costguard.cli.job.alike import show_alike
from costguard.cli.job.quotes import show_quote

JOB = {"id": "j1", "is_same_command": True}
T4 = {
    "preset": "t4",
    "machine_type": "n1-standard-8",
    "steps": 30600,
    "cost_per_1000_steps": "0.0536",
    "best": 1.2457,
    "cost_to_reach": "1.20",
    "jobs": [JOB],
}
A100 = {**T4, "preset": "a100", "cost_per_1000_steps": None, "steps": None, "cost_to_reach": "0.80"}
ANSWER = {
    "job": "j1",
    "metric": {"name": "eval_loss", "better": "lower"},
    "target": 1.2457,
    "text": "a100 (a2-highgpu-1g) is the cheapest: $0.80 until its metric was as good, 33% less than t4",
    "machines": [A100, T4],
}


def _shown(answer: Any, show: Any = show_alike) -> str:
    console = Console(width=200, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        show(console, answer)
    return captured.get()


def test_machines_stand_in_a_table_with_the_cheapest_in_a_sentence() -> None:
    """Unknown is a dash."""
    text = _shown(ANSWER)
    assert "a100 (a2-highgpu-1g) is the cheapest: $0.80" in text
    assert "As good: eval_loss 1.2457 (lower is better)." in text
    (a100,) = [line for line in text.splitlines() if line.startswith("a100 ") and "-standard-" in line]
    assert "$0.800" in a100
    assert " - " in a100
    (t4,) = [line for line in text.splitlines() if line.strip().startswith("t4 ")]
    assert "$0.054" in t4
    assert "30,600" in t4


def test_one_machine_alone_says_how_to_get_another() -> None:
    """The command that launches it on another preset is printed."""
    text = _shown({**ANSWER, "machines": [T4], "text": "", "target": None})
    assert "costguard launch --like j1 PRESET" in text


def test_other_options_are_said() -> None:
    """A step of a larger batch does more."""
    other = {**T4, "jobs": [{**JOB, "is_same_command": False}]}
    assert "had other options" in _shown({**ANSWER, "machines": [A100, other]})
    assert "had other options" not in _shown(ANSWER)


PRESET = {
    "preset": "t4",
    "machine_type": "n1-standard-8",
    "rate_per_hour": "0.1715",
    "provisioning_model": "spot",
    "peak_tflops": 65.0,
    "peak_number": "fp16",
    "memory_gb_per_s": 320.0,
    "per_exaflop": "0.7329",
    "per_tb_s_hour": "0.5359",
}
UNKNOWN = {
    **PRESET,
    "preset": "odd",
    "rate_per_hour": None,
    "provisioning_model": None,
    "peak_tflops": None,
    "peak_number": None,
    "memory_gb_per_s": None,
    "per_exaflop": None,
    "per_tb_s_hour": None,
}


def test_a_quote_compares_presets_where_there_are_several() -> None:
    """An unpriced preset without figures says so; servers of an earlier version send no presets."""
    text = _shown({**QUOTE, "presets": [PRESET, UNKNOWN]}, show_quote)
    assert "65 fp16" in text
    assert "$0.733" in text
    (odd,) = [line for line in text.splitlines() if line.strip().startswith("odd ")]
    assert "unpriced" in odd
    assert "EFLOP" not in _shown({**QUOTE, "presets": [PRESET]}, show_quote)
    assert "EFLOP" not in _shown(QUOTE, show_quote)
