"""Reads step, epoch, loss and metrics out of what a training prints, whatever program printed it.

It leans on what formats share: a name, a sign and a number; `n/total`; epoch, step, iter; loss, val_, eval_. What it
is not sure of it leaves out. Tested against real output of 14 programs and more (tests/progress). Travels with the
agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from costguard_vm.progress import log_patterns as shapes
from costguard_vm.progress.log_headings import Headings
from costguard_vm.progress.log_line import (
    EVAL,
    TOTALS,
    TRAIN,
    LogReading,
    cleaned,
    count,
    counts_of,
    dictionary,
    is_counter,
    is_evaluation,
    is_known_metric,
    is_metric,
    is_structured,
    is_timed_evaluation,
    kind_of,
    name_of_loss,
    numbers_of,
    pairs,
    parted,
    values_after,
    whole,
    without_counters,
    without_prefix,
    without_time,
    without_vast_numbers,
)
from costguard_vm.progress.log_table import Table

LINE_END = re.compile(r"\r\n|\n|\r")


class OutputReader:
    """Reads lines in their order. It keeps what a later line relies on: the epoch, the bar, the columns."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._epoch_total: int | None = None
        self._step: int | None = None  # of the bar of the whole run
        self._run_total: int | None = None
        self._batch_total: int | None = None  # of the training's bar within an epoch
        self._is_epoch_over = False
        self._table = Table()
        self._headings = Headings()
        self._is_headed = False  # the line before named an epoch, and nothing else
        self._are_epochs_headed = False  # such a line came before
        self._epochs_bar: int | None = None  # the total of bars without a title that count within an epoch
        self._last_count: tuple[float | None, int | None] = (None, None)  # the epoch and step printed before
        self._has_batches_and_steps = False  # so that an "iter" alone is no step
        self._counts_on: bool | None = None  # whether steps printed with an epoch go on over epochs

    def read(self, line: str) -> LogReading | None:
        """Reads a line; None where it says nothing, or nothing certain."""
        text = cleaned(line)
        if not text.strip() or shapes.TIMER.search(text):
            return None
        values, kind = dictionary(text)
        text = without_vast_numbers(text)
        bar = shapes.TQDM.match(text) or shapes.THIN_BAR.match(text)
        if bar is not None:
            return self._bar(bar, values)
        if values:
            return self._dictionary(values, kind)
        if shapes.ENDLESS.match(text):
            return None
        for pattern in (shapes.KERAS, shapes.HASHES):
            match = pattern.match(text)
            if match is not None:
                return self._epoch_bar(match)
        if self._table.heading(text):
            return None
        return self._row(text) or self._words(text)

    def read_values(self, values: Mapping[str, Any]) -> LogReading | None:
        """A dictionary that needs no reading: a line of JSON, or an entry of a trainer's own log."""
        return self._dictionary(numbers_of(values), kind_of(values))

    def _bar(self, bar: re.Match[str], values: dict[str, float] | None) -> LogReading | None:
        title, done, total = without_prefix(bar["title"]), int(bar["done"]), int(bar["total"])
        postfix = values_after(bar["rest"] or "")
        if self._table.heading(title):
            return None
        row = self._row(title)
        if row is not None:
            return row._replace(batch=done, batch_total=total)
        tune = shapes.TORCHTUNE.match(title)
        if tune is not None:
            loss, metrics = parted(list(pairs(title[tune.end() :])) + postfix, is_training=True)
            return LogReading(TRAIN, step=int(tune["step"]), epoch=int(tune["epoch"]), loss=loss, metrics=metrics)
        if is_evaluation(title) or re.search(r"sanity|predict|infer|generat|sampl", title, re.IGNORECASE):
            return None
        loss, metrics = parted(postfix, is_training=True)
        epoch = shapes.EPOCH.search(title)
        if epoch is not None:
            self._begin_epoch(float(epoch["epoch"]), whole(epoch["total"]))
            self._batch_total = total
            reading = LogReading(TRAIN, None, None, self._epoch, self._epoch_total, done, total, loss, metrics)
            return self._with_step(reading, bar["rest"] or "")
        if re.fullmatch(r"(?:train(?:ing)?\s*)?epochs?:?", title, re.IGNORECASE):
            self._begin_epoch(done, total)
            return LogReading(TRAIN, epoch=done, epoch_total=total, loss=loss, metrics=metrics) if done else None
        is_named = bool(
            re.fullmatch(r"(?:global |train(?:ing)? )?(?:steps?|iters?|iterations?|updates?|progress):?", title, re.I)
        )
        is_of_run = total == self._run_total and bool(re.fullmatch(r"train(?:ing)?:?", title, re.IGNORECASE))
        if title and not is_named and not is_of_run:
            return self._training_bar(title, LogReading(TRAIN, None, None, None, None, done, total, loss, metrics))
        if not title and self._is_epochs_bar(done, total):
            reading = LogReading(TRAIN, None, None, self._epoch, self._epoch_total, done, total, loss, metrics)
            return reading if total == self._epochs_bar and (done or loss is not None) else None
        if self._run_total is None or is_named:
            self._run_total = total
        if total != self._run_total or (self._step is not None and done < self._step and done == 0):
            return None  # another bar, such as an evaluation's
        self._step = done
        if values:
            dict_reading = self._dictionary(values)
            if dict_reading is not None and dict_reading.phase == TRAIN:
                return dict_reading._replace(total=total)
        if not done and loss is None:
            return None
        return LogReading(TRAIN, step=done, total=total, loss=loss, metrics=metrics)

    def _is_epochs_bar(self, done: int, total: int) -> bool:
        """Says whether bars without a title begin again with every epoch: below lines that name one, or seen to."""
        begins_again = self._step is not None and self._step == self._run_total == total and done < total
        is_first = self._step is None and self._run_total is None
        if self._epochs_bar is None and (begins_again or (is_first and self._are_epochs_headed)):
            self._epochs_bar, self._step = total, None
        return self._epochs_bar is not None

    def _training_bar(self, title: str, reading: LogReading) -> LogReading | None:
        """A bar that names the training, or its loss as H2O LLM Studio does: `train loss: 1.62:   5%|`."""
        named = re.fullmatch(r"train(?:ing)?(?: loss:? *([\d.]+))?:?", title, re.IGNORECASE)
        if named is None or not reading.batch:
            return None
        if named[1] is None:
            return reading
        return reading._replace(epoch=self._epoch, loss=float(named[1].rstrip(".")))

    def _epoch_bar(self, bar: re.Match[str]) -> LogReading | None:
        """A bar that counts within an epoch which an earlier line named, as Keras prints it."""
        done, total = int(bar["done"]), whole(bar["total"])
        title = bar.groupdict().get("title") or ""
        numbers = list(without_time(pairs(bar["rest"])))
        is_other = self._is_epoch_over and self._batch_total is not None and total != self._batch_total
        if is_evaluation(title) or is_other or self._headings.is_evaluating:
            metrics = {name: value for name, value, _ in numbers if is_metric(name)}
            is_done = total is None or done == total
            return LogReading(EVAL, epoch=self._epoch, metrics=metrics) if metrics and is_done else None
        if self._epoch is None:
            return None
        self._batch_total = total
        self._is_epoch_over = total is None or done >= total
        loss, metrics = parted(numbers, is_training=True)
        return LogReading(TRAIN, None, None, self._epoch, self._epoch_total, done, total, loss, metrics)

    def _dictionary(self, values: dict[str, float], kind: str = "") -> LogReading | None:
        """Reads a dictionary. `kind` is what it says of itself in words, such as OpenMMLab's `"mode": "val"`."""
        plain = {name: value for name, value in values.items() if is_metric(name) and not is_counter(name)}
        step, total, epoch = counts_of(values)
        is_summary = any(name in values for name in ("train_runtime", "train_samples_per_second"))
        names = [name for name in plain if is_known_metric(name)]
        evaluations = [name for name in names if is_evaluation(name)]
        loss_name = None if is_summary else name_of_loss(name for name in names if not is_evaluation(name))
        if is_evaluation(kind) or (loss_name is None and not evaluations and is_timed_evaluation(values)):
            # Its steps count the batches of the evaluation, or epochs.
            return LogReading(EVAL, epoch=epoch, metrics=plain) if plain else None
        if loss_name is None and evaluations:
            return LogReading(EVAL, step=step, epoch=epoch, metrics=plain)
        if loss_name is None and not names and step is None:
            return None
        if loss_name is None and is_summary:
            return LogReading(TRAIN, epoch=epoch, metrics=plain) if plain else None
        metrics = {name: value for name, value in plain.items() if name != loss_name}
        loss = values[loss_name] if loss_name is not None else None
        if step is not None and epoch is not None and "iter" in values and not self._goes_on(epoch, step):
            return LogReading(TRAIN, None, None, epoch, None, step, None, loss, metrics)
        is_counted = step is not None and total is not None
        self._run_total = total if is_counted else self._run_total
        metrics = {name: value for name, value in metrics.items() if not (is_counted and name in TOTALS)}
        at = (step, total) if step is not None else (self._step, None)
        return LogReading(TRAIN, at[0], at[1], epoch, loss=loss, metrics=metrics)

    def _row(self, text: str) -> LogReading | None:
        """A row under the last heading."""
        if self._table.is_of_evaluation:
            metrics = self._table.evaluation(text)
            return LogReading(EVAL, epoch=self._epoch, metrics=metrics) if metrics else None
        row = self._table.row(text)
        if row is None:
            return None
        total = None
        if row.epoch is not None:
            self._begin_epoch(row.epoch, row.epoch_total)
            total = self._epoch_total
        if row.loss is None and not row.metrics:
            return None
        return LogReading(TRAIN, row.step, None, row.epoch, total, loss=row.loss, metrics=row.metrics)

    def _words(self, text: str) -> LogReading | None:
        body = without_prefix(text)
        self._headings.note(body)
        if self._headings.says_nothing_new(body) or shapes.OF_THE_PAST.match(body):
            return None
        glued = re.search(r"ETA:\s*\S+?(\d{4}-\d\d-\d\d .*)$", body)
        if glued is not None:
            body = without_prefix(glued[1])
        counted, kind = self._counters(body)
        numbers = [one for one in without_time(pairs(without_counters(body))) if not is_counter(one[0])]
        metric_pairs = [one for one in numbers if is_known_metric(one[0])]
        is_chore = bool(shapes.CHORES.search(body)) and not any("loss" in name.lower() for name, _, _ in metric_pairs)
        if is_chore and not shapes.BOOSTING.match(body):
            return None
        evaluations = [name for name, _, _ in metric_pairs if is_evaluation(name)]
        loss_name = name_of_loss(name for name, _, _ in metric_pairs if not is_evaluation(name))
        is_counted = counted is not None and (counted.step is not None or counted.epoch is not None)
        if kind == EVAL or (self._headings.is_evaluating and not is_counted and metric_pairs):
            metrics = {name: value for name, value, _ in numbers if is_metric(name)}
            is_running = bool(
                re.match(r"^(test|val\w*|eval\w*):?\s*\[", body, re.IGNORECASE) or shapes.IS_RUNNING.search(body)
            )
            if not any(is_known_metric(name) for name in metrics) or is_running:
                return None
            at = counted if counted is not None else LogReading(EVAL)
            return LogReading(EVAL, step=at.step, total=at.total, epoch=at.epoch, metrics=metrics)
        if counted is None and not metric_pairs:
            return None
        is_headed = self._is_headed
        self._is_headed = not numbers and counted == LogReading(TRAIN, None, None, self._epoch, self._epoch_total)
        self._are_epochs_headed = self._are_epochs_headed or self._is_headed
        if counted is None and is_headed and evaluations and loss_name is not None:  # Keras' line below `Epoch 3/10`
            counted = LogReading(TRAIN, epoch=self._epoch, epoch_total=self._epoch_total)
        return self._judged(counted or LogReading(TRAIN), body, numbers, loss_name, evaluations)

    def _judged(
        self,
        counted: LogReading,
        body: str,
        numbers: list[tuple[str, float, str]],
        loss_name: str | None,
        evaluations: list[str],
    ) -> LogReading | None:
        has_epoch = counted.epoch is not None
        is_of_agent = any(name.startswith(("actor/", "critic/")) for name, _, _ in numbers)  # verl: both in a line
        if evaluations and not is_of_agent and (loss_name is None or not has_epoch):
            metrics = {name: value for name, value, _ in numbers if is_metric(name)}
            epoch = counted.epoch if counted.epoch is not None or not self._are_epochs_headed else self._epoch
            return LogReading(EVAL, step=counted.step, total=counted.total, epoch=epoch, metrics=metrics)
        if not counted.batch and not has_epoch and counted.step is None:
            if loss_name is None or not is_structured(body, loss_name):
                return None
            samples = shapes.SAMPLES.search(body)
            if samples is not None:
                counted = counted._replace(
                    batch=int(samples["done"]), batch_total=int(samples["of"]), epoch=self._epoch
                )
            else:
                counted = counted._replace(epoch=self._epoch)
        loss, metrics = parted(numbers, is_training=loss_name is not None or counted.step is not None)
        return counted._replace(loss=loss, metrics=metrics)

    def _counters(self, body: str) -> tuple[LogReading | None, str]:
        """Epoch, step and batch as the line counts them, and whose they are."""
        bracket = shapes.TRAIN_BRACKET.match(body)
        if bracket is not None:
            self._begin_epoch(float(bracket["epoch"]), whole(bracket["epochs"]))
            return LogReading(
                TRAIN, None, None, self._epoch, self._epoch_total, int(bracket["done"]), int(bracket["of"])
            ), TRAIN
        run_batch = shapes.RUN_BATCH.match(body)
        if run_batch is not None:
            return LogReading(TRAIN, int(run_batch["done"]), int(run_batch["of"])), TRAIN
        iteration = shapes.ITER_BRACKET.search(body)
        if iteration is not None:
            kind = EVAL if is_evaluation(iteration["kind"]) else TRAIN
            done = (int(iteration["done"]), int(iteration["of"])) if kind == TRAIN else (None, None)
            return LogReading(kind, step=done[0], total=done[1]), kind
        valid_on = shapes.VALID_ON.search(body)
        if valid_on is not None:
            updates = re.search(r"\bnum_updates (\d+)", body)
            named = shapes.EPOCH.search(body)
            in_epoch = float(named["epoch"]) if named is not None else self._epoch
            return LogReading(EVAL, step=whole(updates[1]) if updates else None, epoch=in_epoch), EVAL
        tag = shapes.EVAL_TAG.match(body)
        if tag is not None:
            after, named = body[tag.end() :], shapes.EPOCH.search(body)
            if named is not None:
                return LogReading(EVAL, epoch=float(named["epoch"])), EVAL
            return self._steps(after, None)[0] or LogReading(EVAL, epoch=self._epoch), EVAL
        if re.match(r"^(test|val(id(ation)?)?|eval(uation)?)\b", body, re.IGNORECASE) or body.startswith("* "):
            at_step = re.search(r"\b(?:at|after) (?:iteration|step):? (\d+)", body)  # Megatron-LM, MaxText
            return LogReading(EVAL, whole(at_step[1]) if at_step else None, epoch=self._epoch), EVAL
        evaluating = re.search(r"\bevaluating\b", body, re.IGNORECASE)
        if evaluating is not None:
            at_step = shapes.STEP.search(body[: evaluating.start()])
            return LogReading(EVAL, count(at_step["done"]) if at_step else None, epoch=self._epoch), EVAL
        notebook = shapes.NOTEBOOK.match(body)
        if notebook is not None:
            at = LogReading(TRAIN, int(notebook["done"]), int(notebook["of"]), float(notebook["epoch"]))
            return at._replace(epoch_total=int(notebook["epochs"])), TRAIN
        epoch = shapes.EPOCH.search(body)
        starts = epoch is not None and epoch.start() < 40 and not re.search(r"\bepochs?\b", body[: epoch.start()], re.I)
        if epoch is None or not starts:
            return self._steps(body, None)
        kind = EVAL if is_evaluation(f"{epoch['kind'] or ''} {epoch['phase'] or ''}".strip() or "-") else TRAIN
        if kind == EVAL or shapes.EVALUATES.match(body[epoch.end() :]):
            return LogReading(EVAL, epoch=float(epoch["epoch"])), EVAL
        if float(epoch["epoch"]) == int(float(epoch["epoch"])):
            self._begin_epoch(float(epoch["epoch"]), whole(epoch["total"]))
        at = LogReading(TRAIN, epoch=float(epoch["epoch"]), epoch_total=whole(epoch["total"]) or self._epoch_total)
        if epoch["done"] is not None:
            return at._replace(batch=int(epoch["done"]), batch_total=whole(epoch["of"])), TRAIN
        before = shapes.STEP.search(body[: epoch.start()])
        if before is not None and before["of"]:  # the outer counter stands first: `[step=100/739328,epoch=0]` (OLMo)
            return at._replace(step=count(before["done"]), total=count(before["of"])), TRAIN
        return self._steps(body, at)

    def _steps(self, body: str, at: LogReading | None) -> tuple[LogReading | None, str]:
        both = shapes.ITER_AND_STEP.search(body)
        if both is not None:
            self._has_batches_and_steps = True
            return (at or LogReading(TRAIN))._replace(step=int(both["step"])), TRAIN
        whole_run = shapes.GLOBAL_STEP.search(body)
        if whole_run is not None:
            total = count(whole_run["of"]) if whole_run["of"] else None
            return (at or LogReading(TRAIN))._replace(step=count(whole_run["done"]), total=total), TRAIN
        boosting = shapes.BOOSTING.match(body)
        if boosting is not None:
            return LogReading(TRAIN, step=int(boosting["step"] or boosting["trees"])), TRAIN
        batch = shapes.BATCH.search(body) if at is not None else None
        if batch is not None and at is not None:
            return at._replace(batch=int(batch["done"]), batch_total=whole(batch["of"])), TRAIN
        step = shapes.STEP.search(body)
        before = body[: step.start()].rstrip() if step is not None else ""
        if before and before[-1] not in "|,;:[](){}->=*#" and not before[-1].isdigit():
            return at, TRAIN  # "total optimization steps = 532" counts nothing
        if re.search(r"\bepisodes?\b", before, re.IGNORECASE):
            return at, TRAIN  # steps of an episode
        if step is None or (step["point"] and set(step["point"]) - set(".0")):
            return at, TRAIN
        done, total = count(step["done"]), count(step["of"]) if step["of"] else None
        if at is None:
            if self._has_batches_and_steps and step["name"].strip().lower().startswith("iter"):
                return LogReading(TRAIN), TRAIN
            has_sign = step["sign"] in (":", "=") or total is not None
            is_alone = not has_sign and not any(is_known_metric(name) for name, _, _ in pairs(without_counters(body)))
            is_alone = is_alone and not shapes.STEP_ALONE.match(body)
            return (None if is_alone else LogReading(TRAIN, step=done, total=total)), TRAIN
        is_whole_epoch, goes_on = at.epoch is not None and at.epoch == int(at.epoch), self._goes_on(at.epoch, done)
        if total is not None and is_whole_epoch and not self._counts_on:
            return at._replace(batch=done, batch_total=total), TRAIN
        return (at._replace(step=done, total=total) if goes_on else at), TRAIN

    def _goes_on(self, epoch: float | None, step: int) -> bool:
        """Says whether steps printed with an epoch count the whole run: known after an epoch; true in the first."""
        last_epoch, last_step = self._last_count
        if last_step is not None and epoch is not None and last_epoch is not None and epoch > last_epoch:
            self._counts_on = step > last_step
        self._last_count = (epoch, step)
        if self._counts_on is None:
            return epoch is not None and (epoch <= 1 or epoch != int(epoch))
        return self._counts_on

    def _with_step(self, reading: LogReading, rest: str) -> LogReading:
        step = shapes.GLOBAL_STEP.search(rest)
        return reading if step is None else reading._replace(step=count(step["done"]))

    def _begin_epoch(self, epoch: float, total: int | None) -> None:
        if epoch != self._epoch:
            self._is_epoch_over = False
        is_beyond = total is None and self._epoch_total is not None and epoch > self._epoch_total
        self._epoch, self._epoch_total = epoch, None if is_beyond else total or self._epoch_total
        self._headings.is_evaluating = False


def readings(lines: Iterable[str]) -> Iterator[tuple[int, LogReading]]:
    """Each line that says something, by its number from 0."""
    reader = OutputReader()
    for place, line in enumerate(lines):
        reading = reader.read(line)
        if reading is not None:
            yield place, reading
