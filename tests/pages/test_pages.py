"""The pages show the fleet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from tests.api import rows
from tests.api.rows import NOW
from tests.authenticators import keyed
from tests.pages import story
from tests.pages.html import Page, page_of, tidy
from tests.reminders import reminder_rows

from costguard.api.deps import DaemonStatus
from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard.messages.slack_health import OutboxTrouble
from costguard.pages.show import why_not
from costguard.reminders.not_stopped import StopBlocker, StopDiagnosis

HOUR = timedelta(hours=1)


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Pages hold no SQL of their own; that each of them answers on both databases is tested with the links."""
    return sqlite_database


def names(page: Page) -> list[str]:
    """The VMs of the fleet's table, by their addresses."""
    return [str(attrs["href"]) for tag, attrs in page.tags if tag == "a" and attrs.get("class") == "name"]


def test_fleet_shows_what_it_costs_and_what_is_not_known(database: Database, client: TestClient) -> None:
    """The rate, the month, the counts, and for each VM its money, its age against its limit, and why it is left."""
    story.tell(database)
    text = tidy(page_of(client, "/").text)
    assert "Spending now $1.08 an hour, plus what has no price" in text  # 2 x 0.53 of machine and 4 x 0.004 of disk
    assert "Running 3 of 4 VMs" in text
    assert "1 VM has no complete price" in text
    assert "1 part of the fleet cannot be read lab, us-central1-b: Google could not reach us-central1-b." in text
    assert "9 h of 8 h" in text
    assert "past the limit of preset t4 (8 h) by 1 h" in text
    assert "not known: us-central1-b could not be read" in text
    assert "its storage is billed" in text
    assert "unowned" in text
    assert "$4.8060" in text  # 9 h of machine at 0.53 and of disk at 0.004


def test_slacks_trouble_stands_on_top(client_with: Callable[..., TestClient]) -> None:
    """The page says why, how many messages wait and since when, and that none is lost; nothing of it while all
    is well.
    """
    trouble = OutboxTrouble("The token is revoked. Make another.", {"#gpus": "It is archived."}, 3, NOW - HOUR)
    text = tidy(page_of(client_with(outbox_trouble=lambda: trouble), "/").text)
    assert "Slack does not work The token is revoked. Make another. #gpus: It is archived." in text
    assert "3 messages are waiting, the oldest since 20 Nov, 11:00. None is lost" in text
    late = OutboxTrouble(waiting=1, waiting_since=NOW - HOUR)
    assert "Messages are waiting for Slack 1 message is waiting" in tidy(
        page_of(client_with(outbox_trouble=lambda: late), "/").text
    )
    well = OutboxTrouble(waiting=1, waiting_since=NOW)
    assert "Slack" not in tidy(page_of(client_with(outbox_trouble=lambda: well), "/").text)


def test_amounts_tell_the_script_their_exact_value_and_rate(database: Database, client: TestClient) -> None:
    """Counting amounts rest on nano-dollars and nano-dollars an hour, never on a rounded figure."""
    story.tell(database)
    moving = [attrs for _, attrs in page_of(client, "/").tags if attrs.get("class") == "money"]
    assert {"class": "money", "data-nanos": "4806000000", "data-rate": "534000000"} in moving


def test_a_vm_tells_its_story(database: Database, client: TestClient) -> None:
    """Lifetimes and storage with each charge and the price it was billed at, and the events."""
    addresses = story.tell(database)
    text = tidy(page_of(client, addresses["forgotten"]).text)
    assert "gpu:nvidia-tesla-t4 1 $0.35 / h snapshot 2026-11-20 9 h $3.15" in text
    assert "disk:pd-standard 70 $0.0412 / GiBy.mo" in text
    assert "forgotten started." in text
    gone = tidy(page_of(client, addresses["left"]).text)
    assert "Deleted 20 Nov, 11:00" in gone
    assert "it was preempted by Google" in gone
    runs = [attrs for _, attrs in page_of(client, addresses["left"]).tags if attrs.get("class") == "run preempted"]
    assert (runs[0]["x"], runs[0]["width"]) == ("0", "666")  # two of the three hours since it began
    assert "No price is known for" in tidy(page_of(client, addresses["dear"]).text)


def test_a_vm_that_was_never_seen_is_told(client: TestClient) -> None:
    """An unknown id is a page with status 404 that says where to look."""
    page = page_of(client, "/vm/lab/123", 404)
    assert "Costguard has never seen anything with the name or id 123 in project lab." in page.text
    assert "/" in page.addresses


