"""`costguard init`: the few questions there are, one look at the fleet, and a settings file that fits it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costguard.cli.options import AsJson, print_json
from costguard.cli.server import WrongUsage
from costguard.cli.tables import clean, clean_lines, console, say
from costguard.errors import SettingsError

if TYPE_CHECKING:
    from costguard.settings.fitted import FirstLook, SeenFleet, Wishes

_EXAMPLES = """Examples:

  costguard init                                   ask at the terminal

  costguard init --project ml-lab --project research --contact ana@example.com --channel '#gpu-costs'

  costguard init --project ml-lab --output -       print the file, write none
"""
_ZONE_FILE = Path("/etc/localtime")
_FILE, _PRINTED = "costguard.toml", "-"


def register(app: typer.Typer) -> None:
    app.command("init", epilog=_EXAMPLES)(init)


def init(
    project: Annotated[
        list[str] | None, typer.Option("--project", "-p", metavar="ID", help="A project to watch; repeat it for more.")
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The address that is reminded last."),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(metavar="CHANNEL", help="The Slack channel for reminders and digests.")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN", help="Completes labels that name people. Default: the contact's domain."),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="The time zone of digests. Default: this computer's."),
    ] = None,
    endpoint: Annotated[
        str, typer.Option(metavar="URL", help="Another Compute Engine API, such as the simulated cloud.")
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file to write; - prints it.")
    ] = _FILE,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at your fleet, and write settings that fit it: presets, limits and owners, in shadow mode.

    It only reads. What is not given is asked for at a terminal.
    """
    from costguard.clock import SystemClock
    from costguard.main.first_look import first_look
    from costguard.settings.fitted import Wishes, fitted_settings

    file = None if output == _PRINTED else Path(output)
    if file is not None and file.exists() and not force:
        raise WrongUsage(f"{file} is there already.", "Name another with --output, or write over it with --force.")
    asks = sys.stdin.isatty() and not as_json and not project
    projects = tuple(dict.fromkeys(project or (_asked_projects() if asks else ())))
    if not projects:
        raise WrongUsage("No project is given.", "Name each with --project ID, as `gcloud projects list` shows it.")
    contact = contact if contact is not None else _asked("Who is reminded last (an address; empty: nobody)", asks)
    channel = channel if channel is not None else _asked("Slack channel (empty: none yet)", asks, "#gpu-costs")
    wishes = Wishes(
        projects,
        time_zone or _time_zone(),
        contact,
        domain if domain is not None else contact.partition("@")[2],
        channel,
        endpoint,
        bool({"COSTGUARD_SLACK_TOKEN", "COSTGUARD_SLACK_TOKEN_FILE"} & os.environ.keys()),
    )
    fleet = first_look(projects, endpoint or None, SystemClock())
    text = fitted_settings(wishes, fleet)
    _check(text, wishes)
    if file is not None:
        _write(file, text, force=force)
    _tell(text, file, fleet, as_json=as_json)


def _asked_projects() -> list[str]:
    given: str = typer.prompt("Projects to watch (ids, separated by spaces)", default=_own_project(), err=True)
    return given.replace(",", " ").split()


def _own_project() -> str | None:
    """The project of Google's default credentials; None where they name none."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        project: str | None = google.auth.default()[1]
    except GoogleAuthError:
        return None
    return project


def _asked(question: str, asks: bool, default: str = "") -> str:
    answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True) if asks else ""
    return answer.strip()


def _time_zone() -> str:
    """This computer's, by the link that names it; UTC where nothing does."""
    name = os.environ.get("TZ") or str(_ZONE_FILE.resolve()).partition("zoneinfo/")[2]
    return name if "/" in name else "UTC"


def _check(text: str, wishes: Wishes) -> None:
    """Raises SettingsError for an answer that the settings do not take, such as a project that is no id."""
    import tomllib

    from costguard.settings.load import validate

    environ = os.environ if wishes.has_slack_token else {}  # other secrets are no answer of the user's
    validate(tomllib.loads(text), environ, Path("the answers"), text)


def _write(file: Path, text: str, *, force: bool) -> None:
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}.", "Name another with --output.") from None


def _tell(text: str, file: Path | None, fleet: SeenFleet, *, as_json: bool) -> None:
    from costguard.doctor.server_checks import with_config
    from costguard.settings.fitted import fleet_text

    config = "" if file is None or str(file) == _FILE else str(file)
    following = [with_config(f"costguard {name}", config) for name in ("doctor", "pass", "serve")]
    if as_json:
        looks = [{"project": one.project, "vms": len(one.vms), "unread": list(one.unread)} for one in fleet.looks]
        print_json({"file": file and str(file), "settings": text, "projects": looks, "next": following})
        return
    if file is None:
        print(text, end="")
    out = console(sys.stderr if file is None else None)
    for look in fleet.looks:
        say(out, f"{clean(look.project)}: {_seen(look, fleet)}")
        for reason in look.unread:
            say(out, f"  NOT READ: {clean_lines(reason)}", "bold red")
    if len(fleet.looks) > 1:
        say(out, f"All: {fleet_text(fleet.vms)}, {len(fleet.accelerated)} with GPUs or TPUs.", "bold")
    if file is not None:
        say(out, f"Wrote {file}: in shadow mode, so that rules stop nothing. Look through it, then run:")
        for command, why in zip(following, _WHY, strict=True):
            say(out, f"  {command}    {why}")
        say(
            out, "After a day, `costguard report` says what rules would have stopped, whose it is and how much a month."
        )


_WHY = (
    "# says what is missing, with the command that mends it",
    "# looks once, and prints what would be decided",
    "# watches, and prints a link to the pages",
)


def _seen(look: FirstLook, fleet: SeenFleet) -> str:
    from costguard.settings.fitted import fleet_text

    if look.unread and not look.vms:
        return "nothing is known of its VMs"
    return fleet_text([one for one in fleet.vms if one.vm.key.project == look.project])
