"""The commands for backups of the database, and for VMs that a restored one does not know."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costguard.cli.format import clean
from costguard.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from costguard.db.backup.archive import Manifest
    from costguard.ledger.unknown_vms import UnknownVm
    from costguard.main.backups import Verified

_Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Default: $COSTGUARD_CONFIG, else ./costguard.toml.")
]
_Vm = Annotated[str, typer.Argument(metavar="PROJECT/NAME", help="As `costguard db unknown` shows it.")]


def register(database: typer.Typer) -> None:
    for name, command, example in (
        ("backup", backup, "backup /backups/costguard-2026-11-22.zip"),
        ("restore", restore, "restore /backups/costguard-2026-11-22.zip"),
        ("verify", verify, "verify /backups/costguard-2026-11-22.zip"),
        ("unknown", unknown, "unknown --json"),
        ("adopt", adopt, "adopt acme-training/cg-j7k2m9q4-2"),
        ("delete-vm", delete_vm, "delete-vm acme-training/cg-j7k2m9q4-2 --yes"),
    ):
        database.command(name, epilog=f"Example:  costguard db {example}")(command)


def backup(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="It must not exist yet.")],
    config: _Config = None,
    as_json: AsJson = False,
) -> None:
    """Write a backup of the database into one file, while the guard works."""
    from costguard.clock import SystemClock
    from costguard.main import backups

    made = backups.backup(_url(config), to, SystemClock().now())
    if as_json:
        print_json({"file": str(to), **_manifest(made)})
        return
    rows = sum(table.rows for table in made.tables.values())
    print(f"{clean(str(to))} holds {rows} rows of {len(made.tables)} tables, revision {made.revision}.")


def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `costguard db backup` made.")],
    config: _Config = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="PostgreSQL: also where the database holds something.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of the database, while no guard acts.

    SQLite: the database that was there is kept next to it. PostgreSQL: all or nothing, in one transaction.
    """
    from costguard.clock import SystemClock
    from costguard.main import backups

    done = backups.restore(_url(config), source, SystemClock().now(), replace=replace)
    if as_json:
        kept = None if done.kept is None else str(done.kept)
        print_json(
            {"generation": done.generation.number, "revision": done.revision, "kept": kept, **_said(done.manifest)}
        )
        return
    made = f"{done.manifest.made_at:%Y-%m-%d %H:%M} UTC"
    print(f"The database is that of {made}, at revision {done.revision}, in generation {done.generation.number}.")
    if done.kept is not None:
        print(f"The one that was there is kept as {clean(str(done.kept))}.")
    for line in _TO_EXPECT:
        print(f"- {line}")


_TO_EXPECT = (
    "VMs launched since are adopted where that is clear, else reported; none is deleted: costguard db unknown",
    "Jobs, keeps, claims and tokens made since are lost. Tokens that were revoked since work again: check them.",
    "What was pending was withdrawn: people ask again, everybody signs in again, and reminders begin again.",
    "Runs since the backup come back from Google's operations, which it keeps for about two weeks; of older ones the "
    "ends are estimates.",
    "A job that ended since goes on from its newest checkpoint, as nothing tells that it had ended: cancel it if so.",
)


def verify(
    source: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A backup; else the live database.")] = None,
    config: _Config = None,
    as_json: AsJson = False,
) -> None:
    """Check a backup, or the live database: that it is whole, and that what always holds in a ledger does.

    Exits 1 when something does not.
    """
    from costguard.main import backups

    found = backups.verify_database(_url(config)) if source is None else backups.verify_backup(source)
    print_json(_verified(found)) if as_json else _print_checks(found)
    if not found.is_sound:
        raise typer.Exit(1)


def unknown(config: _Config = None, as_json: AsJson = False) -> None:
    """List VMs that bear this installation's labels and that the ledger holds no intent to launch."""
    from costguard.main import unknown as office

    found = office.listed(_url(config))
    if as_json:
        print_json({"items": [_vm(vm) for vm in found]})
        return
    for vm in found:
        wanted = f" {vm.verdict_by} wants it {_WANTED[vm.verdict.value]}." if vm.verdict.value else ""
        place = f"{vm.key.project}/{vm.name} in {vm.zone}, {vm.status.value}"
        print(clean(f"{place}, since {vm.found_at:%Y-%m-%d %H:%M} UTC: {vm.reason}.{wanted}"))
    if not found:
        print("There is none.")


_WANTED = {"adopt": "adopted", "delete": "deleted"}


def adopt(vm: _Vm, config: _Config = None, as_json: AsJson = False) -> None:
    """Have an unknown VM adopted as the present attempt of the job that its label names."""
    _decide(vm, "adopt", config, as_json)


def delete_vm(
    vm: _Vm,
    config: _Config = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Have an unknown VM deleted with its disk. What runs on it is lost."""
    if not yes and not typer.confirm(f"Delete {clean(vm)} with its disk?"):
        raise typer.Abort
    _decide(vm, "delete", config, as_json)


def _decide(name: str, verdict: str, config: Path | None, as_json: bool) -> None:
    from costguard.clock import SystemClock
    from costguard.main import unknown as office

    by = f"{getpass.getuser()}@{socket.gethostname()}"
    found = office.decide(_url(config), name, verdict, by, SystemClock().now())
    if as_json:
        print_json(_vm(found))
        return
    print(clean(f"{name} is {_WANTED[verdict]} at one of the guard's next turns; `costguard facts` tells."))


def _url(config: Path | None) -> str:
    from costguard.settings import load

    return load(config, os.environ, None).database.url.get_secret_value()


def _manifest(of: Manifest) -> dict[str, Any]:
    return of.model_dump(mode="json")


def _said(of: Manifest) -> dict[str, Any]:
    return {"backup": {"made_at": of.made_at.isoformat(), "costguard": of.costguard, "generation": of.generation}}


def _verified(found: Verified) -> dict[str, Any]:
    return {
        "name": found.name,
        "ok": found.is_sound,
        "revision": found.revision,
        "manifest": None if found.manifest is None else _manifest(found.manifest),
        "checks": [{"rule": check.rule, "holds": check.holds, "wrong": check.wrong} for check in found.checks],
    }


def _print_checks(found: Verified) -> None:
    for check in found.checks:
        print(clean(f"{'ok   ' if check.holds else 'WRONG'}  {check.rule}{f': {check.wrong}' if check.wrong else ''}"))
    print(clean(f"{found.name} {'is sound' if found.is_sound else 'is not sound'}, at revision {found.revision}."))


def _vm(vm: UnknownVm) -> dict[str, Any]:
    return {
        "project": vm.key.project,
        "gce_id": vm.key.gce_id,
        "name": vm.name,
        "zone": vm.zone,
        "job": vm.job,
        "generation": vm.generation,
        "status": vm.status.value,
        "reason": vm.reason,
        "found_at": vm.found_at.isoformat(),
        "wanted": vm.verdict.value or None,
        "wanted_by": vm.verdict_by or None,
    }
