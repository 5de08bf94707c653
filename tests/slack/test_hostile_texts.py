"""Slack takes the message whatever people put into names, labels and reasons, and the text does nothing."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.slack.samples import CARD, FIRST, NOW, RESTING, STOPPED_CARD

from costguard.model.delivery.message import (
    Button,
    Content,
    DigestContent,
    DigestLine,
    EphemeralContent,
    ListContent,
    NotificationContent,
    ReminderState,
    ReportContent,
    StateKind,
)
from costguard.model.instance import InstanceKey
from costguard.model.reminder import RequestKind, Target
from costguard.model.utilisation import Evidence, IdleState
from costguard.slack.render import render
from costguard.slack.text import code, length, line, lines, mention, plain
from costguard_sandbox.slack.blocks import checked
from costguard_sandbox.slack.page.blocks import Reader, mrkdwn

SNIPPETS = (
    "<!here>", "<!channel|x>", "<@U0EVE>", "<#C0ALL>", "<https://evil.example|Stop>", "https://evil.example",
    "@here", "@channel", "@everyone", "&lt;!here&gt;", "&amp;", "&", "<", ">", "*", "_", "~", "`", "```", "*bold*",
    "_it_", "~gone~", "`code`", "\n> quote", "\n\n\n\n", "\r", "\t", ":smile:", ":hand:", ":", "\u202e", "\u2066",
    "\u200b", "\ufeff", "\x00", "\x1b[31m", "\ud800", "\u2028", "\u3164", "\U0001f525", "|", "^", "\\", "ä", "名",
)  # fmt: skip
TEXT = st.builds(
    lambda pieces, times: "".join(pieces) * times,
    st.lists(st.sampled_from(SNIPPETS) | st.text(max_size=8), max_size=12),
    st.sampled_from((1, 1, 1, 1, 30, 400)),
)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
BUTTONS = st.lists(
    st.builds(Button, st.sampled_from(RequestKind), TEXT, st.none() | st.integers(1, 500), st.booleans()), max_size=30
).map(tuple)
EVIDENCE = st.none() | st.builds(Evidence, st.sampled_from(IdleState), MOMENTS, TEXT, st.booleans())
CARDS = st.builds(
    lambda base, texts, idle, url: replace(
        base,
        key=InstanceKey(texts[0], texts[1]),
        name=texts[2],
        zone=texts[3],
        preset=texts[4],
        what=texts[5],
        owner=texts[6],
        owner_id=texts[7],
        owner_how=texts[8],
        idle=idle,
        url=url,
    ),
    st.sampled_from((CARD, STOPPED_CARD)),
    st.lists(TEXT, min_size=9, max_size=9),
    EVIDENCE,
    TEXT | st.just(CARD.url),
)
STATES = st.builds(ReminderState, st.sampled_from(StateKind), TEXT)
REMINDERS = st.builds(
    lambda base, card, stage, target, reason, state, buttons, stop_at: replace(
        base, card=card, stage=stage, target=target, reason=reason, state=state, buttons=buttons,
        stop_at=stop_at,
    ),
    st.sampled_from((FIRST, RESTING)), CARDS, st.integers(0, 99), st.sampled_from(Target), TEXT, STATES, BUTTONS,
    st.none() | MOMENTS,
)  # fmt: skip
SECTIONS = st.lists(
    st.tuples(TEXT, st.lists(st.builds(DigestLine, TEXT, TEXT, TEXT), max_size=5).map(tuple)), max_size=30
)
WORDS = st.lists(TEXT, max_size=8).map(tuple)
DAYS = st.dates(date(2020, 1, 1), date(2099, 1, 1))
CONTENTS: st.SearchStrategy[Content | ListContent] = (
    REMINDERS
    | st.builds(DigestContent, st.booleans(), DAYS, DAYS, TEXT, SECTIONS.map(tuple), TEXT)
    | st.builds(ReportContent, TEXT, TEXT, SECTIONS.map(tuple), WORDS, TEXT, WORDS, TEXT)
    | st.builds(NotificationContent, TEXT, TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=30), TEXT, TEXT, TEXT)
    | st.builds(EphemeralContent, TEXT)
    | st.builds(ListContent, TEXT, st.lists(st.tuples(CARDS, BUTTONS, TEXT), max_size=20).map(tuple))
)
OURS = re.compile(
    r"<!date\^\d+\^(\{date_short_pretty\} at \{time\}|\{ago\})\|\d{4}-\d\d-\d\d \d\d:\d\d UTC>"
    r"|<@[UW][A-Z0-9]{2,20}>"
    r"|<https?://[^\s<>|]+\|Open (its page|(on )?the dashboard)>"
)
CODE = re.compile(r"\A(?:\*Last lines of output\*\n)?```\n([^`]*)\n```\Z")
ENTITY = re.compile(r"&(?:amp|lt|gt);")
OUR_EMOJI = {
    "hourglass_flowing_sand", "rotating_light", "zzz", "white_check_mark", "raising_hand", "black_square_for_stop",
    "warning", "bell", "octagonal_sign", "zap", "question", "calendar", "bar_chart", "moneybag", "wave", "bulb",
    "chart_with_upwards_trend", "information_source", "telescope",
}  # fmt: skip
READER = Reader("U0ANA", NOW, "UTC", {})


def texts_of(value: Any, kind: str) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in texts_of(one, kind)]
    if not isinstance(value, dict):
        return []
    own = [str(value["text"])] if value.get("type") == kind else []
    return own + [text for one in value.values() for text in texts_of(one, kind)]


def harmless(text: str) -> None:
    """No sign that Slack acts upon is left once what we write ourselves is taken out."""
    printed = CODE.match(text)
    rest = printed[1] if printed else OURS.sub("", text)
    assert "<" not in rest
    assert ">" not in rest
    assert "&" not in ENTITY.sub("", rest)
    assert not [char for char in rest if unicodedata.category(char)[0] == "C" and char != "\n"]
    assert "```" not in rest
    if printed is None:  # in a block of code Slack heeds neither
        assert set(re.findall(r":([a-z0-9_+'-]+):", rest)) <= OUR_EMOJI
        assert not re.search(r"(?<!\w)@(here|channel|everyone)\b", rest)


@settings(deadline=None, max_examples=40)
@given(CONTENTS)
def test_no_text_does_anything(content: Content | ListContent) -> None:
    """Slack takes the message whatever its texts hold, and none of them forges a mention, a link or a line."""
    rendered = render(content)
    checked(rendered.blocks)
    assert rendered.text.strip()
    assert length(rendered.text) < 4000
    for text in [rendered.text, *texts_of(rendered.blocks, "mrkdwn")]:
        harmless(text)
    for text in texts_of(rendered.blocks, "plain_text"):
        assert not set(text) & set("<>\n")
        assert not [char for char in text if unicodedata.category(char)[0] == "C"]
        assert set(re.findall(r":([a-z0-9_+'-]+):", text)) <= OUR_EMOJI


@settings(deadline=None, max_examples=60)
@given(TEXT, st.integers(5, 3000))
def test_no_markup_takes_effect(text: str, most: int) -> None:
    """A text from outside has no bold, code, quote, link or emoji, as Slack's reader sees it, and keeps its length."""
    for cut in (line(text, most), lines(text, most)):
        assert length(cut) <= most
        shown = str(mrkdwn(cut, READER)).replace("<br>", "")
        assert not re.search(r"<[a-z/]", shown), shown
    assert "\n" not in line(text, most)
    assert length(plain(text, most)) <= most


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("trainer-7", "trainer-7"),
        ("first_last@example.com", "first_last@example.com"),
        ("a&b <c>", "a&amp;b &lt;c&gt;"),
        ("  two\n lines ", "two lines"),
        ("at 14:02:33", "at 14∶02:33"),
        ("3 * 4 ~ 12", "3 ∗ 4 ∼ 12"),
        ("@here and me@here.example", "＠here and me@here.example"),
        ("a\u202eb", "a\ufffdb"),
        ("> said", "› said"),
        ("it's $5.00 (50 %)", "it's $5.00 (50 %)"),
    ],
)
def test_what_is_left_of_a_text(text: str, shown: str) -> None:
    """Names, addresses and amounts stay as they are; a sign that would act becomes one that looks alike."""
    assert line(text) == shown


def test_what_a_program_printed_is_shown_as_it_is() -> None:
    """Indents, signs and times stay; only what would end the block or begin a link changes. The end is kept."""
    printed = "Traceback:\n    x = *a, **b  # 12:30:45 <module> `y`\nValueError: \x1b[31mno\n"
    shown = "Traceback:\n    x = *a, **b  # 12:30:45 &lt;module&gt; ˋyˋ\nValueError: \ufffd[31mno"
    assert code(printed) == f"```\n{shown}\n```"
    assert code("abc<def", 7) == "```\n…&lt;def\n```"
    assert code(" \n") == ""


def test_cutting_keeps_entities_whole() -> None:
    """A text is cut between characters, never within what one of them became."""
    assert line("<" * 10, 10) == "&lt;&lt;…"
    assert line("\U0001f525" * 10, 6) == "\U0001f525\U0001f525…"


@pytest.mark.parametrize("user_id", ["", "ana", "U0EVE>", "C0ALL", "!here", "U0EVE|x", "u0ana", "U0ANA\n"])
def test_only_people_are_mentioned(user_id: str) -> None:
    """A text that is no id of a person is not mentioned."""
    assert mention(user_id) == ""