@pytest.mark.parametrize(
    ("method", "path", "accept", "status", "kind"),
    [
        ("GET", "/nowhere", "text/html,*/*;q=0.8", 404, "text/html"),
        ("GET", "/vm/lab", "text/html,*/*;q=0.8", 404, "text/html"),
        ("GET", "/apiary", "text/html,*/*;q=0.8", 404, "text/html"),
        ("POST", "/spend", "text/html,*/*;q=0.8", 405, "text/html"),
        ("GET", "/nowhere", "*/*", 404, "application/problem+json"),
        ("GET", "/api", "text/html,*/*;q=0.8", 404, "application/problem+json"),
        ("GET", "/api/v1/nowhere", "text/html,*/*;q=0.8", 404, "application/problem+json"),
        ("POST", "/api/v1/instances", "text/html,*/*;q=0.8", 405, "application/problem+json"),
    ],
)
def test_an_unknown_address_is_a_page_for_browsers_and_a_problem_for_programs(
    client: TestClient, method: str, path: str, accept: str, status: int, kind: str
) -> None:
    """A browser says that it takes HTML; all of /api answers with problems."""
    answer = client.request(method, path, headers={"Accept": accept})
    assert answer.status_code == status
    assert answer.headers["content-type"].partition(";")[0] == kind
    if kind == "text/html":
        page = Page(answer.text)
        assert page.mistakes == []
        assert "Back to Fleet" in page.text


def test_first_reminder_is_when_it_was_sent(client: TestClient, database: Database) -> None:
    """The due time is shown before that; reminders of an earlier run are not counted."""
    address = story.tell(database)["forgotten"]
    assert "Reminder due 20 Nov, 11:00" in tidy(page_of(client, address).text)
    with database.write() as connection:
        ids = select(lifetimes.c.instance_id, lifetimes.c.id).join(instances).where(instances.c.name == "forgotten")
        ((vm, run),) = connection.execute(ids)
        for subject, minutes in ((f"run:{vm}:{run + 99}", 50), (f"run:{vm}:{run}", 40), (f"run:{vm}:{run}", 20)):
            at, key = NOW - timedelta(minutes=minutes), f"reminder/{subject}/0/{minutes}/owner"
            reminder_rows.message(connection, key, subject=subject, instance_id=vm, intended_at=at, accepted_at=at)
    assert "First reminder 20 Nov, 11:20" in tidy(page_of(client, address).text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("project=lab", {"forgotten", "dear", "far", "resting"}),
        ("project=nowhere", set()),
        ("preset=multi-gpu", {"dear"}),
        ("owner=bob@lab.example", {"far"}),
        ("owner=-", {"dear"}),
        ("status=stopped", {"resting"}),
        ("project=&preset=&owner=&status=&name=", {"forgotten", "dear", "far", "resting"}),
        ("name=ES", {"resting"}),
        ("name=%25", set()),
        ("gone=yes", {"forgotten", "dear", "far", "resting", "left"}),
        ("owner=ada@lab.example&status=running", {"forgotten"}),
        ("gone=yes&owner=ada@lab.example&status=running", {"forgotten", "left"}),
    ],
)
def test_filters_stand_in_the_address(database: Database, client: TestClient, query: str, expected: set[str]) -> None:
    """Each filter, and several together, leave the VMs that match; an empty one asks for nothing."""
    addresses = story.tell(database)
    assert set(names(page_of(client, f"/?{query}"))) == {addresses[name] for name in expected}


@pytest.mark.parametrize(
    ("sort", "expected"), [("rate", "zeta alpha mid"), ("age", "alpha zeta mid"), ("name", "alpha mid zeta")]
)
def test_the_fleet_is_sorted_by_what_its_address_says(
    database: Database, client: TestClient, sort: str, expected: str
) -> None:
    """The column says so, and the others lead to their own order; filters stay."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        rows.lifetime(connection, rows.instance(connection, "zeta", gce_id="1"), NOW - HOUR)
        spot = {"provisioning_model": "spot"}
        rows.lifetime(connection, rows.instance(connection, "alpha", gce_id="2", **spot), NOW - 9 * HOUR, **spot)
        rows.instance(connection, "mid", gce_id="3", status="stopped")
    page = page_of(client, f"/?sort={sort}&project=lab")
    assert names(page) == [f"/vm/lab/{1 + ['zeta', 'alpha', 'mid'].index(name)}" for name in expected.split()]
    marked = [attrs["aria-sort"] for tag, attrs in page.tags if tag == "th" and "aria-sort" in attrs]
    assert marked == ["ascending" if sort == "name" else "descending"]
    all_three = {"rate": "/?project=lab", "age": "/?project=lab&sort=age", "name": "/?project=lab&sort=name"}
    assert set(all_three.values()) - set(page.addresses) == {all_three[sort]}


@pytest.mark.parametrize(
    "query", ["sort=size", *(f"after={cursor}" for cursor in ("x", "0.1", "0.x.1.a", f"0.{2**70}.1.a", "1.-5.1.a"))]
)
def test_a_wrong_page_of_the_fleet_is_explained(client: TestClient, query: str) -> None:
    """An order that is none, and a page's place that was tampered with, are explained, and break nothing."""
    page_of(client, f"/?{query}", 422)


