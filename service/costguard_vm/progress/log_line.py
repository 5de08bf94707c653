"""Names and numbers in one line of a training's output, without knowledge of the program that printed it.

Travels with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Iterable, NamedTuple

from costguard_vm.progress.log_patterns import EPOCH, GLOBAL_STEP, ITER_BRACKET, PLAIN_LOSS, PREFIX, TRAIN_BRACKET

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LONGEST_NAME = 100
MOST_CHARACTERS = 4000  # of a line; what a program prints of its progress stands near the beginning

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)(?:inity)?\b"
_WORD = r"[A-Za-z_][\w/@\-.']{0,60}"
# `name: 1.5`, `name=1.5` and `name 1.5`, with up to four words to the name, and what follows the number directly.
_PAIR = re.compile(
    rf"(?P<name>{_WORD}(?:\(\w+\))?(?: {_WORD}){{0,3}}(?: \([\w/%]+\))?)"
    rf"(?P<sign>\s*[:=]\s*|\s+)(?P<number>{NUMBER})(?P<unit>[\w/%.]*)",
    re.IGNORECASE,
)
_UNIT_AFTER = re.compile(r" (?:s|ms|secs?|seconds|min|[GM]i?B|(?:it|samples|steps?|tok(?:en)?s?)/s\w*)\b")
_DICTIONARY = re.compile(r"\{\s*['\"][^{}]*\}")
_NOT_LITERAL = re.compile(r"(?<![\w'\"])(nan|inf|NaN|Infinity)(?![\w'\"])")

# A time, a rate, a size, an id: none of them says how far or how good a training is.
_NO_METRIC_WORDS = (
    "time", "timing", "eta", "elapsed", "remaining", "data", "duration", "dur", "runtime", "latency", "second",
    "seconds", "sec", "secs", "ms", "date", "hour", "hours", "minutes", "wall", "train_wall", "reader_cost",
    "batch_cost", "mem", "memory", "max_mem", "gpu_mem", "vram", "ram", "gb", "mib", "gib", "memallocated",
    "maxmemallocated", "reserved", "allocated", "speed", "rate_per", "throughput", "ips", "wps", "ups", "wpb",
    "tps", "fps", "mfu", "hfu", "tflop", "tflops", "flop", "flops", "flos", "samplespersec", "qps", "v_num",
    "version", "rank", "local_rank", "world_size", "pid", "seed", "port", "device", "devices", "host", "node",
    "line", "index", "idx", "id", "trainer", "worker", "workers", "update", "updates", "avg_samples", "weights",
    "from", "to", "at", "than", "of", "for", "in", "after", "improved", "size", "params", "parameters",
    "n_parameters", "batch_size", "bsz", "scale", "loss_scale", "scaler", "skipped", "mom", "momentum",
    "hysteresis", "images", "instances", "labels", "targets", "tokens", "num", "number", "count",
    "total_num_tokens", "examples", "patience", "srno", "rate", "globalrate", "ntokens", "nsentences", "util",
    "progress", "percentage", "percent", "words",
)  # fmt: skip
_NO_METRIC = re.compile(
    rf"(?:^|[_/ .(])(?:{'|'.join(_NO_METRIC_WORDS)})(?:$|[_/ .()])"
    r"|per_?sec|per_second|/sec|/s$|_time$|time_|_ms$|it/s|tokens_seen|micro_step|\.py$",
    re.IGNORECASE,
)
_LEARNING_RATE = re.compile(r"(^|[_/ ])(lr|learning[_ ]rate)($|[_/ 0-9])", re.IGNORECASE)
# What a metric is called, where nothing else in the line says that it is about training.
_METRIC = re.compile(
    r"loss|acc(\b|_|@|uracy)|error|perplexity|\bppl|f1|auc|roc|\bmap|map50|iou|dice|bleu|rouge|\bwer\b|\bcer\b|psnr|ssim"
    r"|\bfid\b|\bm[sa]e\b|rmse|mape|\br2\b|precision|recall|score|reward|\bkl\b|\bnll|\bbp[bcd]\b|elbo|entropy|cosine"
    r"|spearman|pearson|\bmcc\b|kappa|top-?[15]|exact_match|hits@|\bmrr\b|ndcg|return|jaccard|metric|ep_rew|'s l[12]\b",
    re.IGNORECASE,
)
# "value" and "device" are none.
_EVALUATION = re.compile(
    r"(^|[_/ .\-])(val(?!u)|valid|validation|eval|evaluation|test|dev(?!i)|holdout)", re.IGNORECASE
)
_EVALUATION_CAMEL = re.compile(r"^(Val|Valid|Eval|Test)(?=[A-Z])")


_KINDS = ("mode", "phase", "split", "stage")
_COUNTERS = (
    "epoch", "epochs", "step", "steps", "iter", "iters", "iteration", "iterations", "batch", "it", "update",
    "updates", "num_updates", "n_updates", "global_step", "global_steps", "current_epoch", "micro_step",
    "completed_step", "train_step", "training_iteration", "current_step", "current_steps", "acc_iter",
)  # fmt: skip
_STEPS = (
    "step", "steps", "_step", "global_step", "iteration", "iter", "num_updates", "train/global_step",
    "trainer/global_step", "current_step", "current_steps", "acc_iter",
)  # fmt: skip

_BLANKS = re.compile(r"\s{9,}")


def cleaned(line: str) -> str:
    """Removes colours, and shortens runs of blanks: over long ones the patterns of counters would take minutes."""
    text = ANSI.sub("", line)[:MOST_CHARACTERS].replace("\x00", "")
    return _BLANKS.sub(" " * 8, text).rstrip()


def number(text: str) -> float:
    return float(text.replace(",", ""))


def is_metric(name: str) -> bool:
    """Says whether a name may be a metric's in a line that is about training anyway."""
    return bool(_LEARNING_RATE.search(name)) or not _NO_METRIC.search(name)


