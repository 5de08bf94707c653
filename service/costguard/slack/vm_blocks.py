"""VM cards and reminders as blocks: what a VM is, its owner, its cost, and what was answered."""

from __future__ import annotations

from costguard.model.delivery.message import ReminderContent, StateKind, VmCard
from costguard.model.duration import span_text
from costguard.model.instance import InstanceKind
from costguard.model.money import Priced, priced_text, rate_text
from costguard.model.reminder import SubjectKind, Target
from costguard.model.utilisation import Evidence, IdleState
from costguard.slack.blocks import Block, actions, context, fields, header, section
from costguard.slack.text import ago, line, lines, link, marked, mention, moment, plain


def amount(priced: Priced) -> str:
    return line(priced_text(priced))


def rate(priced: Priced) -> str:
    return line(priced_text(priced, rate_text))


def name(card: VmCard) -> str:
    return line(card.name, 100) or "an unnamed VM"


def owner(card: VmCard) -> str:
    """The owner, and how Costguard knows. An owner with an account is mentioned, so that they see it."""
    who = (mention(card.owner_id) or line(card.owner, 150)) if card.owner else "none known"
    how = line(card.owner_how, 150)
    return f"{who}\n{how}" if how else who


def figures(card: VmCard) -> list[tuple[str, str]]:
    """The titled values of a card."""
    is_run = card.subject.kind is SubjectKind.RUN
    runs = _word(card, "This run", "These runs")
    return [
        (runs if is_run else "Storage since it stopped", f"*{amount(card.cost)}*"),
        ("Per hour", _lines(rate(card.rate), _besides(card), line(card.price_note, 200))),
        ("By Monday", f"{amount(card.by_monday)} if nothing changes\nuntil {moment(card.monday_at)}"),
        ("Running since" if is_run else "Not running since", f"{moment(card.since)}\n{ago(card.since)}"),
        ("Owner", owner(card)),
        ("Machine type", line(card.what, 300) or "not known"),
    ]


_RUNTIME = InstanceKind.COLAB_RUNTIME


def _besides(card: VmCard) -> str:
    """Names what the rate leaves out. Boot disks of custom jobs are in it: they bill while their machines run."""
    kind = card.key.kind
    has_own_disks = card.subject.kind is SubjectKind.RUN and (not kind.is_of_vertex or kind is _RUNTIME)
    return "plus its disks" if has_own_disks else ""


def _word(card: VmCard, one: str, many: str) -> str:
    """The first of a single VM, the second of a pool."""
    return one if card.vms == 1 else many


def _lines(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def since(card: VmCard) -> str:
    return f"{'running' if card.subject.kind is SubjectKind.RUN else 'not running'} since {moment(card.since)}"


def in_short(card: VmCard) -> str:
    hourly = f"{rate(card.rate)} an hour" if card.rate.whole or card.rate.amount else "price per hour unknown"
    span = _word(card, "this run", "these runs") if card.subject.kind is SubjectKind.RUN else "since it stopped"
    return f"{amount(card.cost)} {span}, {hourly}"


def idleness(evidence: Evidence | None) -> str:
    """Says whether it is idle, and why that is believed; "" without a measurement."""
    if evidence is None:
        return ""
    sentence = f"{line(evidence.sentence, 600).removesuffix('.')}."
    if evidence.state is IdleState.IDLE and evidence.is_weak:
        return f":zzz: *It may be idle:* {sentence} GPU use is not measured, so this is a guess."
    if evidence.state is IdleState.IDLE:
        return f":zzz: *Idle* since {moment(evidence.since)}: {sentence}"
    if evidence.state is IdleState.BUSY:
        return f":zap: *Busy:* {sentence}"
    return f":question: *It is not known whether it is idle:* {sentence}"


def footer(card: VmCard, *more: str) -> list[str]:
    """Returns its place and its rules, in small print."""
    limit = f"limit {span_text(card.limit)}" if card.limit is not None else "no limit"
    place = f"{line(card.key.project, 100)} / {line(card.zone, 100)}"
    return [place, f"preset {line(card.preset, 100)}, {limit}", *more, link(card.url, "Open on the dashboard")]


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
    StateKind.OPEN: "Waiting for an answer.",
    StateKind.ASKED: "Requested, and in progress.",
    StateKind.KEPT: "It is kept.",
    StateKind.REASSIGNED: "It has a new owner.",
    StateKind.ENDED: "There is nothing left to decide.",
    StateKind.FAILED: "The request could not be carried out. This reminder still needs an answer.",
}


