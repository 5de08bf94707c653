"""How single values are written in the settings file: spans of time, dollars, addresses.

Each function raises ValueError with what was expected, worded to follow "expected ".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urlsplit

from costguard.model.money import Money

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_WORDS = {
    "week": "w",
    "wk": "w",
    "day": "d",
    "hour": "h",
    "hr": "h",
    "minute": "m",
    "min": "m",
    "second": "s",
    "sec": "s",
}
_PERCENT = re.compile(r"([0-9]{1,4})%")
_DURATION = re.compile(r"(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_PROJECT = re.compile(r"(?:[a-z][a-z0-9.-]*[a-z0-9]:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
_DOMAIN = re.compile(r"(?=.{4,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_GPU_TYPE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_DOLLARS = re.compile(r"\d{1,9}(?:\.\d{1,9})?")


def duration(value: object) -> timedelta:
    """`90s`, `15m`, `8h`, `3d`, `1w`, or several from large to small: `1h30m`."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if found is None:
        raise ValueError(f"a time with its unit, such as 90s, 15m, 8h, 3d, 1w or 1h30m{_meant_duration(value)}")
    seconds = sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS.values(), strict=True))
    if seconds == 0:
        raise ValueError("a time longer than nothing, such as 90s, 15m or 8h")
    return timedelta(seconds=seconds)


def duration_or_never(value: object) -> timedelta | None:
    if value == "never":
        return None
    try:
        return duration(value)
    except ValueError as wrong:
        raise ValueError(f'{wrong}, or "never"') from None


def _meant_duration(value: object) -> str:
    if not isinstance(value, str):
        return ""
    pieces = re.findall(r"(\d+)\s*([a-z]+)", value.lower())
    units = [_WORDS.get(word.removesuffix("s") or word, word if word in _UNITS else "") for _, word in pieces]
    if not pieces or not all(units):
        return ""
    meant = "".join(count + unit for (count, _), unit in zip(pieces, units, strict=True))
    return f" (did you mean {meant}?)" if _DURATION.fullmatch(meant) else ""


def show_duration(span: timedelta) -> str:
    """The way the settings file writes it: `1h30m`. Weeks only where they are whole: 120 days are `120d`."""
    left = int(span.total_seconds())
    shown = ""
    for unit, seconds in _UNITS.items():
        if unit == "w" and left % seconds:
            continue
        count, left = divmod(left, seconds)
        shown += f"{count}{unit}" if count else ""
    return shown or "0s"


