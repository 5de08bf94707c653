"""Lifetimes, charges, facts and prices as tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rich.console import Console

from costguard.cli.fleet_table import gpu, owner
from costguard.cli.format import age, amount_text, dollars, rate, when
from costguard.cli.tables import cell, say, table


def show_instance(console: Console, answer: dict[str, Any]) -> None:
    instance = answer["instance"]
    say(console, f"{instance['name']}  {instance['project']} / {instance['zone']}  id {instance['gce_id']}", "bold")
    facts = table(console, ("", ""))
    for name, value in (
        ("status", f"gone since {when(instance['gone_at'])}" if instance["gone_at"] else instance["status"]),
        ("preset", instance["preset"]),
        ("machine", f"{instance['machine_type']}, {gpu(instance)}"),
        ("owner", owner(instance).plain),
        ("made", f"{when(instance['created_at'])} by {instance['created_by'] or 'nobody known'}"),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(instance["labels"].items())) or "none"),
        ("limit", when(instance["due_at"]) or "none"),
        ("idle", _idle(instance["idle"])),
        ("per hour", amount_text(instance["rate_per_hour"], rate)),
        ("in all", amount_text(instance["total_cost"])),
    ):
        facts.add_row(cell(name), cell(value))
    facts.show_header = False
    console.print(facts)
    for reason in instance["unpriced"]:
        say(console, f"NOT PRICED: {reason}", "bold red")
    for lifetime in answer["lifetimes"]:
        ended = f"{when(lifetime['ended_at'])}, {_end(lifetime)}" if lifetime["ended_at"] else "now"
        _charges(console, f"Ran {when(lifetime['started_at'])} to {ended}", lifetime)
    for disk in answer["storage"]:
        ended = when(disk["ended_at"]) or "now"
        _charges(console, f"{disk['name']}, {disk['size_gib']} GiB, {when(disk['started_at'])} to {ended}", disk)


def show_lifetimes(console: Console, answer: dict[str, Any]) -> None:
    right = ("Ran", "Cost")
    made = table(console, ("VM", "Project", "Preset", "GPU", "Owner", "Started", "Ended", "Why", *right), right=right)
    for lifetime in answer["lifetimes"]:
        made.add_row(
            cell(lifetime["name"]),
            cell(lifetime["project"]),
            cell(lifetime["preset"]),
            cell(gpu(lifetime)),
            cell(lifetime["owner"] or "unclaimed"),
            cell(when(lifetime["started_at"])),
            cell(when(lifetime["ended_at"]) or "running"),
            cell(_end(lifetime)),
            cell(age(timedelta(seconds=lifetime["seconds"]))),
            cell(amount_text(lifetime["cost"]), "" if lifetime["cost"]["complete"] else "bold red"),
        )
    console.print(made)
    if answer["next_cursor"] is not None:
        say(console, f"Shown: the latest {len(answer['lifetimes'])}. --limit 0 shows all.")


def show_facts(console: Console, answer: dict[str, Any]) -> None:
    made = table(console, ("When (UTC)", "Fact", "VM", "What", "Who"))
    for fact in answer["facts"]:
        vm = " / ".join(part for part in (fact["project"], fact["name"]) if part)
        made.add_row(
            cell(when(fact["occurred_at"])), cell(fact["kind"]), cell(vm), cell(fact["text"]), cell(fact["actor"])
        )
    console.print(made)
    if answer["next_cursor"] is not None:
        say(console, f"Shown: the latest {len(answer['facts'])}. --limit 0 shows all.")


def show_prices(console: Console, answer: dict[str, Any]) -> None:
    made = table(console, ("Resource", "Region", "Model", "Rate", "Per", "Since", "Source"), right=("Rate",))
    for price in answer["prices"]:
        made.add_row(
            cell(price["resource"]),
            cell(price["region"]),
            cell(price["provisioning_model"]),
            cell(f"${price['rate']}"),
            cell(price["unit"]),
            cell(when(price["in_force_from"]), "" if price["is_in_force"] else "dim"),
            cell(price["source"]),
        )
    console.print(made)
    if answer["recorded_at"] is None:
        say(console, "No prices are known: nothing can be priced.", "bold red")
    else:
        newest = age(timedelta(seconds=answer["age_seconds"]))
        say(console, f"The newest price was recorded {newest} ago; from {', '.join(answer['sources'])}.")
    for refused in answer["refused"]:
        what = f"{refused['resource']} ({refused['provisioning_model']}) in {refused['region']}"
        say(console, f"REFUSED: {what} at ${refused['rate']}: {refused['reason']}", "yellow")
    if answer["unpriced_total"]:
        say(console, f"NOT PRICED: {answer['unpriced_total']} lifetimes and disks in use now.", "bold red")
    for unpriced in answer["unpriced"]:
        say(console, f"  {unpriced['project']} / {unpriced['name']}: {unpriced['reason']}", "bold red")


def _charges(console: Console, title: str, span: dict[str, Any]) -> None:
    console.print()
    say(console, f"{title}: {amount_text(span['cost'])}", "bold")
    right = ("Quantity", "Rate", "Seconds", "Amount")
    made = table(console, ("Resource", "Quantity", "Rate", "Per", "Seconds", "Amount"), right=right)
    for charge in span["charges"]:
        made.add_row(
            cell(charge["resource"]),
            cell(charge["quantity"]),
            cell("?" if charge["rate"] is None else f"${charge['rate']}"),
            cell(charge["unit"] or ""),
            cell(charge["seconds"]),
            cell(dollars(charge["amount"], 4)),
        )
    if span["charges"]:
        console.print(made)


def _end(lifetime: dict[str, Any]) -> str:
    """`stopped by ada`, `preempted`, and `about` where only the latest possible moment is known."""
    if lifetime["end_reason"] is None:
        return ""
    reason = lifetime["end_reason"].replace("_", " ")
    by = f" by {lifetime['ended_by']}" if lifetime["ended_by"] not in ("", "system") else ""
    return f"{reason}{by}{' (time is an estimate)' if lifetime['end_is_estimate'] else ''}"


def _idle(found: dict[str, Any] | None) -> str:
    return "not measured" if found is None else f"{found['state']} since {when(found['since'])}: {found['evidence']}"
