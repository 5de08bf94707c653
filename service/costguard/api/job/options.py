"""A job's options as parts of requests and of responses, made of their declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    create_model,
)

from costguard.api.fields import Body, BodyMoment, Out, Seconds, Text, one_of, read_from
from costguard.model.job import JobCode
from costguard.model.money import Money
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.node_count import EXAMPLE, MOST_NODES, RANGE_PATTERN, NodeRange, node_count
from costguard.model.options.option import LONGEST_NAME, LONGEST_TEXT, LONGEST_WORD, MOST_HOURS, Option, Takes, in_group

Dollars = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,9}(?:\.[0-9]{1,9})?$"),
    Field(description="Dollars, as a string, because JSON numbers are not exact.", examples=["60", "12.50"]),
]
Hours = Annotated[float, Field(strict=True, gt=0, le=MOST_HOURS, allow_inf_nan=False)]
Word = Annotated[str, StringConstraints(max_length=LONGEST_WORD)]
Name = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
Nodes = (
    Annotated[StrictInt, Field(ge=1, le=MOST_NODES)]
    | Annotated[
        str,
        StringConstraints(pattern=f"^{RANGE_PATTERN}$"),
        AfterValidator(lambda text: str(node_count(text))),
        Field(description="The least and the most number of VMs.", examples=[EXAMPLE]),
    ]
)
NodesShown = Annotated[int | str, BeforeValidator(lambda count: str(count) if isinstance(count, NodeRange) else count)]
_Model = TypeVar("_Model", bound=BaseModel)


class CodeBody(Body):
    """The archive of a work directory, uploaded before under its SHA-256."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[StrictInt, Field(ge=0)] = Field(description="The size of the packed archive in bytes.")
    files: Annotated[StrictInt, Field(ge=0)]
    commit: Text = ""
    branch: Text = ""
    diff: Word = Field("", description="The uncommitted changes, cut where they are long.")


class CodeOut(Out):
    """The archive of a work directory, and the state of its repository when it was packed."""

    sha256: str
    size: int = Field(description="The size of the packed archive in bytes.")
    files: int
    commit: str = Field(description="The commit's id; empty outside of a repository.")
    branch: str
    diff: str = Field(description="The uncommitted changes, cut where they are long.")


def takes_options(group: str, options: Iterable[Option] = JOB_OPTIONS) -> Callable[[type[_Model]], type[_Model]]:
    """Gives a request's class a field for each option of this group."""
    return _with_fields({option.name: _asked(option) for option in in_group(options, group)})


def shows_options(group: str, options: Iterable[Option] = JOB_OPTIONS) -> Callable[[type[_Model]], type[_Model]]:
    """Gives a response's class a field for each option of this group that a job's `spec` repeats."""
    return _with_fields({_shown_name(one): _shown(one) for one in in_group(options, group) if one.in_job})


def values_of(body: BaseModel, group: str = "") -> dict[str, Any]:
    """Returns the values of a request's options by their places, as `submission_of` takes them."""
    values: dict[str, Any] = {}
    for option in in_group(JOB_OPTIONS, group):
        value, make = getattr(body, option.name), _MADE.get(option.takes)
        values[option.place] = value if value is None or make is None else make(option, value)
    return values


def whole_hours(number: float) -> timedelta:
    """Whole seconds: what Google and the database keep."""
    return timedelta(seconds=round(number * 3600))


_MADE: Mapping[Takes, Callable[[Option, Any], Any]] = {
    Takes.LINES: lambda _, value: tuple(value),
    Takes.COMMAND: lambda _, value: tuple(value),
    Takes.NODES: lambda _, value: node_count(value),
    Takes.HOURS: lambda _, value: whole_hours(value),
    Takes.DOLLARS: lambda _, value: Money.of(value),
    Takes.PLACES: lambda option, value: tuple(tuple(getattr(one, side) for side in option.sides) for one in value),
    Takes.CODE: lambda _, value: JobCode(**value.model_dump()),
}


