"""Checkpoints of a gang that travel: each node uploads its own files, and the first publishes what is whole over all.

As in a job of one VM, a thread looks at the folder again and again. Files that lay there before the round began are no
part of it: the others may hold other states of them, or none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.files import read_json, say, write_json
from costguard_vm.agent.settings import AttemptSettings, place_of
from costguard_vm.checkpoints.folder import Folder
from costguard_vm.checkpoints.judge import candidates
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint, FileChanged, RangeReader
from costguard_vm.checkpoints.layouts.formats import problem_of
from costguard_vm.checkpoints.layouts.orbax import TEMPORARY
from costguard_vm.checkpoints.parts import Part, Word, age_of, answer, mark_of, next_word
from costguard_vm.model.checkpoint import Listing, StoredFile, names_a_file

from .earlier import set_aside
from .gang_round import RoundParts, clear, leftovers
from .preparation import CommandSecrets, Stage
from .remote import markers
from .transfer import Transfer, Wait
from .travel import TravellingCheckpoints

ALIVE_S = 15.0  # between the signs of a node that uploads at the end of a round
MOST_NOTES, MOST_TEXT = 50, 4096  # files next to checkpoints whose content is said, and bytes of each


class GangTravel(TravellingCheckpoints):
    """The checkpoints of one node. `folder` is the attempt's, where a killed agent finds which round it is."""

    def __init__(
        self, settings: AttemptSettings, folder: str, volumes: str, secrets: CommandSecrets, send: Callable[..., None]
    ) -> None:
        super().__init__(settings, folder, volumes, secrets, send)
        place = place_of(settings.gang)
        assert place is not None
        self._node, self._nodes = place.node, place.nodes
        self._keep = int(settings.checkpoint.get("keep", "3"))
        self._note_file = os.path.join(folder, "parts.json")
        self._read_note()
        self._waited: dict[str, str] = {}  # marks of parts that the first node has not named yet
        self._is_idle = True
        self._signs: object = None
        self._sign_at = 0.0
        self._hold: Wait | None = None

    def _read_note(self) -> None:
        noted = read_json(self._note_file)
        self._before: Mapping[str, str] = noted.get("before", {})  # tags of what lay there before the round
        self._node, self._nodes = noted.get("node", self._node), noted.get("nodes", self._nodes)
        self._round = self._round_of(noted["key"]) if noted else None

    def _round_of(self, key: str) -> RoundParts:
        return RoundParts(self._remote, self._look_for, key, self._local)

    def prepare(self, stage: Stage) -> None:
        """Does as for a job of one VM. Then this node's folder is at the beginning of the round."""
        super().prepare(stage)
        self._node, self._nodes = stage.go.get("rank", self._node), len(stage.go.get("addresses", ())) or self._nodes
        transfer, key = stage.transfer, f"{self._settings.job or 'job'}/{stage.go['round']}"
        self._remote.try_out(transfer, self._settings.attempt)
        if self._node == 0:
            for other in leftovers(transfer, self._remote.location):
                if other != key:
                    clear(transfer, self._remote.location, other)
        held = {path: file.tag for path, file in self._listing().files.items()}
        noted = {"key": key, "before": held, "node": self._node, "nodes": self._nodes}
        write_json(self._note_file, noted)
        self._read_note()

    def _make_ready(self, best: CandidateCheckpoint | None) -> None:
        set_aside(self._path, self._look_for, best)

    def publish_earlier(self, wait: Callable[[float], None], is_first: bool) -> None:
        """Uploads what this node still has of its last round; the first node publishes what is whole of all rounds.

        `is_first`: this node does so now, whatever its place was in the last round.

        Before it is ready for another round: the checkpoint that all resume from is chosen once all are. Waits for
        other nodes that still upload as `finish` does. Raises TransferFailed, and what `wait` raises.
        """
        if not self.is_wanted:
            return
        self._hold, self._is_final = wait, True
        try:
            transfer = self._secrets.transfer(self._wait)
            keys = leftovers(transfer, self._remote.location) if is_first or self._round is not None else []
            if not keys:
                return
            self._remote.read_in(transfer)
            if is_first:
                self._remote.clean(transfer)
            if self._round is not None:
                self._to_the_end(wait)
            if is_first:
                for key in keys:
                    self._round, self._before = self._round_of(key), {}
                    self._publish_left(transfer, wait, key == keys[-1])
        finally:
            self._hold, self._is_final = None, False
            self._earlier, self._earlier_at = None, float("-inf")
            self._read_note()

    def start(self) -> None:
        self._uploads = True
        super().start()

    def _to_the_end(self, wait: Callable[[float], None]) -> None:
        """Takes the last looks of a round whose command has ended, perhaps with the VM."""
        try:
            while self.look(True):
                wait(0)
        except TransferFailed as problem:
            self._complain(problem)

    def _publish_left(self, transfer: Transfer, wait: Callable[[float], None], is_last: bool) -> None:
        assert self._round is not None
        self._signs, self._sign_at = None, time.monotonic()
        try:
            self._round.hear(transfer)
            while is_last and self._expects():
                if not self._publish(transfer, None, False):
                    wait(min(self._every, 2.0))
                    self._round.hear(transfer)
            while self._publish(transfer, None, True):
                pass
        except TransferFailed as problem:
            self._complain(problem)

    def settle(self, wait: Callable[[float], None]) -> None:
        """Does as for one VM. Meanwhile the others see that this node still uploads."""
        again_at = time.monotonic() + ALIVE_S

        def wait_and_live(seconds: float) -> None:
            nonlocal again_at
            wait(seconds)
            if time.monotonic() >= again_at and self._round is not None:
                again_at = time.monotonic() + ALIVE_S
                try:
                    self._round.live(self._secrets.transfer(wait), self._node)
                except TransferFailed as problem:
                    say(f"the other nodes do not see that this one uploads: {problem}")

        super().settle(wait_and_live)

    def awaits(self) -> bool:
        """The first node's agent waits for the parts of others, while they show any sign. Then it publishes what is
        whole without more words of theirs, and says what is not.
        """
        if self._node or self._round is None:
            return False
        try:
            if self._expects():
                return True
            transfer = self._secrets.transfer(self._wait)
            while self._publish(transfer, Folder(self._path, self._local), True):
                pass
        except TransferFailed as problem:
            self._complain(problem)
            return False
        if left := self._round.pending():
            nodes = ", ".join(map(str, self._round.silent)) or "none"
            self._complain(
                TransferFailed(f"{left[0]} is not whole over all VMs of the job; not finished: node {nodes}")
            )
        return False

    def _expects(self) -> bool:
        assert self._round is not None
        if self._signs != self._round.signs:
            self._signs, self._sign_at = self._round.signs, time.monotonic()
        is_patient = time.monotonic() - self._sign_at < self._settings.parts_s
        return is_patient and bool(self._round.pending()) and bool(self._round.silent)

    def look(self, is_last: bool) -> bool:
        """Uploads a part, answers the first node, or publishes. Returns whether another look is due at once."""
        if self._round is None:
            return False
        transfer = self._secrets.transfer(self._wait)  # of the few bytes that are said
        if not self._is_known:
            self._remote.read_in(transfer)
            self._is_known = True
        self._is_idle = not self._is_idle and not is_last and not self._is_hurried
        if not self._is_idle or self._round.is_unsettled:
            self._round.hear(transfer, self._nodes_heard)
        own, listing, earlier = self._own(), self._fresh(), None if is_last else self._earlier
        parts, changing = self._found(listing, None if is_last else earlier or Listing(self._local, {}))
        changing -= {name for name in changing & parts.keys() if parts[name].mark == own.mark(name)}
        is_first_look = self._earlier is None and not is_last
        self._note_look(listing)
        resting = {name: part for name, part in parts.items() if name not in changing}
        for name, part in resting.items():
            self._pace.seen(name, [file.modified_at for file in part.files.values()])
        word = next_word(self._node, own, resting, self._round.words, self._keep)
        withheld = tuple(sorted({*parts, *changing} - word.parts.keys()))
        word = replace(word, notes=self._notes(listing, parts), withheld=withheld)
        if name := next(iter(self._due(word, is_last)), ""):
            self._upload_part(transfer, name, own, word)
            return True
        first = self._round.words.get(0)
        if not is_first_look and first is not None:
            word = answer(word, first, changing)
        word = replace(word, is_final=is_last)
        self._say(transfer, own, word)
        if self._node:
            return False
        is_published = self._publish(transfer, Folder(self._path, self._local), False, sorted(changing))
        if not parts:
            self._warn_of_unrecognised(listing)
        return is_published

    @property
    def _nodes_heard(self) -> Sequence[int]:
        """The first node's word tells the others all that they need."""
        return range(self._nodes) if self._node == 0 else (0, self._node)

    def _own(self) -> Word:
        assert self._round is not None
        return self._round.words.get(self._node) or Word(self._nodes)

    def _fresh(self) -> Listing:
        """The folder without what lay there before the round began."""
        listing = self._listing()
        files = {path: file for path, file in listing.files.items() if self._before.get(path) != file.tag}
        return replace(listing, files=files)

    def _found(self, listing: Listing, earlier: Listing | None) -> tuple[dict[str, Part], set[str]]:
        """The parts in the folder, by checkpoint, and the names of those that changed since the `earlier` listing.

        Of what the first node has too, in the same size, one copy is enough: its own.
        """
        assert self._round is not None
        first = self._round.words.get(0)
        folder, parts, changing = Folder(self._path, self._local), {}, set()
        seen = candidates(listing, self._look_for, folder)
        named = {one.name: one for one in seen if TEMPORARY not in one.name}
        steps = {name: part.step for name, part in first.parts.items()} if first is not None else {}
        for name in {*named, *steps}:
            files = {path: file for path, file in listing.files.items() if path.startswith(f"{name}/")}
            if name in named:
                one = named[name]
                files.update((file.path, file) for file in one.files.values())
                files.update((path, listing.files[path]) for path in markers(one, listing, self._look_for))
            if earlier is not None and any(earlier.files.get(path) != file for path, file in files.items()):
                changing.add(name)
            if self._node and first is not None and name in first.parts:
                theirs = first.parts[name].files
                files = {p: file for p, file in files.items() if p not in theirs or theirs[p].size != file.size}
            if files:
                step = named[name].step if name in named else steps[name]
                parts[name] = Part(step, mark_of(files), mark_of(files), files)
        return parts, changing

    def _notes(self, listing: Listing, parts: Mapping[str, Part]) -> dict[str, str]:
        """The content of small files next to the checkpoints, in which frameworks note the newest."""
        taken = {path for part in parts.values() for path in part.files}
        texts: dict[str, str] = {}
        for path, file in listing.files.items():
            if "/" not in path and path not in taken and file.size <= MOST_TEXT and len(texts) < MOST_NOTES:
                try:
                    with open(os.path.join(self._path, path), encoding="utf-8") as opened:
                        texts[path] = opened.read(MOST_TEXT)
                except (OSError, ValueError):  # it is gone, or no text
                    continue
        return texts

    def _due(self, word: Word, is_last: bool) -> list[str]:
        """The names of parts to upload, the next one first: the newest of those that the first node has named.

        So all upload the same ones where saves come faster than uploads end. Others wait for a look, unless there is no
        time: what the first node does not hold is no whole checkpoint.
        """
        assert self._round is not None
        due = [name for name, part in word.parts.items() if not part.is_there]
        due = sorted(due, key=lambda name: age_of(name, word.parts[name]), reverse=True)
        first = self._round.words.get(0)
        if not self._node or is_last or self._is_hurried:
            return due
        named = [name for name in due if first is not None and name in first.parts]
        alone = [name for name in due if name not in named and self._waited.get(name) == word.parts[name].mark]
        self._waited = {name: word.parts[name].mark for name in due}
        return named + alone

    def _upload_part(self, transfer: Transfer, name: str, own: Word, word: Word) -> None:
        """States the part, uploads it, and then says that it is there. Raises TransferFailed."""
        assert self._round is not None
        part = word.parts[name]
        part = replace(part, problems=self._problems(part))
        word = replace(word, parts={**word.parts, name: part}, is_final=False)
        self._say(transfer, own, word)
        self._current, self._checked = name, (self._is_hurried, self._is_final)
        try:
            gentle = self._secrets.transfer(self._wait, self._gentle)
            self._round.upload(gentle, self._node, part, self._path, self._note)
        finally:
            self._current = ""
        self._pace.uploaded(name)
        now = self._listing().files
        if any(path in now and now[path] != file for path, file in part.files.items()):
            raise TransferFailed(f"{name} changed while it was uploaded")
        own = self._own()
        self._say(transfer, own, replace(own, parts={**own.parts, name: replace(part, is_there=True)}))
        self._trouble = ""

    def _problems(self, part: Part) -> dict[str, str]:
        folder, problems = Folder(self._path, self._local), {}
        for path, file in part.files.items():
            try:
                problems[path] = problem_of(file, folder)
            except FileChanged:
                continue
        return problems

    def _say(self, transfer: Transfer, own: Word, word: Word) -> None:
        """Says it, and deletes the files of states that it does not name any more, of what was not published."""
        assert self._round is not None
        self._round.say(transfer, self._node, word)
        first = self._round.words.get(0)
        done = first.published if first is not None else {}
        for name, part in own.parts.items():
            is_done = done.get(name, {}).get(str(self._node)) == part.mark
            if not is_done and (name not in word.parts or word.parts[name].mark != part.mark):
                self._round.drop(transfer, self._node, part.mark, part.files)

    def _publish(self, transfer: Transfer, own: RangeReader | None, is_over: bool, but: Sequence[str] = ()) -> bool:
        assert self._round is not None
        started_at = time.monotonic()
        reader = _Unchanged(own, self._listing()) if own is not None else None
        one = self._round.publish(transfer, reader, is_over, but, self._note)
        if one is None:
            return False
        self._saved.append(one.name)
        self.uploaded_at[one.name] = time.time()
        self._trouble = ""
        self._report_saved(one, time.monotonic() - started_at)
        if not self._is_hurried:
            self._trim(transfer)
        return True

    def _names_wanted(self, earlier: Listing | None = None) -> list[str]:
        if self._round is None:
            return []
        parts, changing = self._found(self._fresh(), earlier)
        resting = {name: part for name, part in parts.items() if name not in changing}
        return self._due(next_word(self._node, self._own(), resting, self._round.words, self._keep), True)

    def _left(self) -> list[str]:
        pending = self._round.pending() if self._round is not None and self._node == 0 else []
        return list(dict.fromkeys([*super()._left(), *pending]))

    def _wait(self, seconds: float) -> None:
        if self._hold is not None:
            self._hold(seconds)
        else:
            super()._wait(seconds)


class _Unchanged:
    """The folder's files, as far as they are as they were said to be."""

    def __init__(self, folder: RangeReader, listing: Listing) -> None:
        self._folder, self._listing = folder, listing

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        if self._listing.files.get(file.path) != file:
            raise FileChanged(file.path)
        return self._folder.read(file, start, length)

    def each(self, work: Callable[[Any], Any], items: Any) -> Any:
        return [work(item) for item in items]


def travelling(
    settings: AttemptSettings, folder: str, volumes: str, secrets: CommandSecrets, send: Callable[..., None]
) -> TravellingCheckpoints:
    """Returns what fits the job: a single file is whole by itself, and the first node's is the job's."""
    is_in_parts = settings.gang and not names_a_file(settings.checkpoint.get("location", ""))
    made = GangTravel if is_in_parts and int(settings.gang.get("nodes", "1")) > 1 else TravellingCheckpoints
    return made(settings, folder, volumes, secrets, send)
