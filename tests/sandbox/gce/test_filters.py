"""List filters, as gcloud and guards send them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard_sandbox.gce.filters import BadFilter, compile_filter

VM = {
    "id": "9007199254740993",
    "name": "train-7",
    "status": "RUNNING",
    "creationTimestamp": "2026-11-20T10:00:00.000-08:00",
    "labels": {"owner": "ana", "team-x": ""},
    "tags": {"items": ["gpu", "web"]},
    "scheduling": {"preemptible": True, "maxRunDuration": {"seconds": "3600"}},
    "disks": [{"boot": True, "source": "projects/p/zones/z/disks/train-7"}, {"boot": False}],
    "networkInterfaces": [{"accessConfigs": [{"natIP": "203.0.113.9"}]}],
}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("", True),
        ("status = RUNNING", True),
        ('status="RUNNING"', True),
        ("status = 'STOPPED'", False),
        ("status != RUNNING", False),
        ("lastStopTimestamp != x", True),
        ("lastStopTimestamp = x", False),
        ("name eq train-.*", True),
        ("name eq train", False),
        ('name eq "train-[0-9]"', True),
        ("name eq (train|serve)-(7|8)", True),
        ("name ne train-.*", False),
        ("labels.nobody ne x", True),
        ("labels.owner = ana", True),
        ("labels.owner:*", True),
        ("labels.nobody:*", False),
        ("labels:owner", True),
        ("labels.team-x:*", True),
        ("name:train*", True),
        ("name:rain", True),
        ("name:ai*", False),
        ("name:*-7", True),
        ("tags.items:gpu", True),
        ("tags.items = web", True),
        ("disks.boot = true", True),
        ("scheduling.preemptible = true", True),
        ("scheduling.preemptible = false", False),
        ("scheduling.maxRunDuration.seconds > 999", True),
        ("id = 9007199254740992", False),
        ("id = 9007199254740993", True),
        ("networkInterfaces.accessConfigs.natIP:203.0.113.*", True),
        ('creationTimestamp > "2026-11-20T17:59:59Z"', True),
        ("creationTimestamp>2026-11-20T18:00:00Z", False),
        ("creationTimestamp >= 2026-11-20T18:00:00.000Z", True),
        ('creationTimestamp = "2026-11-20T19:00:00+01:00"', True),
        ("status = RUNNING AND name = train-7", True),
        ("(status = RUNNING) (name = other)", False),
        ("status = RUNNING name = train-7", True),
        ("status = STOPPING OR status = RUNNING", True),
        (r'(status eq ".*\bRUNNING\b.*")(name ne ".*\bserve\-7\b.*")', True),
        (r'name eq ".*(\"|7).*"', True),
        ("scheduling.preemptible eq true", True),
        ("NOT status = RUNNING", False),
        ("NOT (status = STOPPING)", True),
        ("-status = STOPPING", True),
        ("status = STOPPING OR (labels.owner = ana AND NOT name = other)", True),
    ],
)
def test_a_filter_keeps_what_compute_engine_would_keep(expression: str, holds: bool) -> None:
    """Each operator, field path and joining word decides as the API's reference says."""
    assert compile_filter(expression)(VM) is holds


def test_or_binds_tighter_than_and() -> None:
    """`a OR b AND c` means (a OR b) AND c, as the API's grammar has it."""
    assert not compile_filter("status = RUNNING OR status = STOPPING AND name = other")(VM)


def test_gclouds_filter_for_preemptions_selects_them_alone() -> None:
    """gcloud does not filter again locally: a filter let through would show every operation."""
    wanted = compile_filter(r'operationType eq ".*\bcompute\.instances\.preempted\b.*"')
    kinds = ["compute.instances.preempted", "compute.instances.hostError", "stop", "insert"]
    assert [kind for kind in kinds if wanted({"operationType": kind})] == ["compute.instances.preempted"]


@pytest.mark.parametrize(
    "expression",
    [
        "status",
        "status =",
        "= RUNNING",
        "(status = RUNNING",
        "status = RUNNING)",
        'name eq "("',
        "status % x",
        "AND",
        'a = "b',
    ],
)
def test_an_invalid_filter_is_refused(expression: str) -> None:
    """Half-understood filters must not let everything through."""
    with pytest.raises(BadFilter, match="Invalid list filter expression"):
        compile_filter(expression)


@given(st.text(max_size=40))
def test_any_text_is_either_a_filter_or_refused(expression: str) -> None:
    """No text, however odd, makes the server fail."""
    try:
        predicate = compile_filter(expression)
    except BadFilter:
        return
    assert predicate(VM) in (True, False)
