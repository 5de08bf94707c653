"""Judges what Costguard's own computer, database and lists of people show. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.access.roles import without_role
from costguard.access.rules import Access
from costguard.doctor.finding import Finding, NotAnswered, Topic, needs, ok, unknown
from costguard.model.duration import span_text

LEAST_FREE = 1 << 30  # bytes: an upgrade copies tables, and SQLite's log grows while a long read is open
OLD_BACKUP = timedelta(days=2)
OLD_PRICES = timedelta(days=31)  # Google moves Spot prices up to once a month
MOST_SKEW = timedelta(seconds=60)
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """`revision` is None where there are no tables yet, `prices_at` where no catalogue was read yet, and `watched`, the
    projects that are watched, where only the settings say.
    """

    revision: str | None
    prices_at: datetime | None = None
    message_at: datetime | None = None  # when Slack last took a message
    report_at: datetime | None = None  # when the VM of a job last reported
    report_of: str = ""  # which
    watched: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServerAnswers:
    """`file` is "" for PostgreSQL. `wide` says what is wrong with the file's mode, and what mends it."""

    name: str
    head: str
    state: DatabaseState | NotAnswered
    file: str = ""
    is_there: bool = True
    wide: tuple[str, str] | None = None
    folder: str = ""  # whose disk is measured
    free_bytes: int | NotAnswered | None = None  # None: nothing lies on this computer
    backups: str = ""  # their folder, as the settings name it
    backup_at: datetime | NotAnswered | None = None  # of the newest; None: there is none
    ahead: timedelta | NotAnswered | None = None  # of Google's clock; None: not asked
    guard_url: str = ""
    config: str = ""  # the settings file, as commands name it
    reads_prices: bool = True


def server(answers: ServerAnswers, now: datetime) -> Iterator[Finding]:
    """Every finding about the computer and the database."""
    yield from _database(answers)
    yield from _disk(answers)
    yield from _backups(answers, now)
    yield from _clock(answers)
    if isinstance(answers.state, DatabaseState):
        if answers.reads_prices:
            yield _prices(answers.state, now)
        if answers.guard_url:
            yield _address(answers.guard_url, answers.state, now)
    elif answers.guard_url:
        yield _address(answers.guard_url, DatabaseState(None), now)


def _database(answers: ServerAnswers) -> Iterator[Finding]:
    upgrade = with_config("costguard db upgrade", answers.config)
    state = answers.state
    if answers.wide is not None:
        yield needs(Topic.SERVER, "file mode", *answers.wide, answers.file)
    elif answers.file and answers.is_there:
        words = f"{answers.file} can be read by its owner alone."
        yield ok(Topic.SERVER, "file mode", words, answers.file)
    if not answers.is_there or (isinstance(state, DatabaseState) and state.revision is None):
        yield ok(Topic.SERVER, "database", f"{answers.name} has no tables yet; the first pass makes them.")
    elif isinstance(state, NotAnswered):
        yield unknown(Topic.SERVER, "database", state.why)
    elif state.revision == answers.head:
        yield ok(Topic.SERVER, "database", f"{answers.name} is at this version ({answers.head}).")
    elif state.revision is not None and state.revision > answers.head:
        words = (
            f"{answers.name} was made by a later version of Costguard ({state.revision}; this one has {answers.head})."
        )
        yield needs(Topic.SERVER, "database", words, "Install that version, or put back an earlier backup.")
    else:
        words = f"{answers.name} was made by an earlier version of Costguard ({state.revision})."
        yield needs(Topic.SERVER, "database", words, upgrade)


def _disk(answers: ServerAnswers) -> Iterator[Finding]:
    if answers.free_bytes is None:
        return
    if isinstance(answers.free_bytes, NotAnswered):
        yield unknown(Topic.SERVER, "free disk", answers.free_bytes.why, answers.folder)
        return
    words = f"{answers.free_bytes / _GIB:.1f} GiB are free on the disk of {answers.folder}"
    if answers.free_bytes < LEAST_FREE:
        command = f"du -xh --max-depth=2 {shlex.quote(answers.folder)} | sort -h | tail"
        yield needs(Topic.SERVER, "free disk", f"{words}: leave 1 GiB or more.", command, answers.folder)
    else:
        yield ok(Topic.SERVER, "free disk", f"{words}.", answers.folder)


