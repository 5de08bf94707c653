"""The subscription over HTTP: the simulated Pub/Sub, Google's own emulator, and every kind of refusal."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from tests.gce.server import Answer, Asked, google_error, json_answer, serving
from tests.sandbox.vms import new_world

from costguard.errors import BadAnswer, CloudError, CloudUnavailable, NotFound, PermissionDenied, RateLimited
from costguard.model.observation import FeedMessage
from costguard.pubsub.client import SubscriptionFeed, read_received
from costguard_sandbox.server import running
from costguard_sandbox.world import World

TOPIC, SUBSCRIPTION = "projects/acme-events/topics/costguard", "projects/acme-events/subscriptions/costguard"
SOON = timedelta(seconds=30)  # the longest that a test waits for an answer that comes at once
ENVELOPES = Path(__file__).parents[3] / "shared/outside/pubsub-and-assets"
EMULATOR = os.environ.get("PUBSUB_EMULATOR_HOST", "")


def feed_at(url: str, pulls: int = 1, **options: Any) -> SubscriptionFeed:
    return SubscriptionFeed(SUBSCRIPTION, endpoint=url, pulls=pulls, wait=lambda _seconds: False, **options)


def emulator() -> str:
    if not EMULATOR:
        pytest.skip("PUBSUB_EMULATOR_HOST names no emulator of Pub/Sub: the same test against Google's own is left out")
    return f"http://{EMULATOR}"


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture(params=["simulated", "emulator"])
def url(request: pytest.FixtureRequest, world: World) -> Iterator[str]:
    """The address of a Pub/Sub with one topic and one subscription, new for each test."""
    if request.param == "emulator":
        address = emulator()
        requests.delete(f"{address}/v1/{SUBSCRIPTION}", timeout=30)
        requests.put(f"{address}/v1/{TOPIC}", json={}, timeout=30)
        made = requests.put(f"{address}/v1/{SUBSCRIPTION}", json={"topic": TOPIC, "ackDeadlineSeconds": 10}, timeout=30)
        made.raise_for_status()
        yield address
        return
    with running(world) as address:
        world.pubsub.add_topic(TOPIC)
        world.pubsub.add_subscription(SUBSCRIPTION, TOPIC)
        yield address


def all_of(feed: SubscriptionFeed, number: int) -> list[FeedMessage]:
    messages: list[FeedMessage] = []
    for _ in range(100):
        messages += feed.pull(SOON)
        if len(messages) >= number:
            return messages
    raise AssertionError(f"{len(messages)} messages came of {number}")


def test_what_is_published_is_pulled_once_and_gone_when_acknowledged(url: str, world: World) -> None:
    """Data and attributes come as they were published, with an id and a time; acknowledged ones never come again."""
    with closing(feed_at(url)) as feed:
        sent = [(orjson.dumps({"number": number}), {"n": str(number)}) for number in range(250)]
        feed.publish(sent)
        came = all_of(feed, 250)
        assert sorted((one.data, one.attributes["n"]) for one in came) == sorted((data, m["n"]) for data, m in sent)
        assert len({one.message_id for one in came}) == 250
        assert all(one.published_at is not None and one.published_at.tzinfo is not None for one in came)
        feed.acknowledge([one.ack_id for one in came])
    if not EMULATOR:
        assert world.pubsub.unread(SUBSCRIPTION)[0] == 0


def test_a_held_message_that_is_let_go_comes_again(url: str) -> None:
    """A deadline of 0 gives a message back at once; the next pull gets it under a new ack id."""
    with closing(feed_at(url)) as feed:
        feed.publish([(b"{}", {})])
        (first,) = all_of(feed, 1)
        feed.hold([first.ack_id], timedelta(0))
        (again,) = all_of(feed, 1)
        assert again.message_id == first.message_id
        feed.acknowledge([again.ack_id])


def test_a_message_comes_again_after_its_deadline_unless_it_is_held(world: World) -> None:
    """Ten seconds after it was handed out a message comes again; `hold` moves that moment."""
    with running(world) as url, closing(feed_at(url)) as feed:
        world.pubsub.add_topic(TOPIC)
        world.pubsub.add_subscription(SUBSCRIPTION, TOPIC)
        feed.publish([(b"1", {}), (b"2", {})])
        first, second = all_of(feed, 2)
        feed.hold([first.ack_id], timedelta(seconds=60))
        world.advance(timedelta(seconds=11))
        assert [one.data for one in feed.pull(SOON)] == [second.data]
        world.advance(timedelta(seconds=60))
        assert {one.data for one in feed.pull(SOON)} == {first.data, second.data}


def test_a_pull_gives_at_most_a_hundred_and_several_run_side_by_side(world: World) -> None:
    """A pull asks for a thousand and gets a hundred, as on Google's emulator; others come by its neighbours."""
    with running(world) as url:
        world.pubsub.add_topic(TOPIC)
        world.pubsub.add_subscription(SUBSCRIPTION, TOPIC)
        world.pubsub.publish(TOPIC, [(b"x", {}) for _ in range(350)])
        answer = requests.post(f"{url}/v1/{SUBSCRIPTION}:pull", json={"maxMessages": 1000}, timeout=30).json()
        assert len(answer["receivedMessages"]) == 100
        with closing(feed_at(url, pulls=3)) as feed:
            assert len({one.message_id for one in all_of(feed, 250)}) == 250


