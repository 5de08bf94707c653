"""Values that several sections hold, and how the settings file writes them: spans of time, addresses, names.

Each function raises ValueError with what was expected, worded to follow "expected ".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from costguard.model.duration import read_span
from costguard.model.instance import TPUS
from costguard.model.money import Money

T = TypeVar("T")
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
_DOMAIN = re.compile(r"(?=.{4,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_PERCENT = re.compile(r"([0-9]{1,3})%")
_DOLLARS = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]{1,2}")
_CHANNEL = re.compile(r"#[\w-]{1,80}")
_CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{4,20}")


class Section(BaseModel):
    """A section of the settings file: no unknown key, no guessed type, nothing changed later."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


def duration(value: object) -> timedelta:
    """`90s`, `15m`, `8h`, `3d`, `1w`, or several from large to small: `1h30m`."""
    span = read_span(value) if isinstance(value, str) else None
    if span is None:
        raise ValueError(f"a time with its unit, such as 90s, 15m, 8h, 3d, 1w or 1h30m{_meant_duration(value)}")
    if not span:
        raise ValueError("a time longer than nothing, such as 90s, 15m or 8h")
    return span


def _meant_duration(value: object) -> str:
    if not isinstance(value, str):
        return ""
    pieces = re.findall(r"(\d+)\s*([a-z]+)", value.lower())
    units = [_WORDS.get(word.removesuffix("s") or word, word if word in _UNITS else "") for _, word in pieces]
    if not pieces or not all(units):
        return ""
    meant = "".join(count + unit for (count, _), unit in zip(pieces, units, strict=True))
    return f" (did you mean {meant}?)" if read_span(meant) is not None else ""


def show_duration(span: timedelta) -> str:
    """Formats a span as the settings file writes it: `1h30m`. Weeks only where they are whole: 120 days are `120d`."""
    left = int(span.total_seconds())
    shown = ""
    for unit, seconds in _UNITS.items():
        if unit == "w" and left % seconds:
            continue
        count, left = divmod(left, seconds)
        shown += f"{count}{unit}" if count else ""
    return shown or "0s"


def matching(pattern: str, expected: str) -> Callable[[str], str]:
    """Takes text that the whole pattern matches."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(expected)
        return value

    return check


def between(low: timedelta, high: timedelta) -> AfterValidator:
    """Bounds of a span; `never`, where a key takes that, is within them."""

    def check(span: timedelta | None) -> timedelta | None:
        if span is not None and not low <= span <= high:
            raise ValueError(f"a time from {show_duration(low)} to {show_duration(high)}")
        return span

    return AfterValidator(check)


def percent(value: object) -> int:
    """A whole percent in quotes: a bare 0.02 is a float, and 2 could mean either."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) > 100:
        raise ValueError('a whole percent from 0% to 100%, in quotes, such as "2%"')
    return int(match[1])


def dollars(value: object) -> Money:
    """Whole dollars as a number, or any amount as a string; no float, which cannot hold every cent."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
        return Money.of(value)
    if isinstance(value, str) and _DOLLARS.fullmatch(value) and Decimal(value) > 0:
        return Money.of(value)
    quoted = f' (did you mean "{value}"?)' if isinstance(value, float) and value > 0 else ""
    raise ValueError(f'US dollars, as a whole number or in quotes: 2500 or "99.50"{quoted}')


def or_never(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """Reads "never" as None, and anything else with `read`."""

    def read_or_never(value: object) -> T | None:
        if value == "never":
            return None
        try:
            return read(value)
        except ValueError as wrong:
            raise ValueError(f'{wrong}, or "never"') from None

    return read_or_never


project_id = matching(
    r"(?:[a-z][a-z0-9.-]*[a-z0-9]:)?[a-z][a-z0-9-]{4,28}[a-z0-9]",
    "a Google Cloud project id such as ml-training-prod (the id, not the name or the number)",
)


def _place(kind: str, words: str) -> Callable[[str], str]:
    """Takes `123` or `KIND/123`, and gives `KIND/123`."""
    number = re.compile(rf"(?:{kind}/)?([1-9]\d{{0,24}})")

    def check(value: str) -> str:
        match = number.fullmatch(value)
        if match is None:
            raise ValueError(words)
        return f"{kind}/{match[1]}"

    return check


organization = _place(
    "organizations",
    "the number of an organisation, such as 123456789012 or organizations/123456789012 "
    "(`gcloud organizations list` shows it; its name is none)",
)


folder = _place(
    "folders",
    "the number of a folder, such as 123456789012 or folders/123456789012 "
    "(`gcloud resource-manager folders list --organization NUMBER` shows it; its name is none)",
)


project_pattern = matching(
    r"[a-z0-9.:*?-]+", "a project id, or a pattern of them with * and ?, such as sandbox-* (ids, not names or numbers)"
)


gpu_type = matching(
    r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+", "an accelerator type as Google writes it, such as nvidia-tesla-t4 or nvidia-l4"
)


accelerator = matching(
    r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+|" + "|".join(sorted(TPUS)),
    f"an accelerator type: a GPU as Google writes it, such as nvidia-l4, or one of the TPUs {', '.join(sorted(TPUS))}",
)


label_key = matching(
    r"[a-z][a-z0-9_-]{0,62}", "a label key: small letters, digits, hyphens and underscores, beginning with a letter"
)


label_value = matching(
    r"[a-z0-9_-]{0,63}", "a label value: small letters, digits, hyphens and underscores (Google allows no others)"
)


def is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None


def name(value: str) -> str:
    """A preset's or budget's name, which also fits in a label."""
    if not is_name(value):
        raise ValueError("a name of small letters, digits and hyphens that begins with a letter")
    return value


def domain(value: str) -> str:
    if not _DOMAIN.fullmatch(value):
        meant = value.strip().lstrip("*@.").lower()
        hint = f' (did you mean "{meant}"?)' if _DOMAIN.fullmatch(meant) else ""
        raise ValueError(f"a mail domain such as example.com{hint}")
    return value


def cluster_name(given: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)?", given):
        raise ValueError("a cluster's name, such as train, or with its node pool train/t4")
    return given


def mail_address(value: str) -> str:
    """Reads a person's address. Wildcards are refused: no one has the address `*@example.com`."""
    if not _is_mail_address(value):
        meant = value.strip().removeprefix("mailto:").strip("<>")
        hint = f' (did you mean "{meant}"?)' if meant != value and _is_mail_address(meant) else ""
        if meant.startswith("*"):
            hint = "; patterns are not allowed here: name each person"
        raise ValueError(f"a mail address such as ana@example.com{hint}")
    return value


