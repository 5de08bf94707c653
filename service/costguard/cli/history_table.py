"""Lifetimes, charges, facts and prices as tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rich.console import Console

from costguard.cli.fleet_table import gpu, owner
from costguard.cli.format import age, amount_text, count, dollars, limit_text, rate, when
from costguard.cli.tables import Row, cell, say, say_nothing, show_table


def show_instance(console: Console, answer: dict[str, Any]) -> None:
    instance = answer["instance"]
    say(console, f"{instance['name']}  {instance['project']} / {instance['zone']}  id {instance['gce_id']}", "bold")
    if why_not := answer.get("not_stopped"):  # a server of an earlier version does not say
        say(console, why_not["sentence"])
    due_at = instance["due_at"]
    values = (
        ("status", f"gone since {when(instance['gone_at'])}" if instance["gone_at"] else instance["status"]),
        ("preset", instance["preset"]),
        ("machine", f"{instance['machine_type']}, {gpu(instance)}"),
        ("owner", owner(instance).plain),
        ("made", f"{when(instance['created_at'])} by {instance['created_by'] or 'nobody known'}"),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(instance["labels"].items())) or "none"),
        ("limit", f"{when(due_at)}, {limit_text(answer['as_of'], due_at)}" if due_at else "none"),
        ("use", _use(instance)),
        ("per hour", amount_text(instance["rate_per_hour"], rate)),
        ("in all", amount_text(instance["total_cost"])),
    )
    show_table(console, ("", " "), [{"": cell(name), " ": cell(value)} for name, value in values], prose=(" ",))
    for reason in instance["unpriced"]:
        say(console, f"NOT PRICED: {reason}", "bold red")
    for lifetime in answer["lifetimes"]:
        ended = f"{when(lifetime['ended_at'])}, {_end(lifetime)}" if lifetime["ended_at"] else "now"
        _charges(console, f"Ran {when(lifetime['started_at'])} to {ended}", lifetime)
    for disk in answer["storage"]:
        ended = when(disk["ended_at"]) or "now"
        _charges(console, f"{disk['name']}, {disk['size_gib']} GiB, {when(disk['started_at'])} to {ended}", disk)


def show_lifetimes(console: Console, answer: dict[str, Any], asked: bool) -> None:
    rows: list[Row] = [
        {
            "VM": cell(lifetime["name"]),
            "Project": cell(lifetime["project"]),
            "Preset": cell(lifetime["preset"]),
            "GPU": cell(gpu(lifetime)),
            "Owner": cell(lifetime["owner"] or "unclaimed"),
            "Started": cell(when(lifetime["started_at"])),
            "Ended": cell(when(lifetime["ended_at"]) or "running"),
            "Why": cell(_end(lifetime)),
            "Ran": cell(age(timedelta(seconds=lifetime["seconds"]))),
            "Cost": cell(amount_text(lifetime["cost"]), "" if lifetime["cost"]["complete"] else "bold red"),
        }
        for lifetime in answer["lifetimes"]
    ]
    if rows:
        spare = ("Project", "Preset", "GPU", "Ended", "Owner", "Why")
        show_table(console, tuple(rows[0]), rows, right=("Ran", "Cost"), prose=("Why",), spare=spare)
    else:
        say_nothing(console, "lifetime", asked, "`costguard lifetimes` alone shows the latest of all VMs.")
    if answer["next_cursor"] is not None:
        say(console, f"Shown: the latest {len(answer['lifetimes'])}. --limit 0 shows all.")


def show_facts(console: Console, answer: dict[str, Any], asked: bool) -> None:
    rows: list[Row] = [
        {
            "When (UTC)": cell(when(fact["occurred_at"])),
            "Fact": cell(fact["kind"]),
            "VM": cell(" / ".join(part for part in (fact["project"], fact["name"]) if part)),
            "What": cell(fact["text"]),
            "Who": cell(fact["actor"]),
        }
        for fact in answer["facts"]
    ]
    if rows:
        show_table(console, tuple(rows[0]), rows, prose=("What",), spare=("Fact", "Who", "VM"))
    else:
        hint = "`costguard facts` alone shows the latest of every kind; `costguard show NAME` tells a VM's id."
        say_nothing(console, "fact", asked, hint)
    if answer["next_cursor"] is not None:
        say(console, f"Shown: the latest {len(answer['facts'])}. --limit 0 shows all.")


def show_prices(console: Console, answer: dict[str, Any], asked: bool) -> None:
    rows: list[Row] = [
        {
            "Resource": cell(price["resource"]),
            "Region": cell(price["region"]),
            "Model": cell(price["provisioning_model"]),
            "Rate": cell(f"${price['rate']}"),
            "Per": cell(price["unit"]),
            "Since": cell(when(price["in_force_from"]), "" if price["is_in_force"] else "dim"),
            "Source": cell(price["source"]),
        }
        for price in answer["prices"]
    ]
    if rows:
        show_table(console, tuple(rows[0]), rows, right=("Rate",), spare=("Since", "Source"))
    elif asked:
        say_nothing(console, "price", asked, "`costguard prices` alone lists every resource and region there is.")
    if answer["recorded_at"] is None:
        say(console, "No prices are known: nothing can be priced.", "bold red")
    else:
        newest = age(timedelta(seconds=answer["age_seconds"]))
        say(console, f"The newest price was recorded {newest} ago; from {', '.join(answer['sources'])}.")
    for refused in answer["refused"]:
        what = f"{refused['resource']} ({refused['provisioning_model']}) in {refused['region']}"
        say(console, f"REFUSED: {what} at ${refused['rate']}: {refused['reason']}", "yellow")
    if answer["unpriced_total"]:
        unpriced_now = count(answer["unpriced_total"], "lifetime or disk", "lifetimes and disks")
        say(console, f"NOT PRICED: {unpriced_now} in use now.", "bold red")
    for unpriced in answer["unpriced"]:
        say(console, f"  {unpriced['project']} / {unpriced['name']}: {unpriced['reason']}", "bold red")


def _charges(console: Console, title: str, span: dict[str, Any]) -> None:
    console.print()
    say(console, f"{title}: {amount_text(span['cost'])}", "bold")
    rows: list[Row] = [
        {
            "Resource": cell(charge["resource"]),
            "Quantity": cell(charge["quantity"]),
            "Rate": cell("?" if charge["rate"] is None else f"${charge['rate']}"),
            "Per": cell(charge["unit"] or ""),
            "Seconds": cell(charge["seconds"]),
            "Amount": cell(dollars(charge["amount"], 4)),
        }
        for charge in span["charges"]
    ]
    if rows:
        right = ("Quantity", "Rate", "Seconds", "Amount")
        show_table(console, tuple(rows[0]), rows, right=right, spare=("Seconds", "Per", "Quantity"))


def _end(lifetime: dict[str, Any]) -> str:
    """`stopped by ada`, `preempted`, and `about` where only the latest possible moment is known."""
    if lifetime["end_reason"] is None:
        return ""
    reason = lifetime["end_reason"].replace("_", " ")
    by = f" by {lifetime['ended_by']}" if lifetime["ended_by"] not in ("", "system") else ""
    return f"{reason}{by}{' (time is an estimate)' if lifetime['end_is_estimate'] else ''}"


def _use(instance: dict[str, Any]) -> str:
    found = instance["idle"]
    if instance["started_at"] is None:
        return "does not run"
    return "not measured" if found is None else f"{found['state']} since {when(found['since'])}: {found['evidence']}"
