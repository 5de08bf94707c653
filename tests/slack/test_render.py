"""Each message says what it must, and not what it must not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.slack import samples
from tests.slack.samples import CARD, FIRST, NOW, RESTING, RUN, SAMPLES, STOPPED_CARD, states

from costguard.model.delivery.message import (
    Button,
    Content,
    DigestContent,
    DigestLine,
    ListContent,
    ReminderContent,
    StateKind,
)
from costguard.model.money import Money, Priced
from costguard.model.reminder import RequestKind
from costguard.slack.payloads import ButtonValue, unpack
from costguard.slack.render import Rendered, render
from costguard.slack.vm_blocks import amount, rate
from costguard_sandbox.slack.blocks import checked


def said(rendered: Rendered) -> str:
    """Every text of every block, one a line."""
    return "\n".join(_texts(rendered.blocks))


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    if not isinstance(value, dict):
        return []
    own = [value["text"]] if isinstance(value.get("text"), str) else []
    return own + [text for one in value.values() if not isinstance(one, str) for text in _texts(one)]


def buttons(rendered: Rendered) -> list[dict[str, Any]]:
    return [one for block in rendered.blocks if block["type"] == "actions" for one in block["elements"]]


@pytest.mark.parametrize("name", SAMPLES)
def test_slack_takes_each_kind(name: str) -> None:
    """Blocks keep Slack's rules, there is always a text for screen readers, and the same content looks the same."""
    rendered = render(SAMPLES[name])
    assert checked(rendered.blocks)
    assert rendered.text.strip()
    assert render(SAMPLES[name]) == rendered


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("first", "trainer-7 is still running"),
        ("first", "Costguard counts this VM as yours."),
        ("first", "*This run*\n*$44.38*"),
        ("first", "*Per hour*\n$3.67"),
        ("first", "*By Monday*\n$462.12 if nothing changes\nuntil <!date^1790578800^"),
        ("first", "*Running since*\n<!date^1790121300^{date_short_pretty} at {time}|2026-09-22 23:55 UTC>\n<!date^"),
        ("first", "*Owner*\n<@U0ANA>\nlabel owner"),
        ("first", "*Machine type*\na2-highgpu-1g, 1 × A100, on demand"),
        ("first", "*Idle* since <!date^1790154000^"),
        ("first", "GPU 0.4 % on average and 3 % at most"),
        ("first", "*Why:* It has run for 12 h, which is the limit of preset a100."),
        ("first", "No stop is scheduled."),
        ("first", "lab / us-central1-a  ·  preset a100, limit 12 h  ·  reminder 1"),
        ("first", "<https://costguard.example.com/vm/lab/4711|Open on the dashboard>"),
        ("second", "*It is not known whether it is idle:* Cloud Monitoring could not be read."),
        ("channel", "<@U0ANA> was reminded and has not answered."),
        ("unclaimed", "This VM has no known owner. If it is yours, claim it."),
        (
            "unclaimed",
            "*It may be idle:* CPU under 5 % for 3 h (max 2 %), and next to no network. GPU use is not measured",
        ),
        ("stranger", "Its owner zoe@example.com has no account in this Slack workspace."),
        ("stranger", "zoe@example.com\ncreated it at 14:02 on 3 Nov"),
        ("stranger", "*Busy:* GPU 87 % on average"),
        ("last", "You are the contact for its budget. <@U0ANA> was reminded and has not answered."),
        ("last", "*It will be stopped <!date^1790168400^"),
        ("last", "unless someone keeps it.*"),
        ("unpriced", "*at least $3.00*"),
        ("unpriced", "*Per hour*\nnot priced"),
        ("rest", "notebook-ben is not running, but its storage is billed"),
        ("rest", "*Storage since it stopped*\n*$8.40*"),
        ("rest", "*Per hour*\n$0.116"),
        ("rest", "*Not running since*"),
        ("rest", "Its storage is billed until it is deleted."),
        ("asked", "ana asked at 14:02 to stop it; it is being stopped."),
        ("kept", "ana keeps it until 24 September, 09:00. Reason: last epoch."),
        ("kept", "$44.38 this run, $3.67 an hour"),
        ("ended", "Stopped by ana at 14:02 after 12 h; it cost $44.38."),
        ("failed", "Google refused to stop it"),
        ("daily", "GPU spend, 22 September 2026"),
        ("daily", "•  trainer-7  ·  *$88.16*  ·  ana@example.com, idle for 9 h"),
        ("daily", "*Stopped by Costguard*\nNone."),
        ("weekly", "The week in GPU spend, 14 to 20 September 2026"),
        ("budget", "*Limit*\n$5,000.00"),
        ("budget", "*What to do:* Look at what runs"),
        ("trouble", "may not list instances.\nWhat runs there"),
        ("ephemeral", "Only ana@example.com, an operator of the team or an admin may stop trainer-7."),
        ("list", "$44.38 this run, $3.67 an hour, running since <!date^"),
        ("list", "You are reminded in 25 min."),
        ("list", "… and 3 more"),
        ("nothing", "None."),
    ],
)
def test_what_a_message_says(name: str, words: str) -> None:
    """Each event stands where people look for it."""
    assert words in said(render(SAMPLES[name]))


