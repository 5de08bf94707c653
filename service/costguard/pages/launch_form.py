"""The launch form: its fields become what REST would submit, or messages under the fields."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

from costguard.jobs.submit.submission import JobRefusal
from costguard.jobs.submit.submit import Overrides, Submission
from costguard.model.job import CheckpointPlan, Job, JobCode, JobInput, JobKind, JobMetric, JobOutput, JobSpec, WhenLate
from costguard.model.money import Money
from costguard_vm.model.checkpoint import Framework, LookFor

LONGEST = 262_144  # characters of a field, as over REST
_ONE_HOUR = timedelta(hours=1)
_MOST_HOURS = 24 * 365
_MOST_TRIES = 10_000
_MOST_KEPT = 1_000
_MOST_MIB_S = 100_000
_AMOUNT = re.compile(r"\$?([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_WHOLE = re.compile(r"[0-9]{1,6}")
_CONTINUED = re.compile(r"\\\n")
_SIDES = re.compile(r"=(?=/|[a-z][a-z0-9]*://)")
_YES_NO = {"yes": True, "no": False}
_ROOM = "This is too long: put it into a file in the image or a bucket."
_T = TypeVar("_T")

# What a training job has and a development VM does not.
TRAINING = (
    "command", "image", "pull", "workdir", "mounts", "step_pattern", "environment", "secrets", "work_hours",
    "total_steps", "deadline_in_hours", "when_late",
    "checkpoint.location", "checkpoint.resume", "checkpoint.framework", "checkpoint.pattern", "checkpoint.marker",
    "checkpoint.local", "checkpoint.keep", "checkpoint.uploads_itself", "code", "setup", "inputs", "outputs",
    "aws_role", "bandwidth_mib_s", "metric.pattern", "metric.better", "stacks", "max_preemptions", "max_crashes",
)  # fmt: skip
# Fields by the names that refusals use.
FIELDS = (
    "kind", "preset", "project", "owner", "name", "ceiling", "deadline",
    "overrides.zones", "overrides.spot", "overrides.on_demand_fallback", "overrides.machine_type",
    "overrides.disk_gib", "overrides.max_run_hours", "overrides.image", *TRAINING,
)  # fmt: skip


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
    is_dev = read.text("kind") == JobKind.DEV
    if is_dev:
        read.forget(TRAINING)
    spec = _spec(read, owner, code_of, JobKind.DEV if is_dev else JobKind.TRAINING)
    overrides = Overrides(
        zones=tuple(re.split(r"[\s,]+", zones)) if (zones := read.text("overrides.zones").strip(", ")) else None,
        spot=_YES_NO.get(read.text("overrides.spot")),
        machine_type=read.text("overrides.machine_type") or None,
        disk_gib=read.of("overrides.disk_gib", _whole),
        max_run=read.of("overrides.max_run_hours", _hours),
        on_demand_fallback=_YES_NO.get(read.text("overrides.on_demand_fallback")),
        image=read.text("overrides.image") or None,
    )
    return FormSubmission(Submission(spec, overrides), spec.work or _ONE_HOUR, tuple(read.wrong))


def _spec(read: _Reader, owner: str, code_of: Callable[[str], JobCode], kind: JobKind) -> JobSpec:
    preemptions, crashes = read.of("max_preemptions", _count), read.of("max_crashes", _count)
    pattern = read.text("metric.pattern")
    better = "higher" if read.text("metric.better") == "higher" else "lower"
    return JobSpec(
        kind=kind,
        preset=read.text("preset"),
        project=read.text("project"),
        owner=owner,
        name=read.text("name"),
        command=read.of("command", _command) or (),
        image=read.text("image"),
        pull=_YES_NO.get(read.text("pull"), False),
        environment=read.of("environment", _pairs) or {},
        secrets=read.of("secrets", _pairs) or {},
        workdir=read.text("workdir"),
        mounts=tuple(read.text("mounts").split()),
        checkpoint=_checkpoint(read),
        step_pattern=read.text("step_pattern"),
        ceiling=read.of("ceiling", _dollars),
        deadline=read.of("deadline", _moment),
        deadline_in=read.of("deadline_in_hours", _hours),
        work=read.of("work_hours", _hours),
        total_steps=read.of("total_steps", _steps),
        when_late=WhenLate.STOP if read.text("when_late") == WhenLate.STOP else WhenLate.FINISH,
        max_preemptions=100 if preemptions is None else preemptions,
        max_crashes=0 if crashes is None else crashes,
        inputs=tuple(JobInput(source, path) for source, path in read.of("inputs", _inputs) or ()),
        outputs=tuple(JobOutput(path, destination) for path, destination in read.of("outputs", _outputs) or ()),
        code=read.of("code", code_of),
        setup=read.text("setup"),
        aws_role=read.text("aws_role"),
        bandwidth_mib_s=read.of("bandwidth_mib_s", _speed),
        metric=JobMetric(pattern, better) if pattern else None,
        stacks=_YES_NO.get(read.text("stacks"), False),
    )


def typed(form: Mapping[str, str]) -> dict[str, str]:
    """The form's own fields, to be read or shown again, with the line ends of browsers made plain."""
    return {name: value.replace("\r\n", "\n") for name, value in form.items() if name in (*FIELDS, "key")}


