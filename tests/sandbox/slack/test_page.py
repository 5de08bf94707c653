"""The page: Slack's markup as people see it, and nothing of it as markup of the page."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from slack_sdk import WebClient

from costguard_sandbox.slack.page.blocks import Reader, mrkdwn, plain_text
from costguard_sandbox.slack.page.view import panes
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

READER = Reader("U1", datetime(2026, 9, 23, 12, 0, tzinfo=UTC), "Europe/Madrid", {"U1": "ana", "U2": "ben", "C1": "ml"})
ATTACK = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("*bold* and _slanted_ and ~gone~", "<strong>bold</strong> and <em>slanted</em> and <s>gone</s>"),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4"),
        ("`a *b*`", "<code>a *b*</code>"),
        ("```\na\nb\n```", "<pre>a\nb</pre>"),
        ("one\ntwo", "one<br>two"),
        ("&gt; said\ndone", "<blockquote>said</blockquote>done"),
        ("1 &lt; 2 &amp; 3", "1 &lt; 2 &amp; 3"),
        ("<@U2>", '<span class="mention">@ben</span>'),
        ("<@U1> <!here>", '<span class="mention me">@ana</span> <span class="mention me">@here</span>'),
        ("<#C1>", '<span class="mention">#ml</span>'),
        (":warning: :nonsense:", '<span class="emoji" title=":warning:">⚠️</span> :nonsense:'),
        ("<javascript:alert(1)|x>", "&lt;javascript:alert(1)|x&gt;"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ],
)
def test_markup(text: str, html: str) -> None:
    """Each sign of Slack's markup has its look; everything else is shown as it is."""
    assert mrkdwn(text, READER) == html


def test_links_open_elsewhere() -> None:
    """A link has its label, cannot reach the page that opened it, and may be bold."""
    link = mrkdwn("*<https://example.com/?a=1&amp;b=2|the *VM*>*", READER)
    assert 'href="https://example.com/?a=1&amp;b=2"' in link
    assert 'rel="noopener noreferrer"' in link
    assert link.startswith("<strong><a ")


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("{date_short_pretty} at {time}", "today at 2:30 PM"),
        ("{date_num} {time_secs}", "2026-09-23 2:30:00 PM"),
        ("{date_long}", "Wednesday, September 23rd, 2026"),
        ("{ago}", "in 30 minutes"),
        ("{unknown}", "{unknown}"),
    ],
)
def test_dates_are_in_the_readers_time_zone(form: str, shown: str) -> None:
    """`<!date^...>` shows the moment where the reader is."""
    stamp = int(datetime(2026, 9, 23, 12, 30, tzinfo=UTC).timestamp())
    assert f">{shown}</time>" in mrkdwn(f"<!date^{stamp}^{form}|later>", READER)
    assert mrkdwn("<!date^soon^{time}|later>", READER) == "later"


def test_plain_text_has_no_markup() -> None:
    """The emoji alone are replaced in plain_text."""
    assert plain_text("*a* <b> :zzz:") == '*a* &lt;b&gt; <span class="emoji" title=":zzz:">💤</span>'


