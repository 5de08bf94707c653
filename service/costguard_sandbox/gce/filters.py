"""Compute Engine's list filters (`filter=`) as predicates on a resource.

Two dialects share one parser, as in the API: comparisons (`=`, `!=`, `<`, `:` ...) and the
older `eq`/`ne`, whose literal is a regular expression that must match the whole field.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

Predicate = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<op><=|>=|!=|=|<|>|:)
    | (?P<paren>[()])
    | (?P<word>[^\s"'()<>=!:]+)
    )""",
    re.VERBOSE,
)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")


class BadFilter(ValueError):
    """An expression that Compute Engine would not accept; the text says where."""


def compile_filter(expression: str) -> Predicate:
    """The predicate of a list filter; an empty expression accepts everything.

    As in the API's grammar, OR binds tighter than AND, and adjacent terms are joined by AND.
    """
    if not expression.strip():
        return lambda _row: True
    parser = _Parser(expression)
    predicate = parser.conjunction()
    if not parser.at_end():
        raise parser.error("expected the end of the filter")
    return predicate


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, what: str) -> BadFilter:
        return BadFilter(f"Invalid list filter expression: {what} at {self.text[self.at :].strip()[:40]!r}.")

    def at_end(self) -> bool:
        return not self.text[self.at :].strip()

    def peek(self) -> tuple[str, str]:
        """The next token as (kind, text), ('', '') at the end."""
        if self.at_end():
            return "", ""
        match = _TOKEN.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            raise self.error("unexpected character")
        return match.lastgroup, match.group(match.lastgroup)

    def take(self) -> tuple[str, str]:
        token = self.peek()
        match = _TOKEN.match(self.text, self.at)
        if match is None or not token[0]:
            raise self.error("the filter ends too early")
        self.at = match.end()
        return token

    def conjunction(self) -> Predicate:
        terms = [self.disjunction()]
        while True:
            kind, text = self.peek()
            if (kind, text) == ("word", "AND"):
                self.take()
            elif not kind or (kind, text) == ("paren", ")"):
                break
            terms.append(self.disjunction())
        return terms[0] if len(terms) == 1 else lambda row: all(term(row) for term in terms)

    def disjunction(self) -> Predicate:
        terms = [self.term()]
        while self.peek() == ("word", "OR"):
            self.take()
            terms.append(self.term())
        return terms[0] if len(terms) == 1 else lambda row: any(term(row) for term in terms)

    def term(self) -> Predicate:
        kind, text = self.peek()
        if (kind, text) == ("word", "NOT"):
            self.take()
            inner = self.term()
            return lambda row: not inner(row)
        if (kind, text) == ("paren", "("):
            self.take()
            inner = self.conjunction()
            if self.peek() != ("paren", ")"):
                raise self.error("expected ')'")
            self.take()
            return inner
        if kind == "word" and text.startswith("-") and len(text) > 1:
            self.at = self.text.index("-", self.at) + 1
            inner = self.term()
            return lambda row: not inner(row)
        return self.comparison()

    def comparison(self) -> Predicate:
        kind, name = self.take()
        if kind != "word" or name in ("AND", "OR"):
            raise self.error("expected a field name")
        path = tuple(name.split("."))
        kind, operator = self.take()
        if kind == "word" and operator in ("eq", "ne"):
            return self.regex(path, negated=operator == "ne")
        if kind != "op":
            raise self.error(f"expected an operator after {name!r}")
        return _compare(path, operator, self.literal())

    def literal(self) -> str:
        """A quoted string, or a bare value that runs to the next space or parenthesis."""
        if self.peek()[0] == "string":
            return re.sub(r"\\(.)", r"\1", self.take()[1][1:-1])
        bare = re.compile(r"\s*([^\s()\"']+)").match(self.text, self.at)
        if bare is None:
            raise self.error("expected a value")
        self.at = bare.end()
        return bare[1]

    def regex(self, path: tuple[str, ...], *, negated: bool) -> Predicate:
        source = self.take()[1][1:-1] if self.peek()[0] == "string" else self.bare_regex()
        try:
            pattern = re.compile(source)
        except re.error as broken:
            raise BadFilter(
                f"Invalid list filter expression: {source!r} is not a regular expression: {broken}."
            ) from None
        return lambda row: any(pattern.fullmatch(_text(value)) for value in _values(row, path)) is not negated

    def bare_regex(self) -> str:
        """Unquoted, a regular expression keeps its own balanced parentheses."""
        start = end = len(self.text) - len(self.text[self.at :].lstrip())
        depth = 0
        while end < len(self.text) and not (self.text[end].isspace() and depth == 0):
            depth += {"(": 1, ")": -1}.get(self.text[end], 0)
            if depth < 0:
                break
            end += 1
        if start == end:
            raise self.error("expected a regular expression")
        self.at = end
        return self.text[start:end]


def _compare(path: tuple[str, ...], operator: str, literal: str) -> Predicate:
    if operator == ":":
        return lambda row: any(_has(value, literal) for value in _values(row, path))
    if operator == "!=":
        return lambda row: not any(_order(value, literal) == 0 for value in _values(row, path))
    wanted = {"=": (0,), "<": (-1,), ">": (1,), "<=": (-1, 0), ">=": (0, 1)}[operator]
    return lambda row: any(_order(value, literal) in wanted for value in _values(row, path))


def _values(node: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Every value at the dotted path, through lists; none for a missing field."""
    if isinstance(node, list):
        for element in node:
            yield from _values(element, path)
    elif not path:
        yield node
    elif isinstance(node, Mapping) and path[0] in node:
        yield from _values(node[path[0]], path[1:])


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _has(value: Any, literal: str) -> bool:
    """`field:*`: it is set. `map:key`: the key exists. On text, `:` finds a part."""
    if literal == "*":
        return True
    if isinstance(value, Mapping):
        return literal in value
    if not isinstance(value, str):
        return _order(value, literal) == 0
    if literal.endswith("*"):
        return value.startswith(literal[:-1])
    return value.endswith(literal[1:]) if literal.startswith("*") else literal in value


def _order(value: Any, literal: str) -> int | None:
    """-1, 0 or 1: the field compared with the literal as times, numbers or text. None if incomparable."""
    if isinstance(value, Mapping):
        return None
    text = _text(value)
    if isinstance(value, bool):
        return 0 if text == literal.lower() else None
    here, there = _moment(text), _moment(literal)
    if here is not None and there is not None:
        return (here > there) - (here < there)
    # Ids are uint64 sent as text; above 2**53, floats of adjacent ids would be equal.
    if re.fullmatch(r"-?\d+", text) and re.fullmatch(r"-?\d+", literal):
        return (int(text) > int(literal)) - (int(text) < int(literal))
    return (text > literal) - (text < literal)


def _moment(text: str) -> datetime | None:
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else datetime.fromisoformat(text + "+00:00")
