"""Spend as CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from costguard.access.teams import team_of
from costguard.api.fields import CURRENCY, hours, usd
from costguard.model.reminder import Team
from costguard.spend.spend import SpendRow
from costguard.spend.spend_rows import Amounts, Grouping
from costguard.spend.vm_spend import VmSpend
from costguard.web.sheets import safe

_AMOUNTS = ("machine", "gpu", "storage", "total")
_OF_VM = ("project", "vm", "gce_id", "zone", "machine_type", "preset", "owner", "team", "job", "provisioning_model")
_FIGURES = (*(f"{name}_{CURRENCY.lower()}" for name in _AMOUNTS), "seconds", "hours", "unpriced")


def write(rows: Iterable[SpendRow], group_by: Sequence[Grouping]) -> str:
    """One line a group. `unpriced` counts what the amounts of its line leave out."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*group_by, *_FIGURES])
    for row in rows:
        writer.writerow([*map(safe, row.group), *_figures(row.amounts, row.unpriced)])
    return out.getvalue()


def write_vms(rows: Iterable[VmSpend], group_by: Sequence[Grouping], teams: Sequence[Team]) -> str:
    """One line a VM and group, with whose it was; labels as `key=value`, with a semicolon and a blank between them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    # What was grouped by comes first, as on the page, and stands once.
    first = [grouping.value for grouping in group_by if grouping is not Grouping.VM]
    others = [name for name in _OF_VM if name not in first]
    writer.writerow([*first, *others, "labels", *_FIGURES])
    for row in rows:
        vm, whose = row.vm, row.attribution
        team = team_of(vm.key.project, whose.owner, teams)
        values = {
            "project": vm.key.project,
            "vm": vm.name,
            "gce_id": vm.key.gce_id,
            "zone": vm.zone,
            "machine_type": vm.shape.machine_type,
            "preset": whose.preset,
            "owner": whose.owner,
            "team": team.name if team is not None else "",
            "job": whose.job,
            "provisioning_model": row.provisioning_model,
        }
        labels = "; ".join(f"{key}={value}" for key, value in sorted(vm.labels.items()))
        texts = [*row.group, *(values[name] for name in others), labels]
        writer.writerow([*map(safe, texts), *_figures(row.amounts, row.unpriced)])
    return out.getvalue()


def _figures(amounts: Amounts, unpriced: int) -> list[object]:
    return [*(usd(getattr(amounts, name)) for name in _AMOUNTS), amounts.seconds, hours(amounts.seconds), unpriced]
