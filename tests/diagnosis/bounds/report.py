"""Reports the runs: truth by intervention, the rule's verdicts, and the tables of docs/diagnosis.md."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.bounds import judge
from costguard_vm.diagnosis.kinds import BoundVerdict
from costguard_vm.diagnosis.signals import Minute, read_minute
from costguard_vm.diagnosis.stacks import summed_up
from costguard_vm.diagnosis.window import window_of

SAMPLES = Path(__file__).with_name("samples.json.gz")
PAGE = Path(__file__).parents[3] / "service" / "docs" / "diagnosis.md"
BEGIN, END = "<!-- tables: make bounds -->\n", "<!-- end of tables -->\n"
RIGHT, WRONG, UNDECIDED = "right", "wrong", "unknown"
_SHORTER = 1.15  # a step that much shorter by an intervention was bound by what it took away
_WARM_UP, _WINDOW = 1, 5  # minutes
_FRAMES = 20  # of a stack that are kept
NOTHING = "nothing on the VM"  # the GPU works all the time


@dataclass(frozen=True)
class RecordedRun:
    """`steps` are seconds of a step as it was and under each intervention."""

    name: str
    half: int
    steps: Mapping[str, float]
    minutes: Sequence[Mapping[str, Any]]

    @property
    def cause(self) -> str:
        return self.name.split(", ")[1].split(" ")[0]

    @cached_property
    def truth(self) -> str:
        """Returns the truth by what shortens a step: resident data, or the host's part left out.

        The run is the mean of its repeats.
        """
        repeats = [value for name, value in self.steps.items() if name.startswith("real")]
        real = sum(repeats) / len(repeats)
        taken = self.steps["resident"]
        if self.cause == "launches":  # resident data is also launched at once, so that it tells nothing there
            taken = self.steps.get("without the host's part", real)
        if real / taken <= _SHORTER:
            return NOTHING
        truths = {"decode": kinds.INPUT, "sleep": kinds.INPUT, "disk": kinds.INPUT, "checkpoint": kinds.CHECKPOINT}
        return truths.get(self.cause, kinds.HOST)

    def windows(self, *, with_stacks: bool) -> list[BoundVerdict]:
        read = [_minute(one, with_stacks=with_stacks) for one in self.minutes[_WARM_UP:]]
        return [judge(window_of(read[at : at + _WINDOW])) for at in range(0, len(read) - _WINDOW + 1, _WINDOW)]

    def held(self, *, with_stacks: bool) -> str:
        """The verdict of two equal windows, as the product speaks; else unknown."""
        verdicts = self.windows(with_stacks=with_stacks)
        return verdicts[0].bound if len({verdict.bound for verdict in verdicts}) == 1 else kinds.UNKNOWN


def _minute(document: Mapping[str, Any], *, with_stacks: bool) -> Minute:
    minute = read_minute(document) or Minute()
    raw = {tuple(stack.split(" < ")): count for stack, count in document.get("raw_stacks", {}).items()}
    return minute._replace(stacks=summed_up(raw)) if with_stacks and raw else minute


def outcome(truth: str, bound: str) -> str:
    """`input or host` is right for either: it says what it cannot tell apart."""
    if bound == kinds.UNKNOWN or (bound == kinds.INPUT_OR_HOST and truth in (kinds.INPUT, kinds.HOST)):
        return UNDECIDED
    right = {NOTHING: {kinds.GPU, kinds.COMPUTE, kinds.MEMORY_BANDWIDTH, kinds.MEMORY_CAPACITY}}
    return RIGHT if bound in right.get(truth, {truth}) else WRONG


def stored_runs() -> list[RecordedRun]:
    return [RecordedRun(**one) for one in json.loads(gzip.decompress(SAMPLES.read_bytes()))]


def store(runs: Iterable[Mapping[str, Any]]) -> None:
    """Two windows of each run, and of each stack the innermost frames."""
    kept = []
    for run in runs:
        minutes = [_short(one) for one in run["minutes"][: _WARM_UP + 2 * _WINDOW]]
        kept.append({**run, "minutes": minutes})
    text = json.dumps(kept, separators=(",", ":"))
    SAMPLES.write_bytes(gzip.compress(text.encode(), mtime=0))


def _short(minute: Mapping[str, Any]) -> dict[str, Any]:
    stacks: Counter[str] = Counter()
    for stack, count in minute.get("raw_stacks", {}).items():
        stacks[" < ".join(stack.split(" < ")[:_FRAMES])] += count
    return {**minute, "raw_stacks": dict(stacks)}


def tables(runs: Sequence[RecordedRun]) -> str:
    """The confusion matrix of each half, with stacks and without."""
    parts = []
    for half, name in ((1, "First half: it chose the rule's details"), (2, "Second half: judged once, after that")):
        mine = [run for run in runs if run.half == half]
        for with_stacks in (True, False) if mine else ():
            how = "with the main thread's stacks" if with_stacks else "without stacks"
            parts.append(f"**{name}; {how}** ({len(mine)} runs)\n\n{_matrix(mine, with_stacks=with_stacks)}")
    return "\n".join(parts)


def _matrix(runs: Sequence[RecordedRun], *, with_stacks: bool) -> str:
    counts = Counter((run.truth, run.held(with_stacks=with_stacks)) for run in runs)
    columns = [bound for bound in kinds.BOUNDS if any(said == bound for _, said in counts)]
    lines = [f"| what an intervention showed | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for truth in (NOTHING, kinds.INPUT, kinds.HOST, kinds.CHECKPOINT):
        row = [str(counts[truth, bound] or "") for bound in columns]
        lines.append(f"| {truth} | {' | '.join(row)} |")
    outcomes = Counter(outcome(run.truth, run.held(with_stacks=with_stacks)) for run in runs)
    said = ", ".join(f"{outcomes[one]} {one}" for one in (RIGHT, WRONG, UNDECIDED))
    return "\n".join(lines) + f"\n\n{said}.\n"


def write_page(runs: Sequence[RecordedRun]) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{tables(runs)}{END}{after}")
