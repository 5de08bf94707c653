"""Jobs that start from what other jobs saved or published: whose a location is, and the tree that this makes."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from costguard.model.job import JobSpec, destinations_of

MOST_JOBS = 500  # of a lineage that is shown
_MOST_ORIGINS = 100  # addresses of one job
_ADDRESS = re.compile(r"(?:gs|s3|file)://[^\s'\"`,;|<>(){}\\]+")


class Uses(StrEnum):
    """The way in which a job names what another one saved or published."""

    CHECKPOINT = "checkpoint"  # its own location held a checkpoint when it was submitted
    INPUT = "input"  # one of its inputs
    COMMAND = "command"  # an address in its command, setup or environment


@dataclass(frozen=True, slots=True)
class Origin:
    """An address from which a job starts. `is_certain`: something was seen there when the job was submitted."""

    address: str
    uses: Uses
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class LineageLink:
    """A job starts from `address`. `parent` is the job that stored what lies there; None: not known."""

    job_id: str
    parent: str | None
    address: str
    uses: Uses


def place_key(address: str) -> str:
    """Returns the key of a location: a digest, since locations may be longer than an index of PostgreSQL takes."""
    return hashlib.sha256(address.rstrip("/").encode("utf-8", "surrogatepass")).hexdigest()[:32]


def folders_of(address: str) -> list[str]:
    """Returns the address and each folder above it, the most specific first. A whole bucket is no job's place."""
    scheme, sign, path = address.rstrip("/").partition("://")
    parts = path.split("/")
    return [f"{scheme}{sign}{'/'.join(parts[:count])}" for count in range(len(parts), 1, -1)] if sign else []


def places_of(spec: JobSpec) -> list[str]:
    """Returns the locations in buckets where the job stores: its checkpoints, then its outputs and its result."""
    plan = spec.checkpoint
    places = [plan.location] if plan is not None else []
    places += destinations_of(spec).values()
    return list(dict.fromkeys(place.rstrip("/") for place in places if folders_of(place)))


def origins_of(spec: JobSpec, resume_from: str | None) -> list[Origin]:
    """Returns the addresses from which a job starts, each once.

    `resume_from` is the checkpoint that lay at its location when it was submitted; "" where there was none, and None
    where nobody looked. What it stores itself is no origin.
    """
    own = set(places_of(spec))
    origins: dict[str, Origin] = {}
    plan = spec.checkpoint
    if plan is not None and folders_of(plan.location) and resume_from != "":
        address = resume_from if resume_from and folders_of(resume_from) else plan.location
        origins[plan.location.rstrip("/")] = Origin(address.rstrip("/"), Uses.CHECKPOINT, resume_from is not None)
    named = [(one.source, Uses.INPUT) for one in spec.inputs]
    named += [(address, Uses.COMMAND) for address in _addresses(spec)]
    for address, uses in named:
        folders = folders_of(address)
        if folders and own.isdisjoint(folders):
            origins.setdefault(folders[0], Origin(folders[0], uses))
    return list(origins.values())[:_MOST_ORIGINS]


def _addresses(spec: JobSpec) -> Iterator[str]:
    for text in (*spec.command, spec.setup, *spec.environment.values()):
        yield from (match.rstrip(".:]") for match in _ADDRESS.findall(text))


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A job of a tree. `depth` counts from the job that was asked for: below zero for what it started from.

    `others` are the parents under which it does not stand in the tree, as each job stands there once.
    """

    job_id: str
    depth: int
    link: LineageLink | None = None  # to the job under which it stands; None at the ends of the tree
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineageTree:
    """A job with all that it started from, the oldest first, and all that started from it, each below its parent."""

    ancestors: tuple[LineageNode, ...]
    job_id: str
    descendants: tuple[LineageNode, ...]

    @property
    def upward(self) -> set[str]:
        """Returns the job and all that it started from."""
        return {self.job_id, *(node.job_id for node in self.ancestors)}

    @property
    def downward(self) -> set[str]:
        """Returns the job and all that started from it."""
        return {self.job_id, *(node.job_id for node in self.descendants)}

    @property
    def every(self) -> set[str]:
        return self.upward | self.downward


def tree_of(job_id: str, links: Iterable[LineageLink], order: Mapping[str, int]) -> LineageTree:
    """Builds the tree of a job. `order` ranks jobs by when they were submitted.

    A parent is always older than its child, so that there are no cycles; a link that says otherwise is left out.
    """
    up: defaultdict[str, list[LineageLink]] = defaultdict(list)
    down: defaultdict[str, list[LineageLink]] = defaultdict(list)
    for link in links:
        parent = link.parent
        if parent is None or parent not in order or link.job_id not in order or order[parent] >= order[link.job_id]:
            continue
        up[link.job_id].append(link)
        down[parent].append(link)
    ancestors = sorted(_walked(job_id, up, upward=True), key=lambda node: order[node.job_id])
    for some in down.values():
        some.sort(key=lambda link: order[link.job_id])
    return LineageTree(tuple(ancestors), job_id, tuple(_walked(job_id, down, upward=False)))


def _walked(job_id: str, links: Mapping[str, Sequence[LineageLink]], *, upward: bool) -> list[LineageNode]:
    """Walks from a job to all that hang on it, a branch to its end before the next, each job once."""
    nodes: dict[str, LineageNode] = {}
    others: defaultdict[str, list[str]] = defaultdict(list)
    stack = [(link, 1) for link in reversed(links.get(job_id, ()))]
    while stack:
        link, depth = stack.pop()
        here, beyond = (link.parent or "", link.job_id) if upward else (link.job_id, link.parent or "")
        if here in nodes:
            if beyond != job_id and beyond not in others[here]:
                others[here].append(beyond)
            continue
        nodes[here] = LineageNode(here, -depth if upward else depth, link)
        stack += [(one, depth + 1) for one in reversed(links.get(here, ()))]
    return [LineageNode(one.job_id, one.depth, one.link, tuple(others[one.job_id])) for one in nodes.values()]


def below(job_id: str, links: Iterable[LineageLink]) -> dict[str, set[str]]:
    """Returns for each job that hangs below this one all that hang below it, with itself."""
    children: defaultdict[str, set[str]] = defaultdict(set)
    for link in links:
        if link.parent is not None:
            children[link.parent].add(link.job_id)
    result: dict[str, set[str]] = {}
    for start in _reached(job_id, children):
        result[start] = _reached(start, children)
    return result


def _reached(start: str, children: Mapping[str, set[str]]) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        fresh = children.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting += fresh
    return seen
