"""Statements that are built once and run often: building one takes several times as long as SQLite's answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import date, timedelta
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

from sqlalchemy import Executable, bindparam

_P = ParamSpec("_P")
_Built = TypeVar("_Built", bound=Executable)
Prepared: TypeAlias = tuple[_Built, dict[str, Any]]
"""A statement and its values, for `connection.execute(*of_owner("ada@example.com"))`."""


def prepared(build: Callable[_P, _Built]) -> Callable[_P, Prepared[_Built]]:
    """Makes a function that builds a statement from positional values one that builds it once for all values.

    `build` gets a bind parameter for each text, number, date, and list of those, and may only compare with it. All
    else, such as a table, a tuple of names, a bool, or None, it gets as it is: once for each that there is.
    """
    names = tuple(f"{name}_of_{build.__name__}" for name in signature(build).parameters)
    made: dict[Hashable, _Built] = {}

    @wraps(build)
    def of(*args: _P.args, **named: _P.kwargs) -> Prepared[_Built]:
        assert not named, "by position"
        values: dict[str, Any] = {}
        shape: list[Hashable] = []
        for name, value in zip(names, args, strict=False):
            if isinstance(value, list):
                values[name] = value
                shape.append(list)
            elif isinstance(value, str | int | date | timedelta) and not isinstance(value, bool):
                values[name] = value
                shape.append(str)
            else:
                shape.append(value)
        key = tuple(shape)
        statement = made.get(key)
        if statement is None:
            given: Any = [
                bindparam(name, expanding=True) if kind is list else bindparam(name) if kind is str else kind
                for name, kind in zip(names, shape, strict=False)
            ]
            statement = made[key] = cast(Callable[..., _Built], build)(*given)
        return statement, values

    return of
