"""The members of a sweep: combinations of parameters, put into a job's texts for their `{names}`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import prod

from costguard.jobs.submit.check.checks import LONGEST_NAME, size_problem
from costguard.jobs.submit.placeholders import LATER, all_names_in, each_text, fill, names_in
from costguard.jobs.submit.submission import JobRefusal, Submission, shown
from costguard.model.job import JobKind, JobSpec, destinations_of
from costguard.model.reported.metric import HIGHER, LOWER, better_of
from costguard.model.sweep import MOST_MEMBERS, Halving
from costguard.model.words import list_text

_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_GIVEN = ("sweep", "member")  # without being parameters
_LONGEST_VALUE = 500
MOST_TOGETHER = 2 << 20  # characters of all members: each is looked through, which takes 1 s of a core for 4 million
_MOST_REFUSALS = 50
_LEAST_ETA, _MOST_ETA = 2, 10


@dataclass(frozen=True, slots=True)
class SweepOrder:
    """The request for a sweep.

    Either every combination of `grid`'s values, or each set in `listed`; or both combined; each of them with `seeds`
    seeds, where that is not 0.
    """

    template: Submission
    grid: Mapping[str, tuple[str, ...]]
    listed: tuple[Mapping[str, str], ...] = ()
    name: str = ""
    at_once: int = 4
    seeds: int = 0
    halving: Halving | None = None  # `better` is empty where it was not said


@dataclass(frozen=True, slots=True)
class MemberPlan:
    number: int
    parameters: Mapping[str, str]
    submission: Submission


def parameter_problems(order: SweepOrder) -> Iterator[JobRefusal]:
    """Lists the problems of the parameters. Only where there are none, `planned` may follow."""
    if not order.grid and not order.listed and not order.seeds:
        yield JobRefusal("grid", "There are no parameters: name some with their values, such as lr = [1e-4, 3e-4].")
    if order.seeds and (SEED in order.grid or SEED in _names(order.listed)):
        yield JobRefusal("seeds", "seed is a parameter already: leave it out of grid and list, or give no seeds.")
    if order.seeds < 0:
        yield JobRefusal("seeds", "Give the number of seeds, such as 5.")
    names = list(order.grid)
    for where, name in (*(("grid", name) for name in names), *(("list", name) for name in _names(order.listed))):
        if not _PARAMETER.fullmatch(name):
            message = f"{shown(name)} is no name of a parameter: use letters, digits and underscores, no digit first."
            yield JobRefusal(where, message)
        elif name in LATER or name in _GIVEN:
            yield JobRefusal(where, f"{{{name}}} has a meaning of its own: give the parameter another name.")
    if both := sorted(set(names) & set(_names(order.listed))):
        yield JobRefusal("list", f"{both[0]} is in the grid and in the list: leave it out of one of them.")
    yield from _value_problems(order)
    count = prod((len(values) for values in order.grid.values()), start=max(len(order.listed), 1)) * max(order.seeds, 1)
    if count > MOST_MEMBERS:
        message = f"This makes {count:,} members, and a sweep has at most {MOST_MEMBERS}: split it into several."
        yield JobRefusal("grid", message)
    if not 1 <= order.at_once <= MOST_MEMBERS:
        yield JobRefusal("at_once", f"Between 1 and {MOST_MEMBERS} members may run at once: choose a number of them.")
    if len(order.name) > LONGEST_NAME or not order.name.isprintable() or order.name != order.name.strip():
        message = f"Use at most {LONGEST_NAME} printable characters, with no line break and no space at either end."
        yield JobRefusal("name", message)
    if order.template.spec.kind is JobKind.DEV:
        yield JobRefusal("job.kind", "A sweep runs commands, and a development VM has none: launch it by itself.")


def halving_problems(order: SweepOrder) -> Iterator[JobRefusal]:
    """Lists what is wrong with its halving. Only where there is nothing, `with_direction` may follow."""
    halving, metric = order.halving, order.template.spec.metric
    if halving is None:
        return
    if not _LEAST_ETA <= halving.eta <= _MOST_ETA:
        message = f"Halving keeps one part in {_LEAST_ETA} to {_MOST_ETA} of the members: 3 keeps a third."
        yield JobRefusal("halving.eta", message)
    if not halving.metric and metric is None:
        yield JobRefusal("halving.metric", "Name the metric that members are compared by, such as val_loss.")
    elif not _direction(order):
        message = (
            f"It is not known whether {shown(halving.metric)} is better lower or higher: give the goal, min or max."
        )
        yield JobRefusal("halving.better", message)
    elif not halving.metric and metric is not None and halving.better not in ("", metric.better):
        message = f"The job says that its metric is better {metric.better}: give the goal there, or leave it out here."
        yield JobRefusal("halving.better", message)
    if order.template.spec.checkpoint is None:
        message = "A member that is stopped keeps what it has saved: name the location of checkpoints."
        yield JobRefusal("halving", message)


def with_direction(order: SweepOrder) -> SweepOrder:
    """Returns the order with the better direction of the metric that it halves by."""
    if order.halving is None:
        return order
    return replace(order, halving=replace(order.halving, better=_direction(order)))


def _direction(order: SweepOrder) -> str:
    """Returns the direction that was given, else the job's own, else that of the name; "" where none is known."""
    halving, metric = order.halving, order.template.spec.metric
    if halving is None or halving.better in (LOWER, HIGHER):
        return halving.better if halving is not None else ""
    if not halving.metric:
        return metric.better if metric is not None else ""
    return better_of(halving.metric) or ""


