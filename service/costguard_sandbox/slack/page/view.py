"""The page of one person: sidebar, channel, thread and modal; and one message on a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from costguard_sandbox.slack.model import TEAM_NAME, Channel, Message, User
from costguard_sandbox.slack.page import blocks
from costguard_sandbox.slack.page.blocks import Html, Reader, clock_time, day_name, el, join, mrkdwn, text_object
from costguard_sandbox.slack.workspace import Workspace

_COLOURS = 8
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Panes:
    """The panes of the page for one viewer; a pane that is not open is empty."""

    viewer: str
    channel: str
    sidebar: Html
    main: Html
    thread: Html
    modal: Html


def panes(workspace: Workspace, viewer: str = "", channel: str = "", thread: str = "") -> Panes:
    """An unknown person or channel falls back to the first one."""
    with workspace.lock:
        people = [one for one in workspace.users.values() if not one.is_bot and not one.deleted]
        user = next((one for one in people if viewer in (one.id, one.name)), people[0])
        places = [one for one in workspace.channels.values() if user.id in one.members]
        place = next((one for one in places if channel in (one.id, one.name)), places[0])
        reader = reader_of(workspace, user)
        everything = [
            one
            for one in workspace.messages(place.id, ephemeral=True)
            if one.deleted_at is None and one.ephemeral_to in ("", user.id)
        ]
        main = [one for one in everything if not one.is_reply or one.broadcast]
        replies = [one for one in everything if thread and thread in (one.ts, one.thread_ts)]
        return Panes(
            user.id,
            place.id,
            _sidebar(workspace, user, people, places, place),
            _main(workspace, place, main, reader),
            _thread(workspace, place, replies, reader) if replies else Html(),
            _modal(workspace, user, reader),
        )


def reader_of(workspace: Workspace, user: User) -> Reader:
    names = {one.id: one.name for one in workspace.users.values()}
    names |= {one.id: one.name for one in workspace.channels.values()}
    return Reader(user.id, workspace.now, user.tz, names)


def _sidebar(
    workspace: Workspace, user: User, people: Sequence[User], places: Sequence[Channel], current: Channel
) -> Html:
    channels = sorted((one for one in places if not one.users), key=lambda one: one.name)
    direct = [one for one in places if one.users]
    options = [el("option", f"{one.real_name} ({one.name})", value=one.id, selected=one is user) for one in people]
    return join(
        el("div", el("span", TEAM_NAME[0], cls="logo"), el("h1", TEAM_NAME), cls="team"),
        el("h2", "Channels"),
        el("ul", [_place(workspace, one, user, one is current) for one in channels]),
        el("h2", "Direct messages"),
        el("ul", [_place(workspace, one, user, one is current) for one in direct]),
        el("p", "No messages yet.", cls="quiet") if not direct else None,
        el(
            "label",
            el("span", "You are"),
            el("select", options, id="viewer"),
            el("small", f"{user.email} · {user.tz}"),
            cls="viewer",
        ),
    )


def _place(workspace: Workspace, channel: Channel, user: User, current: bool) -> Html:
    latest = next(
        (
            one.ts
            for one in reversed(workspace.messages(channel.id, ephemeral=True))
            if one.deleted_at is None and one.ephemeral_to in ("", user.id)
        ),
        "0",
    )
    sign = el(
        "span", "" if channel.users else ("🔒" if channel.private else "#"), cls="sign app" if channel.users else "sign"
    )
    return el(
        "li",
        el(
            "button",
            sign,
            el("span", _title(workspace, channel), cls="name"),
            el("span", "app", cls="badge") if channel.is_im else None,
            type="button",
            cls="place current" if current else "place",
            data_channel=channel.id,
            data_latest=latest,
        ),
    )


def _title(workspace: Workspace, channel: Channel) -> str:
    if channel.is_im:
        return "Costguard"
    if channel.is_mpim:
        return ", ".join(workspace.users[one].name for one in channel.users)
    return channel.name


def _main(workspace: Workspace, place: Channel, messages: Sequence[Message], reader: Reader) -> Html:
    local = reader.local(reader.now)
    title = _title(workspace, place)
    shown: list[Html] = []
    day = ""
    if len(messages) > _MOST_SHOWN:
        shown.append(el("p", f"{len(messages) - _MOST_SHOWN} earlier messages are not shown.", cls="quiet empty"))
    for message in messages[-_MOST_SHOWN:]:
        here = day_name(reader.local(_moment(message.ts)), local)
        if here != day:
            shown.append(el("div", el("span", here), cls="day"))
            day = here
        shown.append(message_shown(workspace, place, message, reader, in_thread=False))
    empty = el("p", "No messages yet.", cls="quiet empty")
    note = el("p", "This channel is archived.", cls="archived") if place.archived else None
    hint = f"Message {'' if place.users else '#'}{title}, or /gpu"
    return join(
        el(
            "header",
            el("h2", "" if place.users else el("span", "#", cls="sign"), title),
            el("span", f"{len(place.members)} members", cls="members") if not place.users else None,
            el("span", f"{local:%a} {local.day} {local:%b}, {clock_time(local)} {local:%Z}", cls="clock"),
        ),
        el("div", shown or empty, cls="messages", id="messages"),
        note,
        _composer(hint, place),
    )


def _composer(hint: str, place: Channel) -> Html:
    return el(
        "form",
        el("input", name="text", autocomplete="off", placeholder=hint, aria_label=hint, disabled=place.archived),
        el("button", "Send", type="submit", disabled=place.archived),
        cls="composer",
    )


def _thread(workspace: Workspace, place: Channel, messages: Sequence[Message], reader: Reader) -> Html:
    parent, *replies = messages
    count = f"{len(replies)} {'reply' if len(replies) == 1 else 'replies'}"
    return join(
        el(
            "header",
            el("h2", "Thread"),
            el("button", "×", type="button", id="close-thread", aria_label="Close the thread"),
        ),
        el(
            "div",
            message_shown(workspace, place, parent, reader, in_thread=True),
            el("div", el("span", count), cls="day"),
            [message_shown(workspace, place, one, reader, in_thread=True) for one in replies],
            cls="messages",
        ),
        _composer("Reply", place),
    )


def message_shown(workspace: Workspace, place: Channel, message: Message, reader: Reader, *, in_thread: bool) -> Html:
    author = workspace.users[message.user]
    moment = reader.local(_moment(message.ts))
    edited = el("small", "(edited)", cls="edited") if message.edited_ts else None
    if message.blocks:
        body = join(blocks.rendered(message.blocks, reader), edited)
    else:
        body = el("div", mrkdwn(message.text, reader), " " if edited else None, edited, cls="block text")
    warning = workspace.interactions.warnings.get((place.id, message.ts))
    colour = "bot" if author.is_bot else f"c{sum(author.id.encode()) % _COLOURS}"
    return el(
        "article",
        el("div", "" if author.is_bot else author.real_name[:1], cls=f"avatar {colour}"),
        el(
            "div",
            el("p", "Only visible to you", cls="private") if message.ephemeral_to else None,
            el(
                "p",
                el("strong", author.real_name),
                el("span", "app", cls="badge") if author.is_bot else None,
                el(
                    "time", clock_time(moment), datetime=moment.isoformat(), title=f"{moment:%A, %d %B %Y, %H:%M:%S %Z}"
                ),
                cls="who",
            ),
            body,
            el("p", f"⚠ This didn't work: {warning}", cls="warning") if warning else None,
            None if in_thread else _replies(workspace, message, reader),
            cls="body",
        ),
        cls="message ephemeral" if message.ephemeral_to else "message",
        data_ts=message.ts,
    )


def _replies(workspace: Workspace, message: Message, reader: Reader) -> Html | None:
    replies = message.live_replies
    if not replies:
        return None
    count = f"{len(replies)} {'reply' if len(replies) == 1 else 'replies'}"
    last = reader.local(_moment(replies[-1].ts))
    when = f"Last reply {day_name(last, reader.local(reader.now)).lower()} at {clock_time(last)}"
    bot = workspace.users[replies[-1].user].is_bot
    icon = el(
        "span",
        "" if bot else workspace.users[replies[-1].user].real_name[:1],
        cls=f"avatar tiny {'bot' if bot else 'c1'}",
    )
    return el(
        "button",
        icon,
        el("strong", count),
        el("small", when),
        type="button",
        cls="replies",
        data_thread=message.ts,
    )


def _modal(workspace: Workspace, user: User, reader: Reader) -> Html:
    view = workspace.views.of(user.id)
    if view is None:
        return Html()
    content = view.content
    general = view.errors.get("")
    return el(
        "form",
        el("header", el("h2", text_object(content["title"], reader))),
        el(
            "div",
            el("p", general, cls="error") if general else None,
            blocks.rendered(content["blocks"], reader, view.errors),
            cls="content",
        ),
        el(
            "footer",
            el(
                "button",
                text_object(content.get("close") or {"type": "plain_text", "text": "Cancel"}, reader),
                type="button",
                cls="button",
                id="close-modal",
            ),
            el("button", text_object(content["submit"], reader), type="submit", cls="button primary")
            if content.get("submit")
            else None,
        ),
        id="modal-form",
    )


def _moment(ts: str) -> datetime:
    return datetime.fromtimestamp(int(ts.partition(".")[0]), UTC)


def message_page(workspace: Workspace, viewer: str, where: str, ts: str) -> Html:
    """Shows a message as this person sees it. Raises KeyError for an unknown person, SlackError for the message."""
    with workspace.lock:
        user = workspace.user(viewer)
        place, message = workspace.seen_by(user, where, ts)
        shown = message_shown(workspace, place, message, reader_of(workspace, user), in_thread=True)
    return join(
        Html("<!doctype html>"),
        el(
            "html",
            el(
                "head",
                el("meta", charset="utf-8"),
                el("meta", name="viewport", content="width=device-width, initial-scale=1"),
                el("meta", name="color-scheme", content="light dark"),
                el("title", "A message in the simulated Slack"),
                el("link", rel="stylesheet", href="/slack/static/style.css"),
            ),
            el("body", shown, cls="alone"),
            lang="en",
        ),
    )
