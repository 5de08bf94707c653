"""A user's regular expression over what their command prints, matched without backtracking.

Python's own would freeze the agent for hours over one line. Here all ways to match are followed at once, character by
character (Thompson's construction, with priorities as in Pike's), and the work is counted: what is beyond the budget is
left unread. Travels with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Callable, Tuple

try:  # Python's own parser: sre_parse until 3.10
    from re import _constants as _c  # type: ignore[attr-defined, unused-ignore]  # private, so not in typeshed
    from re import _parser  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    import sre_constants as _c
    import sre_parse as _parser

LONGEST = 500
_MOST_NODES = 300
_MOST_PARTS = 10 * _MOST_NODES  # looked at to make the nodes: `(?:){4000000000}` makes none, one repetition at a time
_BUDGET = 40_000  # nodes visited in one reading: some 20 ms
_LONGEST_LINE = 2000

_Holds = Callable[[str], bool]
_Node = Tuple[str, Any, int]  # what it does, with what, and the node after it
_Group = Tuple[int, int, int]  # where the match began, and where its group begins and ends; -1: not known yet

_CATEGORIES: dict[Any, _Holds] = {
    _c.CATEGORY_DIGIT: str.isdecimal,
    _c.CATEGORY_NOT_DIGIT: lambda sign: not sign.isdecimal(),
    _c.CATEGORY_SPACE: str.isspace,
    _c.CATEGORY_NOT_SPACE: lambda sign: not sign.isspace(),
    _c.CATEGORY_WORD: lambda sign: sign.isalnum() or sign == "_",
    _c.CATEGORY_NOT_WORD: lambda sign: not (sign.isalnum() or sign == "_"),
}


class LogPattern:
    """The first group is what is looked for; without one, all that matched. Raises ValueError with the reason."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LONGEST:
            raise ValueError(f"it has {len(pattern)} characters, and {LONGEST} are allowed")
        self._nodes: list[_Node] = []
        self._parts = 0
        try:
            parsed = _parser.parse(pattern)
            self.groups: int = parsed.state.groups - 1
            self._begin = self._compile(parsed, parsed.state.flags, self._add("match", None, 0))
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from None
        self._firsts = self._first_signs()
        self._can_begin: dict[str, bool] = {}

    def last_in(self, text: str) -> str:
        """Returns the captured text of the last match; "" where there is none. Each line is matched alone."""
        self._left = _BUDGET
        for line in reversed(re.split("[\r\n]", text)):
            last = self._last_of(line[:_LONGEST_LINE])
            if last is not None or self._left <= 0:
                return last or ""
        return ""

    def matches_in(self, text: str, budget: int = _BUDGET) -> Iterator[tuple[str, int]]:
        """Yields the captured text of the last match of each line, and the end of the line; the last line first, within
        the budget.
        """
        self._left = budget
        end = len(text)
        while end >= 0 and self._left > 0:
            begin = max(text.rfind("\n", 0, end), text.rfind("\r", 0, end)) + 1
            last = self._last_of(text[begin : min(end, begin + _LONGEST_LINE)])
            if last is not None and self._left > 0:
                yield last, end
            end = begin - 1

    def is_in(self, text: str, budget: int) -> tuple[bool, int]:
        """Says whether it matches in some line of the text, with the rest of the budget; 0: not all lines were
        searched.
        """
        is_found = next(self.matches_in(text, min(budget, _BUDGET)), None) is not None
        return is_found, budget - min(budget, _BUDGET) + max(self._left, 0)

    # From a parsed expression to nodes, the last first.

    def _add(self, kind: str, value: Any, then: int) -> int:
        if len(self._nodes) >= _MOST_NODES:
            raise ValueError("it is too large: write fewer repetitions")
        self._nodes.append((kind, value, then))
        return len(self._nodes) - 1

    def _compile(self, parts: Any, flags: int, then: int) -> int:
        self._parts += 1 + len(parts)
        if self._parts > _MOST_PARTS:
            raise ValueError("it is too large: write fewer repetitions")
        for kind, value in reversed(list(parts)):
            then = self._part(kind, value, flags, then)
        return then

    def _part(self, kind: Any, value: Any, flags: int, then: int) -> int:
        if kind in (_c.LITERAL, _c.NOT_LITERAL, _c.ANY, _c.IN):
            return self._add("sign", _holds(kind, value, flags), then)
        if kind is _c.AT:
            return self._add("at", value, then)
        if kind is _c.BRANCH:
            ways = [self._compile(way, flags, then) for way in value[1]]
            return self._add("split", ways, 0)
        if kind is _c.SUBPATTERN:
            group, added, removed, inner = value
            flags = (flags | added) & ~removed
            if group != 1:
                return self._compile(inner, flags, then)
            return self._add("open", None, self._compile(inner, flags, self._add("close", None, then)))
        if kind in (_c.MAX_REPEAT, _c.MIN_REPEAT):
            return self._repeat(value, flags, then, is_lazy=kind is _c.MIN_REPEAT)
        raise ValueError(f"{str(kind).lower().replace('_', ' ')} is not supported: write it without")

    def _repeat(self, value: Any, flags: int, then: int, *, is_lazy: bool) -> int:
        least, most, inner = value
        if most is _c.MAXREPEAT:
            loop = self._add("split", [], 0)
            body = self._compile(inner, flags, loop)
            self._nodes[loop] = ("split", [then, body] if is_lazy else [body, then], 0)
            begin = loop
        else:
            begin = then
            for _ in range(most - least):
                body = self._compile(inner, flags, begin)
                begin = self._add("split", [then, body] if is_lazy else [body, then], 0)
        for _ in range(least):
            begin = self._compile(inner, flags, begin)
        return begin

    def _first_signs(self) -> list[_Holds] | None:
        """Returns the signs that a match can begin with; None where a match can be empty."""
        signs, waiting, seen = [], [self._begin], {self._begin}
        while waiting:
            kind, value, then = self._nodes[waiting.pop()]
            if kind == "match":
                return None
            if kind == "sign":
                signs.append(value)
                continue
            for node in value if kind == "split" else [then]:
                if node not in seen:
                    seen.add(node)
                    waiting.append(node)
        return signs

    # Matching.

    def _last_of(self, line: str) -> str | None:
        text, at = None, 0
        while at <= len(line) and self._left > 0:
            match = self._search(line, at)
            if match is None:
                break
            (begin, opened, closed), end = match
            text = line[begin:end] if not self.groups else line[opened:closed] if closed >= 0 else ""
            at = end if end > begin else end + 1
        return text

    def _search(self, line: str, at: int) -> tuple[_Group, int] | None:
        """The first match from there on, the preferred way of those that begin at one place."""
        threads: list[tuple[int, _Group]] = []
        best = None
        while at <= len(line):
            if best is None and not threads:
                at = self._next_begin(line, at)
            seen = {node for node, _ in threads}
            if best is None:
                self._follow(self._begin, (at, -1, -1), line, at, threads, seen)
            self._left -= len(threads) + 2
            if self._left <= 0 or not (threads or best is None):
                break
            following: list[tuple[int, _Group]] = []
            seen = set()
            for node, group in threads:
                kind, value, then = self._nodes[node]
                if kind == "match":
                    best = (group, at)
                    break
                if at < len(line) and value(line[at]):
                    self._follow(then, group, line, at + 1, following, seen)
            threads = following
            at += 1
        return best

    def _follow(
        self, node: int, group: _Group, line: str, at: int, threads: list[tuple[int, _Group]], seen: set[int]
    ) -> None:
        """Adds the signs that can come next, the preferred first; each node once."""
        waiting = [(node, group)]
        while waiting:
            node, group = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            self._left -= 1
            kind, value, then = self._nodes[node]
            if kind in ("sign", "match"):
                threads.append((node, group))
            elif kind == "split":
                waiting += [(branch, group) for branch in reversed(value)]
            elif kind == "open":
                waiting.append((then, (group[0], at, -1)))
            elif kind == "close":
                waiting.append((then, (group[0], group[1], at)))
            elif _is_at(value, line, at):
                waiting.append((then, group))

    def _next_begin(self, line: str, at: int) -> int:
        if self._firsts is None:
            return at
        while at < len(line):
            sign = line[at]
            can = self._can_begin.get(sign)
            if can is None:
                can = self._can_begin[sign] = any(holds(sign) for holds in self._firsts)
            if can:
                return at
            at += 1
        return at


