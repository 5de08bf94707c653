"""Operations are read, and reading may stop early."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gce.bodies import ZONE, cloud_of, operation, page
from tests.gce.conftest import Connect
from tests.gce.server import Answer, Asked, google_error, json_answer

from costguard.gce.operations import operation_from

SINCE = datetime(2026, 11, 20, 11, tzinfo=UTC)
EAST = "us-east1-b"


def at(minutes: float) -> str:
    return (SINCE + timedelta(minutes=minutes)).isoformat()


def listed(*operations: dict[str, Any], zone: str = ZONE, **more: Any) -> dict[str, Any]:
    return page("operations", {f"zones/{zone}": list(operations)}, **more)


def test_the_overlap(connect: Connect) -> None:
    """Operations are kept from ten minutes before the last look on: clocks differ, and lists lag."""
    answer = listed(operation(1, at(5)), operation(2, at(-8)), operation(3, at(-12)))
    look = connect(cloud_of(operations=answer)).cloud.observe("p", SINCE)
    assert {op.operation_id for op in look.operations} == {"1", "2"}


def test_a_long_operation_is_not_lost(connect: Connect) -> None:
    """A stop that was asked for long ago is news while it runs and when it ends: graceful stops take an hour."""
    running = operation(1, at(-55), status="RUNNING", endTime=None)
    ended = operation(2, at(-55), endTime=at(3))
    old = operation(3, at(-55), endTime=at(-50))
    look = connect(cloud_of(operations=listed(running, ended, old))).cloud.observe("p", SINCE)
    assert {op.operation_id for op in look.operations} == {"1", "2"}


def test_all_that_google_keeps(connect: Connect) -> None:
    """The first look reads every operation."""
    look = connect(cloud_of(operations=listed(operation(1, "2020-01-01T00:00:00Z")))).cloud.observe("p", None)
    assert len(look.operations) == 1


def test_operations_on_other_things_are_left_out(connect: Connect) -> None:
    """The operations on instances alone are kept; those of regions and of the project are none."""
    on_disk = operation(1, at(1), targetLink="https://x/compute/v1/projects/p/zones/z/disks/d")
    answer = listed(on_disk, operation(2, at(1)))
    answer["items"]["global"] = {"operations": [operation(3, at(1), targetLink="global/networks/n")]}
    answer["items"]["regions/us-east1"] = {"warning": {"code": "UNREACHABLE"}}
    look = connect(cloud_of(operations=answer)).cloud.observe("p", SINCE)
    assert {op.operation_id for op in look.operations} == {"2"}
    assert look.unread == ()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (google_error(403, "forbidden"), "permission"),
        (google_error(503, "x"), "unavailable"),
        (Answer(b"nothing"), "bad_answer"),
        (json_answer(listed(unreachables=[f"zones/{EAST}"])), "unreachable"),
        (json_answer(listed(operation(1, "once"))), "bad_answer"),
        (json_answer(listed(operation(1, at(1), status="ODD"))), "bad_answer"),
    ],
)
def test_operations_that_cannot_be_read(connect: Connect, answer: Answer, code: str) -> None:
    """The moment up to which operations were read is unknown without all of them; the VMs are seen nevertheless."""
    look = connect(cloud_of(operations=answer)).cloud.observe("p", SINCE)
    assert [(part.scope, part.code) for part in look.unread] == [("operations", code)]
    assert look.operations_through_at is None
    assert len(look.instances) == 1


def test_what_came_before_a_failure_is_kept(connect: Connect) -> None:
    """Operations of the pages before a failed one are still news."""
    pages: list[Any] = [listed(operation(1, at(1)), nextPageToken="t"), google_error(500, "x")]
    look = connect(cloud_of(operations=pages)).cloud.observe("p", SINCE)
    assert (len(look.operations), look.operations_through_at) == (1, None)


def _served(pages: list[dict[str, Any]]) -> Any:
    """Pages by token, so that every look can read them from the start."""

    def reply(request: Asked) -> Answer:
        number = int(request.query.get("pageToken", "0"))
        more = {"nextPageToken": str(number + 1)} if number + 1 < len(pages) else {}
        return json_answer(pages[number] | more)

    return cloud_of(operations=reply)


def _mingled(first_minute: float) -> dict[str, Any]:
    """A page with operations of two zones, newest first over both."""
    zones: dict[str, Any] = {f"zones/{ZONE}": [], f"zones/{EAST}": []}
    for n in range(4):
        zone = (ZONE, EAST)[n % 2]
        number = int(10_000 - first_minute * 10) + n
        zones[f"zones/{zone}"].append(operation(number, at(first_minute - n), zone))
    return page("operations", zones)


def test_reading_stops_early_where_the_order_was_seen_to_hold(connect: Connect) -> None:
    """Once a whole list came newest first over all zones, later looks leave out what is too old to matter."""
    setup = connect(_served([_mingled(5), _mingled(-200), _mingled(-400), _mingled(-600)]))
    counts = []
    for _ in range(3):
        setup.server.requests.clear()
        look = setup.cloud.observe("p", SINCE)
        counts.append(setup.server.paths().count("operations"))
        assert len(look.operations) == 4
        assert look.operations_through_at is not None
    assert counts == [4, 2, 2]


@pytest.mark.parametrize(
    "pages",
    [
        # The order is ignored: oldest first.
        [_mingled(-600), _mingled(-400), _mingled(-200), _mingled(5)],
        # Zone after zone, each newest first: the second zone's news comes last.
        [
            listed(operation(1, at(-300))),
            listed(operation(2, at(-400))),
            listed(operation(3, at(5), EAST), zone=EAST),
        ],
        # Zone after zone, and by chance newest first over both: still no proof.
        [listed(operation(1, at(5))), listed(operation(2, at(-300))), listed(operation(3, at(-400)), zone=EAST)],
    ],
)
def test_a_server_that_ignores_the_order_is_read_whole(connect: Connect, pages: list[dict[str, Any]]) -> None:
    """An order that was not seen to hold is not relied on: every page is read at every look."""
    setup = connect(_served(pages))
    for _ in range(3):
        setup.server.requests.clear()
        look = setup.cloud.observe("p", SINCE)
        assert setup.server.paths().count("operations") == len(pages)
        assert len(look.operations) >= 1


def test_an_order_that_ceases_to_hold(connect: Connect) -> None:
    """A list that once was in order and is not any more is read whole again."""
    pages = [_mingled(5), _mingled(-200), _mingled(-400)]
    setup = connect(_served(pages))
    setup.cloud.observe("p", SINCE)
    pages[:] = [_mingled(-100), _mingled(5), _mingled(-200), _mingled(-400)]
    setup.server.requests.clear()
    look = setup.cloud.observe("p", SINCE)
    assert setup.server.paths().count("operations") == 4
    assert len(look.operations) == 4


@pytest.mark.parametrize(
    ("name", "stamp", "began"),
    [
        # Recorded: the millisecond in the name is the operation's start, in four of four.
        ("systemevent-1742191214262-6307db28ecc5e-5c1b8b30-c4a5f0ce", "2025-03-17T06:00:14.262+00:00", ".262"),
        # In a public listing the stamps are 10.3 s later than the name.
        ("systemevent-1742191214262-6307db28ecc5e-5c1b8b30-c4a5f0ce", "2025-03-17T06:00:24.562+00:00", ".262"),
        # A number that is no moment near it says nothing.
        ("systemevent-1642191214262-6307db28ecc5e-5c1b8b30-c4a5f0ce", "2025-03-17T06:00:24.562+00:00", "24.562"),
        ("operation-1742191214262-6307db28ecc5e-5c1b8b30-c4a5f0ce", "2025-03-17T06:00:24.562+00:00", "24.562"),
    ],
)
def test_system_event_happened_at_the_millisecond_in_its_name(name: str, stamp: str, began: str) -> None:
    """Where that is near the stamps, which may be written down later."""
    read = operation_from("p", operation(1, stamp, name=name, operationType="compute.instances.preempted"))
    assert read is not None
    assert read.started_at is not None
    assert read.started_at.isoformat(timespec="milliseconds").removesuffix("+00:00").endswith(began)
    assert read.inserted_at == datetime.fromisoformat(stamp)


def test_a_page_that_is_the_same_and_settled_is_not_converted(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look knows a page of old operations by its bytes, because nothing of it can be news."""
    converted = []

    def counted(project: str, raw: Any) -> Any:
        converted.append(raw["id"])
        return operation_from(project, raw)

    monkeypatch.setattr("costguard.gce.operations.operation_from", counted)
    answers = {"operations": listed(operation(1, at(-60), endTime=at(-30)), nextPageToken="")}
    cloud = connect(cloud_of(**answers)).cloud
    first = cloud.observe("p", None)
    assert [op.operation_id for op in first.operations] == ["1"]
    assert cloud.observe("p", SINCE).operations == ()
    assert converted == ["1"]
    late = cloud.observe("p", SINCE - timedelta(minutes=30))  # the database was put back, or could not be written
    assert [op.operation_id for op in late.operations] == ["1"]
    assert len(cloud.observe("p", None).operations) == 1
    assert converted == ["1"] * 3


@pytest.mark.parametrize(
    "last",
    [
        operation(1, at(-60), status="RUNNING", endTime=None),
        operation(1, at(-60), endTime=at(-5)),
        operation(1, "once"),
    ],
)
def test_a_page_that_is_not_settled_is_read_again(connect: Connect, last: dict[str, Any]) -> None:
    """An operation that runs, ended lately or cannot be read shows at each look, though the same bytes come."""
    cloud = connect(cloud_of(operations=listed(last))).cloud
    looks = [cloud.observe("p", SINCE) for _ in range(3)]
    assert len({(look.operations, look.unread, look.operations_through_at is None) for look in looks}) == 1
    assert looks[0].operations or looks[0].unread
