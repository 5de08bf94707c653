"""Words that the house does not use: each has a plainer one in the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.sources import source_of

from costguard.model.event_kinds import EVENT_KINDS

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
# Words that no name of a variable, function or class may have as a part, as `_told_apart` and `RunUp` do.
_PART = re.compile(
    r"(?:^|_)(?:told|anew|beside|somebody|whispers?|surroundings|put_off|at_rest|run_up|aloud|loudly)(?:_|$)"
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TEXT = re.compile(r"\b(?:" + "|".join(f"({word})" for word in WORDS) + r")\b", re.IGNORECASE)
_READ = {".py", ".html", ".md", ".toml", ".yaml", ".sh", ".js", ".service"}
_OTHERS = {"vendor"}
_FIELDS = {"asked"}  # of the API and of the agent's protocol
_HERE = Path(__file__)
_USERS = {"CostguardJob", "CostguardTask", "OnDemand"}  # what users of Flyte write, and Google's word for a usage type
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_TEMPLATE = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}")


def broken_rules(files: Iterable[Path], root: Path) -> Iterator[str]:
    """Yields a sentence for each line or name that uses a word of the list, or a name that does not say its value."""
    for file in files:
        if file.suffix not in _READ or file == _HERE or not _OTHERS.isdisjoint(file.relative_to(root).parts):
            continue
        place, text = file.relative_to(root), file.read_text("utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            for match in _TEXT.finditer(line):
                plainer = list(WORDS.values())[(match.lastindex or 1) - 1]
                yield f'{place}:{number}: "{match.group()}" is not a word of the house; for example "{plainer}"'
        if file.suffix == ".py":
            yield from (f"{place}:{line}: {name} does not say what it holds" for name, line in _names(file))


def class_names_in_texts(package: Path) -> Iterator[str]:
    """Yields a sentence for each text of a package that holds the name of one of its classes, such as `DiskReading`.

    Docstrings, `__all__` and whole strings that are a kind of event are for programs; names of one word are English.
    """
    sources = {file: source_of(file) for file in package.rglob("*.py") if "api" not in file.parts}
    classes = {name for source in sources.values() for name in source.classes}
    names = {name for name in classes - _USERS if re.search(r"[a-z][A-Z]", name)}
    texts = [(file, line, text) for file, source in sources.items() for line, text in source.texts]
    for file in package.rglob("*.html"):
        lines = _TEMPLATE.sub("", file.read_text("utf-8")).splitlines()
        texts += [(file, number, line) for number, line in enumerate(lines, 1)]
    for file, line, text in sorted(texts):
        # Each word is looked up: one pattern of a thousand names takes half a minute.
        for name in _WORD.findall(text):
            if name in names and text not in EVENT_KINDS:
                place = f"{file.relative_to(package.parents[1])}:{line}"
                yield f"{place}: {name} is the name of a class; write a person's word"


def _names(file: Path) -> Iterator[tuple[str, int]]:
    source = source_of(file)
    for name, line in source.stored:
        if name in NAMES and not (name in _FIELDS and (name, line) in source.fields):
            yield name, line
    functions = [(one.name, one.line) for one in source.functions if not one.name.startswith("test_")]
    for name, line in [*source.stored, *functions, *((name, 1) for name in source.classes)]:
        if name not in NAMES and _PART.search(_HUMP.sub("_", name).lower()):
            yield name, line