def test_buttons_carry_what_they_ask() -> None:
    """Each button shows its price and brings back its subject, its hours and the due moment that was shown."""
    shown = buttons(render(FIRST))
    assert [button["text"]["text"] for button in shown] == [
        "Keep 4 h (+$14.69)",
        "Until tomorrow (+$58.11)",
        "Stop now",
        "Not mine",
    ]
    assert [unpack(button["value"]) for button in shown] == [
        ButtonValue(RUN, RequestKind.KEEP, 4, FIRST.due_at),
        ButtonValue(RUN, RequestKind.KEEP, None, FIRST.due_at),
        ButtonValue(RUN, RequestKind.STOP, None, FIRST.due_at),
        ButtonValue(RUN, RequestKind.DISOWN, None, FIRST.due_at),
    ]


def test_a_stop_is_asked_twice() -> None:
    """A stop asks again, names the VM, and says what stays; nothing else asks again."""
    stop = next(button for button in buttons(render(FIRST)) if button["action_id"] == "stop")
    assert stop["style"] == "danger"
    assert stop["confirm"]["title"]["text"] == "Stop trainer-7?"
    assert "Its disks stay" in stop["confirm"]["text"]["text"]
    assert [button["action_id"] for button in buttons(render(FIRST)) if "confirm" in button] == ["stop"]


def test_the_question_before_a_stop_says_what_the_stop_does() -> None:
    """A VM that works on a job is not simply shut down: what becomes of the job and its disk stands there, in full."""
    effect = "This cancels job llama: its disk is kept. Delete it with: costguard delete-disk j7k2m9q4"
    requested = Button(RequestKind.STOP, "Stop now", is_danger=True, effect=effect)
    (stop,) = buttons(render(replace(FIRST, buttons=(requested,))))
    assert stop["confirm"]["text"]["text"] == effect


def test_a_storage_reminder_says_whose_disk_it_is_and_how_it_goes() -> None:
    """The VM was launched for a job."""
    note = "Its disk is kept for job llama (j7k2m9q4). Delete both with: costguard delete-disk j7k2m9q4"
    rendered = render(replace(RESTING, card=replace(STOPPED_CARD, disk_note=note)))
    assert note in said(rendered)
    assert "until it is deleted" not in said(rendered)
    assert "until it is deleted" in said(render(RESTING))


@pytest.mark.parametrize("content", tuple(states()), ids=lambda content: content.state.kind.value)
def test_buttons_while_it_waits(content: ReminderContent) -> None:
    """The message has buttons only while it waits for an answer; each state has its outcome in the notification."""
    rendered = render(content)
    assert bool(buttons(rendered)) == (content.state.kind is StateKind.FAILED)
    assert rendered.text == f"trainer-7: {content.state.sentence}"
    assert content.state.sentence in said(rendered)


