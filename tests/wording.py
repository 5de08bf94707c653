"""Words that the house does not use: each has a plainer one in the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

# What stands in texts that people read, with what to write instead.
WORDS = {
    r"anew": "again",
    r"beside": "next to",
    r"so long(?! as)": "meanwhile",
    r"(?:is|are|was|were|be|been|being) told": "is notified, is recorded",
    r"nobody's": "unowned",
    r"somebody": "a user",
    r"loudly|aloud": "with an error",
    r"for which it holds": "where it holds",
    r"that (?:is|are) to be": "to be",
    r"whoever|who asks|whom it is for": "the caller, the requester, the recipient",
    r"what is told": "the notification",
    r"whispers?": "ephemeral message",
    r"run up": "accrued",
    r"surroundings": "context",
    r"puts? off": "delay, pending",
    r"at rest": "stopped, idle",
    r"the office|reception|front desk": "the service, the handler",
}
NAMES = {"told", "found", "asked", "each", "known", "heard", "about", "of"}
_TEXT = re.compile(r"\b(?:" + "|".join(f"({word})" for word in WORDS) + r")\b", re.IGNORECASE)
_READ = {".py", ".html", ".md", ".toml", ".yaml", ".sh", ".js", ".service"}
_OLD = {"vendor", "versions", "test_migrations.py", "upgrades"}  # others' files, and what earlier versions stored
_FIELDS = {"asked"}  # of the API and of the agent's protocol
_HERE = Path(__file__)


def broken_rules(files: Iterable[Path], root: Path) -> Iterator[str]:
    """One sentence for each line or name that uses a word of the list, or a name that does not say its value."""
    for file in files:
        if file.suffix not in _READ or file == _HERE or not _OLD.isdisjoint(file.relative_to(root).parts):
            continue
        place, text = file.relative_to(root), file.read_text("utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            for match in _TEXT.finditer(line):
                plainer = list(WORDS.values())[(match.lastindex or 1) - 1]
                yield f'{place}:{number}: "{match.group()}" is not a word of the house; for example "{plainer}"'
        if file.suffix == ".py":
            yield from (f"{place}:{line}: {name} does not say what it holds" for name, line in _names(text))


def _names(text: str) -> Iterator[tuple[str, int]]:
    tree = ast.parse(text)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {node.target for one in classes for node in one.body if isinstance(node, ast.AnnAssign)}
    for node in ast.walk(tree):
        if node in fields and isinstance(node, ast.Name) and node.id in _FIELDS:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            yield node.id, node.lineno
        elif isinstance(node, ast.arg) and node.arg in NAMES:
            yield node.arg, node.lineno
