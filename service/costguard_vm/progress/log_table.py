"""Tables that trainings print: a line of names, and rows below it. Travels with the agent."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from costguard_vm.progress.log_line import is_counter, is_metric, is_number, is_step, number, parted, whole

_BETWEEN = re.compile(r"[\s|\u2502]+")
_EDGES = " |\u2502:"
_VALUE = re.compile(r"[\[(]?\d")  # "1/3," and "[1/5]" are no names of columns


class Row(NamedTuple):
    """A row of training, as its columns name it."""

    step: int | None
    epoch: float | None
    epoch_total: int | None
    loss: float | None
    metrics: dict[str, float]


class Table:
    """Keeps the columns of the last heading."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self.is_of_evaluation = False

    def heading(self, text: str) -> bool:
        """Takes the columns where the line names some; says whether it did."""
        heading = table_heading(text)
        if heading is not None:
            self._columns, self.is_of_evaluation = heading
        return heading is not None

    def evaluation(self, text: str) -> dict[str, float] | None:
        """Returns the metrics of the row of all classes."""
        cells = self._cells(text)
        if cells is None or not self.is_of_evaluation or cells[0].lower() != "all":
            return None
        named = zip(self._columns[1:], cells[1:])
        return {name: number(cell) for name, cell in named if is_number(cell) and is_metric(name)}

    def row(self, text: str) -> Row | None:
        """Returns a row of training: as many cells as columns, and numbers where the columns want them."""
        cells = self._cells(text)
        if cells is None or self.is_of_evaluation:
            return None
        by_name = dict(zip((name.lower() for name in self._columns), cells))
        epoch = re.fullmatch(r"(\d+)(?:/(\d+))?", by_name.get("epoch", ""))
        step = next((by_name[name] for name in by_name if is_step(name) and by_name[name].isdecimal()), None)
        if epoch is None and step is None:
            return None
        values: list[Any] = [
            (name, number(by_name[name.lower()]), "") for name in self._columns if is_number(by_name[name.lower()])
        ]
        loss, metrics = parted([one for one in values if not is_counter(one[0])], is_training=True)
        if epoch is None:
            return Row(whole(step), None, None, loss, metrics)
        return Row(whole(step), float(epoch[1]), whole(epoch[2]), loss, metrics)

    def _cells(self, text: str) -> list[str] | None:
        cells = _BETWEEN.split(text.strip(_EDGES)) if self._columns else []
        return cells if cells and len(cells) == len(self._columns) else None


def table_heading(text: str) -> tuple[list[str], bool] | None:
    """The columns of a table: a line of names, one of them the epoch, the step or a class. True: of an evaluation."""
    words = _BETWEEN.split(text.strip(_EDGES))
    names = [word.strip(":()") for word in words if word.strip(":()")]
    lowered = [name.lower() for name in names]
    is_of_training = bool({"epoch", "step", "iter", "iteration"} & set(lowered[:2]))
    is_of_evaluation = lowered[:2] in (["class", "images"], ["class", "instances"])
    is_heading = len(names) >= 3 and (is_of_training or is_of_evaluation) and not any(map(_VALUE.match, names))
    if not is_heading or re.search(r"[:=]\s*\S", text.strip(" :")):
        return None
    columns = re.sub(r"\w+\((?=\w)", "", text).replace(")", " ").replace("|", " ").replace(":", " ").split()
    if is_of_evaluation:
        columns = [word.replace("mAP@.5 .95", "mAP@.5:.95") for word in columns]
    return columns, is_of_evaluation
