"""The options of a Flyte task's job, generated from the declarations of a job's options."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.option import Option, Takes

_HEAD = '''\
"""The options of a task, one for each of a job. Generated from their declarations by `python -m tests.golden api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """The options of a task on Costguard's VMs, with the meanings of `costguard launch`."""

'''
_TYPES = {
    Takes.TEXT: ("str", '""'),
    Takes.LINES: ("Sequence[str]", "()"),
    Takes.COMMAND: ("Sequence[str]", "()"),
    Takes.SWITCH: ("bool | None", "None"),
    Takes.COUNT: ("int | None", "None"),
    Takes.NODES: ("int | str | None", "None"),
    Takes.HOURS: ("float | None", "None"),
    Takes.DOLLARS: ("str | None", "None"),
    Takes.MOMENT: ("str | None", "None"),
    Takes.PAIRS: ("Mapping[str, str]", "field(default_factory=dict)"),
    Takes.CODE: ("Mapping[str, Any] | None", "None"),
}


def _name(option: Option) -> str:
    return option.task or option.name


def text(options: Iterable[Option] = JOB_OPTIONS) -> str:
    """Returns the module. Places of data are not in it: a task's own inputs and outputs say them."""
    shown = [option for option in options if option.task is not None and option.takes is not Takes.PLACES]
    fields = "".join(line for option in shown for line in _field(option))
    places = "".join(f'    "{_name(option)}": "{option.place}",\n' for option in shown)
    filled = "".join(f'        "{_name(option)}",\n' for option in shown if option.filled)
    return (
        f"{_HEAD}{fields}\n\n# Where in a job's request each stands.\n"
        f"PLACES: Mapping[str, str] = {{\n{places}}}\n"
        f"# In whose texts {{name}} stands for a task's input.\nFILLED = frozenset(\n    {{\n{filled}    }}\n)\n"
    )


def _field(option: Option) -> Iterator[str]:
    if option.takes is Takes.CHOICE:
        kind, default = f"Literal[{', '.join(_quoted(str(one)) for one in option.choices)}] | None", "None"
    else:
        kind, default = _TYPES[option.takes]
    yield (
        f"    {_name(option)}: {kind}\n"
        if option.required and not option.group
        else (f"    {_name(option)}: {kind} = {default}\n")
    )
    if option.description:
        words = option.description.replace("\\", "\\\\")
        lines = (
            textwrap.wrap(f'"""{words}"""', 108) if len(words) < 100 else [*textwrap.wrap(f'"""{words}', 108), '"""']
        )
        yield "".join(f"    {line}\n" for line in lines)


def _quoted(word: str) -> str:
    return f'"{word}"'
