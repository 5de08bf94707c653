"""Options that several commands share, and completion of names in a shell."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costguard.cli.server import DEFAULT_URL as DEFAULT_URL
from costguard.cli.server import THIS_COMPUTER, ServerClient
from costguard.errors import CostguardError
from costguard.model.duration import read_span
from costguard.model.keeper import KeeperKind

if TYPE_CHECKING:
    from costguard.settings import AccessSettings, Settings

_MOST_SUGGESTIONS = 200
_COMPLETION_TIMEOUT_S = 2.0  # the user waits for it while typing
_SPAN = re.compile(r"([1-9]\d{0,3})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
Suggestions = list[tuple[str, str]]


def complete_vms(incomplete: str) -> Suggestions:
    """Names of existing VMs, each with its machine type, status and owner."""

    def vms(server: ServerClient) -> Iterator[tuple[str, str]]:
        for vm in server.get("instances", limit=_MOST_SUGGESTIONS)["instances"]:
            yield vm["name"], f"{vm['machine_type']}, {vm['status']}, {vm['owner'] or 'unclaimed'}"

    return _suggestions(incomplete, vms)


def complete_jobs(incomplete: str) -> Suggestions:
    """Ids of jobs, the newest first, each with its name and state."""

    def jobs(server: ServerClient) -> Iterator[tuple[str, str]]:
        for job in server.get("jobs", limit=_MOST_SUGGESTIONS)["jobs"]:
            yield job["id"], f"{job['title']}, {job['state']}"

    return _suggestions(incomplete, jobs)


def _suggestions(incomplete: str, ask: Callable[[ServerClient], Iterator[tuple[str, str]]]) -> Suggestions:
    """Returns suggestions; none where no server answers: an error would end up in the line that is being typed."""
    try:
        names = dict(ask(ServerClient(os.environ.get("COSTGUARD_URL", DEFAULT_URL), timeout=_COMPLETION_TIMEOUT_S)))
    except CostguardError:
        return []
    return [(name, description) for name, description in names.items() if name.startswith(incomplete)]


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
    """A time without a zone is UTC, as in the tables."""
    if text is None:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-11-20T08:00:00Z or 2026-11-20.") from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).isoformat()


def moment_or_span(text: str | None) -> str | None:
    """A time, or a span such as 18h, as it was written."""
    return text if text is None or read_span(text) else utc_moment(text)


def hours(text: str) -> float:
    """A span such as 90m, 16h or 2d, in hours."""
    span = read_span(text)
    if not span:
        raise typer.BadParameter(f"{text!r} is not a span such as 90m, 16h or 2d.")
    return span / timedelta(hours=1)


def only(names: Sequence[str]) -> Callable[[list[str] | None], list[str] | None]:
    """Checks that each given name, also several with commas, is one of these."""

    def checked(given: list[str] | None) -> list[str] | None:
        for name in (name.strip() for part in given or () for name in part.split(",")):
            if name and name not in names:
                raise typer.BadParameter(f"{name!r} is none of {', '.join(names)}.")
        return given

    return checked


def _span(text: str | None) -> str | None:
    if text is None or _SPAN.fullmatch(text):
        return text
    raise typer.BadParameter(f"{text!r} is not a span such as 7d, 2w or 12h.")


Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="COSTGUARD_URL",
        show_default=f"the saved profile's, or {THIS_COMPUTER}",
        help="Address of the server. Its token comes from COSTGUARD_TOKEN or the profile.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="The settings file. Default: $COSTGUARD_CONFIG, else ./costguard.toml."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
AsJsonLine = Annotated[bool, typer.Option("--json", help="Print only the address, as one line of JSON.")]
Vm = Annotated[
    str, typer.Argument(metavar="VM", help="The name or the id of a VM or other resource.", autocompletion=complete_vms)
]
JobId = Annotated[
    str,
    typer.Argument(metavar="JOB", help="The job's id, such as j7k2m9q4, or its name.", autocompletion=complete_jobs),
]
Project = Annotated[
    list[str] | None, typer.Option("--project", "-p", metavar="PROJECT", help="Only this project; repeatable.")
]
OneProject = Annotated[str | None, typer.Option("--project", "-p", metavar="PROJECT", help="Only this project.")]
Preset = Annotated[list[str] | None, typer.Option("--preset", metavar="PRESET", help="Only this preset; repeatable.")]
OnePreset = Annotated[str | None, typer.Option("--preset", metavar="PRESET", help="Only this preset.")]
Owner = Annotated[
    list[str] | None,
    typer.Option("--owner", metavar="ADDRESS", help='Only this owner; repeatable; "" for unclaimed VMs.'),
]
Me = Annotated[
    str,
    typer.Option(
        "--owner",
        metavar="ADDRESS",
        envvar="COSTGUARD_OWNER",
        help="Your e-mail address, where your token does not name you. Only admins may name someone else.",
    ),
]
OneJob = Annotated[
    str | None,
    typer.Option("--job", metavar="JOB", help="Only this job, by its id or name.", autocompletion=complete_jobs),
]
Key = Annotated[
    str, typer.Option("--key", metavar="KEY", help="Repeating the command with the same key returns the same job.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="WORDS", help="The reason, recorded in the audit log.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=0, help="Show at most this many; 0 shows all.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="DAY", callback=_day, help="First UTC day. Default: the first of the month."),
]
To = Annotated[str | None, typer.Option("--to", metavar="DAY", callback=_day, help="Last UTC day. Default: today.")]
Last = Annotated[
    str | None,
    typer.Option("--last", metavar="SPAN", callback=_span, help="The last 7d (today and six days before), or 2w."),
]
LastHours = Annotated[
    str | None, typer.Option("--last", metavar="SPAN", callback=_span, help="The longest age, such as 12h, 7d or 2w.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", callback=utc_moment, help="The first time in UTC, such as 2026-11-20T08:00:00Z."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", callback=utc_moment, help="The end; only earlier events are shown."),
]


def job_id(server: ServerClient, job: str | None) -> str | None:
    """The id of a job that was given by its id or its name. Raises CostguardError."""
    return job and str(server.get("jobs", job)["job"]["id"])


def days(server: ServerClient, first: str | None, to: str | None, last: str | None) -> tuple[str | None, str | None]:
    """The first and the last UTC day of a range; with --last by the server's clock."""
    if last is None:
        return first, to
    if first is not None or to is not None:
        raise typer.BadParameter("--last stands for --from and --to; leave those out.")
    count = _length(last) // timedelta(days=1)
    if not count:
        raise typer.BadParameter(f"{last!r} is less than a day; days are whole here.", param_hint="--last")
    today = _now(server).date()
    return (today - timedelta(days=count - 1)).isoformat(), today.isoformat()


