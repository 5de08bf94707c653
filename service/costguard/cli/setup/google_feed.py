"""`costguard google-feed`: the commands that let an organisation's events about VMs reach Costguard."""

from __future__ import annotations

from typing import Annotated

import typer

from costguard.cli.options import AsJson, print_json
from costguard.doctor.feed_setup import FeedPlan, commands

_EXAMPLES = """Examples:

  costguard google-feed --organization 123456789012 --project acme-ops --account guard@acme-ops.iam.gserviceaccount.com
"""


def register(app: typer.Typer) -> None:
    app.command("google-feed", epilog=_EXAMPLES)(google_feed)


def google_feed(
    project: Annotated[
        str, typer.Option(metavar="PROJECT", help="The project that topic and subscription are made in.")
    ],
    account: Annotated[str, typer.Option(metavar="ADDRESS", help="The service account that Costguard runs as.")],
    organization: Annotated[
        str, typer.Option(metavar="NUMBER", help="The organisation's number, whose VMs are watched.")
    ] = "",
    folder: Annotated[
        str, typer.Option(metavar="NUMBER", help="A folder's number, in place of the organisation's.")
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The name of sink, topic and subscription.")
    ] = "costguard-events",
    as_json: AsJson = False,
) -> None:
    """Print the commands that make the sink, the topic and the subscription of events, with the rights on them.

    Nothing is run. The sink copies entries of Admin Activity and System Event logs about VMs: it keeps them in their
    projects' logs, too, and reads no Data Access log.
    """
    if bool(organization) == bool(folder):
        raise typer.BadParameter("Give either --organization or --folder.", param_hint="--organization")
    scope = f"--organization={organization}" if organization else f"--folder={folder}"
    plan = FeedPlan(scope, project, account, name)
    lines = list(commands(plan))
    if as_json:
        print_json({"subscription": plan.subscription, "commands": lines})
        return
    print(*lines, sep="\n")