def reminder_text(content: ReminderContent) -> str:
    """The plain text of desktop notifications and screen readers."""
    card, sentence = content.card, line(content.state.sentence, 400)
    if content.state.kind is StateKind.OPEN:
        why = f"; {line(content.reason, 400)}" if content.reason else ""
        return f"{name(card)} {_is_what(content)}: {in_short(card)}{why}"
    return f"{name(card)}: {sentence or _SENTENCES[content.state.kind]}"


def reminder_blocks(content: ReminderContent) -> list[Block]:
    return _waiting(content) if content.state.kind in _WAITS else _settled(content)


def _settled(content: ReminderContent) -> list[Block]:
    """The outcome in one sentence, with what still bills."""
    card = content.card
    bills = "" if content.state.kind is StateKind.ENDED else in_short(card)
    outcome = f"{_ICONS[content.state.kind]} *{name(card)}*\n{_sentence(content)}"
    return [section(outcome), context(line(card.what, 300), bills, *footer(card))]


def _sentence(content: ReminderContent) -> str:
    return lines(content.state.sentence, 1500) or _SENTENCES[content.state.kind]


def _waiting(content: ReminderContent) -> list[Block]:
    card = content.card
    blocks = [header(f"{_icon(content)} {plain(card.name, 80)} {_is_what(content)}")]
    if content.state.kind is StateKind.FAILED:
        blocks.append(section(f"{_ICONS[StateKind.FAILED]} {_sentence(content)}"))
    blocks.append(section(_lead(content)))
    blocks += fields(figures(card))
    if idle := idleness(card.idle):
        blocks.append(section(idle))
    blocks.append(section(_next(content)))
    if content.buttons:
        blocks.append(actions(content.buttons, card.subject, content.due_at, card.name))
    blocks.append(context(*footer(card, f"reminder {content.stage + 1}")))
    return blocks


def _icon(content: ReminderContent) -> str:
    if content.card.subject.kind is SubjectKind.REST:
        return ":zzz:"
    return ":hourglass_flowing_sand:" if content.stage == 0 else ":rotating_light:"


def _is_what(content: ReminderContent) -> str:
    return (
        _word(content.card, "is still running", "are still running")
        if content.card.subject.kind is SubjectKind.RUN
        else "is not running, but its storage is billed"
    )


def _lead(content: ReminderContent) -> str:
    """Explains why this recipient gets it, and why now."""
    card, reason = content.card, lines(content.reason, 1000)
    who = mention(card.owner_id) or line(card.owner, 150)
    if not card.owner:
        lead = _word(
            card,
            f"This {card.key.kind.in_words} has no known owner. If it is yours, claim it.",
            "These VMs have no known owner. If they are yours, claim them.",
        )
    elif content.target is Target.OWNER:
        lead = f"Costguard counts {_word(card, f'this {card.key.kind.in_words}', 'these VMs')} as yours."
    elif not card.owner_id:
        lead = f"{_word(card, 'Its', 'Their')} owner {who} has no account in this Slack workspace."
    else:
        lead = f"{who} was reminded and has not answered."
    if content.target is Target.CONTACT:
        lead = f"You are the contact for its budget. {lead}"
    return f"{lead}\n*Why:* {reason}" if reason else lead


def _next(content: ReminderContent) -> str:
    if content.state.kind is StateKind.OPEN and content.state.sentence:
        return f":bell: *What happens next:* {_sentence(content)}"
    if content.card.disk_note and content.card.subject.kind is SubjectKind.REST:
        return f":bell: *What happens next:* You will be reminded again. {line(content.card.disk_note, 1000)}"
    if content.stop_at is None and content.card.subject.kind is SubjectKind.REST:
        return ":bell: *What happens next:* Its storage is billed until it is deleted. You will be reminded again."
    if content.card.never_stopped:
        return f":bell: *What happens next:* You will be reminded again. {marked(content.card.never_stopped)}"
    if content.stop_at is None:
        what = "No stop is scheduled. You will be reminded again until someone answers."
        return f":bell: *What happens next:* {what}"
    return f":octagonal_sign: *It will be stopped {moment(content.stop_at)} unless someone keeps it.*"
