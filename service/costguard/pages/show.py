"""Formats values for pages. It computes no money; it only rounds for display."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from costguard.ledger.narrate import ended_text, sentence
from costguard.messages.message_log import LogEntry
from costguard.model.duration import hours_number, span_text
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, gpu_words
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.moments import z_text
from costguard.model.money import Money, Priced, about_text, exact_text, rate_text
from costguard.model.unseen import shown
from costguard.model.words import size_text
from costguard.reminders.not_stopped import StopDiagnosis

_SPAN = re.compile(r"(\d) (d|h|min|s)\b")
_LONGEST = 2_000  # characters of one value; the API has the whole
_STYLES = {"short": "%d %b, %H:%M", "clock": "%H:%M:%S", "day": "%d %b %Y"}  # as the page's script writes them
_HOW_KNOWN = {
    "job": "launched by their job",
    "claim": "claimed it",
    "label": "by label",
    "cluster": "by its cluster",
    "creator": "created it",
}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CLOCK = r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
_DATE = rf"(?P<day>\d{{1,2}}) (?P<month>{'|'.join(_MONTHS)}) "
_TIME = re.compile(
    rf"\b(?:(?P<iso>\d{{4}}-\d\d-\d\d)[ T]|(?P<weekday>{'|'.join(_DAYS)}) (?:{_DATE})?)?"
    rf"{_CLOCK} UTC\b(?: on (?P<on_day>\d{{1,2}}) (?P<on_month>{'|'.join(_MONTHS)}))?"
)


def visible(value: object) -> object:
    """Each value on its way into a page: characters that hide or reverse the text around them become their numbers."""
    if isinstance(value, str) and not isinstance(value, Markup):
        short = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value):,} characters)"
        return shown(short)
    return value


def cells(amounts: Iterable[Money]) -> Markup:
    """Table cells, one per amount. A year by day has thousands, and a template takes four times as long for each."""
    made = []
    for amount in amounts:
        text = str(amount).replace("<", "&lt;") if amount else '<span class="note">–</span>'
        made.append(f'<td class="right num" data-nanos="{amount.nanos}">{text}</td>')
    return Markup("".join(made))  # noqa: S704 numbers and tags of our own


def moving(money: Money) -> Markup:
    """Formats an amount to a hundredth of a cent, cut off and never rounded up, as the page's script shows it while it
    counts.
    """
    whole, rest = divmod(max(0, money.nanos), 1_000_000_000)
    digits = f"{rest // 100_000:04d}"
    return Markup('${:,}.{}<span class="fine">{}</span>').format(whole, digits[:2], digits[2:])


def is_nothing(priced: Priced) -> bool:
    """Says whether nothing of it could be priced, so that no amount may be shown."""
    return not priced.whole and not priced.amount


def clock(moment: datetime, style: str = "short") -> Markup:
    """The time in UTC, which the page's script shows in the viewer's zone; the exact one is in the title."""
    utc = moment.astimezone(UTC)
    return _time(utc, style, utc.strftime(_STYLES[style]))


def _time(moment: datetime, style: str, text: str) -> Markup:
    """Returns the element that the page's script shows in the viewer's zone, for a moment in UTC."""
    exact = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}" data-style="{}">{}</time>').format(z_text(moment), exact, style, text)


def gpu(shape: Shape) -> str:
    """`T4`, `8 × H100 80GB`; "" where there is no GPU."""
    if not shape.gpu_type or not shape.gpu_count:
        return ""
    name = gpu_words(shape.gpu_type)
    return name if shape.gpu_count == 1 else f"{shape.gpu_count} × {name}"


def clauses(reason: str) -> list[str]:
    """A decision's reason in its parts: what holds, then what follows from it.

    A number and its unit stay on one line.
    """
    return _SPAN.sub("\\1\u00a0\\2", reason).split("; ")


def entry(message: LogEntry) -> str:
    """Returns the entry's kind, which is also its class in the style sheet."""
    return type(message).__name__.lower().removesuffix("entry")


def how_known(source: str) -> str:
    return _HOW_KNOWN.get(source, source)


def words(value: str) -> str:
    """`host_error` as `host error`."""
    return value.replace("_", " ")


def is_spot(model: ProvisioningModel) -> bool:
    return model is ProvisioningModel.SPOT


def sold_tag(model: ProvisioningModel) -> Markup:
    """Returns a tag with the way in which a VM is sold, after a space; nothing for one on demand."""
    if model is ProvisioningModel.STANDARD:
        return Markup()
    kind = "tag spot" if model is ProvisioningModel.SPOT else "tag"
    return Markup(' <span class="{}">{}</span>').format(kind, model.in_words)


def sold_words(model: ProvisioningModel) -> str:
    """`, Spot`; nothing for a VM on demand."""
    return "" if model is ProvisioningModel.STANDARD else f", {model.in_words}"


def vm_link(key: InstanceKey) -> str:
    return f"/vm/{quote(key.project, safe='')}/{quote(key.gce_id, safe='')}"


def job_link(job_id: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}"


def whole(number: int) -> str:
    return f"{number:,}"


