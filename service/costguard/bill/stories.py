"""Explains a line that differs in a sentence or two: what each side says, and what that means. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from shlex import quote

from costguard.bill.lines import BillLine, Reason
from costguard.keepers.volumes import may_be_a_volume
from costguard.ledger.billed.machine_parts import accelerator_kind, resource_words
from costguard.model.billing.bill import BilledKind
from costguard.model.money import Money, money_text

_UNITS = (("disk:", "GiB"), ("local-ssd", "GiB"), ("suspended-memory", "GiB"))


def story(line: BillLine) -> str:
    """Explains a line for a person who knows the VM and not the bill."""
    return _STORIES[line.reason](line) if line.reason in _STORIES else ""


def title(line: BillLine) -> str:
    """`train-7`, or `disk data of train-7`."""
    if line.thing.kind is BilledKind.DISK:
        return f"disk {line.name}" + (f" of {line.vm_name}" if line.vm_name and line.vm_name != line.name else "")
    return line.vm_name or line.name


def used_text(used: Fraction, resource: str) -> str:
    """`86,400 vCPU seconds`, `48.5 GiB hours`."""
    if resource.endswith(":core"):
        return f"{round(used):,} vCPU seconds"
    if kind := accelerator_kind(resource):
        return f"{round(used):,} {kind} seconds"
    if resource.endswith(":whole"):
        return f"{round(used):,} seconds"
    unit = next((name for start, name in _UNITS if resource.startswith(start)), "GiB")
    return f"{_tenths(used / 3600)} {unit} hours"


def _part(line: BillLine) -> str:
    words = resource_words(line.resource)
    return words[0].lower() + words[1:] if words[1:2].islower() else words


def _tenths(hours: Fraction) -> str:
    tenths = round(hours * 10)
    return f"{tenths // 10:,}.{tenths % 10}"


def _money(nanos: int | None) -> str:
    return money_text(Money(abs(nanos or 0)))


def _sides(line: BillLine) -> str:
    billed, charged = (used_text(used, line.resource) for used in (line.billed_used, line.ledger_used))
    return f"the bill has {billed}, the ledger {charged}"


def _share(line: BillLine) -> str:
    if not line.ledger_used:
        return ""
    percent = abs(line.billed_used - line.ledger_used) / line.ledger_used * 100
    tenths = round(percent * 10)
    return f" ({tenths // 10}.{tenths % 10}%)" if tenths else " (under 0.1%)"


def _price(line: BillLine) -> str:
    model = ""
    models = {share.provisioning_model for share in line.shares}
    if line.billed_model and models and line.billed_model not in models:
        model = f" Google sold it as {line.billed_model}, the ledger has it as {', '.join(sorted(models))}."
    skus = ", ".join(line.sku_ids)
    return (
        f"The list price of {_part(line)} (SKU {skus}) differs: the bill says {_money(line.list_nanos)}, and at the "
        f"ledger's price the same use is {_money(line.expected_nanos)}.{model}"
    )


def _unknown_disk(line: BillLine) -> str:
    billed = f"Google billed {_money(line.list_nanos)} for a disk that is attached to no VM of the ledger."
    if may_be_a_volume(line.name):
        return f"{billed} By its name it is a volume of a cluster, which may need it though no VM has it."
    return (
        f"{billed} If nobody needs it: gcloud compute disks delete {quote(line.name)} {_place(line.zone)} "
        f"--project {quote(line.bill_project)}"
    )


def _place(zone: str) -> str:
    """A regional disk is billed in its region."""
    return f"--{'zone' if zone[-2:-1] == '-' else 'region'} {quote(zone)}"


def _vertex(line: BillLine) -> str:
    charged = f"The ledger charges {_money(line.ledger_nanos)} for {_part(line)} of Vertex AI in this project"
    if line.list_nanos is None:
        return f"{charged}, and the bill has no row that can be compared with it."
    return (
        f"{charged}, Google billed {_money(line.list_nanos)}. Rows of Vertex AI name no job, endpoint or runtime, so a "
        "day's sums are all that can be compared, and such a difference raises no alarm."
    )


_STORIES: Mapping[Reason, Callable[[BillLine], str]] = {
    Reason.MISSING: lambda line: (
        f"The ledger charges {_money(line.ledger_nanos)} for {_part(line)}, and the bill has no row of it, 72 "
        "hours after the day's end. Google may bill it later, or the ledger saw a run that Google did not bill."
    ),
    Reason.UNKNOWN_VM: lambda line: (
        f"Google billed {_money(line.list_nanos)} for {_part(line)} of a VM with the id {line.thing.id} in "
        f"{line.bill_project}, which the ledger never saw. Look for it in the project's audit log."
    ),
    Reason.UNKNOWN_PART: lambda line: (
        f"Google billed {_money(line.list_nanos)} for {_part(line)} of this VM, which the ledger does not charge it "
        "for: its machine type may have changed between two looks."
    ),
    Reason.OTHER_SKU: lambda line: (
        f"The ledger prices it as {_part(line)}; Google sold it under another SKU ({', '.join(line.sku_ids)})."
    ),
    Reason.MORE: lambda line: f"More {_part(line)} was billed{_share(line)}: {_sides(line)}.",
    Reason.LESS: lambda line: f"Less {_part(line)} was billed{_share(line)}: {_sides(line)}.",
    Reason.REPEATED: lambda line: f"The export has rows of {_part(line)} twice: {_sides(line)}.",
    Reason.PRICE: _price,
    Reason.CURRENCY_RATE: lambda line: (
        f"Rows of {_part(line)} have another currency rate than the rest of their month: {_money(line.list_nanos)} "
        f"by it, {_money(line.expected_nanos)} by the usual one."
    ),
    Reason.CREDIT: lambda line: (
        f"Credits of {_part(line)} take more off than it may cost: {_money(line.savings.total)} of "
        f"{_money(line.list_nanos)}. One may be credited twice."
    ),
    Reason.OTHER_PROJECT: lambda line: (
        f"The ledger has it in {line.thing.project}, and Google billed it to {line.bill_project}."
    ),
    Reason.GPU_AND_HOST: lambda line: (
        f"GPU and host seconds differ by less than half a percent, as in bills that Google published: {_sides(line)}."
    ),
    Reason.DISK_HOURS: lambda line: (
        f"A disk's hours are ragged, and some minutes stand on the next day: {_sides(line)}."
    ),
    Reason.SHARED_DISK: lambda line: (
        f"Several VMs share this disk of {line.zone}. The ledger charges it to each of them, and Google bills it once."
    ),
    Reason.UNKNOWN_DISK: _unknown_disk,
    Reason.NOT_WATCHED: lambda line: f"The settings do not have it watched: project {line.bill_project}.",
    Reason.UNPRICED: lambda line: (
        f"The ledger has no price for {_part(line)}; Google billed {_money(line.list_nanos)}."
    ),
    Reason.VERTEX: _vertex,
}
