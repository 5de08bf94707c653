"""Settings that `costguard init` fits to a fleet load, match what was seen, and promise nothing that was not."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limited
from hypothesis import strategies as st
from tests.builders import A100, T4, at, seen

from costguard.gce.convert import Shapes, instance_from
from costguard.gce.machine_types import by_rule
from costguard.gce.prices import snapshot_prices
from costguard.ledger.owner import classify
from costguard.ledger.price_book import PriceBook
from costguard.model.instance import InstanceKey, SeenInstance, Shape, Status
from costguard.model.preset import OTHER
from costguard.settings.fitted import FirstLook, Wishes, fitted_settings, seen_fleet
from costguard.settings.load import validate
from costguard.settings.sections import Settings

NOW = at("20:00")
BOOK = PriceBook(snapshot_prices())
A100S = Shape("a2-highgpu-4g", 48, 348160, "nvidia-tesla-a100", 4)
V6E = Shape("ct6e-standard-4t", 180, 737280, "v6e", 4)
PLAIN = Shape("e2-standard-4", 4, 16384)
OWNERS = Path(__file__).parents[3] / "shared" / "outside" / "owners" / "instances.json"
NODE = {
    "goog-gke-node": "",
    "goog-k8s-cluster-name": "train",
    "goog-k8s-cluster-location": "us-central1",
    "goog-k8s-node-pool-name": "t4",
}


def vm(number: int, shape: Shape = T4, hours: float = 1, **more: Any) -> SeenInstance:
    started = NOW - timedelta(hours=hours)
    return seen(
        key=InstanceKey("acme", str(number)), name=f"vm-{number}", shape=shape, created_at=started, started=None,
        **{"labels": {}, "origin": {}, **more},
    )  # fmt: skip


def text_of(*vms: SeenInstance, unread: Sequence[str] = (), **wishes: Any) -> str:
    looks = [FirstLook("acme", vms, tuple(unread))]
    return fitted_settings(Wishes(("acme-1",), **wishes), seen_fleet(looks, BOOK, NOW))


def loaded(text: str, **environ: str) -> Settings:
    return validate(tomllib.loads(text), environ, Path("costguard.toml"), text)


def test_presets_are_named_after_families_and_take_the_vms_they_were_fitted_to() -> None:
    """Each VM is matched by the preset of its family, before the shipped ones; the others by `other`."""
    vms = {"n1-t4": vm(1), "a2": vm(2, A100), "a2-multi": vm(3, A100S), "ct6e": vm(4, V6E), OTHER: vm(5, PLAIN)}
    presets = loaded(text_of(*vms.values())).preset_list()
    for name, one in vms.items():
        assert classify(one.labels, one.shape, presets) == name


def test_presets_launch_what_was_seen() -> None:
    """The machine seen most, in the zones where it is; TPUs are launched by nobody."""
    text = text_of(vm(1), vm(2, zone="us-east1-c"), vm(3, zone="us-east1-c"), vm(4, V6E))
    by_name = {preset.name: preset for preset in loaded(text).preset_list()}
    recipe = by_name["n1-t4"].launch
    assert recipe is not None
    assert (recipe.machine_type, recipe.gpu_type, recipe.gpu_count) == ("n1-standard-4", "nvidia-tesla-t4", 1)
    assert recipe.zones == ("us-east1-c", "us-central1-a")
    assert by_name["ct6e"].launch is None


@pytest.mark.parametrize(
    ("shape", "hours", "limit"),
    [
        (T4, [1, 2], "8h"),
        (A100, [1, 2, 30], "24h"),
        (A100S, [1], "12h"),
        (T4, [100, 1], "8h"),  # two VMs show no habit
        (T4, [100, 100, 9, 9, 1], "12h"),  # most are longer than 8 hours, and few than 12
        (T4, [500, 500, 500], "3d"),  # forgotten ones make no limit longer than this
    ],
)
def test_limits_follow_the_shipped_presets_and_how_long_vms_run(shape: Shape, hours: list[int], limit: str) -> None:
    """The comment says how many are past the limit at once."""
    text = text_of(*(vm(number, shape, age) for number, age in enumerate(hours)))
    assert f'limit = "{limit}"' in text
    allowed = {"8h": 8, "12h": 12, "24h": 24, "3d": 72}[limit]
    late = sum(age > allowed for age in hours)
    assert (f"{late} VM" in text and "longer than this limit" in text) == bool(late)


def test_vms_of_clusters_make_no_limit_longer() -> None:
    """Nodes are meant to stay; their pool is named with its cost, for an owner to be filled in."""
    text = text_of(*(vm(number, hours=900, labels=NODE) for number in range(3)))
    assert 'limit = "8h"' in text
    assert '#   "train/t4" = "ana@example.com",  # 3 VMs, 3 running, ' in text
    assert "3 in clusters, groups or notebooks" in text


def test_owners_come_by_the_label_that_most_vms_have() -> None:
    """Labels that name no people, and those of nodes, do not count."""
    people = [vm(n, labels={"created_by": f"person-{n}", "team": "vision", "purpose": "x"}) for n in range(3)]
    text = text_of(*people, vm(9, labels={"owner": "ana"}), domain="example.com")
    settings = loaded(text)
    assert (settings.owners.label, settings.owners.domain) == ("created_by", "example.com")
    assert settings.spend.labels == ("purpose", "team")
    assert "# [teams.vision]" in text or '# [teams."vision"]' in text


def test_an_empty_or_unread_project_makes_no_claim() -> None:
    """The file says what was not read, and what ships with Costguard decides."""
    text = text_of(unread=["Google refused."])
    assert "# Not read whole, so this file may not fit it: project acme." in text
    assert {preset.name for preset in loaded(text).preset_list()} == {"t4", "a100", "multi-gpu", OTHER}


def test_slack_is_on_only_with_its_token() -> None:
    """The section is a comment without one: a file that does not load would help nobody."""
    off, on = (text_of(channel="#gpu", has_slack_token=has) for has in (False, True))
    assert loaded(off).slack is None
    tokens = {"COSTGUARD_SLACK_TOKEN": "xoxb-1-2-abc", "COSTGUARD_SLACK_APP_TOKEN": "xapp-1-2-abc"}
    slack = loaded(on, **tokens).slack
    assert slack is not None
    assert slack.channel == "#gpu"


_WORDS = st.text("abcxyz-_09é\n\"'\\#=[]", max_size=12)


@limited(max_examples=30, deadline=None)
@given(
    st.lists(
        st.builds(
            vm,
            st.integers(1, 10**6),
            st.sampled_from([T4, A100, A100S, V6E, PLAIN, Shape("x9-strange-1", 0, 0, "nvidia-x", 3)]),
            st.floats(0, 3000),
            labels=st.dictionaries(st.sampled_from(["owner", "team", "purpose", "goog-gke-node", "user"]), _WORDS),
            status=st.sampled_from(list(Status)),
        ),
        max_size=8,
    )
)
def test_any_fleet_makes_a_file_that_loads(vms: list[SeenInstance]) -> None:
    """No text of a label becomes a setting of its own."""
    settings = loaded(text_of(*vms))
    assert settings.enforcement.shadow
    assert all(preset.reminders.enforcement.value == "remind" for preset in settings.preset_list())


@pytest.mark.skipif(not OWNERS.is_file(), reason="the folder with recorded answers of Google is not here")
def test_recorded_vms_make_a_file_that_loads() -> None:
    """VMs that Google's API showed to others: nodes, notebooks, members of groups and jobs."""
    raw = [one["instance"] for one in json.loads(OWNERS.read_text("utf-8"))]
    shapes = Shapes(lambda _zone, name: by_rule(name))
    vms = [instance_from("acme", one["zone"].rpartition("/")[2], one, {}, shapes)[0] for one in raw]
    assert len(vms) >= 5
    assert loaded(text_of(*vms)).enforcement.shadow