def _holds(kind: Any, value: Any, flags: int) -> _Holds:
    if kind is _c.ANY:
        return lambda _sign: True  # a line holds no line's end
    parts = list(value) if kind is _c.IN else [(_c.LITERAL, value)]
    is_negated = kind is _c.NOT_LITERAL or parts[0][0] is _c.NEGATE
    tests = [_one_of(kind_of_part, what, flags) for kind_of_part, what in parts if kind_of_part is not _c.NEGATE]
    if not flags & re.IGNORECASE:
        return lambda sign: any(test(sign) for test in tests) != is_negated
    return lambda sign: (
        any(test(variant) for test in tests for variant in (sign, sign.lower(), sign.upper())) != is_negated
    )


def _one_of(kind: Any, value: Any, flags: int) -> _Holds:
    if kind is _c.LITERAL:
        return lambda sign: len(sign) == 1 and ord(sign) == value
    if kind is _c.RANGE:
        low, high = value
        return lambda sign: len(sign) == 1 and low <= ord(sign) <= high
    holds = _CATEGORIES[value]
    if not flags & re.ASCII:
        return holds
    is_word = _CATEGORIES[_OPPOSITE[value]] if value in _OPPOSITE else holds
    if value in _OPPOSITE:
        return lambda sign: not (sign.isascii() and is_word(sign))
    return lambda sign: sign.isascii() and holds(sign)


_OPPOSITE = {
    _c.CATEGORY_NOT_DIGIT: _c.CATEGORY_DIGIT,
    _c.CATEGORY_NOT_SPACE: _c.CATEGORY_SPACE,
    _c.CATEGORY_NOT_WORD: _c.CATEGORY_WORD,
}


def _is_at(what: Any, line: str, at: int) -> bool:
    if what in (_c.AT_BEGINNING, _c.AT_BEGINNING_STRING):
        return at == 0
    if what in (_c.AT_END, _c.AT_END_STRING):
        return at == len(line)
    is_word = _CATEGORIES[_c.CATEGORY_WORD]
    is_boundary = (at > 0 and is_word(line[at - 1])) != (at < len(line) and is_word(line[at]))
    return is_boundary == (what is _c.AT_BOUNDARY)
