"""The launch form: its fields become what REST would submit, or messages under the fields."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from costguard.jobs.submit.check.options import submission_of
from costguard.jobs.submit.submission import JobRefusal, Submission
from costguard.model.job import Job, JobCode, JobKind
from costguard.model.money import Money
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.node_count import node_count
from costguard.model.options.option import LONGEST_WORD, MOST_HOURS, Option, Takes, two_places

LONGEST = LONGEST_WORD  # characters of a field, as over REST
_ONE_HOUR = timedelta(hours=1)
_MOST_COUNT = 999_999
_AMOUNT = re.compile(r"\$?([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_WHOLE = re.compile(r"-?[0-9]{1,15}")
_CONTINUED = re.compile(r"\\\n")
_YES_NO = {"yes": True, "no": False}
_ROOM = "This is too long: put it into a file in the image or a bucket."
_T = TypeVar("_T")

# Fields by the names that refusals use.
FIELDS = tuple(option.place for option in JOB_OPTIONS)
_TRAINING = tuple(option.place for option in JOB_OPTIONS if not option.of_dev)
_PLACES_OF_CHECKPOINTS = ("location", "resume", "pattern", "marker", "local")


@dataclass(frozen=True, slots=True)
class FormSubmission:
    """`wrong` is what could not be read; the submission then leaves it out."""

    submission: Submission
    hours: timedelta
    wrong: tuple[JobRefusal, ...]


def field_of(where: str) -> str:
    """The field under which a refusal is shown: `inputs` of `inputs.0.path`; "" where there is none."""
    if where in FIELDS:
        return where
    top = where.partition(".")[0]
    return top if top in FIELDS else {"metric": "metric.pattern"}.get(top, "")


def submission(form: Mapping[str, str], owner: str, code_of: Callable[[str], JobCode]) -> FormSubmission:
    """Never raises: what is wrong is in `wrong`, which never repeats what was typed.

    `code_of` gives the code of the job with an id, or raises ValueError with what to change.
    """
    read = _Reader({name: value.strip() for name, value in typed(form).items() if name in FIELDS})
    if read.text("kind") == JobKind.DEV:
        read.forget(_TRAINING)
    values = {}
    for option in JOB_OPTIONS:
        reader = code_of if option.takes is Takes.CODE else _READ.get(option.takes)
        value = read.of(option.place, reader or partial(_READ_AS_DECLARED[option.takes], option))
        if value is not None:
            values[option.place] = value
    _drop_what_says_only_how(values)
    made = submission_of(values, owner)
    return FormSubmission(made, made.spec.work or _ONE_HOUR, tuple(read.wrong))


def _drop_what_says_only_how(values: dict[str, Any]) -> None:
    """A form always sends its lists to choose from: alone they ask for no checkpoints, and for no metric."""
    if not any(f"checkpoint.{name}" in values for name in _PLACES_OF_CHECKPOINTS):
        for name in [name for name in values if name.startswith("checkpoint.")]:
            del values[name]
    if "metric.pattern" not in values:
        values.pop("metric.better", None)


def typed(form: Mapping[str, str]) -> dict[str, str]:
    """The form's own fields, to be read or shown again, with the line ends of browsers made plain."""
    return {name: value.replace("\r\n", "\n") for name, value in form.items() if name in (*FIELDS, "key")}


def like(job: Job) -> dict[str, str]:
    """The form as it would have been filled in for this job, without its overrides of the preset."""
    shown = {
        option.place: _SHOWN[option.takes](option.value_in(job.spec))
        for option in JOB_OPTIONS
        if option.group != "overrides" and option.place not in _NOT_AGAIN and option.is_set_in(job.spec)
    }
    return shown | {"code": job.id} if job.spec.code is not None else shown


