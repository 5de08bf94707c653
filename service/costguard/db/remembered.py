"""Caches of query results, valid while their tables have not changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Table, select

from costguard.db.tables import changes

_T = TypeVar("_T")
_P = ParamSpec("_P")
_Reader: TypeAlias = Callable[Concatenate[Connection, _P], _T]

# Of one database so many answers, and so many rows in all of them together: some fifty megabytes. The one that was
# asked for longest ago goes first; one that is a tenth of all is not kept.
MOST, MOST_ROWS = 200, 100_000


def remembered(connection: Connection, tables: Collection[Table], question: Hashable, read: Callable[[], _T]) -> _T:
    """Returns the result of `read`, now or when these tables were last changed; nobody may change what it returns.

    `question` names the reading and all that it depends on but these tables. The database counts the changes, so that
    no writer can forget to. A transaction that writes reads again: it may be undone.
    """
    if is_writing(connection):
        return read()
    numbers = _numbers_of(connection)
    if not numbers.keys() >= {table.name for table in tables}:
        return read()  # nobody counts its changes
    good = tuple([numbers[table.name] for table in tables])
    with _lock:
        memory = _memories.setdefault(connection.engine, _Memory())
        kept = memory.answers.get(question)
        if kept is not None and kept.numbers == good:
            memory.answers.move_to_end(question)
            return cast(_T, kept.answer)
    answer = read()
    with _lock:
        memory.keep(question, _Kept(good, answer, _rows_in(answer)))
    return answer


def remembers(*tables: Table) -> Callable[[_Reader[_P, _T]], _Reader[_P, _T]]:
    """Makes a reading of these tables one that is remembered. Its arguments must be hashable."""

    def made(read: _Reader[_P, _T]) -> _Reader[_P, _T]:
        @wraps(read)
        def reading(connection: Connection, *args: _P.args, **named: _P.kwargs) -> _T:
            question = (read.__module__, read.__qualname__, args, *named.items())
            return remembered(connection, tables, question, lambda: read(connection, *args, **named))

        return cast(_Reader[_P, _T], reading)

    return made


def forget() -> None:
    """Drops what is remembered: the next caller reads it again."""
    with _lock:
        _memories.clear()


def writes(connection: Connection, is_so: bool) -> None:
    """Said of a connection at the beginning of each transaction."""
    connection.info[_WRITING] = is_so


def is_writing(connection: Connection) -> bool:
    return bool(connection.info.get(_WRITING, True))


@dataclass(frozen=True, slots=True)
class _Kept:
    numbers: tuple[int, ...]  # of the tables, when it was read
    answer: Any
    rows: int


class _Memory:
    def __init__(self) -> None:
        self.answers: OrderedDict[Hashable, _Kept] = OrderedDict()
        self.rows = 0

    def keep(self, question: Hashable, kept: _Kept) -> None:
        before = self.answers.pop(question, None)
        self.rows -= 0 if before is None else before.rows
        if kept.rows > MOST_ROWS // 10:
            return
        self.answers[question] = kept
        self.rows += kept.rows
        while len(self.answers) > MOST or self.rows > MOST_ROWS:
            _, oldest = self.answers.popitem(last=False)
            self.rows -= oldest.rows


def _rows_in(answer: object) -> int:
    if isinstance(answer, tuple):
        return sum(map(_rows_in, answer))
    return len(answer) if isinstance(answer, list | dict) else 1


_WRITING = "costguard_writing"
_lock = Lock()
_memories: WeakKeyDictionary[Engine, _Memory] = WeakKeyDictionary()
# A transaction that reads sees one unmoving state, so its numbers are read once.
_numbers: WeakKeyDictionary[Connection, dict[str, int]] = WeakKeyDictionary()
_NUMBERS = select(changes.c.table_name, changes.c.number)


def _numbers_of(connection: Connection) -> dict[str, int]:
    numbers = _numbers.get(connection)
    if numbers is None:
        numbers = _numbers[connection] = {row.table_name: row.number for row in connection.execute(_NUMBERS)}
    return numbers
