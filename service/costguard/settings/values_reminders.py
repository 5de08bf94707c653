"""How the values of reminding are written: channels, times of day and days of the week, people.

Each function raises ValueError with what was expected, worded to follow "expected ".
"""

from __future__ import annotations

import re
from datetime import time
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from costguard.model.money import Money
from costguard.settings import values

# Where anybody can have an address: the providers' own sites offer them to the public.
_PUBLIC = (
    "gmail.com googlemail.com outlook.com hotmail.com live.com msn.com passport.com yahoo.com yahoo.co.uk "
    "yahoo.de yahoo.fr yahoo.co.jp yahoo.co.in ymail.com rocketmail.com aol.com icloud.com me.com mac.com "
    "proton.me pm.me protonmail.com protonmail.ch gmx.com gmx.net gmx.de gmx.at gmx.ch web.de mail.com "
    "t-online.de freenet.de posteo.de mailbox.org tutanota.com tuta.com fastmail.com hey.com zoho.com "
    "zohomail.com yandex.com yandex.ru ya.ru mail.ru bk.ru list.ru inbox.ru rambler.ru qq.com foxmail.com "
    "163.com 126.com yeah.net sina.com sohu.com naver.com daum.net hanmail.net orange.fr wanadoo.fr free.fr "
    "laposte.net libero.it virgilio.it wp.pl o2.pl onet.pl seznam.cz uol.com.br bol.com.br terra.com.br "
    "hotmail.co.uk hotmail.fr hotmail.de outlook.de btinternet.com comcast.net verizon.net att.net "
    "mailinator.com guerrillamail.com"
)
PUBLIC_DOMAINS = frozenset(_PUBLIC.split())
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CHANNEL = re.compile(r"#[\w-]{1,80}")
_CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{4,20}")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_PATTERN = re.compile(r"[a-z0-9*?!\[\]-]+")
_LONGEST_PATTERN, _MOST_STARS = 128, 8  # a VM's name has 63 characters at most


def channel(value: str) -> str:
    """`#name`, or a channel's id, which stays when the channel is renamed."""
    if _CHANNEL_ID.fullmatch(value):
        return value
    if not _CHANNEL.fullmatch(value) or value != value.lower():
        named = f"#{value.lstrip('#').lower()}"
        hint = f" (did you mean {named}?)" if _CHANNEL.fullmatch(named) else ""
        raise ValueError(f'a Slack channel such as "#gpu-costs", or its id such as "C0123456789"{hint}')
    return value


def time_of_day(value: object) -> time:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError('a time of day in quotes, of 24 hours, such as "09:00" or "17:30"')
    return time(int(found[1]), int(found[2]))


def daily(value: object) -> time | None:
    if value == "never":
        return None
    try:
        return time_of_day(value)
    except ValueError as wrong:
        raise ValueError(f'{wrong}, or "never"') from None


def weekly(value: object) -> tuple[int, time] | None:
    """The day, 0 for Monday, and the time on it."""
    if value == "never":
        return None
    day, _, at = value.partition(" ") if isinstance(value, str) else ("", "", "")
    if day not in WEEKDAYS or not _TIME.fullmatch(at):
        raise ValueError(f'a day and a time on it, such as "mon 09:00", or "never" (days: {", ".join(WEEKDAYS)})')
    return WEEKDAYS.index(day), time_of_day(at)


def quiet_hours(value: object) -> tuple[time, time]:
    """From when to when, over midnight too. Twice the same time means at no time."""
    if value == "never":
        return time(0), time(0)
    starts, _, ends = value.partition("-") if isinstance(value, str) else ("", "", "")
    if not _TIME.fullmatch(starts) or not _TIME.fullmatch(ends):
        raise ValueError('from when to when, such as "20:00-08:00", or "never"')
    if starts == ends:
        raise ValueError('two different times, such as "20:00-08:00", or "never"')
    return time_of_day(starts), time_of_day(ends)


def weekdays(value: object) -> frozenset[int]:
    if not isinstance(value, list | tuple) or not all(day in WEEKDAYS for day in value):
        raise ValueError(f'a list of days, such as ["sat", "sun"] or [] (days: {", ".join(WEEKDAYS)})')
    return frozenset(WEEKDAYS.index(day) for day in value)


def dollars_or_never(value: object) -> Money | None:
    if value == "never":
        return None
    try:
        return values.dollars(value)
    except ValueError as wrong:
        raise ValueError(f'{wrong}, or "never"') from None


def time_zone(value: str) -> str:
    """A zone that this machine has data for."""
    try:
        ZoneInfo(value)
    except (ValueError, KeyError, OSError):  # an OSError where the name is that of a folder, such as "America"
        close = get_close_matches(value, available_timezones(), n=1, cutoff=0.6)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(f'a time zone of the IANA database, such as "UTC" or "Europe/Vienna"{hint}') from None
    return value


def lower_address(value: str) -> str:
    """A mail address in lower case, as people are compared."""
    return values.mail_address(value.lower())


def address_or_domain(value: str) -> str:
    """One person, or `@example.com` for all of a domain; in lower case."""
    expected = "a mail address such as ana@example.com, or @example.com for all of a domain"
    try:
        found = f"@{values.domain(value[1:].lower())}" if value.startswith("@") else lower_address(value)
    except ValueError:
        raise ValueError(f"{expected}{_meant(value)}") from None
    if found.removeprefix("@") in PUBLIC_DOMAINS and found.startswith("@"):
        raise ValueError(f"{expected} of your own; anybody can have an address {found}, so name each person")
    return found


def _meant(value: str) -> str:
    """`*@example.com`, `example.com`, ` @example.com` and `<ana@example.com>` are nearly right."""
    bare = value.strip().removeprefix("mailto:").strip("<>").lower()
    domain = bare.lstrip("*").lstrip("@")
    for meant, check in ((bare, lower_address), (f"@{domain}", lambda text: values.domain(text[1:]))):
        try:
            check(meant)
        except ValueError:
            continue
        return f' (did you mean "{meant}"?)'
    return ""


def name_pattern(value: str) -> str:
    if not _PATTERN.fullmatch(value):
        raise ValueError(
            'a VM\'s name, or a pattern for names such as "*-prod": small letters, digits, hyphens, * ? [ ]'
        )
    if len(value) > _LONGEST_PATTERN or value.count("*") > _MOST_STARS:
        raise ValueError(f"a pattern of at most {_LONGEST_PATTERN} characters with at most {_MOST_STARS} stars")
    return value


def slack_endpoint(value: str) -> str:
    """Where the methods of a Slack Web API lie, with the slash at its end that its client adds them to."""
    try:
        return f"{values.endpoint(value)}/"
    except ValueError:
        raise ValueError(
            "the address of a Slack Web API such as http://127.0.0.1:9000/slack/api/, with http:// or https://, "
            "and no user or query"
        ) from None


def url(value: str) -> str:
    """Where people find the dashboard, without the slash at its end."""
    try:
        return values.endpoint(value)
    except ValueError:
        raise ValueError(
            "the dashboard's address as people reach it, such as https://costguard.example.com, and no user or query"
        ) from None