def is_known_metric(name: str) -> bool:
    return is_metric(name) and bool(_METRIC.search(name))


def is_evaluation(name: str) -> bool:
    return bool(_EVALUATION.search(name) or _EVALUATION_CAMEL.search(name))


def dictionary(text: str) -> tuple[dict[str, float] | None, str]:
    """The numbers of a dictionary in the line, as Python or JSON prints it, and its kind; None where there is none."""
    match = _DICTIONARY.search(text)
    if match is None:
        return None, ""
    try:
        values = json.loads(match.group())
    except ValueError:
        try:
            values = ast.literal_eval(_NOT_LITERAL.sub(r"'\1'", match.group()))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None, ""
    return (numbers_of(values), kind_of(values)) if isinstance(values, dict) else (None, "")


def kind_of(values: Mapping[Any, Any]) -> str:
    """Returns what a dictionary says of itself in words, such as "val"; empty where it says nothing."""
    return next((value for key in _KINDS if isinstance(value := values.get(key), str)), "")


def is_timed_evaluation(values: Mapping[str, float]) -> bool:
    """Says whether values are of an evaluation as MMEngine writes it: with a batch's time, and no learning rate."""
    return "data_time" in values and "time" in values and not any(_LEARNING_RATE.search(name) for name in values)


def numbers_of(values: Mapping[Any, Any]) -> dict[str, float]:
    """The numbers by their names. A value such as "10/500" of `global_step/max_steps` (ms-swift) is two."""
    parts = [pair for name, value in values.items() for pair in _one_or_two(str(name)[:_LONGEST_NAME], value)]
    numbers = {name: _value(value) for name, value in parts}
    return {name: value for name, value in numbers.items() if value is not None}


