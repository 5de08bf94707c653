"""Caches of query results, valid while their tables have not changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Select, Table, select

from costguard.db.prepared import prepared
from costguard.db.tables import changes

_T = TypeVar("_T")
_P = ParamSpec("_P")
_Reader: TypeAlias = Callable[Concatenate[Connection, _P], _T]
_Key = TypeVar("_Key", bound=Hashable)
_ReaderOfEach: TypeAlias = Callable[[Connection, Collection[_Key]], dict[_Key, _T]]

# Of one database so many answers, and so many rows in all of them together: some fifty megabytes. The one that was
# asked for longest ago goes first; one that is a tenth of all is not kept.
MOST, MOST_ROWS = 200, 100_000
MOST_AT_ONCE = 1000  # keys that `remembers_each` keeps answers for in one call: more are read as they are


def remembered(connection: Connection, tables: Collection[Table], question: Hashable, read: Callable[[], _T]) -> _T:
    """Returns the result of `read`, now or when these tables were last changed; nobody may change what it returns.

    `question` names the reading and all that it depends on but these tables. The database counts the changes, so that
    no writer can forget to. A transaction that writes reads again: it may be undone.
    """
    good = _numbers_for(connection, tables)
    if good is None:
        return read()
    with _lock:
        memory = _memories.setdefault(connection.engine, _Memory())
        kept = memory.kept(question, good)
    if kept is not None:
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


def remembers_each(*tables: Table) -> Callable[[_ReaderOfEach[_Key, _T]], _ReaderOfEach[_Key, _T]]:
    """Makes a reading of these tables by keys, which returns the answers of those that have one, remember each key.

    It is called with those keys alone that nobody asked for since the tables were last changed. So a message, its edit
    and the look before them read their VM once.
    """

    def made(read: _ReaderOfEach[_Key, _T]) -> _ReaderOfEach[_Key, _T]:
        question = (read.__module__, read.__qualname__)

        @wraps(read)
        def reading(connection: Connection, keys: Collection[_Key]) -> dict[_Key, _T]:
            if not keys:
                return {}
            good = None if len(keys) > MOST_AT_ONCE else _numbers_for(connection, tables)
            if good is None:
                return read(connection, keys)
            with _lock:
                memory = _memories.setdefault(connection.engine, _Memory())
                kept = memory.kept(question, good)
            answers: dict[_Key, Any] = {} if kept is None else {key: kept.answer.get(key, _UNREAD) for key in keys}
            if missing := [key for key in keys if answers.get(key, _UNREAD) is _UNREAD]:
                new = read(connection, missing)
                answers |= {key: new.get(key, _NONE) for key in missing}
                with _lock:
                    memory.keep_more(question, good, {key: answers[key] for key in missing})
            return {key: answers[key] for key in keys if answers[key] is not _NONE}

        return cast(_ReaderOfEach[_Key, _T], reading)

    return made


def state_of(connection: Connection, table: Table) -> tuple[int, int] | None:
    """Returns the number of the table's last change, for modules with a cache of their own; it also works in
    transactions that write. None: its changes are not counted.
    """
    if is_writing(connection):
        number = connection.scalar(*_number(table.name))
    else:
        number = _numbers_of(connection).get(table.name)
    return None if number is None else (_times_forgotten, number)


def forget() -> None:
    """Drops what is remembered: the next caller reads it again."""
    global _times_forgotten
    with _lock:
        _memories.clear()
        _times_forgotten += 1


def are_of_one_database(writer: Engine, reader: Engine) -> None:
    """Lets readers and writers of a database share what is kept by `database_of`."""
    if reader is not writer:
        _writers[reader] = writer


def database_of(connection: Connection) -> Engine:
    """Returns the engine under which caches of this database are kept: the writer's, also for a reader's connection."""
    return _writers.get(connection.engine, connection.engine)


def writes(connection: Connection, is_so: bool) -> None:
    """Marks the connection as writing or only reading, at the start of each transaction."""
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

    def kept(self, question: Hashable, numbers: tuple[int, ...]) -> _Kept | None:
        """Returns the answer that is still good."""
        kept = self.answers.get(question)
        if kept is None or kept.numbers != numbers:
            return None
        self.answers.move_to_end(question)
        return kept

    def keep_more(self, question: Hashable, numbers: tuple[int, ...], answers: Mapping[Any, Any]) -> None:
        """Keeps these answers next to earlier ones that are still good; where they are too many together, alone."""
        before = self.kept(question, numbers)
        together = answers if before is None else before.answer | answers
        rows = _rows_of_each(answers) + (0 if before is None else before.rows)
        if rows > MOST_ROWS // 10:
            together, rows = answers, _rows_of_each(answers)
        self.keep(question, _Kept(numbers, together, rows))

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


def _rows_of_each(answers: Mapping[Any, Any]) -> int:
    return sum(max(1, _rows_in(answer)) for answer in answers.values())


_UNREAD, _NONE = object(), object()  # a key that nobody asked for yet, and one that has no answer
_WRITING = "costguard_writing"
_lock = Lock()
_times_forgotten = 0
_writers: WeakKeyDictionary[Engine, Engine] = WeakKeyDictionary()
_memories: WeakKeyDictionary[Engine, _Memory] = WeakKeyDictionary()
# A transaction that reads sees one unmoving state, so its numbers are read once.
_numbers: WeakKeyDictionary[Connection, dict[str, int]] = WeakKeyDictionary()
_NUMBERS = select(changes.c.table_name, changes.c.number)


@prepared
def _number(table: str) -> Select[Any]:
    return select(changes.c.number).where(changes.c.table_name == table)


def _numbers_for(connection: Connection, tables: Collection[Table]) -> tuple[int, ...] | None:
    """Returns the numbers of the last changes of these tables; None where what is read may not be kept: within a
    transaction that writes, and of tables whose changes nobody counts.
    """
    if is_writing(connection):
        return None
    numbers = _numbers_of(connection)
    named = [numbers.get(table.name) for table in tables]
    return None if None in named else tuple(number for number in named if number is not None)


def _numbers_of(connection: Connection) -> dict[str, int]:
    numbers = _numbers.get(connection)
    if numbers is None:
        numbers = _numbers[connection] = dict(map(tuple, connection.execute(_NUMBERS).all()))
    return numbers
