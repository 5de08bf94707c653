"""The parts of one round of a gang at the job's location: what the nodes say of them, and how they are published.

Each node uploads its files to a place of its own. The first node's agent publishes what is whole: it has the bucket
copy the files to where those of a job of one VM lie, by the same steps, so that the same rules tell a whole checkpoint
from a torn one. Within one location and storage class of Google's a copy moves no bytes
(cloud.google.com/storage/docs/json_api/v1/objects/rewrite).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Callable, Sequence, TypeVar

from costguard_vm.agent.failures import NothingThere, TransferFailed
from costguard_vm.agent.files import say
from costguard_vm.checkpoints.judge import candidates
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint, FileChanged, RangeReader, join
from costguard_vm.checkpoints.parts import (
    PARTS,
    Part,
    Word,
    agreed,
    judged,
    marks,
    text_of,
    unpublished,
    whole,
    word_of,
)
from costguard_vm.model.checkpoint import LookFor, StoredFile
from costguard_vm.model.gang import GangLook

from .remote import RemoteCheckpoints, RemoteReader, planned, step_of
from .transfer import Progress, Transfer

T = TypeVar("T")
R = TypeVar("R")
SAID = re.compile(r"([0-9]{1,4})\.([0-9]{1,9})\.json")
MOST_BYTES = 256 << 20  # of what a node says


class NodeReader:
    """Ranges of the files of one node: what it said of small ones, the folder of this VM (`own`), else the bucket."""

    def __init__(self, transfer: Transfer, place: str, word: Word, own: RangeReader | None) -> None:
        self._transfer, self._place, self._notes, self._own = transfer, place, word.notes, own
        self._marks = {path: part.mark for part in word.parts.values() for path in part.files}

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        if file.path in self._notes:
            return self._notes[file.path].encode()[start : start + length]
        if self._own is not None:
            try:
                return self._own.read(file, start, length)
            except FileChanged:  # the command deletes what it saved; what was uploaded stays
                pass
        mark = self._marks.get(file.path)
        if mark is None:
            raise FileChanged(file.path)
        return RemoteReader(self._transfer, f"{self._place}/{mark}").read(file, start, length)

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]


class _AllNodes:
    """Ranges of the files of all nodes, each from the node whose copy was judged."""

    def __init__(self, readers: Mapping[int, NodeReader], holders: Mapping[str, int]) -> None:
        self._readers, self._holders = readers, holders

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        if file.path not in self._holders:
            raise FileChanged(file.path)
        return self._readers[self._holders[file.path]].read(file, start, length)

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]


class RoundParts:
    """`key` is JOB/ROUND; `shown_as` is the nodes' folder. Used by one thread."""

    def __init__(self, remote: RemoteCheckpoints, look_for: LookFor, key: str, shown_as: str) -> None:
        self._remote, self._look_for, self._shown_as = remote, look_for, shown_as
        self.place = join(remote.location, f"{PARTS}{key}")
        self.words: dict[int, Word] = {}
        self.signs: frozenset[tuple[str, str]] = frozenset()  # which changes while a node says or does anything
        self._in_vain: object = None  # what was judged last, and was not whole

    def hear(self, transfer: Transfer, nodes: Sequence[int] | None = None) -> None:
        """Learns what all nodes say, or these. Raises TransferFailed."""
        said = transfer.listing(f"{self.place}/said")
        self.signs = frozenset((file.path, file.tag) for file in said.values())
        numbers: dict[int, int] = {}
        for match in filter(None, map(SAID.fullmatch, said)):
            numbers[int(match[1])] = max(int(match[2]), numbers.get(int(match[1]), 0))
        for node, number in numbers.items():
            is_known = node in self.words and self.words[node].number >= number
            if is_known or (nodes is not None and node not in nodes):
                continue
            try:
                self.words[node] = word_of(transfer.read(f"{self.place}/said/{node}.{number}.json", 0, MOST_BYTES))
            except NothingThere:  # it says something newer meanwhile
                continue
            except (ValueError, KeyError, TypeError, AttributeError) as problem:
                say(f"what node {node} says of its checkpoints is not understood: {problem!r}")

    def say(self, transfer: Transfer, node: int, word: Word) -> None:
        """Says something else than before, for a node. Raises TransferFailed."""
        before = self.words.get(node)
        if before is not None and word == before:
            return
        number = before.number + 1 if before is not None else 1
        word = replace(word, number=number)
        transfer.write(f"{self.place}/said/{node}.{number}.json", text_of(word))
        self.words[node] = word
        if before is not None:
            transfer.delete(f"{self.place}/said", only=[f"{node}.{before.number}.json"])

    def live(self, transfer: Transfer, node: int) -> None:
        """Shows that a node still uploads, though it has nothing new to say. Raises TransferFailed."""
        transfer.write(f"{self.place}/said/{node}.alive", b"")

    def upload(self, transfer: Transfer, node: int, part: Part, root: str, progress: Progress) -> None:
        """Uploads a part from the folder `root`. Raises TransferFailed."""
        transfer.upload(root, self._files(node, part.mark), progress, only=sorted(part.files))

    def drop(self, transfer: Transfer, node: int, mark: str, files: Mapping[str, StoredFile]) -> None:
        """Deletes a state of a part. Raises TransferFailed."""
        transfer.delete(self._files(node, mark), only=sorted(files))

    def _files(self, node: int, mark: str) -> str:
        return f"{self.place}/files/{node}/{mark}"

    def publish(
        self, transfer: Transfer, own: RangeReader | None, is_over: bool, but: Sequence[str], progress: Progress
    ) -> CandidateCheckpoint | None:
        """Publishes the newest checkpoint that is whole; `but` these. Returns it; None where there is none.

        Then its parts are deleted: first it is said to be published, so that an agent that was killed in between takes
        none of them for the rest of a part. Raises TransferFailed.
        """
        names = [name for name in agreed(self.words, is_over) if name not in but]
        judged_now = ([(node, word.number) for node, word in sorted(self.words.items())], names)
        if not names or judged_now == self._in_vain:
            return None
        readers = {
            node: NodeReader(transfer, f"{self.place}/files/{node}", word, own if node == 0 else None)
            for node, word in self.words.items()
        }
        look = judged(self.words, readers, self._shown_as, self._look_for)
        for name in whole(self.words, look, is_over):
            one = self._published(transfer, name, look, readers, progress) if name in names else None
            if one is not None:
                return one
        self._in_vain = judged_now
        return None

    def _published(
        self,
        transfer: Transfer,
        name: str,
        look: GangLook,
        readers: Mapping[int, NodeReader],
        progress: Progress,
    ) -> CandidateCheckpoint | None:
        listing = look.look.listing
        seen = candidates(listing, self._look_for, _AllNodes(readers, look.holders))
        one = next(one for one in seen if one.name == name)
        upload = planned(one, listing, self._look_for)
        if upload is None:
            return None

        def put(target: str, group: Sequence[str]) -> None:
            sources: dict[str, list[str]] = {}
            for path in group:
                node = look.holders[path]
                mark = next((part.mark for part in self.words[node].parts.values() if path in part.files), "")
                if not mark:
                    raise TransferFailed(f"{path} of {name} was not uploaded by node {node}")
                sources.setdefault(self._files(node, mark), []).append(path)
            for source, paths in sources.items():
                transfer.copy(source, target, progress, only=paths)

        if not self._was_published(transfer, one):
            self._remote.upload(transfer, upload, "", lambda: True, progress, put)
        self._forget(transfer, name)
        return one

    def _was_published(self, transfer: Transfer, one: CandidateCheckpoint) -> bool:
        """Says whether an agent published these parts, and was killed before it said so: nothing whole is torn again.

        Copies are no older than the parts, by the bucket's own clock.
        """
        if not self._remote.held(one.name):
            return False
        parts = [(node, word.parts[one.name]) for node, word in self.words.items() if one.name in word.parts]
        paths = {f"{node}/{part.mark}/{path}" for node, part in parts for path in part.files}
        uploaded = transfer.listing(f"{self.place}/files")
        since = max((file.modified_at for path, file in uploaded.items() if path in paths), default=None)
        sizes = {file.path: file.size for file in one.files.values()}
        return since is not None and self._remote.has(one.name, sizes, since)

    def _forget(self, transfer: Transfer, name: str) -> None:
        first = self.words[0]
        names = {held for word in self.words.values() for held in word.parts}
        published = {held: done for held, done in first.published.items() if held in names}
        published[name] = marks(name, self.words)
        self.say(transfer, 0, replace(first, published=published))
        for node, word in self.words.items():
            if name in word.parts:
                self.drop(transfer, node, word.parts[name].mark, word.parts[name].files)

    def pending(self) -> list[str]:
        """The names of checkpoints that may still become whole, and are no older than those that are."""
        newest = self._remote.newest_step
        steps = {name: part.step for word in self.words.values() for name, part in word.parts.items()}
        held = self.words[0].parts if 0 in self.words else {}
        return [name for name in unpublished(self.words) if name in held and step_of(steps[name]) >= newest]

    @property
    def is_unsettled(self) -> bool:
        return bool(unpublished(self.words))

    @property
    def silent(self) -> list[int]:
        """The nodes that may still say something."""
        nodes = self.words[0].nodes if 0 in self.words else 0
        return [node for node in range(nodes) if node not in self.words or not self.words[node].is_final]


def leftovers(transfer: Transfer, location: str) -> list[str]:
    """The keys of rounds of which something lies at the location, the newest of each job last."""
    there = transfer.listing(join(location, PARTS.rstrip("/")))
    keys = {tuple(path.split("/")[:2]) for path in there if path.count("/") > 1}
    return ["/".join(key) for key in sorted(keys, key=lambda key: (key[0], len(key[1]), key[1]))]


def clear(transfer: Transfer, location: str, key: str) -> None:
    """Deletes all of a round: first what was said of it, without which its files are nothing."""
    place = join(location, f"{PARTS}{key}")
    transfer.delete(f"{place}/said")
    transfer.delete(place)