def _with_fields(fields: Mapping[str, Any]) -> Callable[[type[_Model]], type[_Model]]:
    def made(cls: type[_Model]) -> type[_Model]:
        return create_model(cls.__name__, __base__=cls, __module__=cls.__module__, __doc__=cls.__doc__, **fields)

    return made


def _asked(option: Option) -> tuple[Any, Any]:
    """Returns the type and the field of an option in a request."""
    described: dict[str, Any] = {"description": option.description or None, "examples": list(option.examples) or None}
    kind = _ASKED[option.takes](option)
    if option.takes in _MOST:
        kind = Annotated[kind, Field(max_length=_MOST[option.takes])]
    if option.required:
        return kind, Field(**described)
    if option.unset is None:
        return kind | None, Field(None, **described)
    if option.takes in _MOST:
        return kind, Field(default_factory=dict if option.takes is Takes.PAIRS else list, **described)
    return kind, Field(option.unset, **described)


def _shown_choice(option: Option) -> Any:
    is_enum = isinstance(option.choices, type) and issubclass(option.choices, StrEnum)
    return option.choices if is_enum else Annotated[str, one_of(option.choices)]


def _sides(option: Option, base: type[BaseModel], ending: str, kind: Any) -> Any:
    """Returns the class of one of an option's places: InputBody of `inputs`."""
    fields: dict[str, Any] = {
        side: (kind, Field(description=words, examples=[example] if kind is Name else None))
        for side, words, example in zip(option.sides, option.side_descriptions, option.side_examples, strict=True)
    }
    return create_model(
        f"{option.name.removesuffix('s').title()}{ending}", __base__=base, __module__=__name__, **fields
    )


_MOST = {Takes.LINES: 100, Takes.COMMAND: 5_000, Takes.PAIRS: 500, Takes.PLACES: 100}  # of those that hold several
_ASKED: Mapping[Takes, Callable[[Option], Any]] = {
    Takes.TEXT: lambda option: (
        Text if option.longest == LONGEST_TEXT else Annotated[str, StringConstraints(max_length=option.longest)]
    ),
    Takes.LINES: lambda _: list[Name],
    Takes.COMMAND: lambda _: list[Word],
    Takes.SWITCH: lambda _: StrictBool,
    Takes.CHOICE: lambda option: Literal[option.choices] if isinstance(option.choices, tuple) else option.choices,
    Takes.COUNT: lambda option: Annotated[StrictInt, Field(ge=option.least, le=option.most)],
    Takes.NODES: lambda _: Nodes,
    Takes.HOURS: lambda _: Hours,
    Takes.DOLLARS: lambda _: Dollars,
    Takes.MOMENT: lambda _: BodyMoment,
    Takes.PAIRS: lambda _: dict[str, Word],
    Takes.PLACES: lambda option: list[_sides(option, Body, "Body", Name)],  # type: ignore[misc]
    Takes.CODE: lambda _: CodeBody,
}
_SHOWN: Mapping[Takes, Callable[[Option], Any]] = {
    Takes.TEXT: lambda _: str,
    Takes.LINES: lambda _: Sequence[str],
    Takes.COMMAND: lambda _: Sequence[str],
    Takes.SWITCH: lambda _: bool,
    Takes.CHOICE: _shown_choice,
    Takes.COUNT: lambda _: int,
    Takes.NODES: lambda _: NodesShown,
    Takes.HOURS: lambda _: Seconds,
    Takes.PAIRS: lambda _: Mapping[str, str],
    Takes.PLACES: lambda option: Sequence[_sides(option, Out, "Out", str)],  # type: ignore[misc]
    Takes.CODE: lambda _: CodeOut,
}


def _shown_name(option: Option) -> str:
    return option.name.replace("_hours", "_seconds") if option.takes is Takes.HOURS else option.name


def _shown(option: Option) -> tuple[Any, Any]:
    """Returns the type and the field of an option in a response. It is read from its path within its group."""
    kind = _SHOWN[option.takes](option)
    path = option.path.removeprefix(f"{option.group}.") if option.group else option.path
    described: dict[str, Any] = {"description": option.description_in_job or option.description or None}
    field = Field(**described) if path == _shown_name(option) else read_from(path, **described)
    return kind | None if option.unset is None else kind, field
