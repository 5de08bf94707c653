"""`costguard slack samples` and `costguard webhooks test`: what receivers get, sent without a server."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.options import AsJson, Config, print_json, settings_of
from costguard.cli.server import WrongUsage
from costguard.cli.setup.doctor import show_findings
from costguard.cli.tables import clean, console, say

slack = CommandLine(no_args_is_help=True, help="The connection to Slack.")
webhooks = CommandLine(no_args_is_help=True, help="Receivers of events.")

_WEBHOOKS_EXAMPLES = """Examples:

  costguard webhooks test pager           post a test to webhooks.pager, and show the answer

  costguard webhooks test pager --json    the same for a script
"""


def register(app: typer.Typer) -> None:
    app.add_typer(slack, name="slack")
    app.add_typer(webhooks, name="webhooks")


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
    show_findings(sent, as_json=as_json)


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