class _Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_attackers_names_and_texts_stay_text(client: WebClient, slack: Workspace) -> None:
    """Names, texts, values, links, confirmations and modals made by an attacker add no tag and no handler."""
    user = slack.add_user(ATTACK[:70], email=ATTACK, real_name=ATTACK)
    slack.add_channel(ATTACK[:60])
    text = {"type": "plain_text", "text": ATTACK[:24]}
    mark = {
        "type": "mrkdwn",
        "text": f"{ATTACK} `{ATTACK}` <https://x|{ATTACK}> <https://x/{ATTACK[26:30]}|y> <@{user.id}>",
    }
    button = {"type": "button", "action_id": ATTACK, "value": ATTACK, "text": text, "url": f"https://x/{ATTACK}"}
    confirm = {"title": text, "text": mark, "confirm": text, "deny": text}
    menu = {"type": "static_select", "action_id": "m", "options": [{"text": text, "value": ATTACK}]}
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": text},
        {"type": "section", "text": mark, "fields": [mark], "accessory": menu, "block_id": ATTACK},
        {"type": "actions", "elements": [{**button, "confirm": confirm}]},
        {"type": "context", "elements": [mark, {"type": "image", "image_url": ATTACK, "alt_text": ATTACK}]},
        {"type": "image", "image_url": ATTACK, "alt_text": ATTACK},
        {"type": "markdown", "text": ATTACK},
    ]
    parent = client.chat_postMessage(channel="gpu-costs", text=ATTACK, blocks=blocks)["ts"]
    slack.write("gpu-costs", user.id, ATTACK, via="person", thread_ts=parent)
    view = {"type": "modal", "title": text, "submit": text, "blocks": [
        {"type": "input", "label": text, "hint": text, "element": {"type": "plain_text_input", "action_id": ATTACK,
         "initial_value": ATTACK, "placeholder": text}}]}  # fmt: skip
    client.views_open(trigger_id=slack.views.trigger(user.id), view=view)
    page_panes = panes(slack, user.id, "gpu-costs", parent)
    assert ATTACK[:4] not in page_panes.main
    parser = _Tags()
    for pane in (page_panes.sidebar, page_panes.main, page_panes.thread, page_panes.modal):
        assert pane
        parser.feed(pane)
    assert not parser.tags & {"script", "img", "iframe", "style", "link", "b"}
    assert not {name for name in parser.attributes if name.startswith("on") or name in ("style", "src")}


def test_people_see_only_their_messages(client: WebClient, slack: Workspace) -> None:
    """Ephemeral messages and direct messages are on their own person's page only; deleted ones on none."""
    channel, ben = slack.channel("gpu-costs").id, slack.user("ben").id
    client.chat_postEphemeral(channel=channel, user=ben, text="for ben alone")
    client.chat_postMessage(channel=ben, text="direct")
    gone = client.chat_postMessage(channel=channel, text="taken back")["ts"]
    client.chat_delete(channel=channel, ts=gone)
    assert "for ben alone" in panes(slack, "ben", "gpu-costs").main
    assert "for ben alone" not in panes(slack, "ana", "gpu-costs").main
    assert slack.direct("ben").id in panes(slack, "ben").sidebar
    assert slack.direct("ben").id not in panes(slack, "ana").sidebar
    assert "taken back" not in panes(slack, "ben", "gpu-costs").main


def test_edits_threads_and_failures_are_marked(client: WebClient, slack: Workspace) -> None:
    """An edited text, the replies below a message and a press that failed can all be seen."""
    button = {"type": "button", "action_id": "stop", "text": {"type": "plain_text", "text": "Stop"}}
    sent = client.chat_postMessage(
        channel="gpu-costs", text="x", blocks=[{"type": "actions", "elements": [button | {"style": "danger"}]}]
    )
    assert 'class="button danger"' in panes(slack, "ben", "gpu-costs").main
    slack.interactions.click("ben", sent["channel"], sent["ts"], "stop")
    assert "This didn&#x27;t work: dispatch_failed" in panes(slack, "ben", "gpu-costs").main
    client.chat_update(channel=sent["channel"], ts=sent["ts"], text="It was stopped.")
    slack.write("gpu-costs", slack.user("ana").id, "thanks", via="person", thread_ts=sent["ts"])
    main = panes(slack, "ben", "gpu-costs").main
    assert "(edited)" in main
    assert "1 reply" in main
    assert "thanks" not in main
    assert "thanks" in panes(slack, "ben", "gpu-costs", sent["ts"]).thread


