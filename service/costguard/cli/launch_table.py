"""What was launched, and what it would cost."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from costguard.cli.format import count, dollars, rate
from costguard.cli.jobs_table import show_access
from costguard.cli.tables import Row, cell, say, show_table
from costguard.ledger.narrate import sentence

_MODELS = {"spot": "Spot", "standard": "on-demand"}


def show_launched(console: Console, answer: dict[str, Any]) -> None:
    job = answer["job"]
    say(console, f"{job['title']}  {job['id']}  {job['state']}", "bold")
    say(console, sentence(job["reason"]))
    if answer["ssh_command"]:
        show_access(console, answer)
    elif job["kind"] == "dev":
        say(console, f"How to reach it, once it is up: costguard job {job['id']}")
    else:
        say(console, f"See it with: costguard job {job['id']}; end it with: costguard cancel {job['id']}")


def show_quote(console: Console, answer: dict[str, Any]) -> None:
    hours = answer["hours"]
    if (machine := answer["machine"]) is not None:
        say(console, f"{answer['preset']}: {_machine(machine)}", "bold")
    rows: list[Row] = [
        {
            "Zone": cell(each["zone"]),
            "Spot $/h": cell(_rate(each["spot"])),
            "On-demand $/h": cell(_rate(each["on_demand"])),
            "GPU": cell(_part(each["spot"]["gpu"])),
            "Machine": cell(_part(each["spot"]["machine"])),
            "Disk": cell(_part(each["spot"]["disk"])),
            "Note": cell(each["note"]),
        }
        for each in answer["places"]
    ]
    if rows:
        money = ("Spot $/h", "On-demand $/h", "GPU", "Machine", "Disk")
        show_table(console, tuple(rows[0]), rows, right=money, prose=("Note",), spare=("Disk", "Machine", "GPU"))
        say(console, "GPU, machine and disk are Spot's. The first zone is tried first.", "dim")
    console.print()
    for name, words in (("first", "Now"), ("cheapest", "Cheapest")):
        found = answer[name]
        if found is not None and (name == "first" or found != answer["first"]):
            say(console, f"{words}: {_total(found, hours)}", "bold" if name == "first" else "")
    if answer["saving_percent"] is not None:
        say(console, f"Spot saves {answer['saving_percent']}% against on-demand there.")
    for each in answer["budgets"]:
        left = f"{dollars(each['left'])} of {dollars(each['limit'])} left this {each['period']}"
        after = f", {dollars(each['left_after'])} after this" if each["left_after"] is not None else ""
        say(console, f"Budget {each['name']}: {left}{after}.", _over(each))
    for each in answer["warnings"]:
        say(console, f"WARNING: {each}", "yellow")
    for each in answer["refusals"]:
        say(console, f"WOULD BE REFUSED: {each['message']}", "bold red")


def _machine(of: dict[str, Any]) -> str:
    gpus = f", {of['gpu_count']} x {of['gpu_type']}" if of["gpu_count"] else ""
    size = f", {of['vcpus']} vCPUs, {of['memory_mib'] / 1024:,.0f} GiB" if of["vcpus"] else ""
    return f"{of['machine_type']}{gpus}{size}, {of['disk_gib']} GiB of disk"


def _total(of: dict[str, Any], hours: str) -> str:
    model = _MODELS.get(of["provisioning_model"], of["provisioning_model"])
    if of["cost"] is None:
        return f"{of['zone']}, {model}: not priced"
    span = count(int(float(hours)), "hour") if float(hours).is_integer() else f"{hours} hours"
    return f"{dollars(of['cost'])} for {span} in {of['zone']}, {model}, {rate(of['rate_per_hour'])} an hour"


def _rate(of: dict[str, Any]) -> str:
    return "unpriced" if of["total"] is None else rate(of["total"])


def _part(amount: str | None) -> str:
    return "-" if amount is None else rate(amount)


def _over(budget: dict[str, Any]) -> str:
    return "bold red" if str(budget["left_after"] or budget["left"]).startswith("-") else ""