SEED = "seed"
_SEED_VARIABLE = "SEED"  # of the environment, for commands that read it there


def seeded(order: SweepOrder) -> SweepOrder:
    """Returns the order with the parameter `seed`, from 1 to the number of its seeds.

    Where no text of the job has {seed}, commands find it in the variable SEED. A place that all seeds would write to
    gets a folder for each.
    """
    if not order.seeds:
        return order
    template, spec = order.template, order.template.spec
    is_used = SEED in all_names_in(replace(spec, name=""))
    plan = spec.checkpoint
    if plan is not None and not plan.is_on_disk:
        result = _by_seed(plan.publish_to) if plan.publish_to else ""
        plan = replace(plan, location=_by_seed(plan.location), publish_to=result)
    outputs = tuple(replace(output, destination=_by_seed(output.destination)) for output in spec.outputs)
    environment = spec.environment if is_used else {_SEED_VARIABLE: f"{{{SEED}}}", **spec.environment}
    spec = replace(spec, environment=environment, checkpoint=plan, outputs=outputs)
    seeds = tuple(str(number) for number in range(1, order.seeds + 1))
    return replace(order, template=replace(template, spec=spec), grid={**order.grid, SEED: seeds}, seeds=0)


def _by_seed(place: str) -> str:
    return place if {SEED, "member"} & set(names_in(place)) else f"{place.rstrip('/')}/seed-{{{SEED}}}"


def _value_problems(order: SweepOrder) -> Iterator[JobRefusal]:
    for name, values in order.grid.items():
        if not values:
            yield JobRefusal(f"grid.{name}", f"{name} has no values: give at least one, or leave it out.")
        if len(set(values)) < len(values):
            yield JobRefusal(f"grid.{name}", f"{name} has the same value twice: leave one of them out.")
    first = set(order.listed[0]) if order.listed else set()
    for number, one in enumerate(order.listed, 1):
        if not one:
            yield JobRefusal("list", f"Entry {number} of the list is empty: give it parameters, or leave it out.")
        elif set(one) != first:
            different = ", ".join(sorted(set(one) ^ first))
            yield JobRefusal("list", f"Entry {number} does not have the parameters of entry 1 ({different}): name all.")
    texts = [
        *(text for values in order.grid.values() for text in values),
        *(v for o in order.listed for v in o.values()),
    ]
    for text in texts:
        if len(text) > _LONGEST_VALUE or not text.isprintable():
            message = f"{shown(text)} cannot be a value: use at most {_LONGEST_VALUE} printable characters."
            yield JobRefusal("grid", message)


def size_problems(order: SweepOrder) -> Iterator[JobRefusal]:
    """Lists problems of size by counting in the template, before any member is made of it."""
    if too_large := size_problem(order.template.spec):
        yield replace(too_large, where=f"job.{too_large.where}")
        return
    template, uses = 0, Counter[str]()

    def count(text: str) -> str:
        nonlocal template
        template += len(text)
        uses.update(names_in(text))
        return text

    each_text(order.template, count)
    size = 0
    for parameters in _combinations(order):
        size += template + sum(uses[name] * (len(value) - len(name) - 2) for name, value in parameters.items())
    if size > MOST_TOGETHER:
        message = f"Its members together come to {size / 1e6:,.1f} million characters, and {MOST_TOGETHER / 1e6:.1f}"
        yield JobRefusal("job", f"{message} million are allowed: put files into the image or a bucket.")


def planned(order: SweepOrder, sweep_id: str) -> list[MemberPlan]:
    """Every member, in the order of the file: the last parameter changes first."""
    title = order.name or sweep_id
    plans = []
    for number, parameters in enumerate(_combinations(order), 1):
        values = {**parameters, "sweep": sweep_id, "member": str(number)}
        submission = each_text(order.template, lambda text, values=values: fill(text, values))  # type: ignore[misc]
        template_name = order.template.spec.name
        name = submission.spec.name if submission.spec.name != template_name else ""
        name = name or _name_of(template_name or title, number, parameters)
        spec = replace(submission.spec, name=name, sweep=sweep_id)
        plans.append(MemberPlan(number, parameters, replace(submission, spec=spec)))
    return plans