def dollars(value: object) -> Money:
    """Whole dollars as a number, or any amount as a string. Never a float, which cannot hold every cent."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
        return Money.of(value)
    if isinstance(value, str) and _DOLLARS.fullmatch(value) and Decimal(value) > 0:
        return Money.of(value)
    quoted = f' (did you mean "{value}"?)' if isinstance(value, float) and value > 0 else ""
    raise ValueError(f'US dollars, as a whole number or in quotes: 2500 or "99.50"{quoted}')


def percents(value: object) -> tuple[int, ...]:
    """Shares of a limit, the lowest first. Percents in quotes: a bare 0.8 is a float, and 80 could mean either."""
    found = [_PERCENT.fullmatch(item) if isinstance(item, str) else None for item in _items(value)]
    numbers = [int(match[1]) for match in found if match is not None]
    if not isinstance(value, list | tuple) or len(numbers) < len(found) or len(set(numbers)) < len(numbers):
        raise ValueError('different whole percents of the limit, in quotes: ["50%", "80%", "100%"]')
    if any(not 1 <= number <= 1000 for number in numbers):
        raise ValueError("percents from 1% to 1000%")
    return tuple(sorted(numbers))


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def project_id(value: str) -> str:
    if not _PROJECT.fullmatch(value):
        raise ValueError("a Google Cloud project id such as ml-training-prod (the id, not the name or the number)")
    return value


def is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None


def name(value: str) -> str:
    """A preset's or budget's name; a label can carry it."""
    if not is_name(value):
        raise ValueError("a name of small letters, digits and hyphens that begins with a letter")
    return value


def gpu_type(value: str) -> str:
    if not _GPU_TYPE.fullmatch(value):
        raise ValueError("an accelerator type as Google writes it, such as nvidia-tesla-t4 or nvidia-l4")
    return value


def label_key(value: str) -> str:
    if not _LABEL_KEY.fullmatch(value):
        raise ValueError("a label key: small letters, digits, hyphens and underscores, beginning with a letter")
    return value


def label_value(value: str) -> str:
    if not _LABEL_VALUE.fullmatch(value):
        raise ValueError("a label value: small letters, digits, hyphens and underscores (Google allows no others)")
    return value


def domain(value: str) -> str:
    if not _DOMAIN.fullmatch(value):
        meant = value.strip().lstrip("*@.").lower()
        hint = f' (did you mean "{meant}"?)' if _DOMAIN.fullmatch(meant) else ""
        raise ValueError(f"a mail domain such as example.com{hint}")
    return value


def mail_address(value: str) -> str:
    """One person's. Wildcards are refused: as an address `*@example.com` would be nobody's."""
    if not _is_mail_address(value):
        meant = value.strip().removeprefix("mailto:").strip("<>")
        hint = f' (did you mean "{meant}"?)' if meant != value and _is_mail_address(meant) else ""
        if meant.startswith("*"):
            hint = "; nobody is named by a pattern here: name each person"
        raise ValueError(f"a mail address such as ana@example.com{hint}")
    return value


def _is_mail_address(value: str) -> bool:
    user, at, host = value.rpartition("@")
    return bool(at and user and not re.search(r"[\s@<>*?,;:]", user) and _DOMAIN.fullmatch(host))


def network(value: str) -> str:
    """Addresses of proxies. All addresses are none that anybody could trust."""
    expected = "an address, or a range of them such as 10.0.0.0/8"
    try:
        found = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ValueError(expected) from None
    if found.prefixlen == 0:
        raise ValueError(f"{expected}; anybody could be behind {value}, so name the proxies")
    if "/" in value and str(found) != value and found.num_addresses > 1:
        raise ValueError(f"{expected} (did you mean {found}?)")
    return str(found)


def endpoint(value: str) -> str:
    """An address of an HTTP server, without the slash at its end."""
    expected = "an address such as http://127.0.0.1:8080, with http:// or https://, and no user, query or API path"
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or re.search(r"\s", value):
        raise ValueError(expected)
    shown = value.rstrip("/")
    for path in ("/compute/v1", "/compute/v1/projects", "/v1"):
        if parts.path.rstrip("/") == path:
            raise ValueError(f"{expected} (did you mean {shown.removesuffix(path)}?)")
    return shown


def region(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]{2,40}", value):
        raise ValueError('a region\'s name, such as "eu-west-1"')
    return value


def listen(value: str) -> str:
    host, _, port = value.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    known = bare == "localhost" or _is_ip(bare)
    if not known or (":" in bare) != host.startswith("[") or not port.isdecimal() or int(port) > 65535:
        raise ValueError("an IP address and a port, such as 127.0.0.1:8765, [::1]:8765 or 0.0.0.0:8765")
    return value


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or ipaddress.ip_address(host).is_loopback


def database_url(value: str) -> str:
    """SQLite in a file, or PostgreSQL through psycopg, however its scheme was written."""
    if value.startswith("sqlite:///") and value.removeprefix("sqlite:///") not in {"", ":memory:"}:
        _, _, query = value.partition("?")
        if "widest_mode" in query and not re.fullmatch(r"widest_mode=0?[0-7]{3}", query):
            raise ValueError("after the file at most ?widest_mode=0660, the mode that the volume sets by itself")
        return value
    scheme, separator, rest = value.partition("://")
    if separator and rest and scheme in {"postgres", "postgresql", "postgresql+psycopg"}:
        return f"postgresql+psycopg://{rest}"
    raise ValueError("sqlite:///FILE (four slashes for a path from the root) or postgresql://USER@HOST/DATABASE")


def has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None or "password=" in urlsplit(url).query
    except ValueError:
        return "@" in url
