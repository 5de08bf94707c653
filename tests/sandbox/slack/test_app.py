"""Tokens, scopes, rate limits by tier, and what goes wrong on demand."""

from __future__ import annotations

import json
import urllib.request
from datetime import timedelta
from http.client import RemoteDisconnected

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import ConnectionErrorRetryHandler
from tests.sandbox.slack.refusals import refused
from tests.waiting import until

from costguard_sandbox.faults import BadFault
from costguard_sandbox.slack.access import APP_TOKEN, BOT_SCOPES, BOT_TOKEN
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World


def test_auth_test_names_app_and_workspace(client: WebClient) -> None:
    """auth.test names the workspace and the app, and its header lists the token's scopes."""
    answer = client.auth_test()
    assert (answer["team"], answer["user"]) == ("Example Research", "costguard")
    assert answer.headers["x-oauth-scopes"].split(",") == list(BOT_SCOPES)


def test_bad_tokens(url: str, client: WebClient, slack: Workspace) -> None:
    """No token, a strange one and one that stopped being good are three different errors."""
    assert refused(lambda: WebClient(base_url=f"{url}/slack/api/").auth_test()) == "not_authed"
    assert refused(lambda: WebClient("xoxb-else", base_url=f"{url}/slack/api/").auth_test()) == "invalid_auth"
    for reason in ("token_revoked", "account_inactive"):
        slack.tokens.invalidate(reason)
        assert refused(client.auth_test) == reason
    slack.tokens.restore()
    assert client.auth_test()["ok"]


def test_a_missing_scope_is_named(client: WebClient, slack: Workspace) -> None:
    """missing_scope says which scope is needed and which the token has."""
    slack.tokens.remove_scopes("chat:write")
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="gpu-costs", text="x")
    answer = caught.value.response
    assert (answer["error"], answer["needed"]) == ("missing_scope", "chat:write")
    assert "chat:write," not in f"{answer['provided']},"
    slack.tokens.add_scopes("chat:write")
    assert client.chat_postMessage(channel="gpu-costs", text="x")["ok"]


def test_unknown_methods(client: WebClient) -> None:
    """A method that the sandbox lacks is refused as one that Slack lacks."""
    assert refused(lambda: client.api_call("files.upload")) == "unknown_method"


def test_each_method_has_its_tier(world: World, client: WebClient, slack: Workspace) -> None:
    """A method past its calls a minute is refused until the minute is over, by the world's clock."""
    slack.limits.per_minute["users.info"] = 3
    ana = slack.user("ana").id
    for _ in range(3):
        client.users_info(user=ana)
        world.advance(timedelta(seconds=10))
    with pytest.raises(SlackApiError) as caught:
        client.users_info(user=ana)
    assert caught.value.response.headers["Retry-After"] == "30"
    world.advance(timedelta(seconds=30))
    client.users_info(user=ana)
    assert slack.calls["users.info"] == 5
    assert slack.limits.refusals["users.info"] == 1


def test_the_workspace_has_a_limit_too(client: WebClient, slack: Workspace) -> None:
    """Messages to many channels are bounded together."""
    slack.limits.workspace_per_minute = 2
    client.chat_postMessage(channel="gpu-costs", text="x")
    client.chat_postMessage(channel="ml-team", text="x")
    assert refused(lambda: client.chat_postMessage(channel=slack.user("ana").id, text="x")) == "ratelimited"


def test_slack_is_down(client: WebClient, slack: Workspace) -> None:
    """The calls end with 503 while Slack is down, and nothing is written."""
    fault = slack.faults.add("down")
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="gpu-costs", text="x")
    assert caught.value.response.status_code == 503
    slack.faults.remove(fault.id)
    assert slack.messages("gpu-costs") == []
    assert client.chat_postMessage(channel="gpu-costs", text="x")["ok"]


@pytest.mark.parametrize("kind", ["broken", "lost_answer"])
def test_connections_break(client: WebClient, slack: Workspace, kind: str) -> None:
    """The connection ends without an answer; only the lost answer's message is there."""
    slack.faults.add(kind, method=r"chat\..*", count=1)
    with pytest.raises(RemoteDisconnected):
        client.chat_postMessage(channel="gpu-costs", text="x")
    assert len(slack.messages("gpu-costs")) == (kind == "lost_answer")


def test_an_answer_can_be_lost_as_an_error(client: WebClient, slack: Workspace) -> None:
    """An error 500 although the message is stored."""
    slack.faults.add("lost_answer_error", count=1)
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="gpu-costs", text="x")
    assert caught.value.response.status_code == 500
    assert [message.text for message in slack.messages("gpu-costs")] == ["x"]


@pytest.mark.parametrize(("kind", "stored"), [("timeout", 0), ("lost_answer_timeout", 1)])
def test_the_client_gives_up_waiting(url: str, slack: Workspace, kind: str, stored: int) -> None:
    """No answer for longer than the client waits: only the kind of fault tells whether the message is there."""
    impatient = WebClient(BOT_TOKEN, base_url=f"{url}/slack/api/", timeout=1, retry_handlers=[])
    slack.faults.add(kind, seconds=5, count=1)  # a busy machine may be late with either
    with pytest.raises(TimeoutError):
        impatient.chat_postMessage(channel="gpu-costs", text="x")
    until(lambda: len(slack.messages("gpu-costs")) == stored)


