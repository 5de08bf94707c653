"""`costguard doctor`: the set-up, checked without a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from costguard.cli.options import AsJson, Config, print_json, settings_of
from costguard.cli.tables import clean, console, say
from costguard.doctor.finding import CheckState, Finding, Topic, worst
from costguard.doctor.permissions import Feature

_EXAMPLES = """Examples:

  costguard doctor                      check all that the settings use, and change nothing

  costguard doctor --with stop          also what people need to stop VMs while rules are in shadow mode

  costguard doctor --post               also post a message to the Slack channel, and edit it

  costguard doctor --only slack --json  one part, for a script
"""
_EXITS = {CheckState.OK: 0, CheckState.NEEDS: 1, CheckState.UNKNOWN: 2}
_STYLES = {CheckState.OK: "", CheckState.NEEDS: "bold red", CheckState.UNKNOWN: "bold yellow"}
_WIDTH = len("unknown: ")


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog=_EXAMPLES)(doctor)


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
    show_findings(shown, as_json=as_json)


def show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
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
