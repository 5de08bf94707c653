"""The notifier against the simulated workspace: what is written, found, changed and looked up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.slack.conftest import START
from tests.slack.samples import EPHEMERAL, FIRST, SAMPLES, TEST

from costguard.errors import ChannelRefused, SlackError
from costguard.model.delivery.message import Content, Posted, ReminderState, StateKind
from costguard.model.delivery.person import Membership, Person
from costguard.model.ports import Notifier
from costguard.slack.client import EVENT_TYPE, SlackNotifier
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.slack.model import BOT_USER_ID, TEAM_ID
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

KEY = "reminder/run:12:7/0/0/owner"


def test_it_is_what_the_engine_wants(notifier: SlackNotifier) -> None:
    """The adapter satisfies the engine's protocol by its shape; mypy checks the assignment."""
    wanted: Notifier = notifier
    assert wanted.person_of("") is None


def test_a_message_stands_where_it_says(notifier: SlackNotifier, slack: Workspace) -> None:
    """post tells channel and time of what was written, which bears its key, and links show no previews."""
    posted = notifier.post("#gpu-costs", FIRST, KEY)
    message = slack.message("gpu-costs", posted.ts)
    assert posted.channel == slack.channel("gpu-costs").id
    assert message.metadata == {"event_type": EVENT_TYPE, "event_payload": {"key": KEY}}
    assert (message.unfurl_links, message.unfurl_media) == (False, False)
    assert message.text.startswith("trainer-7 is still running: $44.38 this run")
    (buttons,) = [block["elements"] for block in message.blocks if block["type"] == "actions"]
    assert [button["action_id"] for button in buttons] == ["keep:4", "keep", "stop", "disown"]


def test_an_answer_in_a_thread(notifier: SlackNotifier, slack: Workspace, world: World) -> None:
    """The message joins the thread of thread_ts."""
    root = notifier.post("#gpu-costs", FIRST, KEY)
    world.advance(timedelta(seconds=1))
    reply = notifier.post(root.channel, TEST, "second", thread_ts=root.ts)
    assert slack.message("gpu-costs", reply.ts).thread_ts == root.ts


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ("list", "nothing")])
def test_every_kind_of_message_is_taken(name: str, notifier: SlackNotifier) -> None:
    """Slack takes each kind of message as it is rendered, new and in place of another."""
    content = SAMPLES[name]
    assert isinstance(content, Content)
    posted = notifier.post("#gpu-costs", content, name)
    notifier.update(posted, content, name)
    assert notifier.find(posted.channel, name, START) == posted


def test_update_shows_the_outcome_in_its_place(notifier: SlackNotifier, slack: Workspace) -> None:
    """After an update the buttons are gone, the key is still there, and a repeat changes nothing."""
    posted = notifier.post("#gpu-costs", FIRST, KEY)
    ended = replace(FIRST, state=ReminderState(StateKind.ENDED, "Stopped by ana after 12 h."))
    for _ in range(2):
        notifier.update(posted, ended, KEY)
        message = slack.message("gpu-costs", posted.ts)
        assert message.text == "trainer-7: Stopped by ana after 12 h."
        assert [block["type"] for block in message.blocks] == ["section", "context"]
        assert notifier.find(posted.channel, KEY, START) == posted


def test_update_of_what_is_not_there(notifier: SlackNotifier, slack: Workspace) -> None:
    """A message that is gone, or someone else's, is refused under Slack's own code."""
    channel = slack.channel("gpu-costs").id
    theirs = slack.write(channel, slack.user("ana").id, "hello", via="a person").ts
    for ts, code in (("1700000000.000000", "message_not_found"), (theirs, "cant_update_message")):
        with pytest.raises(SlackError) as caught:
            notifier.update(Posted(channel, ts), TEST, KEY)
        assert (type(caught.value), caught.value.code) == (SlackError, code)


def test_an_ephemeral_message_is_for_one_person(notifier: SlackNotifier, slack: Workspace) -> None:
    """The person addressed alone sees it, and it stands in no history."""
    ana = slack.user("ana").id
    notifier.post_ephemeral("#gpu-costs", ana, EPHEMERAL)
    (message,) = slack.messages("gpu-costs", ephemeral=True)
    assert (message.ephemeral_to, message.text) == (ana, EPHEMERAL.text)
    assert notifier.find("#gpu-costs", "", START) is None


def test_find_needs_the_very_key(notifier: SlackNotifier, slack: Workspace) -> None:
    """Neither another key, nor other metadata, nor a channel's other messages are taken for it."""
    posted = notifier.post("#gpu-costs", TEST, KEY)
    channel = posted.channel
    slack.write(channel, slack.user("ana").id, KEY, via="a person")
    strange = {"event_type": "other_app", "event_payload": {"key": "wanted"}}
    slack.write(channel, BOT_USER_ID, "other", via="another app", metadata=strange)
    assert notifier.find(channel, KEY, START) == posted
    assert notifier.find(channel, KEY[:-1], START) is None
    assert notifier.find(channel, "wanted", START) is None
    assert notifier.find("#ml-team", KEY, START) is None


def test_find_reads_all_pages_since_then(notifier: SlackNotifier, slack: Workspace, world: World) -> None:
    """The message is found however much was written since; messages older than requested are not read."""
    posted = notifier.post("#gpu-costs", TEST, KEY)
    for number in range(450):
        slack.write("gpu-costs", BOT_USER_ID, str(number), via="test")
    before = slack.calls["conversations.history"]
    assert notifier.find(posted.channel, KEY, START) == posted
    assert slack.calls["conversations.history"] == before + 3
    assert notifier.find(posted.channel, KEY, START + timedelta(hours=1)) is None