def like(job: Job) -> dict[str, str]:
    """The form as it would have been filled in for this job, without its overrides of the preset."""
    spec, plan = job.spec, job.spec.checkpoint
    values = {
        "kind": spec.kind.value,
        "preset": spec.preset,
        "project": spec.project,
        "name": spec.name,
        "command": shlex.join(spec.command),
        "image": spec.image,
        "pull": "yes" if spec.pull else "",
        "workdir": spec.workdir,
        "mounts": "\n".join(spec.mounts),
        "step_pattern": spec.step_pattern,
        "environment": "\n".join(f"{name}={value}" for name, value in spec.environment.items()),
        "secrets": "\n".join(f"{name}={value}" for name, value in spec.secrets.items()),
        "ceiling": f"{spec.ceiling.dollars.normalize():f}" if spec.ceiling is not None else "",
        "work_hours": _plain(spec.work) if spec.work is not None else "",
        "deadline_in_hours": _plain(spec.deadline_in) if spec.deadline_in is not None else "",
        "total_steps": str(spec.total_steps or ""),
        "when_late": spec.when_late.value if spec.when_late is not WhenLate.FINISH else "",
        "max_preemptions": str(spec.max_preemptions),
        "max_crashes": str(spec.max_crashes),
        "inputs": "\n".join(f"{one.source}={one.path}" for one in spec.inputs),
        "outputs": "\n".join(f"{one.path}={one.destination}" for one in spec.outputs),
        "code": job.id if spec.code is not None else "",
        "setup": spec.setup,
        "aws_role": spec.aws_role,
        "bandwidth_mib_s": "" if spec.bandwidth_mib_s is None else str(spec.bandwidth_mib_s),
        "metric.pattern": spec.metric.pattern if spec.metric is not None else "",
        "metric.better": spec.metric.better if spec.metric is not None else "",
        "stacks": "yes" if spec.stacks else "",
    }
    if plan is not None:
        look = plan.look_for
        values |= {
            "checkpoint.location": plan.location,
            "checkpoint.resume": plan.resume,
            "checkpoint.framework": look.framework.value if look.framework is not None else "",
            "checkpoint.pattern": look.pattern,
            "checkpoint.marker": look.marker,
            "checkpoint.local": plan.local,
            "checkpoint.keep": str(plan.keep) if plan.local else "",
            "checkpoint.uploads_itself": "yes" if plan.uploads_itself else "",
        }
    return values


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


def _checkpoint(read: _Reader) -> CheckpointPlan | None:
    names = ("location", "resume", "framework", "pattern", "marker", "local")
    location, resume, framework, pattern, marker, local = (read.text(f"checkpoint.{name}") for name in names)
    chosen = Framework(framework) if framework in list(Framework) else None
    keep = read.of("checkpoint.keep", _kept)
    if not any((location, resume, pattern, marker, local)):
        return None
    plan = CheckpointPlan(location, resume, LookFor(chosen, pattern, marker), local)
    uploads_itself = _YES_NO.get(read.text("checkpoint.uploads_itself"), False)
    return replace(plan, keep=plan.keep if keep is None else keep, uploads_itself=uploads_itself)


def _command(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(_CONTINUED.sub(" ", text)))
    except ValueError:
        raise ValueError(
            "A quotation mark is not closed: close it. The command is split the way a shell would."
        ) from None


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


def _inputs(text: str) -> list[tuple[str, str]]:
    return _places(text, "s3://bucket/data=/data")


def _outputs(text: str) -> list[tuple[str, str]]:
    return _places(text, "/data/model=s3://bucket/model")


def _places(text: str, example: str) -> list[tuple[str, str]]:
    """The two sides of each line. A bucket's path may hold `=`, as in `day=7`: one before `/` or a scheme separates."""
    places = []
    for number, line in enumerate(text.splitlines(), 1):
        parts = _SIDES.split(line.strip())
        if line.strip() and not (len(parts) == 2 and all(parts)):
            raise ValueError(f"Line {number} has no two places: write FROM=TO, such as {example}, one per line.")
        if line.strip():
            places.append((parts[0], parts[1]))
    return places


def _dollars(text: str) -> Money:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError("This is not an amount in dollars: enter one such as 60 or 12.50.")
    return Money.of(match[1])


def _hours(text: str) -> timedelta:
    number = Decimal(text) if _NUMBER.fullmatch(text) else Decimal()
    if not 0 < number <= _MOST_HOURS:
        raise ValueError(f"This is not a number of hours: enter one above 0, at most {_MOST_HOURS}.")
    return timedelta(seconds=round(number * 3600))


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("This is not a time: enter one in UTC, such as 2026-11-22T08:00.") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError("This is not a whole number: enter one such as 200.")
    return int(text)


def _steps(text: str) -> int:
    """Grouped by commas or spaces, as people write large numbers."""
    digits = re.sub(r"[ ,]", "", text)
    if not re.fullmatch(r"[0-9]{1,12}", digits) or not int(digits):
        raise ValueError("This is not a number of steps: enter one such as 30000.")
    return int(digits)


def _count(text: str) -> int:
    if (number := _whole(text)) > _MOST_TRIES:
        raise ValueError(f"This is too many: enter at most {_MOST_TRIES:,}.")
    return number


def _kept(text: str) -> int:
    if (number := _whole(text)) > _MOST_KEPT:
        raise ValueError(f"This is too many: enter at most {_MOST_KEPT:,}, or 0 to keep all.")
    return number


def _speed(text: str) -> int:
    if not 1 <= (number := _whole(text)) <= _MOST_MIB_S:
        raise ValueError(f"This is not a limit in MiB a second: enter one from 1 to {_MOST_MIB_S:,}.")
    return number


def _plain(span: timedelta) -> str:
    hours = Decimal(int(span.total_seconds())) / 3600
    return f"{hours.quantize(Decimal('0.0001')).normalize():f}"
