"""Values as people read them. Nothing here computes money; it only rounds for showing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from costguard.model.duration import elapsed, span_text
from costguard.model.money import Money, money_text, rate_text
from costguard.model.unseen import UNSEEN

_UNSAFE = re.compile(f"[\t\n]|{UNSEEN.pattern}")


def clean(text: object) -> str:
    """Names and labels come from outside: what would steer a terminal is shown instead of sent."""
    return _UNSAFE.sub(_escape, str(text))


def clean_lines(text: object) -> str:
    """The same for texts of ours that may have several lines."""
    return "\n".join(clean(line) for line in str(text).split("\n"))


def dollars(amount: str, places: int = 2) -> str:
    return money_text(Money.of(amount), places)


def rate(amount: str) -> str:
    return rate_text(Money.of(amount))


def amount_text(amount: Mapping[str, Any], show: Any = dollars) -> str:
    """`unpriced` where nothing has a price, `$1.20 + ?` where something has none."""
    if amount["amount"] is None:
        return "unpriced"
    shown: str = show(amount["amount"])
    return shown if amount["complete"] else f"{shown} + ?"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def ran(started: str, as_of: str) -> str:
    """How long what runs has run, in the seconds that are billed."""
    return span_text(elapsed(moment(started), moment(as_of)))


def limit_text(as_of: str, due_at: str) -> str:
    """`over by 2 d 17 h`, `in 5 h`."""
    late = moment(as_of) - moment(due_at)
    return f"over by {span_text(late)}" if late > timedelta() else f"in {span_text(-late)}"


def when(text: str | None) -> str:
    """A moment to the second, in UTC: `2026-11-20 14:05:09`."""
    return "" if text is None else moment(text).strftime("%Y-%m-%d %H:%M:%S")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