def shell(command: Sequence[str]) -> str:
    """Formats a command as it would be typed."""
    return shlex.join(command)


def score(value: float) -> str:
    return f"{value:.2f}" if value >= 0.005 else "–"


def link(path: str, **query: Any) -> str:
    """An address with the parameters that are not None."""
    given = [(name.rstrip("_"), value) for name, value in query.items() if value is not None and value is not False]
    return f"{path}?{urlencode(given)}" if given else path


def gib(mib: int) -> str:
    return f"{mib / 1024:,.10g}"


def quantity(millis: int) -> str:
    return f"{millis / 1000:,.10g}"


def unit_price(rate_nanos: int) -> str:
    return exact_text(Money(rate_nanos))


def seconds(count: int) -> str:
    return span_text(timedelta(seconds=count))


def hours(count: int) -> str:
    return f"{(count + 180) // 360 / 10:,.1f}"


def day(value: date) -> str:
    return f"{value.day} {value:%b %Y}"


def month_name(month: date) -> str:
    return f"{month:%B}"


def share(part: Fraction | None) -> str:
    """`62%`, cut off: all is 100%, and less never is. A dash where nothing is known."""
    return "–" if part is None else f"{int(part * 100)}%"


def change_words(percent: int) -> str:
    """`12% more`, `as much`"""
    return "as much" if percent == 0 else f"{abs(percent):,}% {'more' if percent > 0 else 'less'}"


def tick(money: Money) -> str:
    return f"${money.nanos // 1_000_000_000:,}" if money.nanos % 1_000_000_000 == 0 else str(money)


def ran(lifetime: Lifetime, now: datetime) -> str:
    return span_text(lifetime.ran(now))


def how_ended(lifetime: Lifetime) -> str:
    """`was stopped by ada@example.com`, for a lifetime that has ended."""
    by = f" by {lifetime.ended_by}" if lifetime.ended_by not in ("", "system") else ""
    return f"{ended_text(lifetime.end_reason or EndReason.UNKNOWN)}{by}"


def why_not(answer: StopDiagnosis, now: datetime) -> Markup:
    """The sentence, with its time as all times of a page are shown."""
    before, mark, after = answer.sentence(now, lambda _: "\0").partition("\0")
    shown = clock(answer.at) if mark and answer.at is not None else ""
    return Markup("{}{}{}").format(visible(before), shown, visible(after))


def marked(text: str) -> Markup:
    """A sentence in which `names` between backticks are shown as code."""
    parts = str(visible(text)).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(parts)
    )


def with_local_times(text: str, near: datetime) -> Markup:
    """A sentence, in which times are written in UTC, with elements that the page's script shows in the viewer's zone.

    `near`: when it was written. A weekday or a clock time alone means the nearest one; what is no date stays text.
    """
    sentence, parts, end = str(visible(text)), Markup(""), 0
    for match in _TIME.finditer(sentence):
        moment = _moment(match, near.astimezone(UTC))
        if moment is None:
            continue
        style = "clock" if match["second"] else "short" if _has_date(match) else "week"
        parts += escape(sentence[end : match.start()]) + _time(moment, style, match[0])
        end = match.end()
    return parts + escape(sentence[end:])


def _has_date(match: re.Match[str]) -> bool:
    return any(match[part] for part in ("iso", "day", "on_day"))


def _moment(match: re.Match[str], near: datetime) -> datetime | None:
    clock = time(int(match["hour"]), int(match["minute"]), int(match["second"] or 0), tzinfo=UTC)
    try:
        if match["iso"]:
            return datetime.combine(date.fromisoformat(match["iso"]), clock)
        if _has_date(match):
            day, month = int(match["day"] or match["on_day"]), _MONTHS.index(match["month"] or match["on_month"]) + 1
            dates = [date(near.year + off, month, day) for off in (-1, 0, 1)]
        else:
            dates = [near.date() + timedelta(days=off) for off in range(-6, 7)]
    except ValueError:  # 31 Feb, or 29 Feb of a year without one
        return None
    if match["weekday"] and not match["day"]:
        dates = [day_of_week for day_of_week in dates if _DAYS[day_of_week.weekday()] == match["weekday"]]
    return min((datetime.combine(moment, clock) for moment in dates), key=lambda moment: abs(moment - near))


def steps(text: str, near: datetime) -> list[Markup]:
    """The parts of a decision's reason, with their times in the viewer's zone."""
    return [with_local_times(part, near) for part in clauses(text)]


FILTERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        cells,
        moving,
        is_nothing,
        clock,
        gpu,
        gpu_words,
        clauses,
        steps,
        marked,
        with_local_times,
        entry,
        how_ended,
        why_not,
        how_known,
        words,
        is_spot,
        sold_tag,
        sold_words,
        vm_link,
        job_link,
        whole,
        shell,
        score,
        sentence,
        gib,
        quantity,
        unit_price,
        seconds,
        hours,
        day,
        month_name,
        share,
        change_words,
        tick,
        ran,
    )
} | {
    "age": span_text,
    "vm_hours": hours_number,
    "dollars": str,
    "rate": rate_text,
    "about": about_text,
    "size": size_text,
}