def _is_mail_address(value: str) -> bool:
    user, at, host = value.rpartition("@")
    return bool(at and user and not re.search(r"[\s@<>*?,;:]", user) and _DOMAIN.fullmatch(host))


def lower_address(value: str) -> str:
    """A mail address in lower case, in which addresses are compared."""
    return mail_address(value.lower())


def channel(value: str) -> str:
    """`#name`, or a channel's id, which stays when the channel is renamed."""
    if _CHANNEL_ID.fullmatch(value):
        return value
    if not _CHANNEL.fullmatch(value) or value != value.lower():
        named = f"#{value.lstrip('#').lower()}"
        hint = f" (did you mean {named}?)" if _CHANNEL.fullmatch(named) else ""
        raise ValueError(f'a Slack channel such as "#gpu-costs", or its id such as "C0123456789"{hint}')
    return value


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


def region_name(value: str) -> str:
    """`us-central1`"""
    if not _REGION.fullmatch(value):
        raise ValueError("a region of Google Cloud, such as us-central1 or europe-west4")
    return value


def is_loopback(host: str) -> bool:
    return host == "localhost" or ipaddress.ip_address(host).is_loopback


def is_this_computer(host: str) -> bool:
    """Says whether a host is a loopback address; another name is not."""
    try:
        return is_loopback(host)
    except ValueError:
        return False


def listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Listed = BeforeValidator(listed)
Duration = Annotated[timedelta, BeforeValidator(duration)]
DurationOrNever = Annotated[timedelta | None, BeforeValidator(or_never(duration))]
RegionName = Annotated[str, AfterValidator(region_name)]
ProjectId = Annotated[str, AfterValidator(project_id)]
ProjectPattern = Annotated[str, AfterValidator(project_pattern)]
Organization = Annotated[str, AfterValidator(organization)]
Folder = Annotated[str, AfterValidator(folder)]
Name = Annotated[str, AfterValidator(name)]
LabelKey = Annotated[str, AfterValidator(label_key)]
LabelValue = Annotated[str, AfterValidator(label_value)]
ClusterName = Annotated[str, AfterValidator(cluster_name)]
Domain = Annotated[str, AfterValidator(domain)]
MailAddress = Annotated[str, AfterValidator(mail_address)]
LowerAddress = Annotated[str, AfterValidator(lower_address)]
Channel = Annotated[str, AfterValidator(channel)]
GpuType = Annotated[str, AfterValidator(gpu_type)]
Accelerator = Annotated[str, AfterValidator(accelerator)]
Endpoint = Annotated[str, AfterValidator(endpoint)]
EVERYTHING = BeforeValidator(lambda scope: {} if scope == "everything" else scope)  # of a scope


class LimitScope(Section):
    project: str | None = None  # these three must exist: `check` of [limits] and of [budgets]
    preset: str | None = None
    team: str | None = None
    owner: MailAddress | None = None