def _backups(answers: ServerAnswers, now: datetime) -> Iterator[Finding]:
    at = answers.backup_at
    make = with_config(
        f"costguard db backup {shlex.quote(f'{answers.backups}/costguard-{now:%Y-%m-%d}.zip')}", answers.config
    )
    if not answers.backups:
        words = "Where backups are is not known: [database] backups does not name their folder."
        yield unknown(Topic.SERVER, "backups", words)
    elif isinstance(at, NotAnswered):
        yield unknown(Topic.SERVER, "backups", at.why, answers.backups)
    elif at is None:
        yield needs(Topic.SERVER, "backups", f"{answers.backups} holds no backup.", make, answers.backups)
    elif now - at > OLD_BACKUP:
        words = f"The newest backup in {answers.backups} is {span_text(now - at)} old."
        yield needs(Topic.SERVER, "backups", words, make, answers.backups)
    else:
        age = span_text(max(timedelta(), now - at))
        yield ok(Topic.SERVER, "backups", f"The newest backup in {answers.backups} is {age} old.", answers.backups)


def _clock(answers: ServerAnswers) -> Iterator[Finding]:
    ahead = answers.ahead
    if ahead is None:
        return
    if isinstance(ahead, NotAnswered):
        yield unknown(Topic.SERVER, "clock", f"This computer's clock: {ahead.why}")
    elif abs(ahead) <= MOST_SKEW:
        yield ok(Topic.SERVER, "clock", "This computer's clock agrees with Google's.")
    else:
        where = "ahead of" if ahead > timedelta() else "behind"
        words = f"This computer's clock is {round(abs(ahead).total_seconds())} s {where} Google's."
        yield needs(Topic.SERVER, "clock", words, "sudo timedatectl set-ntp true")


def _prices(state: DatabaseState, now: datetime) -> Finding:
    if state.prices_at is None:
        words = "No price catalogue was read yet; the server reads it when it starts."
        return unknown(Topic.SERVER, "prices", words)
    age = max(timedelta(), now - state.prices_at)
    if age > OLD_PRICES:
        words = f"The price catalogue was last read {span_text(age)} ago, and Google moves Spot prices once a month."
        return needs(Topic.SERVER, "prices", f"{words} The server reads it each day: see its log.", "costguard serve")
    return ok(Topic.SERVER, "prices", f"The price catalogue was read {span_text(age)} ago.")


def _address(url: str, state: DatabaseState, now: datetime) -> Finding:
    """Judges whether VMs reach it, which only a VM can tell: the first job is the proof."""
    if state.report_at is not None:
        age = span_text(max(timedelta(), now - state.report_at))
        return ok(Topic.SERVER, "address for VMs", f"VMs reach {url}: {state.report_of} reported {age} ago.", url)
    words = f"Whether VMs reach {url} cannot be proven from here: the first job that reports is the proof."
    return unknown(Topic.SERVER, "address for VMs", words, url, "costguard launch --preset t4 -- nvidia-smi")


def owners_role(domain: str | None, access: Access) -> Finding:
    """Judges whether all of `domain`, who own VMs, have a role.

    Owners are reminded whatever their role, and without one their buttons do nothing.
    """
    if domain is None:
        has_role = any((access.viewers, access.operators, access.admins))
        whom, add = "Nobody", 'those who own VMs: viewers = ["@your-domain"]'
    else:
        has_role = not without_role(f"someone@{domain}", access, ())
        whom, add = f"Not everybody at @{domain}", f'viewers = ["@{domain}"]'
    if has_role:
        return ok(Topic.SLACK, "roles", "Owners have a role, so they may use buttons.")
    return needs(
        Topic.SLACK,
        "roles",
        f"{whom} has a role, and Slack's buttons and /gpu are for people with one.",
        f"Add {add} under [access]; reminders reach owners without it, too.",
    )


def with_config(command: str, config: str) -> str:
    """Returns a command of ours that reads the settings in this file; "" is the one that it finds by itself."""
    return f"{command} --config {shlex.quote(config)}" if config else command
