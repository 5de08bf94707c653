"""The fleet as `costguard ps` shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from costguard.cli.format import age, amount_text, count, dollars, limit_text, moment, ran, rate
from costguard.cli.tables import NARROW, cell, say, say_nothing, show_table
from costguard.model.instance import gpu_name

_WIDE = ("VM", "Project / zone", "Preset", "GPU", "Owner", "Status", "Age", "Limit", "Idle", "$/h", "So far")
_SPARE = ("Project / zone", "Preset", "GPU", "Idle", "Status", "Age", "Owner")  # the limit and the money stay
_MOST_REASONS, _MOST_NAMES = 5, 3
_RIGHT = ("Age", "$/h", "So far")
_HOW_KNOWN = {"job": "job", "label": "label", "claim": "claimed it", "creator": "made it"}


def show(console: Console, fleet: dict[str, Any], asked: bool = False) -> None:
    """The table, then its totals; what is not known stands last, where the eye ends."""
    short = console.width < NARROW
    rows = [
        _cells(each, fleet["as_of"]) | (_short(each, fleet["as_of"]) if short else {}) for each in fleet["instances"]
    ]
    if rows:
        show_table(console, _WIDE, rows, right=_RIGHT, spare=_SPARE)
    else:
        say_nothing(console, "VM", asked, "`costguard ps --all` shows every VM, with its owner, preset and status.")
    totals, shown = fleet["totals"], len(fleet["instances"])
    console.print()
    say(
        console,
        f"{count(totals['instances'], 'VM')}, {totals['running']} running, {rate(totals['rate_per_hour'])} an hour"
        + (" and what the unpriced cost" if totals["unpriced"] else ""),
        "bold",
    )
    if fleet["next_cursor"] is not None:
        say(console, f"Shown: the first {shown}. --limit 0 shows all.")
    if totals["unpriced"]:
        unpriced = count(totals["unpriced"], "VM")
        say(console, f"NOT PRICED: {unpriced}. `costguard prices` says what has no price.", "bold red")
        _say_why(console, [each for each in fleet["instances"] if each["unpriced"]])
    for part in fleet["unread"]:
        since = part["last_complete_at"]
        known = "never read whole" if since is None else f"as of {age(moment(fleet['as_of']) - moment(since))} ago"
        where = part["project"] if part["scope"] == "project" else f"{part['project']}, {part['scope']}"
        say(console, f"NOT READ: {where} ({known}): {part['reason']}", "bold red")
        if part["command"]:
            say(console, f"  {part['command']}")


def _say_why(console: Console, unpriced: Sequence[dict[str, Any]]) -> None:
    """Each reason once, with the VMs that it is about."""
    named: dict[str, list[str]] = defaultdict(list)
    for each in unpriced:
        for reason in each["unpriced"]:
            named[reason].append(each["name"])
    for reason, names in list(named.items())[:_MOST_REASONS]:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        say(console, f"  {', '.join(names[:_MOST_NAMES])}{more}: {reason}", "red")


def _cells(instance: dict[str, Any], as_of: str) -> dict[str, Text]:
    started, due = instance["started_at"], instance["due_at"]
    running = "-" if started is None else ran(started, as_of)
    is_late = due is not None and moment(as_of) > moment(due)
    complete = instance["rate_per_hour"]["complete"]
    return {
        "VM": cell(instance["name"]),
        "Project / zone": cell(f"{instance['project']} / {instance['zone']}"),
        "Preset": cell(instance["preset"]),
        "GPU": cell(gpu(instance)),
        "Owner": owner(instance),
        "Status": _status(instance),
        "Age": cell(running, "bold red" if is_late else ""),
        "Limit": _limit(instance, as_of),
        "Idle": _idle(instance, as_of),
        "$/h": cell(amount_text(instance["rate_per_hour"], rate), "" if complete else "bold red"),
        "So far": cell(amount_text(instance["total_cost"], dollars)),
    }


def gpu(of: dict[str, Any]) -> str:
    """`t4 x 1 spot`; the machine type where there is no GPU."""
    what = f"{gpu_name(of['gpu_type'])} x {of['gpu_count']}" if of["gpu_type"] else of["machine_type"]
    model = of["provisioning_model"]
    return str(what) if model == "standard" else f"{what} {model.replace('_', '-')}"


def owner(instance: dict[str, Any]) -> Text:
    if not instance["owner"]:
        return cell("unclaimed", "yellow")
    how = _HOW_KNOWN.get(instance["owner_source"], instance["owner_source"])
    return cell(f"{instance['owner']} ({how})" if how else instance["owner"])


def _status(instance: dict[str, Any]) -> Text:
    if instance["gone_at"] is not None:
        return cell("gone", "dim")
    if instance["unread"]:
        return cell(f"{instance['status']}? (not read)", "bold red")
    return cell(instance["status"], "green" if instance["status"] == "running" else "")


def _limit(instance: dict[str, Any], as_of: str) -> Text:
    if instance["due_at"] is None:
        return cell("none" if instance["started_at"] is not None else "-")
    text = limit_text(as_of, instance["due_at"])
    return cell(text, "bold red" if text.startswith("over") else "")


def _short(instance: dict[str, Any], as_of: str) -> dict[str, Text]:
    """What says the same in less width: in place of a limit that there is none of, the status."""
    limit = _limit(instance, as_of)
    if instance["due_at"] is None and (instance["status"] != "running" or instance["gone_at"] is not None):
        limit = _status(instance)
    unread = " ?" if instance["unread"] else ""
    return {
        "Owner": cell(instance["owner"]) if instance["owner"] else owner(instance),
        "Limit": cell(limit.plain.replace("over by ", "over ") + unread, "bold red" if unread else limit.style),
    }


def _idle(instance: dict[str, Any], as_of: str) -> Text:
    """`2 h 10 min`, with a mark where only CPU and network say so; `no` when busy, `?` when nobody knows."""
    found = instance["idle"]
    if found is None:
        return cell("-")
    if found["state"] != "idle":
        return cell("no" if found["state"] == "busy" else "?")
    return cell(f"{age(moment(as_of) - moment(found['since']))}{' by CPU' if found['is_weak'] else ''}", "yellow")