def text_problems(order: SweepOrder) -> Iterator[JobRefusal]:
    """Placeholders that stand for nothing, and parameters that no text of the job uses."""
    names = {*order.grid, *_names(order.listed)}
    spec = order.template.spec
    used = all_names_in(replace(order.template, spec=replace(spec, name="")))
    unknown = [name for name in used if name not in names and name not in LATER and name not in _GIVEN]
    for name in unknown:
        message = f"{{{name}}} stands for no parameter: add {name}, or write {{{{{name}}}}} where the braces are meant."
        yield JobRefusal("job", message)
    for name in sorted(names.difference(used)):
        message = f"No text of the job uses {{{name}}}, so that every value of it would run the same: put it into the"
        yield JobRefusal(f"grid.{name}", f"{message} command, a variable or a location, or leave it out.")


def sharing_problems(plans: Sequence[MemberPlan]) -> Iterator[JobRefusal]:
    """Members that would write into the same place: each would resume from, or destroy, what another one saved."""
    written = [
        _Written(place, where, plan.number) for plan in plans for where, place in _written_by(plan.submission.spec)
    ]
    seen: set[str] = set()
    for one, other in _neighbours(written):
        if one.where in seen:
            continue
        seen.add(one.where)
        same = "the same place" if one.place == other.place else "places one inside the other"
        message = f"Members {one.number} and {other.number} would write to {same} ({shown(one.place)})"
        yield JobRefusal(f"job.{one.where}", f"{message}: put the parameters into it, or {{member}}.")


@dataclass(frozen=True, slots=True, order=True)
class _Written:
    place: str
    where: str
    number: int  # of the member


@dataclass(slots=True)
class _Folder:
    """A place that is still open while the sorted places are read, with the first of each kind that is, or holds, it.

    Two members of each kind are enough to find one that is not the next place's own.
    """

    place: str
    holders: dict[str, tuple[_Written, ...]] = field(default_factory=dict)


def _neighbours(written: Sequence[_Written]) -> Iterator[tuple[_Written, _Written]]:
    """Pairs of different members of which one's place is, or holds, the other's; at most one of a kind for each place.

    Sorted by place, what a folder holds follows it. In linear time: places of hostile sweeps are all the same.
    """
    opened: list[_Folder] = []
    for one in sorted(written):
        while opened and not one.place.startswith(opened[-1].place):
            opened.pop()
        holders = dict(opened[-1].holders) if opened else {}
        for holding in holders.values():
            if other := next((holder for holder in holding if holder.number != one.number), None):
                yield other, one
        same = holders.get(one.where, ())
        if len(same) < 2 and one.number not in {holder.number for holder in same}:
            holders[one.where] = (*same, one)
        if opened and opened[-1].place == one.place:
            opened[-1].holders = holders
        else:
            opened.append(_Folder(one.place, holders))


def _written_by(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yields the places that a member writes to, with a slash at the end, so that `run-1` is not taken for a folder
    that holds `run-10`.
    """
    if spec.checkpoint is not None and not spec.checkpoint.is_on_disk:
        yield "checkpoint.location", spec.checkpoint.location.rstrip("/") + "/"
    for where, destination in destinations_of(spec).items():
        yield "outputs" if where.startswith("outputs.") else where, destination.rstrip("/") + "/"


def described(refusals: Sequence[tuple[int, JobRefusal]], count: int) -> list[JobRefusal]:
    """Describes the problems of members, once for all that share one: with their numbers, where it is not for all.

    At most so many sentences as help anybody.
    """
    members: dict[JobRefusal, list[int]] = {}
    for number, refusal in refusals:
        members.setdefault(refusal, []).append(number)
    merged = []
    for refusal, numbers in islice(members.items(), _MOST_REFUSALS):
        some = list_text([str(number) for number in numbers[:5]]) + (" and more" if len(numbers) > 5 else "")
        which = "" if len(numbers) == count else f"Member{'s' if len(numbers) > 1 else ''} {some}: "
        merged.append(JobRefusal(f"job.{refusal.where}", f"{which}{refusal.message}"))
    return merged


def words_of(parameters: Mapping[str, str]) -> str:
    """`lr=0.001 seed=2`."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def _names(listed: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for one in listed for name in one))


def _combinations(order: SweepOrder) -> Iterator[dict[str, str]]:
    for one in order.listed or ({},):
        for values in product(*order.grid.values()):
            yield {**one, **dict(zip(order.grid, values, strict=True))}


def _name_of(base: str, number: int, parameters: Mapping[str, str]) -> str:
    name = f"{base} {number}: {words_of(parameters)}"
    return (name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…").strip()
