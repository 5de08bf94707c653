"""Counts docstrings that begin with a fragment, such as "Of a job." or "Whether it runs.", against a table by room.

A docstring begins with its subject or its verb: "Prices one hour of a VM, in nano-dollars." The numbers of the table
may only fall.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.sources import source_of

TABLE = Path("tests/docstrings.toml")
# Heads of what is no sentence: relative clauses, pronouns that refer to nothing yet, prepositions, what goes on from
# elsewhere, and bare participles.
_FRAGMENT = re.compile(
    r"(?:(?:what|how|which)(?:ever)?|whether|why|who(?:m|se)?"
    r"|that|those|its|one|one's|none"
    r"|of|as|by|with|in|for|from|to|at|on|into|within|without|under|over|through|between|against|below|above|across"
    r"|past|per|like|about|along|among|towards"
    r"|and|but|so|nor|or|not|also|only|else|then|too|even|again|still|just"
    r"|asked|made|killed|judged|kept)\b(?!-)",
    re.IGNORECASE,
)
# Heads of a subordinate clause: a sentence only where a comma and the main clause follow.
_CLAUSE = re.compile(r"(?:when|where|while|until|since|once|after|before|unless|if|because|though)\b", re.IGNORECASE)
_END = re.compile(r"[.:;](?:\s|$)")
_EXAMPLES = 5


def broken_rules(files: Iterable[Path], root: Path) -> Iterator[str]:
    """Yields a sentence for each room whose number of fragments differs from the number in the table."""
    table = tomllib.loads((root / TABLE).read_text("utf-8")) if (root / TABLE).exists() else {}
    places: dict[str, list[str]] = {}
    for file in files:
        place = file.relative_to(root)
        lines = [line for line, text in source_of(file).docstrings if is_fragment(text)]
        places.setdefault(_room(place), []).extend(f"{place}:{line}" for line in lines)
    for room in sorted(table.keys() | places.keys()):
        count, allowed = len(places.get(room, ())), table.get(room, 0)
        if count > allowed:
            examples = ", ".join(places[room][:_EXAMPLES])
            yield f"{room}: {count} docstrings begin with a fragment and {allowed} may; write sentences in {examples}"
        elif count < allowed:
            yield f"{room}: {count} docstrings begin with a fragment and not {allowed}; write {count} in {TABLE} now"


def is_fragment(text: str) -> bool:
    """Tell by its first word, and where that begins a clause by the comma after it, that no sentence follows."""
    sentence = _END.split(text.strip(), maxsplit=1)[0]
    if _CLAUSE.match(sentence):
        return "," not in sentence
    return _FRAGMENT.match(sentence) is not None


def _room(place: Path) -> str:
    """The folder of a capability, such as `costguard/jobs`; the sandbox and the tests are one room each."""
    match place.parts:
        case "service", package, _, _, *_ if package != "costguard_sandbox":
            return "/".join(place.parts[1:3])
        case "service", package, *_:
            return package
    return place.parts[0]