def not_before(server: ServerClient, since: str | None, last: str | None) -> str | None:
    """The earliest time of a list; with --last by the server's clock."""
    if last is None:
        return since
    if since is not None:
        raise typer.BadParameter("--last stands for --since; leave one of them out.")
    return (_now(server) - _length(last)).isoformat()


def _length(span: str) -> timedelta:
    return int(span[:-1]) * _UNITS[span[-1]]


def _now(server: ServerClient) -> datetime:
    return datetime.fromisoformat(server.get("projects")["as_of"])


def listening_address(text: str) -> str:
    """Where to listen, as the settings write it; `:9000` is this computer's port 9000."""
    from costguard.settings.server import listen  # only here: other commands need no settings, and start sooner

    address = f"127.0.0.1{text}" if text.startswith(":") else text
    try:
        return listen(address)
    except ValueError as expected:
        raise typer.BadParameter(f"{text!r} is not {expected}.", param_hint="--listen") from None


def settings_of(config: Path | None, listen: str | None = None) -> Settings:
    """Raises SettingsError."""
    from costguard.settings import load  # only here, as above

    return load(config, os.environ, listen)


def access_settings_of(config: Path | None) -> AccessSettings:
    """Reads the settings that links and tokens are made from, whatever else is missing or wrong.

    Raises SettingsError.
    """
    from costguard.settings import load_access  # only here, as above

    return load_access(config, os.environ)


def has_filter(*filters: object) -> bool:
    """Says whether any filter was given; an empty owner is one: the unclaimed."""
    return any(given is not None and given != [] for given in filters)


def print_json(answer: dict[str, Any]) -> None:
    """Control characters in names are escaped by JSON itself."""
    print(json.dumps(answer, indent=2))


Keepers = Annotated[
    list[KeeperKind] | None,
    typer.Option("--keeper", metavar="KEEPER", help="Only what this keeps, such as gke, vertex or nobody; repeatable."),
]
OneKeeper = Annotated[
    KeeperKind | None, typer.Option("--keeper", metavar="KEEPER", help="Only what this keeps, such as gke or vertex.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster, or with its node pool cluster/pool.")
]
