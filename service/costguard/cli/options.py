"""The options that commands share."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import typer

from costguard.cli.client import DEFAULT_URL as DEFAULT_URL
from costguard.cli.client import THIS_MACHINE, Server

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="COSTGUARD_URL",
        show_default=f"the saved profile's, or {THIS_MACHINE}",
        help="Address of the server. COSTGUARD_TOKEN holds its token, or the profile does.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
AsJsonLine = Annotated[bool, typer.Option("--json", help="Say where it is as one line of JSON, and nothing more.")]
Project = Annotated[list[str] | None, typer.Option("--project", "-p", help="Only this project; repeatable.")]
Preset = Annotated[list[str] | None, typer.Option("--preset", help="Only this preset; repeatable.")]
Owner = Annotated[list[str] | None, typer.Option("--owner", help='Only this owner; repeatable; "" for the unclaimed.')]
Me = Annotated[
    str,
    typer.Option(
        "--owner",
        envvar="COSTGUARD_OWNER",
        help="Your e-mail address; a token of yours says it already, and only an admin's names another.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most so many; 0 shows all.")]


def _day(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise typer.BadParameter(f"{text!r} is not a UTC day such as 2026-11-20.")


def utc_moment(text: str | None) -> str | None:
    """The tables show UTC without saying so in each line: what is taken from them is understood."""
    if text is None:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-11-20T08:00:00Z or 2026-11-20.") from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).isoformat()


From = Annotated[
    str | None, typer.Option("--from", metavar="DAY", callback=_day, help="First UTC day; the month's first.")
]
To = Annotated[str | None, typer.Option("--to", metavar="DAY", callback=_day, help="Last UTC day; today.")]
_SPAN = re.compile(r"([1-9]\d{0,3})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def _span(text: str | None) -> str | None:
    if text is None or _SPAN.fullmatch(text):
        return text
    raise typer.BadParameter(f"{text!r} is not a span such as 7d, 2w or 12h.")


Last = Annotated[
    str | None,
    typer.Option("--last", metavar="SPAN", callback=_span, help="The last 7d (today and six days before), or 2w."),
]
LastHours = Annotated[
    str | None, typer.Option("--last", metavar="SPAN", callback=_span, help="Not older than 12h, 7d or 2w.")
]


def days(server: Server, first: str | None, to: str | None, last: str | None) -> tuple[str | None, str | None]:
    """The first and the last UTC day that were asked for; with --last by the server's clock."""
    if last is None:
        return first, to
    if first is not None or to is not None:
        raise typer.BadParameter("--last stands for --from and --to; leave those out.")
    count = _whole(last) // timedelta(days=1)
    if not count:
        raise typer.BadParameter(f"{last!r} is less than a day; days are whole here.", param_hint="--last")
    today = _now(server).date()
    return (today - timedelta(days=count - 1)).isoformat(), today.isoformat()


def since(server: Server, given: str | None, last: str | None) -> str | None:
    """From when on; with --last by the server's clock."""
    if last is None:
        return given
    if given is not None:
        raise typer.BadParameter("--last stands for --since; leave one of them out.")
    return (_now(server) - _whole(last)).isoformat()


def _whole(span: str) -> timedelta:
    return int(span[:-1]) * _UNITS[span[-1]]


def _now(server: Server) -> datetime:
    return datetime.fromisoformat(server.get("projects")["as_of"])


Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", callback=utc_moment, help="Not before, such as 2026-11-20T08:00:00Z; in UTC."
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", callback=utc_moment, help="Before this time.")]


def print_json(answer: dict[str, Any]) -> None:
    """Controls in names are escaped by JSON itself."""
    print(json.dumps(answer, indent=2))


def listening_address(text: str) -> str:
    """Where to listen, as the settings write it; `:9000` is this machine's port 9000."""
    from costguard.settings import values  # only here: other commands need no settings, and start sooner

    address = f"127.0.0.1{text}" if text.startswith(":") else text
    try:
        return values.listen(address)
    except ValueError as expected:
        raise typer.BadParameter(f"{text!r} is not {expected}.", param_hint="--listen") from None


def is_asked(*filters: object) -> bool:
    """Whether anything was asked for: an empty owner is the unclaimed."""
    return any(each is not None and each != [] for each in filters)
