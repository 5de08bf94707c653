"""`costguard db`: migrations, backups, and VMs that a restored database does not know."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.options import AsJson, Config, print_json, settings_of
from costguard.cli.tables import clean
from costguard.model.moments import utc_text
from costguard.model.words import count_text

if TYPE_CHECKING:
    from sqlalchemy import Row

    from costguard.daemon.backups import Verified
    from costguard.ledger.archived.history_days import HistoryDay
    from costguard.ledger.unknown_vms import UnknownVm

database = CommandLine(no_args_is_help=True, help="The database: migrations and backups.")

_UnknownVm = Annotated[str, typer.Argument(metavar="PROJECT/NAME", help="The VM, as `costguard db unknown` shows it.")]
_AFTER_RESTORE = (
    "VMs launched since are adopted where that is clear, else reported; none is deleted: costguard db unknown",
    "Jobs, keeps, claims and tokens created since are lost. Tokens revoked since work again: check them.",
    "What was pending was withdrawn: users request it again, everyone signs in again, and reminders start over.",
    "Runs since the backup come back from Google's operations, which it keeps for about two weeks; the ends of older "
    "ones are estimates.",
    "A job that ended since goes on from its newest checkpoint, as its end is not known any more: cancel it if so.",
)
_WANTED = {"adopt": "adopted", "delete": "deleted"}


def register(app: typer.Typer) -> None:
    for name, command, example in (
        ("upgrade", upgrade, "upgrade --config costguard.toml"),
        ("check", check, "check --config costguard.toml"),
        ("backup", backup, "backup /backups/costguard-2026-11-22.zip"),
        ("restore", restore, "restore /backups/costguard-2026-11-22.zip"),
        ("archive", archive, "archive --config costguard.toml"),
        ("history", write_history, "history --config costguard.toml"),
        ("compact", compact, "compact --config costguard.toml"),
        ("verify", verify, "verify /backups/costguard-2026-11-22.zip"),
        ("unknown", unknown, "unknown --json"),
        ("adopt", adopt, "adopt acme-training/cg-j7k2m9q4-2"),
        ("delete-vm", delete_vm, "delete-vm acme-training/cg-j7k2m9q4-2 --yes"),
    ):
        database.command(name, epilog=f"Example:  costguard db {example}")(command)
    app.add_typer(database, name="db")


def upgrade(
    config: Config = None,
    only_check: Annotated[
        bool, typer.Option("--check", help="Show what would change and how long it may take; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the database to this version, all or nothing. `serve` and `pass` do so by themselves.

    Run it where the server runs.
    """
    from costguard.db import migrate  # only here, as below: other commands need no database, and start sooner

    if only_check:
        from costguard.cli import upgrades
        from costguard.db import upgrade_plan

        plan = upgrade_plan.plan(_url(config))
        print_json(upgrades.as_json(plan)) if as_json else print("\n".join(upgrades.lines(plan)))
        return
    revision = migrate.upgrade(_url(config))
    print_json({"revision": revision}) if as_json else print(f"The database is at revision {revision}.")


def check(config: Config = None, as_json: AsJson = False) -> None:
    """Check that the database is at this version, and change nothing. Run it where the server runs."""
    from costguard.db import migrate
    from costguard.db.transaction import Database

    opened = Database.open(_url(config))
    try:
        migrate.check(opened)
    finally:
        opened.close()
    print_json({"ok": True}) if as_json else print("The database is at this version.")