def fetch(url: str, body: object = None) -> Any:
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_the_page_runs_no_script_but_its_own(url: str) -> None:
    """The page's policy forbids scripts and styles in its text, and everything from elsewhere."""
    with urllib.request.urlopen(f"{url}/slack", timeout=30) as answer:
        policy, html = answer.headers["content-security-policy"], answer.read().decode()
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "://" not in html
    for name in ("page.js", "style.css"):
        with urllib.request.urlopen(f"{url}/slack/static/{name}", timeout=30) as answer:
            assert "://" not in answer.read().decode()


def test_the_page_polls_for_changes_only(url: str, slack: Workspace) -> None:
    """The state comes whole, then only when something has changed or a minute has passed."""
    first = fetch(f"{url}/slack/state?viewer=ben")
    query = urlencode({"viewer": "ben", "version": first["version"]})
    assert "main" in first
    assert fetch(f"{url}/slack/state?{query}") == {"version": first["version"]}
    fetch(f"{url}/slack/write", {"user": "ben", "channel": "gpu-costs", "text": "hello <all>"})
    assert "hello &lt;all&gt;" in fetch(f"{url}/slack/state?{query}&channel=gpu-costs")["main"]
    assert slack.messages("gpu-costs")[0].text == "hello &lt;all&gt;"


def test_a_person_types_a_command(url: str, slack: Workspace) -> None:
    """A text that begins with a slash goes to the app; without one listening, the page shows an error."""
    answer = fetch(f"{url}/slack/write", {"user": "ben", "channel": "gpu-costs", "text": "/gpu mine"})
    assert answer == {"ok": False, "error": "dispatch_failed"}
    (said,) = slack.messages("gpu-costs", ephemeral=True)
    assert said.text == "`/gpu` failed with the error `dispatch_failed`"


def test_impossible_messages_are_refused(url: str, slack: Workspace) -> None:
    """A message to an archived channel, or by nobody, is refused with words."""
    slack.archive("gpu-costs")
    for body in (
        {"user": "ben", "channel": "gpu-costs", "text": "x"},
        {"user": "?", "channel": "ml-team", "text": "x"},
    ):
        with pytest.raises(HTTPError) as caught:
            fetch(f"{url}/slack/write", body)
        with caught.value as refused:
            assert json.load(refused)["error"]


def test_messages_are_divided_by_the_readers_days(world: World, client: WebClient, slack: Workspace) -> None:
    """Messages stand under the reader's own day, which ends in Tokyo before it does in New York."""
    client.chat_postMessage(channel="gpu-costs", text="x")
    assert ">Today<" in panes(slack, "emi", "gpu-costs").main
    world.advance(timedelta(hours=3))
    assert ">Yesterday<" in panes(slack, "emi", "gpu-costs").main
    assert ">Today<" in panes(slack, "ben", "gpu-costs").main


def test_one_message_has_a_page_of_its_own(url: str, client: WebClient, slack: Workspace) -> None:
    """The one message as this person sees it; it shows nothing that they cannot see in Slack."""
    ts = client.chat_postMessage(channel="#gpu-costs", text=f"*trainer-7* runs {ATTACK}")["ts"]
    client.chat_postMessage(channel="#ml-team", text="another")
    direct = client.chat_postMessage(channel=slack.direct("ana").id, text="for Ana alone")

    def page(viewer: str, channel: str, ts: str) -> str:
        query = urlencode({"viewer": viewer, "channel": channel, "ts": ts})
        with urllib.request.urlopen(f"{url}/slack/message?{query}", timeout=30) as answer:
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            shown: str = answer.read().decode()
            return shown

    shown = page("ben", "gpu-costs", ts)
    assert "<strong>trainer-7</strong>" in shown
    assert "another" not in shown
    assert "<script" not in shown
    assert "for Ana alone" in page("ana", direct["channel"], direct["ts"])
    for hidden in (("ben", direct["channel"], direct["ts"]), ("zoe", "gpu-costs", ts), ("ben", "gpu-costs", "1.0")):
        with pytest.raises(HTTPError) as error:
            page(*hidden)
        with error.value as answer:
            assert answer.code == 404
