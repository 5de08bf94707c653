"""`costguard read instance`: an instance from a file, recorded ones and ones that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from costguard.cli.app import app
from costguard.errors import Invalid

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "outside" / "owners" / "instances.json"
KINDS = {"GKE": {"gke"}, "Vertex": {"workbench"}, "Terraform": {"nobody"}, "unknown": {"nobody"}}
PLAIN: dict[str, Any] = {
    "kind": "compute#instance",
    "name": "vm-1",
    "zone": "https://www.googleapis.com/compute/v1/projects/acme/zones/us-central1-a",
    "metadata": {"kind": "compute#metadata", "fingerprint": "x"},
}
GROUP = "projects/1234/zones/us-central1-a/instanceGroupManagers/trainers"


def read(text: str, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "instance.json"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["read", "instance", str(file), "--json"], catch_exceptions=False)
    answer: dict[str, Any] = json.loads(result.output)
    assert set(answer) >= {"keeper", "cluster", "pool", "group", "evidence"}
    return answer


def test_recorded_instances_are_named_right_with_their_evidence(tmp_path: Path) -> None:
    """Five instances recorded by gcpdiag, each with what its recorder says of it."""
    if not RECORDED.is_file():
        pytest.skip(f"the recorded instances are not here ({RECORDED})")
    entries = json.loads(RECORDED.read_bytes())
    for entry in entries:
        answer, expected = read(json.dumps(entry["instance"]), tmp_path), entry["expected"]
        assert answer["keeper"] in KINDS[expected["maker"].split()[0]], entry["instance"]["name"]
        named = " ".join(expected["evidence"]).replace(",", "").split()
        assert {word for word in named if word not in ("labels", "metadata")} <= set(answer["evidence"])
        if "cluster" in expected:
            assert answer["cluster"] == expected["cluster"]
            assert answer["pool"] == expected["node_pool"]
            assert answer["group"] == expected["instance_group"]
    assert len(entries) == 5


def test_a_vm_of_a_group_is_said_in_sentences_with_the_command(tmp_path: Path) -> None:
    """A person reads whose it is, what a stop would do, and the evidence."""
    file = tmp_path / "instance.json"
    file.write_text(json.dumps({**PLAIN, "metadata": {"items": [{"key": "created-by", "value": GROUP}]}}))
    said = CliRunner().invoke(app, ["read", "instance", str(file)], env={"COLUMNS": "400"}).output
    assert "vm-1 belongs to managed instance group trainers." in said
    assert "fresh boot disk" in said
    assert "stop-instances trainers --instances vm-1 --zone us-central1-a" in said
    assert "Evidence: created-by." in said


@pytest.mark.parametrize(
    ("change", "keeper"),
    [
        ({}, "nobody"),
        ({"metadata": {"items": [{"key": "created-by", "value": GROUP}]}}, "group"),
        ({"metadata": {"items": [{"key": "created-by", "value": "not a path"}]}}, "unknown"),
        ({"metadata": {"items": [{"key": "created-by", "value": 7}, 7, {"value": "x"}]}}, "unknown"),
        ({"metadata": {"items": [{"key": ["created-by"], "value": GROUP}]}}, "nobody"),
        ({"metadata": {"items": [{"key": {}, "value": GROUP}]}}, "nobody"),
        ({"metadata": None}, "unknown"),
        ({"metadata": []}, "unknown"),
        ({"metadata": {"items": "none"}}, "unknown"),
        ({"labels": "none"}, "unknown"),
        ({"labels": None}, "nobody"),
        ({"labels": {"goog-gke-node": 7}}, "nobody"),
        ({"labels": {"goog-gke-node": ""}}, "gke"),
        ({"labels": {"goog-gke-\x1b[31m": ""}}, "nobody"),
        ({"tags": 7, "serviceAccounts": [7, {}], "zone": 7, "name": ["x"]}, "nobody"),
    ],
)
def test_odd_parts_of_an_instance_never_break_it(change: dict[str, Any], keeper: str, tmp_path: Path) -> None:
    """Parts that make no sense are left out, and a keeper that could not be read is unknown."""
    assert read(json.dumps({**PLAIN, **change}), tmp_path)["keeper"] == keeper


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no JSON"),
        ("name: vm-1", "is no JSON"),
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('{"a":' * 100_000, "is no JSON"),
        ('{"name": NaN}', "is no JSON"),
        ("\x00\x01", "is no JSON"),
        ("[]", "is a list of 0"),
        ("[{}, {}]", "is a list of 2"),
        ("7", "is no object"),
        ("null", "is no object"),
        ('{"kind": "compute#disk"}', "'compute#disk', not compute#instance"),
        ('{"x": "' + "y" * (5 << 20) + '"}', "is longer than 4 MiB"),
    ],
)
def test_what_is_no_instance_is_a_clear_error(text: str, words: str, tmp_path: Path) -> None:
    """The error says what it is instead, and which command gives an instance."""
    with pytest.raises(Invalid, match=words) as raised:
        read(text, tmp_path)
    assert "gcloud compute instances describe" in str(raised.value)