def test_a_slow_call_is_done_in_the_end(client: WebClient, slack: Workspace) -> None:
    """A slow call that the client waits for is answered as ever, and other calls do not wait for it."""
    slack.faults.add("slow", seconds=0.2, method="chat.postMessage")
    assert client.chat_postMessage(channel="gpu-costs", text="x")["ok"]
    assert client.auth_test()["ok"]


def test_the_sdk_s_own_retry_writes_twice(url: str, slack: Workspace) -> None:
    """A lost answer means a second message with the SDK's default retries: a client has to look before it repeats."""
    slack.limits.enforced = False
    slack.faults.add("lost_answer", count=1)
    eager = WebClient(BOT_TOKEN, base_url=f"{url}/slack/api/", retry_handlers=[ConnectionErrorRetryHandler()])
    eager.chat_postMessage(channel="gpu-costs", text="x")
    assert len(slack.messages("gpu-costs")) == 2


def test_other_errors_on_demand(client: WebClient, slack: Workspace) -> None:
    """Any error code, and a rate limit without a cause, for one channel alone where asked."""
    channel = slack.channel("gpu-costs").id
    slack.faults.add("error", code="fatal_error", channel=channel, count=1)
    assert client.chat_postMessage(channel=slack.channel("ml-team").id, text="x")["ok"]
    assert refused(lambda: client.chat_postMessage(channel=channel, text="x")) == "fatal_error"
    slack.faults.add("rate_limited", seconds=17, count=1)
    with pytest.raises(SlackApiError) as caught:
        client.auth_test()
    assert caught.value.response.headers["Retry-After"] == "17"


def test_faults_by_chance_are_repeatable(world: World, client: WebClient, slack: Workspace) -> None:
    """A chance of a half strikes some calls and spares some, the same ones in each run of one seed."""
    slack.faults.add("error", chance=0.5)
    first = [slack.faults.met_by("auth.test", "") is not None for _ in range(40)]
    again = Workspace(world.clock)
    again.faults.add("error", chance=0.5)
    assert first == [again.faults.met_by("auth.test", "") is not None for _ in range(40)]
    assert 10 < sum(first) < 30


@pytest.mark.parametrize(
    ("kind", "values"),
    [("storm", {}), ("down", {"color": "red"}), ("slow", {"seconds": "long"}), ("down", {"method": "("})],
)
def test_invalid_faults_are_refused(slack: Workspace, kind: str, values: dict[str, str]) -> None:
    """A fault that cannot be made is refused with words, never half made."""
    with pytest.raises(BadFault):
        slack.faults.add(kind, **values)
    assert slack.faults.listed() == []


def post(url: str, body: object, method: str = "POST") -> dict[str, object]:
    request = urllib.request.Request(url, json.dumps(body).encode(), method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def test_faults_over_http(url: str, client: WebClient, slack: Workspace) -> None:
    """/sandbox/slack/faults makes faults and states, and clears all of them."""
    post(f"{url}/sandbox/slack/faults", {"kind": "token_revoked"})
    assert refused(client.auth_test) == "token_revoked"
    post(f"{url}/sandbox/slack/faults", {}, "DELETE")
    post(f"{url}/sandbox/slack/faults", {"kind": "archived", "channel": "gpu-costs"})
    post(f"{url}/sandbox/slack/faults", {"kind": "missing_scope", "scope": "users:read"})
    post(f"{url}/sandbox/slack/faults", {"kind": "error", "code": "fatal_error", "method": "auth.test"})
    assert refused(client.auth_test) == "fatal_error"
    assert refused(lambda: client.chat_postMessage(channel="gpu-costs", text="x")) == "is_archived"
    assert refused(lambda: client.users_list()) == "missing_scope"
    assert post(f"{url}/sandbox/slack/faults", {}, "DELETE") == {"cleared": 1}
    assert client.auth_test()["ok"]
    assert client.chat_postMessage(channel="gpu-costs", text="x")["ok"]


def test_people_and_the_record_over_http(url: str, client: WebClient) -> None:
    """/sandbox/slack adds people and channels and tells what was written and how often what was called."""
    post(f"{url}/sandbox/slack/people", {"name": "kim", "tz": "Asia/Seoul"})
    post(f"{url}/sandbox/slack/channels", {"name": "alerts"})
    assert client.users_lookupByEmail(email="kim@example.com")["user"]["tz"] == "Asia/Seoul"
    client.chat_postMessage(channel="alerts", text="one")
    with urllib.request.urlopen(f"{url}/sandbox/slack/messages?channel=alerts", timeout=30) as answer:
        record = json.load(answer)
    assert [one["text"] for one in record["written"]] == ["one"]
    assert record["calls"]["chat.postMessage"] == 1


def test_only_app_tokens_open_sockets(url: str, client: WebClient) -> None:
    """apps.connections.open takes an app-level token and no other, and names a socket on this sandbox."""
    anonymous = WebClient(base_url=f"{url}/slack/api/")
    opened = anonymous.apps_connections_open(app_token=APP_TOKEN)["url"]
    assert opened.startswith(url.replace("http", "ws") + "/slack/socket?ticket=")
    assert refused(lambda: anonymous.apps_connections_open(app_token=BOT_TOKEN)) == "not_allowed_token_type"
