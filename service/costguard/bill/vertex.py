"""Puts the ledger's charges of Vertex AI together by project and SKU's resource, as the bill can be compared with them.

A row of Vertex AI names no resource that its API lists (Google's "Structure of Detailed data export" promises
resource.global_name for some services alone), so its usage cannot be split by resource. Sums of a day can be
compared. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from costguard.bill.lines import BilledThing, LedgerUse, UseShare
from costguard.model.billing.bill import BilledKind, BillRow
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Attribution

VERTEX_AI = "C7E2-9256-1C43"
"""The service id of Vertex AI in every export, as in the catalogue."""
NAME = "Vertex AI"
_ID = "vertex"  # no id of a VM, which is a number


def thing_of(project: str) -> BilledThing:
    """Returns all of a project's Vertex AI as one billed thing."""
    return BilledThing(BilledKind.NONE, project, _ID)


def is_thing(thing: BilledThing) -> bool:
    return thing.kind is BilledKind.NONE and thing.id == _ID


def is_row(row: BillRow) -> bool:
    """Says whether Vertex AI made this usage: of its own service, or of Compute Engine with its tag."""
    return row.service_id == VERTEX_AI or bool(row.product)


def pooled(uses: Iterable[LedgerUse]) -> list[LedgerUse]:
    """Returns the uses with those of Vertex AI summed up by project and resource. A sum has no VM and no zone."""
    apart: list[LedgerUse] = []
    together: dict[tuple[str, str], list[LedgerUse]] = defaultdict(list)
    for use in uses:
        if InstanceKey(use.thing.project, use.gce_id).kind.is_of_vertex:
            together[use.thing.project, use.resource].append(use)
        else:
            apart.append(use)
    return apart + [_summed(project, several) for (project, _), several in together.items()]


def _summed(project: str, uses: Sequence[LedgerUse]) -> LedgerUse:
    shares: dict[tuple[Attribution, str], tuple[int, int]] = {}
    for use in uses:
        for share in use.shares:
            key = share.attribution, share.provisioning_model
            nanos, seconds = shares.get(key, (0, 0))
            shares[key] = nanos + share.nanos, seconds + share.seconds
    return replace(
        uses[0],
        thing=thing_of(project),
        name=NAME,
        gce_id="",
        vm_name=NAME,
        zone="",
        used=sum((use.used for use in uses), Fraction(0)),
        seconds=sum(use.seconds for use in uses),
        nanos=sum(use.nanos for use in uses),
        shares=tuple(UseShare(*key, *sums) for key, sums in sorted(shares.items(), key=str)),
    )
