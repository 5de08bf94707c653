"""`costguard lifetimes` and `costguard prices`: what ran, and what it is billed at."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from costguard.cli.options import DEFAULT_URL, AsJson, Limit, Owner, Preset, Project, Url, has_filter
from costguard.cli.server import ServerClient
from costguard.cli.tables import (
    Answer,
    Column,
    amount_text,
    cell,
    dollars,
    nothing_fits,
    render,
    say,
    show_page,
    show_table,
    when,
)
from costguard.model.duration import span_text
from costguard.model.instance import gpu_name
from costguard.model.lifetime import EndReason
from costguard.model.words import count_text


def register(app: typer.Typer) -> None:
    app.command("lifetimes", epilog="Example:  costguard lifetimes --owner ada@example.com --open")(lifetimes)
    app.command("prices", epilog="Example:  costguard prices --resource gpu: --region us-central1")(prices)


def lifetimes(
    project: Project = None,
    preset: Preset = None,
    owner: Owner = None,
    reason: Annotated[
        list[EndReason] | None,
        typer.Option("--reason", metavar="REASON", help="Only those that ended like this, such as preempted."),
    ] = None,
    is_open: Annotated[
        bool | None, typer.Option("--open/--ended", help="Only those still running, or only those that ended.")
    ] = None,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List continuous runs of VMs with their start, their end and its reason, and their cost."""
    filters: dict[str, Any] = {
        "project": project,
        "preset": preset,
        "owner": owner,
        "end_reason": reason,
        "state": None if is_open is None else "open" if is_open else "ended",
    }
    answer = ServerClient(url).pages("lifetimes", "lifetimes", limit, **filters)
    render(answer, as_json, show_lifetimes, has_filter(*filters.values()))


def prices(
    resource: Annotated[
        str | None, typer.Option("--resource", "-r", metavar="NAME", help="Only resources whose names begin with this.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="Only this region.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Include prices that are no longer in force.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List prices in force, refused prices, and resources without a price."""
    answer = ServerClient(url).get("prices", resource=resource, region=region, history=history)
    render(answer, as_json, show_prices, has_filter(resource, region))


def gpu(vm: Answer) -> str:
    """`t4 x 1 spot`; the machine type where there is no GPU or TPU."""
    what = f"{gpu_name(vm['gpu_type'])} x {vm['gpu_count']}" if vm["gpu_type"] else vm["machine_type"]
    model = vm["provisioning_model"]
    return str(what) if model == "standard" else f"{what} {model.replace('_', '-')}"


def _ending(lifetime: Answer) -> str:
    """`stopped by ada`, `preempted`; marked where only the latest possible time is known."""
    if lifetime["end_reason"] is None:
        return ""
    reason = lifetime["end_reason"].replace("_", " ")
    by = f" by {lifetime['ended_by']}" if lifetime["ended_by"] not in ("", "system") else ""
    return f"{reason}{by}{' (time is an estimate)' if lifetime['end_is_estimate'] else ''}"


def _cost(lifetime: Answer) -> Text:
    return cell(amount_text(lifetime["cost"]), "" if lifetime["cost"]["complete"] else "bold red")


_LIFETIMES = (
    Column("VM", "name"),
    Column("Project", "project", spare=1),
    Column("Preset", "preset", spare=2),
    Column("GPU, TPU", gpu, spare=3),
    Column("Owner", lambda lifetime: lifetime["owner"] or "unclaimed", spare=5),
    Column("Started", lambda lifetime: when(lifetime["started_at"])),
    Column("Ended", lambda lifetime: when(lifetime["ended_at"]) or "running", spare=4),
    Column("Why", _ending, prose=True, spare=6),
    Column("Ran", lambda lifetime: span_text(timedelta(seconds=lifetime["seconds"])), right=True),
    Column("Cost", _cost, right=True),
)
_PRICES = (
    Column("Resource", "resource"),
    Column("Region", "region"),
    Column("Model", "provisioning_model"),
    Column("Rate", lambda price: f"${price['rate']}", right=True),
    Column("Per", "unit"),
    Column("Since", lambda price: cell(when(price["in_force_from"]), "" if price["is_in_force"] else "dim"), spare=1),
    Column("Source", "source", spare=2),
)
_CHARGES = (
    Column("Resource", "resource"),
    Column("Quantity", "quantity", right=True, spare=3),
    Column("Rate", lambda charge: "?" if charge["rate"] is None else f"${charge['rate']}", right=True),
    Column("Per", lambda charge: charge["unit"] or "", spare=2),
    Column("Seconds", "seconds", right=True, spare=1),
    Column("Amount", lambda charge: dollars(charge["amount"], 4), right=True),
)


def show_lifetimes(console: Console, answer: Answer, is_filtered: bool) -> None:
    hint = "`costguard lifetimes` alone shows the latest of all VMs."
    show_page(console, _LIFETIMES, answer, "lifetimes", nothing=nothing_fits("lifetime", is_filtered, hint))


def show_lifetime(console: Console, lifetime: Answer) -> None:
    ended = f"{when(lifetime['ended_at'])}, {_ending(lifetime)}" if lifetime["ended_at"] else "now"
    show_charges(console, f"Ran {when(lifetime['started_at'])} to {ended}", lifetime)


def show_charges(console: Console, title: str, span: Answer) -> None:
    """The charges of a lifetime or disk under a title with their sum."""
    console.print()
    say(console, f"{title}: {amount_text(span['cost'])}", "bold")
    if span["charges"]:
        show_table(console, _CHARGES, span["charges"])


def show_prices(console: Console, answer: Answer, is_filtered: bool) -> None:
    if answer["prices"]:
        show_table(console, _PRICES, answer["prices"])
    elif is_filtered:
        say(console, nothing_fits("price", True, "`costguard prices` alone lists every resource and region."))
    if answer["recorded_at"] is None:
        say(console, "No prices are known: nothing can be priced.", "bold red")
    else:
        newest = span_text(timedelta(seconds=answer["age_seconds"]))
        say(console, f"The newest price was recorded {newest} ago; sources: {', '.join(answer['sources'])}.")
    for refused in answer["refused"]:
        what = f"{refused['resource']} ({refused['provisioning_model']}) in {refused['region']}"
        say(console, f"REFUSED: {what} at ${refused['rate']}: {refused['reason']}", "yellow")
    if answer["unpriced_total"]:
        unpriced = count_text(answer["unpriced_total"], "lifetime or disk", "lifetimes and disks")
        say(console, f"NOT PRICED: {unpriced} in use now.", "bold red")
    for span in answer["unpriced"]:
        say(console, f"  {span['project']} / {span['name']}: {span['reason']}", "bold red")