def _one_or_two(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    done, slash, total = name.partition("/")
    fraction = re.fullmatch(r"(\d{1,15})/(\d{1,15})", value) if slash and isinstance(value, str) else None
    if fraction is None:
        yield name, value
    else:
        yield from ((done, fraction[1]), (total, fraction[2]))


def _value(value: Any) -> float | None:
    """Newer versions of transformers print their numbers as texts."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def pairs(text: str) -> Iterator[tuple[str, float, str]]:
    """Each name with its number, and the sign between them; numbers with a unit are left out."""
    at = 0
    while True:
        match = _PAIR.search(text, at)
        if match is None:
            return
        unit = match["unit"]
        has_unit = bool(unit and unit.strip(".")) or bool(_UNIT_AFTER.match(text, match.end("number")))
        is_percent_of_quality = unit == "%" and is_known_metric(match["name"])
        if not has_unit or is_percent_of_quality:
            yield match["name"], number(match["number"]), match["sign"].strip()
        at = max(match.end("number"), at + 1)


def printable(value: float) -> Any:
    """Converts a value for JSON: not a number is "nan", and a whole number has no point."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def values_after(rest: str) -> list[tuple[str, float, str]]:
    """The values after a bar's times and rate: `[00:08<02:29, 8.77s/it, loss=1.2]`; NeMo leaves out the rate."""
    if not rest.startswith("["):
        return list(without_time(one for one in pairs(rest) if one[2]))
    inside = rest[1:].partition("]")[0] if "]" in rest else rest[1:]
    first, comma, more = inside.partition(", ")[2].partition(", ")
    values = more if not re.search(r"[=:]", first) else first + comma + more
    return list(without_time(pairs(values)))


def without_time(values: Iterable[tuple[str, float, str]]) -> Iterator[tuple[str, float, str]]:
    """Names followed by a blank and a number are values only where the name is a metric's."""
    for name, value, sign in values:
        if sign or is_known_metric(name) or re.search(r"norm|\blr\b", name, re.IGNORECASE):
            yield name, value, sign


def parted(named: Iterable[tuple[str, float, str]], is_training: bool) -> tuple[float | None, dict[str, float]]:
    """The loss, and the other values that may be metrics."""
    wanted = is_metric if is_training else is_known_metric
    values: dict[str, float] = {}
    for name, value, _ in named:
        if wanted(name) and not is_counter(name):
            values.setdefault(name, value)
    loss_name = name_of_loss(name for name in values if not is_evaluation(name))
    loss = values.pop(loss_name) if loss_name is not None else None
    return loss, values


def name_of_loss(names: Iterable[str]) -> str | None:
    by_rank = {plain_name(name): name for name in reversed(list(names))}
    return next((by_rank[plain] for plain in PLAIN_LOSS if plain in by_rank), None)


def plain_name(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def is_structured(body: str, loss_name: str) -> bool:
    """Says whether the loss stands as a value: with a sign or alone, and not in a sentence about something else."""
    name = re.escape(loss_name)
    return bool(re.search(rf"{name}\s*[:=]", body) or re.fullmatch(rf"{name}\s+(?:{NUMBER})", body.strip(), re.I))


def is_step(name: str) -> bool:
    return plain_name(name) in _STEPS


def is_counter(name: str) -> bool:
    if re.search(r"\b(steps?|epochs?|iterations?|iters?)\b", name, re.IGNORECASE) and " " in name:
        return True
    return plain_name(name).rpartition("/")[2] in _COUNTERS


def without_prefix(text: str) -> str:
    body = text.strip()
    for _ in range(8):
        shorter = PREFIX.sub("", body, count=1)
        if shorter == body:
            break
        body = shorter
    return body


def without_counters(body: str) -> str:
    for pattern in (TRAIN_BRACKET, ITER_BRACKET, EPOCH, GLOBAL_STEP):
        body = pattern.sub(" ; ", body, count=1)
    return re.sub(r"\[\s*\d+\s*/\s*\d+[^\]]*\]", " ; ", body)


def whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def count(text: str) -> int:
    return int(text.replace(",", "").partition(".")[0])


TOTALS = ("total_steps", "max_steps", "num_training_steps", "train/total_steps")  # of a dictionary that has a step
_EPOCHS = frozenset({"epoch", "train/epoch", "current_epoch"})
_MOST_COUNTED = 10**15  # no training counts so far: a larger number is a time in nanoseconds, or nonsense
_VAST = re.compile(r"(?<![\d.])\d{16,}(?:\.\d*)?")


def counts_of(values: Mapping[str, float]) -> tuple[int | None, int | None, float | None]:
    """Returns the step, the last step and the epoch of a dictionary, as far as it has each as a number that counts."""
    counts = {name: value for name, value in values.items() if 0 <= value < _MOST_COUNTED}
    step = next((int(value) for name, value in counts.items() if is_step(name) and value == int(value)), None)
    total = next((int(counts[name]) for name in TOTALS if counts.get(name, 0) >= max(step or 0, 1)), None)
    return step, total, next((value for name, value in counts.items() if name.lower() in _EPOCHS), None)


def without_vast_numbers(text: str) -> str:
    """The text with a sign in the place of each number that counts nothing, nor measures anything."""
    return _VAST.sub("#", text)


def is_number(text: str) -> bool:
    return bool(re.fullmatch(NUMBER, text, re.IGNORECASE))


TRAIN, EVAL = "train", "eval"


class LogReading(NamedTuple):
    """The figures of one line. `step` counts over the whole run, `batch` begins again with every epoch."""

    phase: str
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epoch_total: int | None = None
    batch: int | None = None
    batch_total: int | None = None
    loss: float | None = None
    metrics: dict[str, float] = {}

    def as_json(self) -> dict[str, Any]:
        """Returns the fields for JSON; of metric_pairs alone what is known."""
        fields: dict[str, Any] = {"phase": self.phase}
        for name in ("step", "total", "epoch", "epoch_total", "batch", "batch_total", "loss"):
            value = getattr(self, name)
            if value is not None:
                fields[name] = printable(value)
        if self.metrics:
            fields["metrics"] = {name: printable(value) for name, value in self.metrics.items()}
        return fields
