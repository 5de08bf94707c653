"""The declaration of one option of a job, from which every face makes its own form of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from functools import reduce
from typing import Any

LONGEST_NAME = 1_000  # characters of a path, an address or a name
LONGEST_TEXT = 500  # of a pattern or an id
MOST_HOURS = 24 * 365
LONGEST_WORD = 262_144  # of a command's word or a variable's value: Google's limit for a value of a VM's metadata

_BETWEEN_PLACES = re.compile(r"=(?=/|[a-z][a-z0-9]*://)")


class Takes(Enum):
    """The kind of value that an option takes. Each face converts a kind once, for all options of it.

    The comments name the value's type in a job's request.
    """

    TEXT = auto()  # str
    LINES = auto()  # tuple[str, ...]
    COMMAND = auto()  # tuple[str, ...]: the words of a command
    SWITCH = auto()  # bool; with the default None also None: unset
    CHOICE = auto()  # a StrEnum, or str; with the default None also None
    COUNT = auto()  # int; with the default None also None
    NODES = auto()  # NodeCount: a number of VMs, or the least and the most
    HOURS = auto()  # timedelta | None, in whole seconds: what Google and the database keep
    DOLLARS = auto()  # Money | None
    MOMENT = auto()  # datetime | None
    PAIRS = auto()  # Mapping[str, str]: names and values
    PLACES = auto()  # tuple of two places each: from where, to where
    CODE = auto()  # JobCode | None


class Panel(StrEnum):
    """The groups of options in a command's help, which the launch form has too."""

    CODE = "Command and code"
    CHECKPOINTS = "Checkpoints"
    DATA = "Data"
    VM = "VM"
    COST = "Cost and time"
    WATCH = "Progress and drills"


_EMPTY: Mapping[Takes, Any] = {
    Takes.TEXT: "",
    Takes.LINES: (),
    Takes.COMMAND: (),
    Takes.PLACES: (),
}


@dataclass(frozen=True, slots=True)
class Flag:
    """The option as a command takes it: `--bandwidth MIB_PER_S`. `metavar` is empty for a switch.

    `name` of a switch with an opposite holds both: `--fallback/--no-fallback`.
    """

    name: str
    metavar: str
    help: str
    short: str = ""  # such as -e
    variable: str = ""  # the environment variable that it is read from, too


@dataclass(frozen=True, slots=True)
class Input:
    """The option as a form shows it. `words` are those of each value in a list to choose from; "" is unset."""

    label: str
    note: str = ""
    example: str = ""
    wide: bool = False
    words: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Declares one option of a job.

    `place` is where it stands in a request: `aws_role`, `checkpoint.keep`, `overrides.zones`. `attribute` is its path
    in a `Submission`, whose `JobSpec` is the top, where that is another. `description` is one sentence for the API.
    """

    place: str
    takes: Takes
    panel: Panel = Panel.CODE  # `in_panel` sets it
    description: str = ""
    attribute: str = ""
    default: Any = None
    required: bool = False
    choices: type[Enum] | tuple[str, ...] = ()  # an enumeration of texts, or the texts
    least: int = 0  # of counts; both bounds are allowed
    most: int | None = None
    unit: str = ""  # of counts, in words: "MiB a second"
    longest: int = LONGEST_NAME  # of each text, in characters
    examples: tuple[Any, ...] = ()
    sides: tuple[str, str] = ("", "")  # of places: the names of the two
    side_descriptions: tuple[str, str] = ("", "")
    side_examples: tuple[str, str] = ("", "")
    flag: Flag | None = None
    input: Input | None = None
    details: tuple[str, str] | None = None  # on a job's page: the term, and the text with {} for the value
    task: str | None = ""  # its name in a Flyte task where that is another; None: tasks do not have it
    filled: bool = False  # whether a task's inputs are put into its placeholders
    agent: str = ""  # the name of the agent's setting that holds its value as it is
    of_dev: bool = False  # whether a development VM has it too
    in_job: bool = True  # whether the API repeats it in a job's `spec`
    description_in_job: str = ""  # where it differs from `description`
    holds_text: bool = True  # whether people write it freely, so that a credential may stand in it
    check: Callable[[str], str] | None = None  # of a text: what is wrong and what to write; "": nothing

    @property
    def group(self) -> str:
        """Returns the part of the request that it is in: "", "checkpoint", "metric" or "overrides"."""
        return self.place.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Returns its name within its group."""
        return self.place.rpartition(".")[2]

    @property
    def path(self) -> str:
        """Returns its path in the `JobSpec` or, without the group, in the `Overrides`."""
        return self.attribute or self.place

    @property
    def typed_example(self) -> str:
        """Returns an example of its places as a person types them: `s3://acme-data/v7=/data`."""
        return "=".join(self.side_examples)

    @property
    def unset(self) -> Any:
        """Returns its value where nobody gave one. What overrides a preset is then None."""
        if self.default is not None or self.group == "overrides":
            return self.default
        return {} if self.takes is Takes.PAIRS else _EMPTY.get(self.takes)

    def stored_in(self, spec: object) -> Any:
        """Reads its value in a job's spec; None where the part that holds it is missing."""
        return reduce(lambda part, name: None if part is None else getattr(part, name), self.path.split("."), spec)

    def value_in(self, spec: object) -> Any:
        """Reads its value in a job's spec; as unset where the part that holds it is missing."""
        value = self.stored_in(spec)
        return self.unset if value is None else value

    def is_set_in(self, spec: object) -> bool:
        return bool(self.value_in(spec) != self.unset)


def in_panel(panel: Panel, *options: Option) -> tuple[Option, ...]:
    return tuple(replace(option, panel=panel) for option in options)


def two_places(text: str) -> tuple[str, str] | None:
    """Reads `FROM=TO`; None where it has no two sides.

    A bucket's path may hold `=`, as in `day=7`: the one before `/` or a scheme separates.
    """
    parts = _BETWEEN_PLACES.split(text)
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else None


def in_group(options: Iterable[Option], group: str) -> list[Option]:
    """Returns the options of one part of a request, in their order."""
    return [option for option in options if option.group == group]