class _Reader:
    """Reads fields one by one, and collects what is wrong with them."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = dict.fromkeys(FIELDS, "") | values
        self.wrong = [JobRefusal(name, _ROOM) for name, value in values.items() if len(value) > LONGEST]
        self.forget([refusal.where for refusal in self.wrong])

    def forget(self, names: Collection[str]) -> None:
        self._values |= dict.fromkeys(names, "")

    def text(self, name: str) -> str:
        return self._values[name]

    def of(self, name: str, read: Callable[[str], _T]) -> _T | None:
        """Reads a field; None where it is empty or wrong."""
        if not self._values[name]:
            return None
        try:
            return read(self._values[name])
        except ValueError as error:
            self.wrong.append(JobRefusal(name, str(error)))
            return None


def _command(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(_CONTINUED.sub(" ", text)))
    except ValueError:
        raise ValueError(
            "A quotation mark is not closed: close it. The command is split the way a shell would."
        ) from None


def _choice(option: Option, text: str) -> Enum | str | None:
    """Values that a form does not offer are left out."""
    return {str(value): value for value in option.choices}.get(text)


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, sign, value = line.strip().partition("=")
        if line.strip() and not (sign and name):
            raise ValueError(f"Line {number} has no name and value: write NAME=VALUE, one per line.")
        if name in pairs:
            raise ValueError(f"Line {number} repeats a name: keep one of the two.")
        if name:
            pairs[name] = value
    return pairs


def _places(option: Option, text: str) -> tuple[tuple[str, str], ...]:
    """Returns the two sides of each line."""
    places = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if (sides := two_places(line.strip())) is None:
            example = option.typed_example
            raise ValueError(f"Line {number} has no two places: write FROM=TO, such as {example}, one per line.")
        places.append(sides)
    return tuple(places)


def _dollars(text: str) -> Money:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError("This is not an amount in dollars: enter one such as 60 or 12.50.")
    return Money.of(match[1])


def _hours(text: str) -> timedelta:
    number = Decimal(text) if _NUMBER.fullmatch(text) else Decimal()
    if not 0 < number <= MOST_HOURS:
        raise ValueError(f"This is not a number of hours: enter one above 0, at most {MOST_HOURS}.")
    return timedelta(seconds=round(number * 3600))


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("This is not a time: enter one in UTC, such as 2026-11-22T08:00.") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _count(option: Option, text: str) -> int:
    """Thousands may be separated by commas or spaces, as people write large numbers."""
    digits = re.sub(r"[ ,]", "", text)
    most = _MOST_COUNT if option.most is None else option.most
    if not _WHOLE.fullmatch(digits) or not option.least <= int(digits) <= most:
        unit = f" {option.unit}" if option.unit else ""
        bounds = f"from {option.least} to {most:,}{unit}"
        raise ValueError(f"This is not a whole number {bounds}: enter one such as {_example(option)}.")
    return int(digits)


def _example(option: Option) -> str:
    return option.input.example if option.input is not None else str(max(option.least, 1))


def _plain(span: timedelta) -> str:
    hours = Decimal(int(span.total_seconds())) / 3600
    return f"{hours.quantize(Decimal('0.0001')).normalize():f}"


_READ: Mapping[Takes, Callable[[str], Any]] = {
    Takes.TEXT: str,
    Takes.LINES: lambda text: tuple(filter(None, re.split(r"[\s,]+", text))) or None,
    Takes.COMMAND: _command,
    Takes.SWITCH: _YES_NO.get,
    Takes.NODES: node_count,
    Takes.HOURS: _hours,
    Takes.DOLLARS: _dollars,
    Takes.MOMENT: _moment,
    Takes.PAIRS: _pairs,
}
_READ_AS_DECLARED: Mapping[Takes, Callable[[Option, str], Any]] = {
    Takes.CHOICE: _choice,
    Takes.COUNT: _count,
    Takes.PLACES: _places,
}
_SHOWN: Mapping[Takes, Callable[[Any], str]] = {
    Takes.TEXT: str,
    Takes.LINES: "\n".join,
    Takes.COMMAND: shlex.join,
    Takes.SWITCH: lambda value: "yes" if value else "no",
    Takes.CHOICE: str,
    Takes.COUNT: str,
    Takes.NODES: str,
    Takes.HOURS: _plain,
    Takes.DOLLARS: lambda amount: f"{amount.dollars.normalize():f}",
    Takes.PAIRS: lambda pairs: "\n".join(f"{name}={value}" for name, value in pairs.items()),
    Takes.PLACES: lambda places: "\n".join("=".join(astuple(one)[:2]) for one in places),
}
_NOT_AGAIN = frozenset({"owner", "deadline", "code"})  # of another job like one: who launches it, and what is over
