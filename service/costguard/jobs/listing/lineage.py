"""The lineage of a job: what it started from and what started from it, each with its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from costguard.jobs.decide.lineage import LineageLink, LineageNode, below, tree_of
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.lineage import lineage_rows
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual
from costguard.model.job import Job
from costguard.model.money import Priced


@dataclass(frozen=True, slots=True)
class LineageJob:
    """A job of a lineage. `with_below` is the cost of it and of all that started from it, each job once.

    `origins` are the addresses from which it starts.
    """

    job: Job
    depth: int
    parent: str | None  # under which it stands; None: it stands at an end of the tree
    others: tuple[str, ...]
    origins: tuple[LineageLink, ...]
    cost: Priced
    with_below: Priced


@dataclass(frozen=True, slots=True)
class Lineage:
    """`upward` is the cost of the job with all that it started from: what its result came to. `downward` is that of the
    job with all that started from it.

    `unknown` are the checkpoints that lay at a job's location when it was submitted, and that no known job saved.
    `is_whole`: no job was left out because there are too many.
    """

    centre: LineageJob
    ancestors: tuple[LineageJob, ...]  # the oldest first
    descendants: tuple[LineageJob, ...]  # each below its parent
    upward: Priced
    downward: Priced
    total: Priced
    unknown: tuple[LineageLink, ...]
    is_whole: bool

    @property
    def is_alone(self) -> bool:
        """Says whether nothing is known of what it started from, nor of jobs that started from it."""
        return not self.ancestors and not self.descendants and not self.unknown


def lineage_of(connection: Connection, accrual: Accrual, job_id: str) -> Lineage | None:
    """Reads the lineage of a job; None: there is no such job. Jobs that are long over keep their cost in it."""
    links, is_whole = lineage_rows.links_of(connection, job_id)
    ids = {job_id, *(link.job_id for link in links), *(link.parent for link in links if link.parent)}
    jobs = job_rows.of_ids(connection, ids)
    if job_id not in jobs:
        return None
    oldest_first = sorted(jobs.values(), key=lambda job: (job.created_at, job.id))
    tree = tree_of(job_id, links, {job.id: rank for rank, job in enumerate(oldest_first)})
    costs = job_costs.costs(connection, accrual, tree.every)
    subtrees = below(job_id, links)

    def row(node: LineageNode) -> LineageJob:
        link = node.link
        parent = None if link is None or node.depth < 0 else link.parent
        own = tuple(one for one in links if one.job_id == node.job_id)
        with_below = _sum(costs, subtrees.get(node.job_id, {node.job_id}))
        return LineageJob(jobs[node.job_id], node.depth, parent, node.others, own, costs[node.job_id], with_below)

    return Lineage(
        row(LineageNode(job_id, 0)),
        tuple(row(node) for node in tree.ancestors),
        tuple(row(node) for node in tree.descendants),
        _sum(costs, tree.upward),
        _sum(costs, tree.downward),
        _sum(costs, tree.every),
        tuple(link for link in links if link.parent is None and link.job_id in tree.every),
        is_whole,
    )


def _sum(costs: Mapping[str, Priced], job_ids: Iterable[str]) -> Priced:
    return sum((costs[job_id] for job_id in sorted(job_ids) if job_id in costs), start=Priced())
