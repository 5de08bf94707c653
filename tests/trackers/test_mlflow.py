"""Requests to MLflow, and what its answers mean."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.trackers.mlflow_server import MlflowFront

from costguard.errors import TrackerError, TrackerRunRefused
from costguard.model.delivery.tracker import TrackerPoint
from costguard.model.money import ZERO, Money
from costguard.trackers.mlflow import MlflowClient

T0 = datetime(2026, 11, 20, 12, 0, 0, 7000, tzinfo=UTC)
POINT = TrackerPoint(T0, 100, Money(1_234_567_891), Money.of("0.5"), 2, timedelta(seconds=90), Money.of("0.25"))


@pytest.fixture
def client(server: MlflowFront) -> Iterator[MlflowClient]:
    with closing(MlflowClient(server.url, "0", timeout_s=60)) as client:
        yield client


def test_a_point_is_five_metrics_at_one_time_and_step(server: MlflowFront, client: MlflowClient) -> None:
    """The values are exact to the nano-dollar, at times in milliseconds."""
    run = server.backend.create_run()
    client.log(run, [POINT])
    assert server.backend.latest(run) == {
        "cost_usd": 1.234567891,
        "usd_per_1000_steps": 0.5,
        "preemptions": 2,
        "work_lost_seconds": 90,
        "work_lost_usd": 0.25,
    }
    [logged] = server.backend.history(run, "cost_usd")
    assert (logged.timestamp, logged.step) == (1_795_176_000_007, 100)


def test_what_is_not_known_is_left_out(server: MlflowFront, client: MlflowClient) -> None:
    """An unpriced VM makes no cost of zero; without a step it is MLflow's 0."""
    run = server.backend.create_run()
    client.log(run, [replace(POINT, cost=None, per_1000_steps=None, step=None, lost_cost=ZERO)])
    assert set(server.backend.latest(run)) == {"preemptions", "work_lost_seconds", "work_lost_usd"}
    assert server.backend.history(run, "preemptions")[0].step == 0


def test_the_latest_value_is_that_of_the_newest_point(server: MlflowFront, client: MlflowClient) -> None:
    """The points may be at one step, as after a preemption."""
    run = server.backend.create_run()
    later = replace(POINT, at=T0 + timedelta(seconds=30), cost=Money.of("1.1"), preemptions=3)
    client.log(run, [POINT, later])
    assert server.backend.latest(run)["cost_usd"] == 1.1
    assert server.backend.latest(run)["preemptions"] == 3


def test_two_hundred_points_go_in_one_request(server: MlflowFront, client: MlflowClient) -> None:
    """The number is as many as MLflow takes, and all of a long history are found again."""
    run = server.backend.create_run()
    points = [replace(POINT, at=T0 + timedelta(seconds=second)) for second in range(200)]
    client.log(run, points)
    client.log(run, [replace(point, is_tried=True) for point in points])
    assert server.paths.count("runs/log-batch") == 1
    assert len(server.backend.history(run, "cost_usd")) == 200


def test_what_stands_on_a_later_page_of_a_history_is_not_logged_again(server: MlflowFront) -> None:
    """MLflow gives a long history in pages; ours are of 7 here, of which the last is not full."""
    run = server.backend.create_run()
    points = [replace(POINT, at=T0 + timedelta(seconds=second)) for second in range(24)]
    with closing(MlflowClient(server.url, "0", timeout_s=60, page=7)) as client:
        client.log(run, points)
        client.log(run, [replace(point, is_tried=True) for point in points])
    assert len(server.backend.history(run, "cost_usd")) == 24
    assert server.paths.count("runs/log-batch") == 1
    assert server.paths.count("metrics/get-history") == 4 * len(POINT.metrics)


def test_a_wrong_run_is_refused(client: MlflowClient) -> None:
    """The refusal is in MLflow's words."""
    with pytest.raises(TrackerRunRefused, match=r"MLflow refuses the run f{32}: .*not found"):
        client.log("f" * 32, [POINT])


def test_a_server_that_is_no_mlflow_is_named_as_such(server: MlflowFront) -> None:
    """The address has a path too many: no run is refused for that."""
    with (
        closing(MlflowClient(f"{server.url}/wrong", "0", timeout_s=60)) as client,
        pytest.raises(TrackerError, match="There is no MLflow server at") as caught,
    ):
        client.log("f" * 32, [POINT])
    assert not isinstance(caught.value, TrackerRunRefused)


@pytest.mark.parametrize(
    ("status", "words"), [(401, "refuses the credentials"), (429, "answered 429"), (302, "redirects")]
)
def test_answers_that_concern_all_runs(server: MlflowFront, client: MlflowClient, status: int, words: str) -> None:
    """Wrong credentials, a server that is asked too often, and one that moved."""
    server.trouble = status
    with pytest.raises(TrackerError, match=words) as caught:
        client.log("f" * 32, [POINT])
    assert not isinstance(caught.value, TrackerRunRefused)


def test_a_server_that_is_away_is_named() -> None:
    """The error says what to look at."""
    with (
        closing(MlflowClient("http://127.0.0.1:9", "0", timeout_s=60)) as away,
        pytest.raises(TrackerError, match=r"MLflow at http://127\.0\.0\.1:9 cannot be reached"),
    ):
        away.log("f" * 32, [POINT])


@pytest.mark.parametrize(
    ("user", "secret", "header"),
    [
        ("ana", "pass", f"Basic {b64encode(b'ana:pass').decode()}"),
        ("", "a-token", "Bearer a-token"),
        ("", "", ""),
    ],
)
def test_credentials_are_mlflows(server: MlflowFront, user: str, secret: str, header: str) -> None:
    """The client sends what MLflow's own client sends for MLFLOW_TRACKING_USERNAME and _PASSWORD, or
    MLFLOW_TRACKING_TOKEN.
    """
    with closing(MlflowClient(server.url, "0", user, secret, timeout_s=60)) as client:
        client.log(server.backend.create_run(), [POINT])
    assert server.authorization == [header]


def test_a_secret_follows_no_redirect(server: MlflowFront) -> None:
    """A server that moved, or was taken over, sends the credentials to no other address."""
    server.trouble, server.location = 307, f"{server.url}/elsewhere"
    with (
        closing(MlflowClient(server.url, "0", "", "a-token", timeout_s=60)) as client,
        pytest.raises(TrackerError, match="redirects to another address"),
    ):
        client.log("f" * 32, [POINT])
    assert server.paths == ["runs/log-batch"]