def test_the_topic_is_read_from_the_subscription_once(world: World) -> None:
    """Publishing goes to the topic that the subscription is of."""
    with running(world) as url, closing(feed_at(url)) as feed:
        world.pubsub.add_topic(TOPIC)
        world.pubsub.add_subscription(SUBSCRIPTION, TOPIC)
        assert feed.topic == TOPIC
        world.pubsub.remove_subscription(SUBSCRIPTION)
        feed.publish([(b"{}", {})])


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (google_error(403, "forbidden", "User not authorized to perform this action."), PermissionDenied,
         "gcloud pubsub subscriptions add-iam-policy-binding costguard --project=acme-events --role=roles/pubsub"),
        (google_error(404, "notFound", "Resource not found (resource=costguard)."), NotFound,
         "gcloud pubsub subscriptions list --project=acme-events"),
        (google_error(429, "rateLimitExceeded", "Quota exceeded."), RateLimited, "Lower feed.pulls"),
        (google_error(503, "backendError", "The service is currently unavailable."), CloudUnavailable, "7 days"),
        (Answer(b"<html>", 200), CloudUnavailable, "7 days"),
        (json_answer({"receivedMessages": 7}), BadAnswer, "feed.endpoint"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_happened_to_which_subscription_and_what_mends_it(
    answer: Answer, kind: type[CloudError], said: str
) -> None:
    """Each kind of error is distinguished, names the subscription, and says what to do next."""
    with serving(lambda _asked: answer) as server, closing(feed_at(server.url)) as feed:
        with pytest.raises(kind) as raised:
            feed.pull(SOON)
        assert said in str(raised.value)
        assert "costguard" in raised.value.message
        assert "acme-events" in str(raised.value)
        assert len(server.requests) == 1  # a pull is not repeated: the next is as good


def test_silence_is_no_error_of_the_pull() -> None:
    """A Pub/Sub that takes the request and says nothing gives no messages and holds nobody up."""
    silent = socket.create_server(("127.0.0.1", 0))
    with closing(feed_at(f"http://127.0.0.1:{silent.getsockname()[1]}")) as feed, silent:
        assert feed.pull(timedelta(0)) == []
        assert feed.pull(timedelta(0)) == []


def test_a_pull_that_fails_next_to_one_that_brings_messages_loses_none() -> None:
    """The messages that came are handed out, and the failure is raised once nothing else is there."""

    def answer(_request: Asked) -> Answer:
        received = {"ackId": "a", "message": {"data": "e30=", "messageId": "1"}}
        return json_answer({"receivedMessages": [received]}) if next(turns) else google_error(503, "backendError")

    turns = iter([True, *[False] * 9])
    with serving(answer) as server, closing(feed_at(server.url, pulls=2)) as feed:
        came: list[FeedMessage] = []
        failures = 0
        for _ in range(3):
            try:
                came += feed.pull(SOON)
            except CloudUnavailable:
                failures += 1
        assert failures > 0
        assert [one.message_id for one in came] == ["1"]


@pytest.mark.parametrize("name", ["pubsub_push_text", "pubsub_push_binary", "pubsub_push_complex"])
def test_recorded_envelopes_are_read(name: str) -> None:
    """Envelopes that others recorded give their data, id and time, in either spelling of the keys."""
    if not ENVELOPES.exists():
        pytest.skip("../shared/outside/pubsub-and-assets is not there: the recorded envelopes are left out")
    message = json.loads((ENVELOPES / f"{name}.json").read_text())["message"]
    read = read_received({"ackId": "a", "message": message})
    assert read is not None
    assert read.data
    assert read.message_id == (message.get("messageId") or message.get("message_id"))
    assert read.published_at is not None
    assert read.published_at.tzinfo is UTC


@pytest.mark.parametrize("data", ["", "e30", "%%%", None, 7])
def test_data_that_is_no_base64_is_empty_and_can_be_acknowledged(data: Any) -> None:
    """A torn message keeps the id by which it is acknowledged."""
    read = read_received({"ackId": "a", "message": {"data": data, "message_id": "7", "publish_time": "soon"}})
    assert read == FeedMessage("a", b"", None, "7")


@pytest.mark.parametrize("received", [None, 7, {}, {"ackId": ""}, {"message": {}}])
def test_what_cannot_be_acknowledged_is_no_message(received: Any) -> None:
    """An element without an ack id is left to come again."""
    assert read_received(received) is None


def test_nanoseconds_are_cut_to_microseconds() -> None:
    """Recorded times have nine digits, of which a datetime keeps six."""
    read = read_received({"ackId": "a", "message": {"publishTime": "2021-08-11T18:48:29.715358244Z"}})
    assert read is not None
    assert read.published_at == datetime(2021, 8, 11, 18, 48, 29, 715358, tzinfo=UTC)


def test_googles_own_client_speaks_to_the_simulated_pubsub(world: World) -> None:
    """google-api-python-client, from Google's discovery document, makes a topic, publishes, pulls and acknowledges."""
    with running(world) as url:
        elsewhere = {"api_endpoint": url}
        made = build("pubsub", "v1", credentials=_nobody(), static_discovery=True, client_options=elsewhere)
        with closing(made):
            _as_google_does(made)


def _nobody() -> Any:
    return AnonymousCredentials()  # type: ignore[no-untyped-call]  # google-auth has no types


def _as_google_does(made: Any) -> None:
    projects = made.projects()
    projects.topics().create(name=TOPIC, body={}).execute()
    projects.subscriptions().create(name=SUBSCRIPTION, body={"topic": TOPIC, "ackDeadlineSeconds": 60}).execute()
    projects.topics().publish(topic=TOPIC, body={"messages": [{"data": "e30=", "attributes": {"a": "b"}}]}).execute()
    subscriptions = projects.subscriptions()
    assert subscriptions.get(subscription=SUBSCRIPTION).execute()["topic"] == TOPIC
    answer = subscriptions.pull(subscription=SUBSCRIPTION, body={"maxMessages": 10}).execute()
    (received,) = answer["receivedMessages"]
    assert received["message"]["attributes"] == {"a": "b"}
    ids = {"ackIds": [received["ackId"]]}
    subscriptions.modifyAckDeadline(subscription=SUBSCRIPTION, body={**ids, "ackDeadlineSeconds": 0}).execute()
    assert subscriptions.pull(subscription=SUBSCRIPTION, body={"maxMessages": 10}).execute() != {}
    subscriptions.acknowledge(subscription=SUBSCRIPTION, body=ids).execute()
    with pytest.raises(HttpError, match="Resource not found"):
        subscriptions.pull(subscription=f"{SUBSCRIPTION}-2", body={"maxMessages": 1}).execute()