def test_following_the_pages_shows_every_vm_once(database: Database, client: TestClient) -> None:
    """The links to the next VMs lead through the whole fleet, those gone last."""
    with database.write() as connection:
        for number in range(230):
            gone = {"gone_at": NOW - number * story.HOUR} if number % 10 == 0 else {}
            rows.instance(connection, f"vm {number}", gce_id=str(number), **gone)
    shown_names: list[str] = []
    address: str | None = "/?gone=yes"
    while address is not None:
        page = page_of(client, address)
        shown_names += names(page)
        address = next((str(attrs["href"]) for _, attrs in page.tags if attrs.get("rel") == "next"), None)
    assert len(shown_names) == len(set(shown_names)) == 230


def test_an_empty_database_says_what_happens_next(client: TestClient) -> None:
    """Before the first pass the page says that nothing was read, not that nothing is there."""
    text = tidy(page_of(client, "/").text)
    assert "Nothing has been read yet" in text
    assert "Nothing has been seen yet." in text
    assert "No spend on these days." in tidy(page_of(client, "/spend").text)


def test_an_empty_fleet_and_empty_filters_are_told_apart(database: Database, client: TestClient) -> None:
    """No VM at all is good news; no match has a way back."""
    with database.write() as connection:
        rows.project(connection, "lab")
    assert "The fleet is empty, so nothing bills." in page_of(client, "/").text
    assert "Nothing matches these filters." in page_of(client, "/?preset=t4").text


def test_old_and_failed_looks_are_loud(database: Database, client_with: Callable[..., TestClient]) -> None:
    """A project that was not read for too long, and a pass that failed, stand above the fleet."""
    with database.write() as connection:
        rows.project(connection, "lab", last_complete_at=NOW - timedelta(hours=2))
    client = client_with(status=lambda: DaemonStatus(last_error="The disk is full."))
    text = tidy(page_of(client, "/").text)
    assert "lab has not been read completely since 20 Nov, 10:00" in text
    assert "The last pass failed The disk is full." in text


def test_the_token_is_asked_for_on_pages_too(client_with: Callable[..., TestClient]) -> None:
    """A page does not answer without it."""
    client = client_with(authenticator=keyed("s3cret"))
    for path in ("/", "/spend", "/vm/lab/1"):
        assert client.get(path).status_code == 401
    assert client.get("/", headers={"Authorization": "Bearer s3cret"}).status_code == 200


def test_a_failing_database_is_told_on_a_page(database: Database, client: TestClient) -> None:
    """A database that does not answer is a page with status 503 that says what to do."""
    with database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE instances RENAME TO elsewhere")
    try:
        answer = client.get("/")
    finally:
        with database.write() as connection:
            connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO instances")
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/html")
    assert Page(answer.text).mistakes == []


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("idle", "GPU under 5 % for 2 h (max 3 %)"),
        ("busy", "GPU up to 97 % in the last 1 h (88 % on average)"),
        ("unknown", "GPU use is not known: the Ops Agent has stopped telling it"),
    ],
)
def test_use_stands_beside_the_age_with_its_evidence(
    database: Database, client: TestClient, state: str, sentence: str
) -> None:
    """The sentence on the fleet's page, and with the state and since when on the VM's own."""
    with database.write() as connection:
        vm = rows.instance(connection, "forgotten", gce_id="9000")
        rows.lifetime(connection, vm, NOW - 3 * HOUR)
        rows.measured(connection, vm, NOW - 3 * HOUR, state=state, sentence=sentence)
    fleet = page_of(client, "/")
    assert sentence in tidy(fleet.text)
    assert [attrs for _, attrs in fleet.tags if attrs.get("class") == f"note use {state}"] != []
    assert f"Use {state} since 20 Nov, 10:00 {sentence}" in tidy(page_of(client, "/vm/lab/9000").text)


def test_what_nobody_measured_is_not_called_busy(database: Database, client: TestClient) -> None:
    """A running VM without evidence says so on its own page; one that is not running has no use at all."""
    addresses = story.tell(database)
    assert "Use not measured" in tidy(page_of(client, addresses["forgotten"]).text)
    assert "Use " not in tidy(page_of(client, addresses["resting"]).text)


def test_page_of_a_vm_says_first_why_it_was_not_stopped(database: Database, client: TestClient) -> None:
    """The reason is under its name; moments are shown as all others of the page are."""
    addresses = story.tell(database)
    said = 'Not stopped: preset t4 only reminds (presets.t4.when_unanswered = "stop" would change that).'
    assert said in tidy(page_of(client, addresses["forgotten"]).text)
    assert "Nothing to stop: it no longer exists." in tidy(page_of(client, addresses["left"]).text)
    kept = StopDiagnosis(StopBlocker.KEPT, "ada <b>keeps</b> it", "a rule", (), "the keep ends", NOW)
    shown = why_not(kept, NOW)
    assert "ada &lt;b&gt;keeps&lt;/b&gt; it (a rule); the keep ends <time datetime=" in shown
    assert shown.endswith("</time>.")
