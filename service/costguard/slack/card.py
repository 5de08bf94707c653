"""One VM as messages show it: what it is, whose, since when, and what it costs."""

from __future__ import annotations

from decimal import Decimal

from costguard.model.duration import span_text
from costguard.model.message import VmCard
from costguard.model.money import Money, Priced
from costguard.model.reminder import About
from costguard.model.utilisation import Evidence, IdleState
from costguard.slack.text import ago, line, link, mention, moment

_CENT = 10_000_000
_DOLLAR = 1_000_000_000


def amount(priced: Priced) -> str:
    """`$41.20`, `at least $41.20` where something in it has no price, `not priced` where nothing has one."""
    return _said(priced, _dollars(priced.amount))


def rate(priced: Priced) -> str:
    """The same for an hour: three places below a dollar."""
    money = priced.amount
    if _CENT // 20 < money.nanos < _DOLLAR:
        return _said(priced, f"${money.dollars.quantize(Decimal('0.001'))}")
    return _said(priced, _dollars(money))


def _said(priced: Priced, shown: str) -> str:
    if priced.whole:
        return shown
    return f"at least {shown}" if priced.amount else "not priced"


def _dollars(money: Money) -> str:
    """An amount too small for a cent is not nothing."""
    return "under $0.01" if 0 < money.nanos < _CENT // 2 else str(money)


def name(card: VmCard) -> str:
    return line(card.name, 100) or "a VM without a name"


def owner(card: VmCard) -> str:
    """Whose it is, and how that is known. Who has an account is mentioned, so that they see it."""
    who = (mention(card.owner_id) or line(card.owner, 150)) if card.owner else "nobody known"
    how = line(card.owner_how, 150)
    return f"{who}\n{how}" if how else who


def figures(card: VmCard) -> list[tuple[str, str]]:
    """The titled values of a card."""
    is_run = card.subject.about is About.RUN
    return [
        ("Cost so far" if is_run else "Storage so far", f"*{amount(card.cost)}*"),
        ("Per hour", f"{rate(card.rate)}\nplus its disks" if is_run else rate(card.rate)),
        ("By Monday", f"{amount(card.by_monday)} if nobody acts\nuntil {moment(card.monday_at)}"),
        ("Running since" if is_run else "At rest since", f"{moment(card.since)}\n{ago(card.since)}"),
        ("Owner", owner(card)),
        ("What it is", line(card.what, 300) or "not known"),
    ]


def since(card: VmCard) -> str:
    return f"{'running' if card.subject.about is About.RUN else 'at rest'} since {moment(card.since)}"


def in_short(card: VmCard) -> str:
    hourly = f"{rate(card.rate)} an hour" if card.rate.whole or card.rate.amount else "no price per hour is known"
    return f"{amount(card.cost)} so far, {hourly}"


def idleness(evidence: Evidence | None) -> str:
    """Empty where nobody asked whether it is idle."""
    if evidence is None:
        return ""
    sentence = f"{line(evidence.sentence, 600).removesuffix('.')}."
    if evidence.state is IdleState.IDLE and evidence.is_weak:
        return f":zzz: *It may be idle:* {sentence} GPU use is not measured, so this is a guess."
    if evidence.state is IdleState.IDLE:
        return f":zzz: *It is idle* since {moment(evidence.since)}: {sentence}"
    if evidence.state is IdleState.BUSY:
        return f":zap: *It is busy:* {sentence}"
    return f":question: *Nobody knows whether it is idle:* {sentence}"


def footer(card: VmCard, *more: str) -> list[str]:
    """Where it is and under which rules, in small print."""
    limit = f"limit {span_text(card.limit)}" if card.limit is not None else "no limit"
    place = f"{line(card.key.project, 100)} / {line(card.zone, 100)}"
    return [place, f"preset {line(card.preset, 100)}, {limit}", *more, link(card.url, "Open its page")]
