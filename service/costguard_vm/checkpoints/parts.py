"""Tells which parts of checkpoints, held by the VMs of a gang, make one checkpoint together. Pure.

The parts of a round lie at `.costguard/parts/JOB/ROUND/` below the job's location, where nobody takes them for
checkpoints: `files/NODE/MARK/PATH` is a file of the node's folder, where MARK stands for one state of its part, and
`said/NODE.N.json` is what the node says, of which the largest N counts. A file is never written over: another state
of a part has another MARK.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from costguard_vm.checkpoints.gang import NodePart, judge_gang
from costguard_vm.checkpoints.layouts.base import RangeReader
from costguard_vm.checkpoints.uploads import OURS
from costguard_vm.model.checkpoint import Listing, LookFor, StoredFile
from costguard_vm.model.gang import GangLook, GangShape, GangState

PARTS = f"{OURS}parts/"
NONE = "none"  # the mark of no part
_EPOCH = datetime.fromtimestamp(0, timezone.utc)


@dataclass(frozen=True)
class Part:
    """A node's files of one checkpoint, by their paths in its folder. `mark` differs whenever one of them does.

    `begin` is the same of all its states in one save, in which files come and none is replaced.
    `problems` are what the node found in them, "" for whole ones. `is_there`: all files are at the location.
    """

    step: int | None
    mark: str
    begin: str
    files: Mapping[str, StoredFile]
    problems: Mapping[str, str] = field(default_factory=dict)
    is_there: bool = False


@dataclass(frozen=True)
class Word:
    """Holds what a node says in a round: the parts in its folder, by checkpoint, and small files next to it (`notes`).

    `seen` holds, of each checkpoint that the first node named, the mark that it had then: this node has looked at its
    folder since, and has said all that it holds of it. `bound` holds the saves of this node and of the first one that
    it took for one, and `began` the first save that it said of each name. `withheld` are names of which it has a part
    that it does not say: it changes, or enough newer ones are there. `is_final`: nothing more comes.
    `has_written`: it had a part of some checkpoint in this round. `published` is said by the first node alone: the
    marks of the parts that became a checkpoint, by name and node.
    """

    nodes: int
    number: int = 0
    parts: Mapping[str, Part] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    bound: Mapping[str, Sequence[str]] = field(default_factory=dict)
    began: Mapping[str, str] = field(default_factory=dict)
    withheld: Sequence[str] = ()
    spared: str = ""  # the newest of which all have uploaded a part, as the first node knows
    is_final: bool = False
    has_written: bool = False
    published: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def mark(self, name: str) -> str:
        """The mark of its part; one of its own where it has none."""
        part = self.parts.get(name)
        return part.mark if part is not None else NONE


def mark_of(files: Mapping[str, StoredFile]) -> str:
    held = sorted((path, file.size, file.tag) for path, file in files.items())
    return hashlib.sha256(repr(held).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def text_of(word: Word) -> bytes:
    """Writes a word as JSON."""
    parts = {
        name: {
            **{key: getattr(part, key) for key in ("step", "mark", "begin", "is_there")},
            "problems": dict(part.problems),
            "files": {
                path: [file.size, file.tag, (file.modified_at - _EPOCH) // timedelta(microseconds=1)]
                for path, file in part.files.items()
            },
        }
        for name, part in word.parts.items()
    }
    others = {key: dict(getattr(word, key)) for key in ("notes", "seen", "bound", "began", "published")}
    plain = {key: getattr(word, key) for key in ("nodes", "number", "spared", "is_final", "has_written")}
    return json.dumps({**plain, **others, "withheld": list(word.withheld), "parts": parts}, sort_keys=True).encode()


def word_of(content: bytes) -> Word:
    """Reads a word. Raises ValueError, KeyError, TypeError or AttributeError where it is none."""
    read: dict[str, Any] = json.loads(content)
    parts = {name: _part(one) for name, one in read.pop("parts").items()}
    return Word(parts=parts, withheld=tuple(read.pop("withheld")), **read)


def _part(read: dict[str, Any]) -> Part:
    files = {
        path: StoredFile(path, size, tag, _EPOCH + timedelta(microseconds=at))
        for path, (size, tag, at) in read.pop("files").items()
    }
    return Part(files=files, **read)


def judged(words: Mapping[int, Word], readers: Mapping[int, RangeReader], location: str, look_for: LookFor) -> GangLook:
    """Judges all that was said together, also what is not at the location yet: DeepSpeed's and Megatron's notes name
    it. `readers` read in the part of each node.
    """
    parts = []
    for node, word in sorted(words.items()):
        files = {path: file for part in word.parts.values() for path, file in part.files.items()}
        for path, text in word.notes.items():
            files.setdefault(path, StoredFile(path, len(text.encode()), "", _EPOCH))
        problems = {path: text for part in word.parts.values() for path, text in part.problems.items()}
        parts.append(NodePart(node, Listing(location, files), readers[node], problems))
    names = _names(words)
    return judge_gang(parts, GangShape(words[0].nodes), look_for, examine=len(names))


def agreed(words: Mapping[int, Word], is_over: bool) -> list[str]:
    """The names that are not published, of which all nodes have said what they hold."""
    return [name for name in unpublished(words) if is_agreed(name, words, is_over)]


def whole(words: Mapping[int, Word], look: GangLook, is_over: bool) -> list[str]:
    """Returns the names of the complete ones among them, the newest first."""
    said = set(agreed(words, is_over))
    complete = [one.checkpoint.name for one in look.checkpoints if one.state is GangState.COMPLETE]
    return [name for name in complete if name in said]


def unpublished(words: Mapping[int, Word]) -> list[str]:
    """The names of all checkpoints of which a node has a part that was not published, the newest first."""
    done = words[0].published if 0 in words else {}
    return [name for name in _names(words) if marks(name, words).items() - done.get(name, {}).items()]


def marks(name: str, words: Mapping[int, Word]) -> dict[str, str]:
    """Returns the marks of the parts of a checkpoint, by node."""
    return {str(node): word.parts[name].mark for node, word in sorted(words.items()) if name in word.parts}


def _names(words: Mapping[int, Word]) -> list[str]:
    """All names, the newest first."""
    ages: dict[str, tuple[int, datetime, str]] = {}
    for word in words.values():
        for name, part in word.parts.items():
            ages[name] = max(age_of(name, part), ages.get(name, age_of(name, part)))
    return sorted(ages, key=lambda name: ages[name], reverse=True)


def is_agreed(name: str, words: Mapping[int, Word], is_over: bool) -> bool:
    """Says whether the parts of a checkpoint lay in the folders of all nodes at one moment, and nothing is to come.

    Each node has looked at its folder after the first one had said what it holds, which has not changed since: so
    parts of two saves under one name are never put together. `is_over`: no node says any more in this round. One that
    was lost without an answer counts where it had said its part, once, or had nothing of any checkpoint before. What
    the first node does not hold, where rank 0 runs, is no checkpoint, whatever a layout tells of the rest.
    """
    first = words.get(0)
    if first is None or name not in first.parts:
        return False
    if set(words) != set(range(first.nodes)) or any(one.nodes != first.nodes for one in words.values()):
        return False
    if any(name in one.parts and not one.parts[name].is_there for one in words.values()):
        return False
    return all(node == 0 or _has_answered(name, one, first, is_over) for node, one in words.items())


def _has_answered(name: str, one: Word, first: Word, is_over: bool) -> bool:
    if name in one.withheld or not may_bind(name, one, first):
        return False
    if one.is_final or one.seen.get(name) == first.mark(name):
        return True
    if not is_over:
        return False
    if name in one.parts:
        return all(word.parts[name].begin == word.began[name] for word in (first, one) if name in word.parts)
    return bool(one.seen) and not one.has_written


def may_bind(name: str, one: Word, first: Word) -> bool:
    """Says whether the parts of two nodes may be of one save: neither is one that was taken for a part of another."""
    if name not in one.parts or name not in first.parts or name not in one.bound:
        return True
    own, its = one.parts[name].begin, first.parts[name].begin
    return (own == one.bound[name][0]) == (its == one.bound[name][1])


def answer(word: Word, first: Word, changing: Collection[str]) -> Word:
    """Answers all that the first node named, but for what is withheld or `changing`."""
    but = {*word.withheld, *changing}
    names = [name for name in first.parts if name not in but and may_bind(name, word, first)]
    held = {name: [word.parts[name].begin, first.parts[name].begin] for name in names if name in word.parts}
    bound = {name: pair for name, pair in word.bound.items() if name in word.parts or name in first.parts}
    return replace(word, seen={name: first.mark(name) for name in names}, bound={**bound, **held})


def next_word(node: int, before: Word, parts_found: Mapping[str, Part], words: Mapping[int, Word], keep: int) -> Word:
    """Returns what a node says after a look at its folder, in which these parts rest, and no others.

    What was uploaded stays until it is published, or `keep` newer ones are there (0: all stay): the command may delete
    its own copy, and a part of which files went away is no other state. The newest of which all have uploaded a part
    stays in any case: of the newer ones, none may become whole.
    """
    first = words.get(0)
    done = first.published if first is not None else {}
    parts: dict[str, Part] = {}
    for name in sorted({*before.parts, *parts_found}):
        old, new = before.parts.get(name), parts_found.get(name)
        is_done = old is not None and done.get(name, {}).get(str(node)) == old.mark
        if old is not None and new is not None and (old.mark == new.mark or (old.is_there and _is_less(new, old))):
            parts[name] = old
        elif new is not None:
            is_same_save = old is not None and (old.files.items() <= new.files.items() or _is_less(new, old))
            parts[name] = replace(new, begin=old.begin) if old is not None and is_same_save else new
        elif old is not None and old.is_there and not is_done:
            parts[name] = old
    newest = sorted(parts, key=lambda name: age_of(name, parts[name]), reverse=True)
    spared = next((name for name in newest if _is_with_all(name, words)), "")
    stays = {*newest[:keep], spared, first.spared if first is not None else ""}
    kept = {name: parts[name] for name in newest if not keep or name in stays}
    began = {**{name: part.begin for name, part in kept.items()}, **before.began}
    spared = "" if node else spared
    return replace(before, parts=kept, began=began, spared=spared, has_written=before.has_written or bool(kept))


def _is_with_all(name: str, words: Mapping[int, Word]) -> bool:
    """Says whether all that write, as far as they were heard, have uploaded a part of a checkpoint."""
    return bool(words) and all(
        name in word.parts and word.parts[name].is_there for node, word in words.items() if word.has_written or not node
    )


def _is_less(new: Part, old: Part) -> bool:
    return new.files.items() <= old.files.items()


def age_of(name: str, part: Part) -> tuple[int, datetime, str]:
    """The newest is the greatest, as of checkpoints."""
    written_at = max((file.modified_at for file in part.files.values()), default=_EPOCH)
    return (-1 if part.step is None else part.step), written_at, name