def test_find_forgives_clocks_that_differ(notifier: SlackNotifier) -> None:
    """A message that bears a time a little before ours is found."""
    posted = notifier.post("#gpu-costs", TEST, KEY)
    assert notifier.find(posted.channel, KEY, START + timedelta(minutes=4)) == posted


def test_find_in_a_thread(notifier: SlackNotifier, slack: Workspace, world: World) -> None:
    """A reply stands in no channel's history, and is found in its thread, page by page; no thread has nothing."""
    root = notifier.post("#gpu-costs", TEST, "root")
    for number in range(250):
        slack.write("gpu-costs", BOT_USER_ID, str(number), via="test", thread_ts=root.ts)
    world.advance(timedelta(seconds=1))
    reply = notifier.post(root.channel, TEST, KEY, thread_ts=root.ts)
    assert notifier.find(root.channel, KEY, START) is None
    assert notifier.find(root.channel, KEY, START, thread_ts=root.ts) == reply
    assert notifier.find(root.channel, KEY, START, thread_ts="1700000000.000000") is None


def test_find_by_the_channels_name(endpoint: str, slack: Workspace) -> None:
    """The channel is known by its name alone after a restart: it is looked up, once."""
    slack.add_channel("leads", private=True)
    before = SlackNotifier(BOT_TOKEN, endpoint).post("#leads", TEST, KEY)
    after = SlackNotifier(BOT_TOKEN, endpoint)
    assert after.find("#leads", KEY, START) == before
    assert after.find("#leads", "other", START) is None
    assert slack.calls["conversations.list"] == 1


def test_no_such_channel(notifier: SlackNotifier, slack: Workspace) -> None:
    """A name that the app cannot see is refused with what to do, in every method."""
    slack.add_channel("hidden", private=True, with_app=False)
    with pytest.raises(ChannelRefused, match="/invite @costguard"):
        notifier.post("#hidden", TEST, KEY)
    with pytest.raises(ChannelRefused, match="/invite @costguard") as caught:
        notifier.find("#hidden", KEY, START)
    assert caught.value.code == "channel_not_found"


def test_direct_messages(notifier: SlackNotifier, slack: Workspace) -> None:
    """A person's direct messages have one id, where a message can be sent and found."""
    ana = slack.user("ana").id
    channel = notifier.open_direct(ana)
    assert notifier.open_direct(ana) == channel
    posted = notifier.post(channel, FIRST, KEY)
    assert posted.channel == channel
    assert notifier.find(channel, KEY, START) == posted
    gone = slack.add_user("gone", deleted=True)
    with pytest.raises(ChannelRefused, match="name another owner"):
        notifier.open_direct(gone.id)


def test_people_by_address_and_id(notifier: SlackNotifier, slack: Workspace) -> None:
    """Both look-ups give the same person, with their time zone and their address in lower case."""
    emi = slack.user("emi")
    stored = Person(emi.id, "emi@example.com", "emi", "Asia/Tokyo", TEAM_ID)
    assert notifier.person_of(" Emi@Example.com ") == stored
    assert notifier.person_by_id(emi.id) == stored


def test_who_is_nobody(notifier: SlackNotifier, slack: Workspace) -> None:
    """People who left, apps and strangers are no one: they can neither be notified nor click anything."""
    gone = slack.add_user("gone", deleted=True)
    assert notifier.person_of("gone@example.com") is None
    assert notifier.person_of("stranger@example.com") is None
    assert notifier.person_by_id(gone.id) is None
    assert notifier.person_by_id(BOT_USER_ID) is None
    assert notifier.person_by_id("U0NOBODY") is None
    assert notifier.person_by_id("") is None


def test_only_members_are_found_by_address(notifier: SlackNotifier, slack: Workspace) -> None:
    """Reminders go to nobody who only says that an address is theirs; by id it shows what they are."""
    for name, changed in (
        ("guest", {"is_restricted": True}),
        ("partner", {"team_id": "T0PARTNER"}),
        ("unconfirmed", {"is_email_confirmed": False}),
    ):
        user = slack.add_user(name)
        slack.users[user.id] = replace(user, **changed)
    result = {name: notifier.person_by_id(slack.user(name).id) for name in ("guest", "partner", "unconfirmed")}
    assert {name: person.membership for name, person in result.items() if person is not None} == {
        "guest": Membership.GUEST,
        "partner": Membership.EXTERNAL,
        "unconfirmed": Membership.UNCONFIRMED,
    }
    assert [notifier.person_of(f"{name}@example.com") for name in result] == [None, None, None]


def test_a_sister_workspace_of_the_organisation_is_ours(notifier: SlackNotifier, slack: Workspace) -> None:
    """auth.test names the organisation; anyone who is of it counts, whatever workspace of it they are in."""
    slack.enterprise_id = "E0ORG"
    sister = replace(slack.add_user("sister"), team_id="T0SISTER", enterprise_id="E0ORG")
    slack.users[sister.id] = sister
    result = notifier.person_of("sister@example.com")
    assert result is not None
    assert (result.membership, result.team_id) == (Membership.MEMBER, "T0SISTER")


def test_many_threads_share_it(notifier: SlackNotifier, slack: Workspace) -> None:
    """Threads that send at once each get the place of their own message."""
    channels = [slack.add_channel(f"team-{number}").name for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        placed = list(pool.map(lambda name: notifier.post(f"#{name}", TEST, name), channels))
    for name, posted in zip(channels, placed, strict=True):
        (message,) = slack.messages(name)
        assert (message.channel, message.ts) == (posted.channel, posted.ts)
        assert message.metadata["event_payload"] == {"key": name}