@pytest.mark.parametrize("kind", [kind for kind in StateKind if kind is not StateKind.OPEN])
def test_an_outcome_without_a_sentence(kind: StateKind) -> None:
    """A state that nobody put into words still says something."""
    rendered = render(replace(FIRST, state=replace(FIRST.state, kind=kind)))
    assert checked(rendered.blocks)
    assert len(rendered.text) > len("trainer-7: ")


@pytest.mark.parametrize(
    ("nanos", "whole", "shown", "hourly"),
    [
        (44_380_000_000, True, "$44.38", "$44.38"),
        (1_234_567_891_234, True, "$1,234.57", "$1,234.57"),
        (116_438_000, True, "$0.12", "$0.116"),
        (4_000_000, True, "&lt;$0.01", "$0.004"),
        (500_000, True, "&lt;$0.01", "&lt;$0.001"),
        (0, True, "$0.00", "$0.00"),
        (3_000_000_000, False, "at least $3.00", "at least $3.00"),
        (0, False, "not priced", "not priced"),
    ],
)
def test_amounts(nanos: int, whole: bool, shown: str, hourly: str) -> None:
    """The amounts are exact to the cent, an hour's to a tenth of one; an incomplete one says so, and a trifle is not
    nothing.
    """
    priced = Priced(Money(nanos), whole)
    assert (amount(priced), rate(priced)) == (shown, hourly)


def test_a_page_that_nobody_reaches_is_not_linked() -> None:
    """The link is missing without an address of the dashboard, and a strange one is none either."""
    for url in ("", "javascript:alert(1)", "https://", "https://a|b>c", "/vm/lab/1", "http://a b/", "http://[::1"):
        assert "Open on the dashboard" not in said(render(replace(FIRST, card=replace(CARD, url=url))))


def test_a_list_has_rows_of_its_own() -> None:
    """Each VM's buttons are its own, however many there are, and those that do not fit are counted."""
    cards = tuple((replace(CARD, subject=replace(RUN, lifetime_id=n)), FIRST.buttons, "") for n in range(40))
    rendered = render(ListContent("Your VMs", cards, more=2))
    assert checked(rendered.blocks)
    ids = [button["action_id"] for button in buttons(rendered)]
    assert len(ids) == len(set(ids)) == 4 * 15
    assert {unpack(button["value"]).subject.lifetime_id for button in buttons(rendered)} == set(range(15))
    assert "… and 27 more" in said(rendered)


def test_a_digest_that_is_too_long() -> None:
    """Rows that do not fit are counted, and sections that do not fit are said to be missing."""
    rows = tuple(DigestLine(f"vm-{number}", "$1.00", "x" * 100) for number in range(200))
    one = render(replace(samples.DAILY, sections=(("Most expensive", rows),)))
    assert checked(one.blocks)
    assert "… and 179 more" in said(one)
    many = render(replace(samples.DAILY, sections=tuple((f"Section {n}", rows) for n in range(40))))
    assert checked(many.blocks)
    assert "Some sections do not fit into one message." in said(many)


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (date(2026, 9, 22), date(2026, 9, 22), "22 September 2026"),
        (date(2026, 9, 28), date(2026, 10, 4), "28 September to 4 October 2026"),
        (date(2026, 12, 28), date(2027, 1, 3), "28 December 2026 to 3 January 2027"),
    ],
)
def test_the_days_of_a_digest(first: date, last: date, shown: str) -> None:
    """A digest names its days, without repeating what goes without saying."""
    assert shown in render(DigestContent(False, first, last, "", ())).text


def test_times_are_the_readers() -> None:
    """A moment is written once, and every reader sees it in their own zone."""
    content: Content = replace(FIRST, stop_at=NOW)
    assert f"<!date^{int(NOW.timestamp())}^{{date_short_pretty}} at {{time}}|2026-09-23 12:00 UTC>" in said(
        render(content)
    )
