"""A reminder as blocks: while it waits for an answer, and once it has one."""

from __future__ import annotations

from costguard.model.message import ReminderContent, StateKind
from costguard.model.reminder import About, Target
from costguard.slack import card as cards
from costguard.slack.blocks import Block, actions, context, fields, header, section
from costguard.slack.text import line, lines, mention, moment, plain

_WAITS = (StateKind.OPEN, StateKind.FAILED)
_ICONS = {
    StateKind.OPEN: ":hourglass_flowing_sand:",
    StateKind.ASKED: ":hourglass_flowing_sand:",
    StateKind.KEPT: ":white_check_mark:",
    StateKind.REASSIGNED: ":raising_hand:",
    StateKind.ENDED: ":black_square_for_stop:",
    StateKind.FAILED: ":warning:",
}
_SENTENCES = {
    StateKind.OPEN: "It waits for an answer.",
    StateKind.ASKED: "This was asked for, and is being done.",
    StateKind.KEPT: "Somebody keeps it.",
    StateKind.REASSIGNED: "It has another owner now.",
    StateKind.ENDED: "There is nothing left to decide.",
    StateKind.FAILED: "What was asked for could not be done. It still waits for an answer.",
}


def reminder_text(content: ReminderContent) -> str:
    """What a notification shows, and what is read aloud."""
    card, sentence = content.card, line(content.state.sentence, 400)
    if content.state.kind is StateKind.OPEN:
        why = f"; {line(content.reason, 400)}" if content.reason else ""
        return f"{cards.name(card)} {_is_what(content)}: {cards.in_short(card)}{why}"
    return f"{cards.name(card)}: {sentence or _SENTENCES[content.state.kind]}"


def reminder_blocks(content: ReminderContent) -> list[Block]:
    return _waiting(content) if content.state.kind in _WAITS else _settled(content)


def _settled(content: ReminderContent) -> list[Block]:
    """The outcome, in one sentence; what still bills is told beside it."""
    card = content.card
    bills = "" if content.state.kind is StateKind.ENDED else cards.in_short(card)
    outcome = f"{_ICONS[content.state.kind]} *{cards.name(card)}*\n{_sentence(content)}"
    return [section(outcome), context(line(card.what, 300), bills, *cards.footer(card))]


def _sentence(content: ReminderContent) -> str:
    return lines(content.state.sentence, 1500) or _SENTENCES[content.state.kind]


def _waiting(content: ReminderContent) -> list[Block]:
    card = content.card
    blocks = [header(f"{_icon(content)} {plain(card.name, 80)} {_is_what(content)}")]
    if content.state.kind is StateKind.FAILED:
        blocks.append(section(f"{_ICONS[StateKind.FAILED]} {_sentence(content)}"))
    blocks.append(section(_lead(content)))
    blocks += fields(cards.figures(card))
    if idle := cards.idleness(card.idle):
        blocks.append(section(idle))
    blocks.append(section(_next(content)))
    if content.buttons:
        blocks.append(actions(content.buttons, card.subject, content.due_at, card.name))
    blocks.append(context(*cards.footer(card, f"reminder {content.stage + 1}")))
    return blocks


def _icon(content: ReminderContent) -> str:
    if content.card.subject.about is About.REST:
        return ":zzz:"
    return ":hourglass_flowing_sand:" if content.stage == 0 else ":rotating_light:"


def _is_what(content: ReminderContent) -> str:
    return "is still running" if content.card.subject.about is About.RUN else "is at rest, and its storage bills"


def _lead(content: ReminderContent) -> str:
    """To whom, and why now."""
    card, reason = content.card, lines(content.reason, 1000)
    who = mention(card.owner_id) or line(card.owner, 150)
    if not card.owner:
        lead = "Nobody is known to own this VM. If it is yours, say so."
    elif content.target is Target.OWNER:
        lead = "This VM is counted as yours."
    elif not card.owner_id:
        lead = f"{who} owns it, and has no account in Slack."
    else:
        lead = f"{who} was asked, and has not answered."
    if content.target is Target.CONTACT:
        lead = f"You answer for its budget. {lead}"
    return f"{lead}\n*Why this message:* {reason}" if reason else lead


def _next(content: ReminderContent) -> str:
    if content.state.kind is StateKind.OPEN and content.state.sentence:
        return f":bell: *What happens next:* {_sentence(content)}"
    if content.card.at_rest and content.card.subject.about is About.REST:
        return f":bell: *What happens next:* You are reminded again. {line(content.card.at_rest, 1000)}"
    if content.stop_at is None and content.card.subject.about is About.REST:
        return ":bell: *What happens next:* Its storage bills until somebody deletes it. You are reminded again."
    if content.stop_at is None:
        what = "Nothing is stopped by itself. You are reminded again until somebody answers."
        return f":bell: *What happens next:* {what}"
    return f":octagonal_sign: *It will be stopped {moment(content.stop_at)} unless somebody keeps it.*"
