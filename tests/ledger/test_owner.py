"""Each VM has an owner."""

from __future__ import annotations

import pytest
from tests.builders import at

from costguard.ledger.owner import Owner, OwnerRules, OwnerSource, owner_of
from costguard.model.keeper import Keeper, KeeperKind
from costguard.model.reminder import Claim

RULES = OwnerRules(domain="example.com", addresses={"ana": "ana@research.example.org"})
ROBOT = "builder@my-project.iam.gserviceaccount.com"


def test_job_comes_first() -> None:
    """A VM that a job launched belongs to the job's owner, whatever else is known."""
    assert owner_of({"owner": "ana"}, "bo@example.com", "cy@example.com", RULES) == Owner(
        "cy@example.com", OwnerSource.JOB, "launched by their job"
    )


def test_label_comes_before_the_creator() -> None:
    """The label names the owner even where someone else created the VM."""
    assert owner_of({"owner": "bo"}, "dee@example.com", None, RULES) == Owner(
        "bo@example.com", OwnerSource.LABEL, "label owner"
    )


def test_map_comes_before_the_domain() -> None:
    """A label in the map is exactly the address that the map gives."""
    assert owner_of({"owner": "ana"}, None, None, RULES).address == "ana@research.example.org"


def test_label_stays_bare_without_a_rule() -> None:
    """Where neither map nor domain completes a label, it is shown as it stands."""
    assert owner_of({"owner": "ana"}, None, None, OwnerRules()).address == "ana"


def test_label_is_configurable() -> None:
    """The configured label alone counts, and the phrase names it."""
    rules = OwnerRules(label="team-contact")
    assert owner_of({"team-contact": "bo", "owner": "ana"}, None, None, rules).how == "label team-contact"
    assert owner_of({"owner": "ana"}, None, None, rules).address == ""


def test_whole_address_is_left_alone() -> None:
    """A value that is an address already gets no second domain."""
    assert owner_of({"owner": "bo@example.net"}, None, None, RULES).address == "bo@example.net"


def test_creator_is_the_owner_when_nothing_else_says() -> None:
    """The person whose insert operation made the VM owns it; an empty label says nothing."""
    expected = Owner("bo@example.com", OwnerSource.CREATOR, "created it")
    assert owner_of({}, "bo@example.com", None, RULES) == expected
    assert owner_of({"owner": ""}, "bo@example.com", "", RULES) == expected


@pytest.mark.parametrize(
    "account",
    [
        ROBOT,
        "123-compute@developer.gserviceaccount.com",
        "123@cloudservices.gserviceaccount.com",
        "system",
        "principal://iam.googleapis.com/projects/1/locations/global/workforcePools/p/subject/ana@example.com",
    ],
)
def test_robots_own_nothing(account: str) -> None:
    """An account that nobody reads mail for is named, and is not the owner."""
    assert owner_of({}, account, None, RULES) == Owner("", OwnerSource.NOBODY, f"created by {account}")


def test_nobody_is_said_in_words() -> None:
    """Where nothing is known, the phrase says what would have told."""
    assert owner_of({}, None, None, RULES) == Owner(
        "", OwnerSource.NOBODY, "no label owner, and nothing says who created it"
    )


def test_a_claim_comes_before_label_and_creator() -> None:
    """A claim of this very VM is worth more than what its maker wrote; a job still comes first."""
    claim = Claim(1, "cy@example.com", "cy@example.com", at("10:00"))
    owner = owner_of({"owner": "ana"}, "bo@example.com", None, RULES, claim)
    assert owner == Owner("cy@example.com", OwnerSource.CLAIM, "claimed by cy@example.com")
    assert owner_of({}, None, "dee@example.com", RULES, claim).source is OwnerSource.JOB


def test_a_disowned_vm_is_nobodys() -> None:
    """The label or the creator has misled us, so neither is asked again."""
    claim = Claim(1, "", "ana@example.com", at("10:00"))
    owner = owner_of({"owner": "ana"}, "ana@example.com", None, RULES, claim)
    assert owner == Owner("", OwnerSource.NOBODY, "disowned by ana@example.com")


@pytest.mark.parametrize(
    ("pool", "address", "how"),
    [
        ("t4", "bo@example.com", "the settings name the owner of train/t4"),
        ("a100", "cy@example.com", "the settings name the owner of train"),
    ],
)
def test_the_settings_name_the_owner_of_a_pool_or_of_its_cluster(pool: str, address: str, how: str) -> None:
    """Nodes are created by Google's own account, and seldom have the label; where one has, it goes before."""
    rules = OwnerRules(clusters={"train": "cy@example.com", "train/t4": "bo@example.com"})
    node = Keeper(KeeperKind.GKE, "train", "us-central1", "train", pool)
    agent = "service-1@container-engine-robot.iam.gserviceaccount.com"
    assert owner_of({}, agent, None, rules, keeper=node) == Owner(address, OwnerSource.CLUSTER, how)
    assert owner_of({"owner": "ana"}, agent, None, rules, keeper=node).address == "ana"
    assert owner_of({}, agent, None, rules, keeper=Keeper(KeeperKind.GKE, "other", cluster="other")).address == ""
