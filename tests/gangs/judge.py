"""Judges the life of a gang by what its processes wrote, what the simulated cloud billed, and the ledger. Pure but for
reading files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a command: its round and node, and when it lived, in seconds of the computer's monotonic clock."""

    round: int
    node: int
    pid: int
    began: float
    ended: float  # its last word


def processes(folder: Path) -> list[Process]:
    """Reads what `watched.py` wrote. Files without a whole line are left out: their process has hardly begun."""
    listed = []
    for path in folder.glob("round-*.txt"):
        moments = [float(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        _, number, _, node, pid = path.stem.split("-")
        if moments:
            listed.append(Process(int(number), int(node), int(pid), moments[0], moments[-1]))
    return sorted(listed, key=lambda one: one.began)


def at_once(lived: Iterable[Process]) -> Iterator[str]:
    """Yields each two rounds of which processes lived at the same time."""
    spans: dict[int, tuple[float, float]] = {}
    for one in lived:
        began, ended = spans.get(one.round, (one.began, one.ended))
        spans[one.round] = min(began, one.began), max(ended, one.ended)
    for (first, (began, ended)), (second, (since, until)) in combinations(sorted(spans.items()), 2):
        if since <= ended and began <= until:
            yield f"rounds {first} and {second} lived at once for {min(ended, until) - max(began, since):.2f} s"


def one_process_each(lived: Iterable[Process], nodes: int) -> Iterator[str]:
    """Yields rounds in which a node had two processes of the command, or that had a node too many."""
    counts = Counter((one.round, one.node) for one in lived)
    for (number, node), count in counts.items():
        if count > 1:
            yield f"round {number} had {count} processes of node {node}"
        if node >= nodes:
            yield f"round {number} had a node {node}"


def wrong_weights(finals: Sequence[str], nodes: int, undisturbed: str, least: int | None = None) -> Iterator[str]:
    """Yields what is wrong with the digests of the last weights: one for each node, all those of an undisturbed run.

    `least`: as many nodes are enough, of a gang that runs with what can be had.
    """
    if not (least or nodes) <= len(finals) <= nodes:
        yield f"{len(finals)} of {nodes} nodes wrote their weights"
    if set(finals) - {undisturbed}:
        yield f"the weights {sorted(set(finals))} differ from {undisturbed}"


def vms_too_many(made: Sequence[int], nodes: int, lost: Sequence[int], ended: Sequence[int]) -> Iterator[str]:
    """Yields nodes for which more VMs were made than are accounted for. All name the node of each VM: those that were
    `made`, `lost`, and `ended` on purpose before the job did, as they moved with the gang, were given back, or had
    finished when another one was lost.
    """
    made_of, lost_of, ended_of = Counter(made), Counter(lost), Counter(ended)
    for node in range(nodes):
        most = 1 + lost_of[node] + ended_of[node]
        if made_of[node] > most:
            yield f"node {node} had {made_of[node]} VMs, and {most} are accounted for"
