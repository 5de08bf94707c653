"""`costguard config`, `costguard slack test` and `costguard webhooks test`: the setup, checked without a server."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.options import AsJson, Config, print_json, settings_of
from costguard.cli.server import WrongUsage
from costguard.cli.tables import clean, clean_lines, console, say
from costguard.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from costguard.settings import Settings

config = CommandLine(no_args_is_help=True, help="The settings file.")
slack = CommandLine(no_args_is_help=True, help="The connection to Slack.")
webhooks = CommandLine(no_args_is_help=True, help="Receivers of events.")

_SLACK_EXAMPLES = """Examples:

  costguard slack test              check, and post nothing

  costguard slack test --message    also post a message to the channel

  costguard slack test --send       also send you a sample of each kind of message, as direct messages
"""
_WEBHOOKS_EXAMPLES = """Examples:

  costguard webhooks test pager           post a test to webhooks.pager, and show the answer

  costguard webhooks test pager --json    the same for a script
"""


def register(app: typer.Typer) -> None:
    app.add_typer(slack, name="slack")
    app.add_typer(webhooks, name="webhooks")
    app.add_typer(config, name="config")


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


@slack.command("test", epilog=_SLACK_EXAMPLES)
def slack_test(
    path: Config = None,
    with_message: Annotated[bool, typer.Option("--message", help="Post also a message to the channel.")] = False,
    send: Annotated[
        bool, typer.Option("--send", help="Send you also a sample of each kind of message, at once and to nobody else.")
    ] = False,
    who: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="ADDRESS",
            envvar="COSTGUARD_OWNER",
            help="Your address, for --send. Default: reminders.contact.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Check token, scopes, channels and how button clicks arrive. Exits 1 when something is missing.

    Run it where the server runs.
    """
    from costguard.clock import SystemClock
    from costguard.main.messaging import slack_checkup
    from costguard.main.slack_samples import send_samples

    settings, now = settings_of(path), SystemClock().now()
    if send and not (who := who or settings.reminders.contact or ""):
        raise WrongUsage("Costguard does not know who you are.", "Name yourself with --as, or set reminders.contact.")
    findings = slack_checkup(settings, now, with_message=with_message)
    if send and findings[0].is_ok:  # the token is good
        findings += send_samples(settings, who, now, threading.Event().wait)
    if as_json:
        print_json(
            {"findings": [{"ok": one.is_ok, "finding": one.sentence, "next": one.what_next} for one in findings]}
        )
    else:
        out = console()
        for one in findings:
            say(out, f"{'ok ' if one.is_ok else 'NOT'}  {clean(one.sentence)}", "" if one.is_ok else "bold red")
            if one.what_next:
                say(out, f"     {clean(one.what_next)}")
    if not all(one.is_ok for one in findings):
        raise typer.Exit(1)


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