def backup(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist yet.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Write a backup of the database to one file, while the server runs. Run it where the server runs."""
    from costguard.clock import SystemClock
    from costguard.daemon import backups

    manifest = backups.backup(_url(config), to, SystemClock().now())
    if as_json:
        print_json({"file": str(to), **manifest.model_dump(mode="json")})
        return
    rows = count_text(sum(table.rows for table in manifest.tables.values()), "row")
    tables = count_text(len(manifest.tables), "table")
    print(f"{clean(str(to))} holds {rows} of {tables}, revision {manifest.revision}.")


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="The backup to restore, written by `costguard db backup`.")
    ],
    config: Config = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="PostgreSQL: also into a database with data in it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replace the database by a backup, while no daemon runs.

    SQLite: the present database is kept next to it. PostgreSQL: all or nothing, in one transaction.
    Run it where the server runs.
    """
    from costguard.clock import SystemClock
    from costguard.daemon import backups

    restored = backups.restore(_url(config), source, SystemClock().now(), replace=replace)
    manifest, generation = restored.manifest, restored.generation.number
    if as_json:
        made = {"made_at": manifest.made_at.isoformat(), "costguard": manifest.costguard}
        print_json(
            {
                "generation": generation,
                "revision": restored.revision,
                "kept": None if restored.kept is None else str(restored.kept),
                "backup": {**made, "generation": manifest.generation},
            }
        )
        return
    made_at = f"{utc_text(manifest.made_at)}"
    print(f"The database is that of {made_at}, at revision {restored.revision}, in generation {generation}.")
    if restored.kept is not None:
        print(f"The previous one is kept as {clean(str(restored.kept))}.")
    for line in _AFTER_RESTORE:
        print(f"- {line}")


def verify(
    source: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The backup to verify. Default: the database.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Check that a backup or the database is complete, and that its figures agree with each other.

    Exits 1 when they do not. Run it where the server runs.
    """
    from costguard.daemon import backups

    verified = backups.verify_database(_url(config)) if source is None else backups.verify_backup(source)
    print_json(_verified(verified)) if as_json else _print_checks(verified)
    if not verified.is_sound:
        raise typer.Exit(1)


def archive(
    read: Annotated[
        str | None, typer.Option("--read", metavar="FILE", help="Print the rows of an archive as JSON lines.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the archives, and archive nothing.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Move rows older than the settings under "retention" say to compressed files, while the server runs or not.

    No total changes. What reads is checked against the SHA-256 of what was written. Run it where the server runs.
    """
    from costguard.clock import SystemClock
    from costguard.daemon import backups

    settings = settings_of(config)
    if read is not None:
        for row in backups.archived_rows(settings.retention.folder, read):
            print(json.dumps(row))
        return
    url = settings.database.url.get_secret_value()
    if listed:
        files = backups.archives_in(url)
        if as_json:
            print_json({"items": [_archive(file) for file in files]})
            return
        for file in files:
            days = f"{file.first_day} to {file.last_day}"
            print(f"{file.file}  {file.kind}, {days}: {count_text(file.row_count, 'row')}, {file.byte_count} bytes")
        if not files:
            print("No archive was written yet.")
        return
    from costguard.main.history import history_of

    history = history_of(settings)
    store = None if history is None else history.store
    done = backups.archive_now(url, settings.retention.retention, SystemClock().now(), store)
    if as_json:
        print_json({kind: {"files": part.files, "rows": part.rows} for kind, part in done.items()})
        return
    for kind, part in done.items():
        print(f"{kind.capitalize()}: {count_text(part.rows, 'row')} archived in {count_text(part.files, 'file')}.")


def write_history(
    listed: Annotated[bool, typer.Option("--list", help="List the days of the history, and write nothing.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Write closed days that are due to the place under "history" in the settings, while the server runs or not.

    One Parquet file a day, with the columns of FOCUS. Run it where the server runs.
    """
    from costguard.clock import SystemClock
    from costguard.daemon import history
    from costguard.main.history import history_of

    settings = settings_of(config)
    url = settings.database.url.get_secret_value()
    if listed:
        days = history.days_in(url)
        if as_json:
            print_json({"items": [_history_day(day) for day in days]})
            return
        for day in days:
            state = "" if day.is_current else ", to be written again"
            print(f"{day.day}  {count_text(day.rows, 'row')}, {day.byte_count} bytes{state}")
        if not days:
            print("No day was written yet.")
        return
    done = history.write_now(url, history_of(settings), settings.retention.folder, SystemClock().now())
    if as_json:
        print_json({"days": done.days, "rows": done.rows})
        return
    print(f"{count_text(done.days, 'day')} written, with {count_text(done.rows, 'row')}.")


def compact(config: Config = None, as_json: AsJson = False) -> None:
    """Rewrite an SQLite database without its free space, while no daemon runs.

    It needs as much free disk as the database takes. PostgreSQL reuses the space by itself. Run it where the server
    runs.
    """
    from costguard.daemon import backups

    before, after = backups.compact(_url(config))
    if as_json:
        print_json({"bytes_before": before, "bytes": after})
        return
    print(f"The database takes {after} bytes; before, it took {before}.")


def unknown(config: Config = None, as_json: AsJson = False) -> None:
    """List VMs with this installation's labels that the ledger has no launch for. Run it where the server runs."""
    from costguard.daemon.backups import unknown_vms_in

    vms = unknown_vms_in(_url(config))
    if as_json:
        print_json({"items": [_vm(vm) for vm in vms]})
        return
    for vm in vms:
        wanted = f" {vm.verdict_by} wants it {_WANTED[vm.verdict.value]}." if vm.verdict.value else ""
        place = f"{vm.key.project}/{vm.name} in {vm.zone}, {vm.status.value}"
        print(clean(f"{place}, since {utc_text(vm.found_at)}: {vm.reason}.{wanted}"))
    if not vms:
        print("The ledger has a launch for every VM with this installation's labels.")


def adopt(vm: _UnknownVm, config: Config = None, as_json: AsJson = False) -> None:
    """Adopt an unknown VM as the current attempt of the job that its label names. Run it where the server runs."""
    _decide(vm, "adopt", config, as_json)


def delete_vm(
    vm: _UnknownVm,
    config: Config = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete an unknown VM with its disk. Whatever runs on it is lost. Run it where the server runs."""
    if not yes and not typer.confirm(f"Delete {clean(vm)} with its disk?"):
        raise typer.Abort
    _decide(vm, "delete", config, as_json)


def _decide(name: str, verdict: str, config: Path | None, as_json: bool) -> None:
    from costguard.clock import SystemClock
    from costguard.daemon.backups import decide_unknown_vm

    by = f"{getpass.getuser()}@{socket.gethostname()}"
    vm = decide_unknown_vm(_url(config), name, verdict, by, SystemClock().now())
    if as_json:
        print_json(_vm(vm))
        return
    print(clean(f"{name} will be {_WANTED[verdict]} in one of the next passes; `costguard events` shows it."))


def _url(config: Path | None) -> str:
    return settings_of(config).database.url.get_secret_value()


def _verified(verified: Verified) -> dict[str, Any]:
    return {
        "name": verified.name,
        "ok": verified.is_sound,
        "revision": verified.revision,
        "manifest": None if verified.manifest is None else verified.manifest.model_dump(mode="json"),
        "checks": [{"rule": check.rule, "holds": check.holds, "wrong": check.wrong} for check in verified.checks],
    }


def _print_checks(verified: Verified) -> None:
    for check in verified.checks:
        wrong = f": {check.wrong}" if check.wrong else ""
        print(clean(f"{'ok   ' if check.holds else 'WRONG'}  {check.rule}{wrong}"))
    sound = "is sound" if verified.is_sound else "is not sound"
    print(clean(f"{verified.name} {sound}, at revision {verified.revision}."))


def _archive(file: Row[Any]) -> dict[str, Any]:
    return {
        "file": file.file,
        "kind": file.kind,
        "is_complete": file.state == "done",
        "made_at": file.made_at.isoformat(),
        "first_day": file.first_day.isoformat(),
        "last_day": file.last_day.isoformat(),
        "rows": file.row_count,
        "bytes": file.byte_count,
        "sha256": file.sha256,
    }


def _history_day(day: HistoryDay) -> dict[str, Any]:
    return {
        "day": day.day.isoformat(),
        "is_current": day.is_current,
        "written_at": day.written_at.isoformat(),
        "rows": day.rows,
        "bytes": day.byte_count,
        "sha256": day.sha256,
    }


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
