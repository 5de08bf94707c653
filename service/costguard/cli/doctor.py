"""`costguard doctor`, `config`, `slack samples` and `webhooks test`: the set-up, checked without a server."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.options import AsJson, Config, print_json, settings_of
from costguard.cli.server import WrongUsage
from costguard.cli.tables import clean, clean_lines, console, say
from costguard.doctor.finding import CheckState, Finding, Topic, worst
from costguard.doctor.permissions import Feature
from costguard.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from costguard.settings import Settings

config = CommandLine(no_args_is_help=True, help="The settings file.")
slack = CommandLine(no_args_is_help=True, help="The connection to Slack.")
webhooks = CommandLine(no_args_is_help=True, help="Receivers of events.")

_DOCTOR_EXAMPLES = """Examples:

  costguard doctor                      check all that the settings use, and change nothing

  costguard doctor --with stop          also what people need to stop VMs while rules are in shadow mode

  costguard doctor --post               also post a message to the Slack channel, and edit it

  costguard doctor --only slack --json  one part, for a script
"""
_EXITS = {CheckState.OK: 0, CheckState.NEEDS: 1, CheckState.UNKNOWN: 2}
_STYLES = {CheckState.OK: "", CheckState.NEEDS: "bold red", CheckState.UNKNOWN: "bold yellow"}
_WIDTH = len("unknown: ")
_WEBHOOKS_EXAMPLES = """Examples:

  costguard webhooks test pager           post a test to webhooks.pager, and show the answer

  costguard webhooks test pager --json    the same for a script
"""


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog=_DOCTOR_EXAMPLES)(doctor)
    app.add_typer(slack, name="slack")
    app.add_typer(webhooks, name="webhooks")
    app.add_typer(config, name="config")


def doctor(
    path: Config = None,
    only: Annotated[
        list[Topic] | None, typer.Option("--only", help="Show this part alone; may be repeated.", show_default="all")
    ] = None,
    more: Annotated[
        list[Feature] | None,
        typer.Option(
            "--with", help="Check also what this feature needs, which the settings do not use; may be repeated."
        ),
    ] = None,
    post: Annotated[bool, typer.Option("--post", help="Post one message to the Slack channel, and edit it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check what the set-up needs at Google, in Slack and here: permissions, APIs, quotas, presets, buckets, disk.

    One line a check: `ok`, `needs` with the command that mends it, or `unknown` with why. It changes nothing.
    Exits 1 when something is needed, 2 when something is unknown and nothing is needed. Run it where the server runs.
    """
    from costguard.clock import SystemClock
    from costguard.main.doctor import examined

    config = str(path) if path is not None else ""
    findings = examined(settings_of(path), SystemClock().now, more=more or (), post=post, config=config)
    shown = [one for one in findings if only is None or one.topic in only]
    _show_findings(shown, as_json=as_json)


@config.command("check", epilog="Example:  costguard config check --config costguard.toml")
def check(path: Config = None, as_json: AsJson = False) -> None:
    """Check all settings, and change nothing. Exits 1 when one is wrong. Run it where the server runs."""
    from costguard.settings import load, warnings, where_it_is  # only here, as below: other commands start sooner

    try:
        settings = load(path, os.environ)
    except SettingsError as error:
        if not as_json:
            raise
        print_json({"ok": False, "problems": _problems(error), "next": error.what_next})
        raise typer.Exit(1) from None
    texts = [*warnings(settings, where_it_is(path, os.environ), os.environ), *_database_warnings(settings)]
    if as_json:
        print_json({"ok": True, "problems": [], "warnings": texts})
        return
    print("The settings are correct.")
    for warning in texts:
        print(clean_lines(f"Warning: {warning}"), file=sys.stderr)


def _database_warnings(settings: Settings) -> list[str]:
    """Explains why `serve` would refuse the SQLite file, or what is unsafe about its folder."""
    from costguard.db import connect, database_file

    try:
        url = connect.parse(settings.database.url.get_secret_value())
        if (file := connect.file_of(url)) is None:
            return []
        database_file.check(file, connect.widest_mode_of(url))
    except StoreError as error:
        return [str(error)]
    return database_file.warnings(file)


def _problems(error: SettingsError) -> list[str]:
    """Splits an error into one problem a line; where there are several, its first line counts them."""
    head, *several = error.message.strip().splitlines()
    return [line.strip() for line in several] or [head]


@config.command("example", epilog="Example:  costguard config example | less")
def print_example(as_json: AsJson = False) -> None:
    """Print a commented settings file with every key and its default; `costguard init` writes one that fits a fleet."""
    from costguard.settings import example

    print_json({"settings": example()}) if as_json else print(example(), end="")


@slack.command("samples", epilog="Example:  costguard slack samples --as ana@example.com")
def slack_samples(
    path: Config = None,
    who: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="ADDRESS",
            envvar="COSTGUARD_OWNER",
            help="Your address. Default: reminders.contact.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Send you, and nobody else, a sample of each kind of message, as direct messages and at once.

    `costguard doctor --only slack` checks token, scopes and channels. Run it where the server runs.
    """
    from costguard.clock import SystemClock
    from costguard.main.slack_samples import send_samples

    settings = settings_of(path)
    if not (who := who or settings.reminders.contact or ""):
        raise WrongUsage("Costguard does not know who you are.", "Name yourself with --as, or set reminders.contact.")
    sent = list(send_samples(settings, who, SystemClock().now(), threading.Event().wait))
    _show_findings(sent, as_json=as_json)


@webhooks.command("test", epilog=_WEBHOOKS_EXAMPLES)
def webhooks_test(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The webhook's name, as in webhooks.NAME of the settings.")
    ],
    path: Config = None,
    as_json: AsJson = False,
) -> None:
    """Post a signed test message to a webhook, and show the answer. Exits 1 when it is not accepted.

    Run it where the server runs.
    """
    from costguard.clock import SystemClock
    from costguard.main.messaging import try_out
    from costguard.webhooks.signature import refusal

    answer = try_out(settings_of(path), SystemClock(), name)
    if as_json:
        print_json({"accepted": answer.is_accepted, "status": answer.status, "answer": answer.words})
    elif answer.is_accepted:
        say(console(), f"ok   {clean(name)} accepted the test: it answered {answer.status}.")
    else:
        say(console(), f"NOT  {clean(refusal(answer))}", "bold red")
    if not answer.is_accepted:
        raise typer.Exit(1)


def _show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Prints them, and raises Exit: 1 where something is needed, 2 where something is unknown and nothing is needed."""
    state = worst(findings)
    if as_json:
        print_json({"state": state, "findings": [_json(one) for one in findings]})
    else:
        _print(findings)
    if code := _EXITS[state]:
        raise typer.Exit(code)


def _json(one: Finding) -> dict[str, str | None]:
    return {
        "topic": one.topic,
        "name": one.name,
        "where": one.where or None,
        "state": one.state,
        "sentence": one.sentence,
        "command": one.command or None,
    }


def _print(findings: Sequence[Finding]) -> None:
    out = console()
    for one in findings:
        word = one.state if one.is_ok else f"{one.state}:"
        say(out, f"{word:<{_WIDTH}}{clean(one.sentence)}", _STYLES[one.state])
        if one.command:
            say(out, f"{'':<{_WIDTH}}{clean(one.command)}")
    counts = Counter(one.state for one in findings)
    say(out, f"{counts[CheckState.OK]} ok, {counts[CheckState.NEEDS]} needed, {counts[CheckState.UNKNOWN]} unknown.")
