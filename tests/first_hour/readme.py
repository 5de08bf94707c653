"""The README's way to a guarded fleet, taken from its own text, and what each command must show."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from tests.cli.printed import ROOT, commands_of, section
from tests.first_hour.machine import PROJECT, Machine, Newcomer, Typed

from costguard_sandbox.gce.rights import NewProject

INSTALL = "pip install git+https://costguard.example/source.git"
SERVE = "costguard serve"
MOST_COMMANDS = 12
_A_DAY_LATER = ("costguard report",)  # the journey types it
_ACCOUNT = f"costguard@{PROJECT}.iam.gserviceaccount.com"
# What the answer shows, by how its command begins, and the code that it ends with.
SHOWN: Mapping[str, tuple[str, int]] = {
    "gcloud services enable ": ("", 0),
    "gcloud iam service-accounts create ": ("Created service account [costguard].", 0),
    "costguard google-role | gcloud iam roles create ": ("Created role [costguard].", 0),
    "gcloud projects add-iam-policy-binding ": ("Updated IAM policy for ", 0),
    "gcloud iam service-accounts add-iam-policy-binding ": ("Updated IAM policy for ", 0),
    "gcloud auth application-default login ": ("", 0),
    "costguard init ": ("Wrote costguard.toml: in shadow mode", 0),
    "costguard doctor": (" ok, 0 needed, 2 unknown.", 2),  # backups and prices, as the README says
    "costguard pass": ("debug-ana: past the limit of preset n1-t4 (8 h)", 0),
    SERVE: ("Costguard is at http://127.0.0.1:", 0),
    "costguard token create ": ("Commands on this computer use it from now on", 0),
    "costguard reminders preview": ("debug-ana", 0),
}


def set_up_commands() -> list[str]:
    """The commands of the section, as printed; the installation comes before them."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert INSTALL in commands_of(section(text, "Install without a checkout"))
    printed = commands_of(section(text, "Watch your project in shadow mode"))
    assert set(_A_DAY_LATER) <= set(printed)
    return [command for command in printed if command not in _A_DAY_LATER]


def follow(newcomer: Newcomer, seen: Callable[[Typed], None]) -> None:
    """Types every command of the section; each must show what it should. The server runs until the last is done."""
    commands = set_up_commands()
    until = commands.index(SERVE)
    for command in commands[:until]:
        seen(_checked(newcomer.does(command)))
    with newcomer.machine.keeping(SERVE, SHOWN[SERVE][0]) as served:
        seen(served)
        for command in commands[until + 1 :]:
            seen(_checked(newcomer.does(command)))


def _checked(typed: Typed) -> Typed:
    (shown,) = [shown for begins, shown in SHOWN.items() if typed.command.startswith(begins)]
    assert (shown[0] in typed.output, typed.code) == (True, shown[1]), f"{typed.command}:\n{typed.output}"
    return typed


def check_guarded(machine: Machine, project: NewProject) -> None:
    """The ledger has the fleet, the settings are in shadow mode, and nothing at Google was asked to change."""
    text = (machine.folder / "costguard.toml").read_text("utf-8")
    assert "\nshadow = true\n" in text
    with closing(sqlite3.connect(machine.folder / "costguard.db")) as database:
        names = {name for (name,) in database.execute("SELECT name FROM instances")}
    assert {"debug-ana", "notebook-cleo", "train-ben", "metrics"} <= names
    assert project.calls
    changing = {call for call in project.calls if not call.startswith("GET ") and "/advice/" not in call}
    assert changing == set()


def check_a_permission_taken_away(newcomer: Newcomer, project: NewProject) -> None:
    """The doctor names it alone, and its command mends it."""
    held = project.roles["costguard"]["includedPermissions"]
    held.remove("compute.disks.list")
    checked = newcomer.machine.type("costguard doctor --only permissions")
    assert checked.code == 1, checked.output
    assert checked.output.splitlines()[-1] == "0 ok, 1 needed, 0 unknown."
    (needed,) = [line for line in checked.output.splitlines() if line.startswith("needs:")]
    assert f"{PROJECT} does not grant compute.disks.list" in needed
    assert needed.endswith(f"to {_ACCOUNT}.")
    command = checked.output.splitlines()[1].strip()
    mended = newcomer.machine.type(command)
    assert mended.code == 0, mended.output
    assert newcomer.machine.type("costguard doctor --only permissions").code == 0


def scenario() -> Path:
    return Path(__file__).with_name("small_team.toml")
