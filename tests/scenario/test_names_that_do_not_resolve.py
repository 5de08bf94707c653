"""The names of Google, Slack and others do not resolve: the guard goes on, says which, and takes nothing for gone."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.fakes import HandClock
from tests.scenario.fleet import body
from tests.scenario.slack_story import MONDAY, PROJECT, ZONE, settings_of

from costguard.bigquery.client import ExportTable
from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard.errors import CloudUnavailable, CostguardError, CredentialsRefused
from costguard.events import audit_log
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.identity.oidc import Oidc, OidcClient
from costguard.main import opened
from costguard.model.delivery.tracker import TrackerPoint
from costguard.model.money import Money
from costguard.slack.client import SlackNotifier
from costguard.trackers.mlflow import MlflowClient
from costguard.trackers.wandb import WandbClient
from costguard.webhooks.client import HttpPoster
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
POINT = TrackerPoint(NOW, 100, Money.of("1.5"), Money.of("0.5"), 2, timedelta(seconds=90), Money.of("0.25"))
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
HOST = "cloud.costguard.invalid"  # RFC 6761: such a name is in no DNS


class Names:
    """Answers for the name of HOST with this computer while `resolves`; all other names but this computer's fail."""

    def __init__(self) -> None:
        self.resolves = False
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, *arguments: Any, **more: Any) -> Any:
        if host == HOST and self.resolves:
            host = "127.0.0.1"
        if host not in ("127.0.0.1", "localhost", None):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self._real(host, *arguments, **more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    return names


def _at_once(_seconds: float) -> bool:
    return False


def _buckets() -> StoredCheckpoints:
    at = f"http://{HOST}"
    wait = timedelta(milliseconds=1)
    return StoredCheckpoints(StoreAccess(s3_endpoint=at, gcs_endpoint=at, environ=KEYS, first_wait=wait))


def _export() -> ExportTable:
    return ExportTable(
        "acme-billing.billing.export",
        billed_project="",
        location=None,
        most_bytes=1,
        endpoint=f"http://{HOST}",
        wait=_at_once,
        jitter=float,
    )


def _mlflow() -> None:
    with closing(MlflowClient(f"https://{HOST}", "0")) as client:
        client.log("f" * 32, [POINT])


def _wandb() -> None:
    with closing(WandbClient(f"https://{HOST}", "0", "key")) as client:
        client.log("e/p/r", [POINT])


def _webhook() -> None:
    with closing(HttpPoster("1", timeout_s=30)) as poster:
        poster.post(f"https://{HOST}/s3cret", b"{}", {})


def _sign_in() -> str:
    return Oidc(OidcClient(f"https://{HOST}", "id", "secret"), HandClock(NOW)).begin("back", "s", "n", "v" * 43)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: CatalogPrices(f"http://{HOST}").fetch(), id="prices"),
        pytest.param(lambda: list(_export().rows(date(2026, 11, 1), date(2026, 11, 2))), id="bill"),
        pytest.param(lambda: SlackNotifier("xoxb", f"https://{HOST}/api/").person_of("ana@example.com"), id="slack"),
        pytest.param(lambda: _buckets().listing("s3://runs/a"), id="s3"),
        pytest.param(lambda: _buckets().listing("gs://runs/a"), id="gs"),
        pytest.param(_mlflow, id="mlflow"),
        pytest.param(_wandb, id="wandb"),
        pytest.param(_webhook, id="webhook"),
        pytest.param(_sign_in, id="sign-in"),
    ],
)
@pytest.mark.usefixtures("names")
def test_the_error_names_the_host(ask: Callable[[], object]) -> None:
    """It is one of ours, and says which name did not resolve."""
    with pytest.raises(CostguardError) as caught:
        ask()
    assert HOST in caught.value.message
    assert "s3cret" not in str(caught.value)


@pytest.mark.usefixtures("names")
def test_a_look_at_google_is_not_known_and_not_empty() -> None:
    """All lists are unread, in words that name the host."""
    with closing(ComputeCloud(f"http://{HOST}", HandClock(NOW), wait=_at_once)) as cloud:
        look = cloud.observe("p", None)
    assert not look.instances_complete
    assert [part.code for part in look.unread] == ["unreachable"]
    assert HOST in look.unread[0].reason


@pytest.mark.usefixtures("names")
def test_a_token_that_cannot_be_fetched_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the name of Google's token server does not resolve, nobody has to sign in again."""
    import google.auth
    from google.oauth2.credentials import Credentials

    token_uri = "https://oauth2.googleapis.com/token"
    mine = Credentials(  # type: ignore[no-untyped-call]  # google-auth has no types for it
        None, refresh_token="r", token_uri=token_uri, client_id="c", client_secret="s"
    )
    monkeypatch.setattr(google.auth, "default", lambda **_: (mine, "p"))
    export = ExportTable(
        "acme-billing.billing.export", billed_project="", location=None, most_bytes=1, wait=_at_once, jitter=float
    )
    with pytest.raises(CloudUnavailable, match=r"oauth2\.googleapis\.com") as caught:
        list(export.rows(date(2026, 11, 1), date(2026, 11, 2)))
    assert not isinstance(caught.value, CredentialsRefused)


def test_a_guard_that_reaches_nobody_keeps_what_it_knows(names: Names, sqlite_url: str) -> None:
    """It starts and looks while no name resolves; afterwards the VM goes on as one run, and is reminded of once."""
    world = World(ManualClock(MONDAY), projects=[PROJECT])
    with running(world) as at:
        settings = settings_of(at.replace("127.0.0.1", HOST), sqlite_url)
        names.resolves = True
        vm = body("trainer", ZONE, "n1-standard-4", ("nvidia-tesla-t4", 1), labels={"owner": "ana"})
        world.insert(PROJECT, ZONE, vm, "ana@example.com")
        world.advance(timedelta(minutes=1))
        with opened(settings, world.clock, speed=1e6, wait=_at_once) as guard:
            guard.by_hand.run()
        names.resolves = False
        with opened(settings, world.clock, speed=1e6, wait=_at_once) as guard:
            for _ in range(3):
                world.advance(timedelta(hours=3))
                [recorded] = guard.by_hand.run().recorded
                assert (recorded.seen, recorded.absent) == (0, 0)
                assert HOST in recorded.unread[0].reason
            with guard.database.read() as connection:
                kinds = {stored.event.kind for stored in audit_log.read(connection)}
            assert "LifetimeStarted" in kinds
            assert not kinds & {"LifetimeEnded", "InstanceGone"}
        assert world.slack.messages(world.slack.direct("ana").id) == []
        names.resolves = True
        with opened(settings, world.clock, speed=1e6, wait=_at_once) as guard:
            for _ in range(3):
                guard.by_hand.run()
                world.advance(timedelta(minutes=1))
        assert len(world.slack.messages(world.slack.direct("ana").id)) == 1
