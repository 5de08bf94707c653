"""Message contents as Slack blocks. Pure: the same content gives the same message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from costguard.model.delivery.message import (
    Content,
    DigestContent,
    DigestLine,
    EphemeralContent,
    ListContent,
    NotificationContent,
    ReminderContent,
    ReportContent,
)
from costguard.slack import vm_blocks as cards
from costguard.slack.blocks import Block, actions, clipped, context, divider, fields, header, job_actions, section
from costguard.slack.text import code, length, line, lines, link, marked, plain
from costguard.slack.vm_blocks import reminder_blocks, reminder_text

_ICONS = {
    "budget": ":moneybag:",
    "anomaly": ":chart_with_upwards_trend:",
    "bound": ":mag:",
    "trouble": ":warning:",
    "owner": ":bust_in_silhouette:",
    "test": ":wave:",
    "job": ":large_green_circle:",
    "waits": ":hourglass_flowing_sand:",
    "resumed": ":repeat:",
    "alarm": ":rotating_light:",
    "late": ":alarm_clock:",
    "done": ":white_check_mark:",
    "failed": ":x:",
}
_MOST_TEXT = 1500  # of the fallback; the blocks say the rest
_ROWS_SHOWN = 15  # VMs of a list: three blocks each, and Slack takes fifty
_FIGURES_SHOWN = 20
_NOTES_SHOWN = 5  # sentences of a report
_MOST_ROWS_TEXT = 2700


@dataclass(frozen=True, slots=True)
class Rendered:
    """`text` is for desktop notifications and screen readers; it is never empty."""

    text: str
    blocks: list[Block]


def render(content: Content | ListContent) -> Rendered:
    """Every text in it is escaped, and the whole is within Slack's limits."""
    match content:
        case ReminderContent():
            return Rendered(reminder_text(content), reminder_blocks(content))
        case DigestContent():
            return _digest(content)
        case ReportContent():
            return _report(content)
        case NotificationContent():
            return _notice(content)
        case EphemeralContent():
            text = lines(content.text) or "Done."
            return Rendered(text, [section(text)])
        case ListContent():
            return _list(content)


def _notice(content: NotificationContent) -> Rendered:
    title = line(content.title, 140) or "Costguard"
    text = lines(content.text)
    icon = _ICONS.get(content.icon, ":information_source:")
    blocks = [header(f"{icon} {plain(content.title, 120) or 'Costguard'}")]
    if text:
        blocks.append(section(text))
    shown = list(content.figures.items())[:_FIGURES_SHOWN]
    blocks += fields([(line(key, 100) or "–", line(value, 200) or "–") for key, value in shown])
    if printed := code(content.output):
        blocks.append(section(f"*Last lines of output*\n{printed}"))
    if content.what_next:
        blocks.append(section(f":bulb: *What to do:* {lines(content.what_next, 1500)}"))
    if content.buttons:
        blocks.append(job_actions(content.buttons))
    if more := link(content.url, "Open the dashboard"):
        blocks.append(context(more))
    return Rendered(f"{title}: {line(content.text, _MOST_TEXT)}" if text else title, blocks)


def _digest(content: DigestContent) -> Rendered:
    headline = lines(content.headline, 1500)
    title = f"GPU spend, {_days(content.first, content.last)}"
    icon = ":calendar:" if content.weekly else ":bar_chart:"
    blocks = [header(f"{icon} {'The week in ' if content.weekly else ''}{title}")]
    if headline:
        blocks.append(section(f"*{headline}*" if "\n" not in headline else headline))
    for name, rows in content.sections:
        blocks += [divider(), section(f"*{line(name, 150) or '–'}*\n{_rows(rows)}")]
    more = link(content.url, "Open the dashboard")
    if more:
        blocks.append(context(more))
    rest = f"Some sections do not fit into one message.  {more or 'See `costguard spend`.'}"
    return Rendered(f"{title}: {line(content.headline, _MOST_TEXT)}" if headline else title, clipped(blocks, rest))


def _report(content: ReportContent) -> Rendered:
    title = line(content.title, 140) or "Costguard"
    headline = lines(content.headline, 1500)
    blocks = [header(f":telescope: {plain(content.title, 120) or 'Costguard'}")]
    if headline:
        blocks.append(section(f"*{headline}*" if "\n" not in headline else headline))
    for name, rows in content.sections:
        blocks += [divider(), section(f"*{line(name, 150) or '–'}*\n{_rows(rows)}")]
    if notes := [text for note in content.notes[:_NOTES_SHOWN] if (text := marked(note, 500))]:
        blocks += [divider(), section("\n".join(notes))]
    if content.what_next:
        blocks.append(section(f":bulb: {line(content.what_next, 500)}"))
    if printed := code("\n".join(content.settings)):
        blocks.append(section(printed))
    if more := link(content.url, "Open the dashboard"):
        blocks.append(context(more))
    rest = f"Some of it does not fit into one message.  {more or 'See `costguard report`.'}"
    return Rendered(f"{title}: {line(content.headline, _MOST_TEXT)}" if headline else title, clipped(blocks, rest))


def _rows(rows: Sequence[DigestLine]) -> str:
    """Writes one line each, with the number of lines that were left out."""
    if not rows:
        return "None."
    shown, used = list[str](), 0
    for number, row in enumerate(rows):
        amount, remark = line(row.amount, 100), line(row.remark, 300)
        parts = [line(row.label, 200) or "–", f"*{amount}*" if amount else "", remark]
        text = "•  " + "  ·  ".join(part for part in parts if part)
        used += length(text) + 1
        if used > _MOST_ROWS_TEXT:
            shown.append(f"… and {len(rows) - number} more")
            break
        shown.append(text)
    return "\n".join(shown)


def _days(first: date, last: date) -> str:
    """`12 November 2026`, `9 to 15 November 2026`, `28 December 2026 to 3 January 2027`."""
    end = f"{last.day} {last:%B %Y}"
    if first == last:
        return end
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} to {end}"
    return f"{first.day} {first:%B}{f' {first.year}' if first.year != last.year else ''} to {end}"


def _list(content: ListContent) -> Rendered:
    title = line(content.title, 300) or "VMs"
    blocks = [header(plain(content.title, 140) or "VMs")]
    shown = content.cards[:_ROWS_SHOWN]
    for number, (card, buttons, next_words) in enumerate(shown):
        what = f"*{cards.name(card)}*  ·  {line(card.what, 120)}\n{cards.in_short(card)}, {cards.since(card)}"
        after = line(next_words, 500)
        if number:
            blocks.append(divider())
        blocks.append(section(f"{what}\n{after}" if after else what))
        if buttons:
            blocks.append(actions(buttons, card.subject, None, card.name, f":{card.subject}"))
    if not shown:
        blocks.append(section("None."))
    left_out = content.more + len(content.cards) - len(shown)
    if left_out:
        blocks.append(context(f"… and {left_out} more: see `costguard ps`."))
    text = f"{title}: {', '.join(cards.name(card) for card, _, _ in shown) or 'none'}"
    return Rendered(text, clipped(blocks, "Some VMs do not fit into one message: see `costguard ps`."))
