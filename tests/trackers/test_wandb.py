"""A job's newest figures in the summary of its W&B run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.trackers.conftest import ENVIRONMENT
from tests.trackers.wandb_server import KEY, StandInWandb

from costguard.errors import TrackerError, TrackerRunRefused
from costguard.model.delivery.tracker import TrackerPoint
from costguard.model.money import Money
from costguard.trackers.wandb import WandbClient

RUN = "lab/bert/3k2j9x1p"
T0 = datetime(2026, 11, 20, 12, tzinfo=UTC)
_READ = """
import json, sys, wandb
run = wandb.Api(overrides={"base_url": sys.argv[1]}, timeout=60).run(sys.argv[2])
print(json.dumps({key: run.summary[key] for key in run.summary.keys()}))
"""


def point(dollars: str, minutes: int = 0) -> TrackerPoint:
    at = T0 + timedelta(minutes=minutes)
    return TrackerPoint(at, 100, Money.of(dollars), Money.of("0.5"), 2, timedelta(seconds=90), Money.of("0.25"))


@pytest.fixture
def server() -> Iterator[StandInWandb]:
    with StandInWandb(runs={RUN: '{"loss": 0.5, "grad": NaN}'}).listening() as listening:
        yield listening


@pytest.fixture
def client(server: StandInWandb) -> Iterator[WandbClient]:
    with closing(WandbClient(server.url, "0", KEY, timeout_s=60)) as client:
        yield client


def test_the_summary_has_the_newest_figures(server: StandInWandb, client: WandbClient) -> None:
    """Next to what the training put there, NaN included."""
    client.log(RUN, [point("1.5"), point("2.25", 1)])
    summary = server.summary(RUN)
    assert summary["loss"] == 0.5
    assert summary["grad"] != summary["grad"]
    assert {key: value for key, value in summary.items() if key not in ("loss", "grad")} == {
        "cost_usd": 2.25,
        "usd_per_1000_steps": 0.5,
        "preemptions": 2,
        "work_lost_seconds": 90,
        "work_lost_usd": 0.25,
    }


def test_writing_the_same_figures_again_writes_nothing(server: StandInWandb, client: WandbClient) -> None:
    """The arrival of the last request need not be known."""
    client.log(RUN, [point("1.5")])
    client.log(RUN, [point("1.5")])
    assert server.requests == ["read", "change", "read"]


def test_a_run_without_a_summary_gets_one(server: StandInWandb, client: WandbClient) -> None:
    """Nothing was logged to it yet."""
    server.runs[RUN] = ""
    client.log(RUN, [point("1.5")])
    assert server.summary(RUN)["cost_usd"] == 1.5


def test_an_unknown_run_is_refused(client: WandbClient) -> None:
    """The refusal concerns this run alone."""
    with pytest.raises(TrackerRunRefused, match="W&B knows no run lab/bert/other"):
        client.log("lab/bert/other", [point("1.5")])


def test_a_wrong_key_concerns_all_runs(server: StandInWandb) -> None:
    """The key is in no error."""
    with (
        closing(WandbClient(server.url, "0", "5" * 40, timeout_s=60)) as client,
        pytest.raises(TrackerError, match="refuses the credentials") as caught,
    ):
        client.log(RUN, [point("1.5")])
    assert not isinstance(caught.value, TrackerRunRefused)
    assert "5" * 40 not in str(caught.value)


def test_wandbs_own_client_reads_what_was_written(server: StandInWandb, client: WandbClient, tmp_path: Path) -> None:
    """It takes the stand-in for W&B, which shows that both speak its API; only where `make trackers` installed it."""
    if (environment := os.environ.get(ENVIRONMENT)) is None:
        pytest.skip("W&B's client is not installed: `make trackers` does it")
    server.runs[RUN] = '{"loss": 0.5}'
    client.log(RUN, [point("1.5")])
    settings = {
        "WANDB_API_KEY": KEY,
        "WANDB_DIR": str(tmp_path),
        "HOME": str(tmp_path),
        "WANDB_ERROR_REPORTING": "false",
    }
    done = subprocess.run(
        [f"{environment}/bin/python", "-c", _READ, server.url, RUN],
        env={**os.environ, **settings, "WANDB_BASE_URL": server.url, "WANDB_SILENT": "true"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["cost_usd"] == 1.5
