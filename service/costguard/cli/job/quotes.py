"""`costguard quote`: what a launch would cost, zone by zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from costguard.cli.job.file import JobCommand
from costguard.cli.job.launch_options import JobOptions, takes_job
from costguard.cli.job.like import Like, like_job
from costguard.cli.job.page import MODELS
from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, dollars, rate, render, say, say_price_note, show_table
from costguard.model.money import Money, about_text, exact_text
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard quote a100 --hours 40                  Spot and on-demand in every zone, the best first

  costguard quote a100 --input s3://acme-data/v7=/data     also what transferring its data costs

  costguard quote --like fb12 h100                 what the same job would cost on another preset

  costguard quote job.toml                         what a job's file would cost

  costguard quote a100 --zone us-central1-a --buy demand --json
"""


def register(app: typer.Typer) -> None:
    app.command("quote", epilog=_EXAMPLES, cls=JobCommand)(quote)


@takes_job
def quote(
    job: JobOptions,
    context: typer.Context,
    like: Like = "",
    hours: Annotated[
        float | None,
        typer.Option("--hours", metavar="HOURS", help="The hours to quote for. Default: as --work says, else 1."),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Quote a launch, Spot and on-demand, zone by zone. Nothing is launched.

    Takes every option of `costguard launch`. Exits 1 when the launch would be refused.
    """
    server = ServerClient(url)
    body = like_job(server, like, job, context, continues=False).body if like else job.body
    show_quoted(quoted(server, job, body, hours), as_json)


def quoted(server: ServerClient, job: JobOptions, given: Mapping[str, Any], hours: float | None = None) -> Answer:
    """The server's quote for this request. The work directory stays here: a price needs no code."""
    body = dict(given)
    if job.workdir:
        body.pop("workdir", None)  # a folder in the code
    if {"ceiling", "max_vm_hours", "deadline", "deadline_in_hours"} & set(body):
        body.setdefault("work_hours", hours or 1)
    answer: Answer = server.post("quotes", body={**body, "hours": hours or job["work"] or 1})
    return answer


def show_quoted(answer: Answer, as_json: bool) -> None:
    """Exits 1 where the launch would be refused."""
    render(answer, as_json, show_quote)
    if answer["refusals"]:
        raise typer.Exit(1)


def _expected(expected: Answer) -> str:
    """`By its deadline: about $16.30 ($9.60 to $31.20 in nine of ten cases); 28% need on-demand.`"""
    between = f"{dollars(expected['low'])} to {dollars(expected['high'])} in nine of ten cases"
    return (
        f"By its deadline: {about_text(dollars(expected['mean']))} ({between}); "
        f"{expected['on_demand_percent']}% chance that it needs an on-demand VM."
    )


def _rate(amount: str | None, unpriced: str) -> str:
    return unpriced if amount is None else rate(amount)


def _address(hourly: Answer) -> str:
    """Two of Google's prices of an address differ in the fourth place. Servers of an earlier version send none."""
    amount = hourly.get("address")
    if amount is None:
        return "-"
    return exact_text(Money.of(amount)) if Money.of(amount) else "none"


def _flex(place: Answer) -> str | None:
    """An hour by flex-start, where Google sells it there. Servers of an earlier version send none."""
    return cast("str | None", (place.get("flex") or {}).get("total"))


_FLEX = Column("Flex $/h", lambda place: _rate(_flex(place), "unpriced"), right=True)
_ZONES = (
    Column("Zone", "zone"),
    Column("Spot $/h", lambda place: _rate(place["spot"]["total"], "unpriced"), right=True),
    Column("On-demand $/h", lambda place: _rate(place["on_demand"]["total"], "unpriced"), right=True),
    Column("GPU", lambda place: _rate(place["spot"]["gpu"], "-"), right=True, spare=3),
    Column("Machine", lambda place: _rate(place["spot"]["machine"], "-"), right=True, spare=2),
    Column("Disk", lambda place: _rate(place["spot"]["disk"], "-"), right=True, spare=1),
    Column("Address", lambda place: _address(place["spot"]), right=True, spare=4),
    Column("Note", "note", prose=True),
)


def _figure(value: float | None, number: str | None = None) -> str:
    """`312 bf16`; a dash where the chip's figures are not known."""
    text = "-" if value is None else f"{value:,.10g}"
    return f"{text} {number}" if value is not None and number else text


_PRESETS = (
    Column("Preset", "preset"),
    Column("VM", "machine_type", spare=2),
    Column("$/h", lambda one: _rate(one["rate_per_hour"], "unpriced"), right=True),
    Column(
        "Bought", lambda one: MODELS.get(one["provisioning_model"] or "", one["provisioning_model"] or "-"), spare=3
    ),
    Column("Peak TFLOP/s", lambda one: _figure(one["peak_tflops"], one["peak_number"]), right=True, spare=1),
    Column("$/EFLOP", lambda one: "-" if one["per_exaflop"] is None else rate(one["per_exaflop"]), right=True),
    Column("GB/s", lambda one: _figure(one["memory_gb_per_s"]), right=True, spare=1),
    Column(
        "$/h per 1,000 GB/s",
        lambda one: "-" if one["per_tb_s_hour"] is None else rate(one["per_tb_s_hour"]),
        right=True,
    ),
)


def _show_presets(console: Console, presets: Sequence[Answer]) -> None:
    """The machines of all presets, where there are several to choose from. Servers of an earlier version send none."""
    if len(presets) < 2:
        return
    console.print()
    show_table(console, _PRESETS, presets)
    say(
        console,
        "Presets at today's prices, the least for a FLOP at its peak first (EFLOP: 10^18 operations). Peaks are from "
        "data sheets; no script reaches them: costguard alike compares what runs of a script really cost.",
        "dim",
    )


def show_quote(console: Console, answer: Answer) -> None:
    hours = answer["hours"]
    if (machine := answer["machine"]) is not None:
        say(console, f"{answer['preset']}: {_machine(machine, answer.get('nodes', 1))}", "bold")
    if answer["places"]:
        flex = any(_flex(place) for place in answer["places"])
        show_table(console, (*_ZONES[:2], _FLEX, *_ZONES[2:]) if flex else _ZONES, answer["places"])
        say(console, "GPU, machine, disk and address are Spot prices. The first zone is tried first.", "dim")
    say_price_note(console, answer)
    console.print()
    first, cheapest = answer["first"], answer["cheapest"]
    if first is not None:
        say(console, f"Now: {_total(first, hours)}", "bold")
    if cheapest is not None and cheapest != first:
        say(console, f"Cheapest: {_total(cheapest, hours)}")
    if answer["saving_percent"] is not None:
        say(console, f"Spot saves {answer['saving_percent']}% against on-demand there.")
    if (expected := answer.get("expected")) is not None:
        say(console, _expected(expected), "bold")
    if len(ways := answer.get("ways") or ()) > 1:
        say(console, f"Expected to its end: {', '.join(way['text'] for way in ways)}.", "bold")
    if answer.get("on_notice"):
        say(console, f"At a preemption {answer['on_notice']}.")
    for move in answer["moves"]:
        say(console, move["note"])
    say_budgets(console, answer["budgets"])
    _show_presets(console, answer.get("presets", ()))
    for warning in answer["warnings"]:
        say(console, f"WARNING: {warning}", "yellow")
    for refusal in answer["refusals"]:
        say(console, f"WOULD BE REFUSED: {refusal['message']}", "bold red")


def say_budgets(console: Console, budgets: Sequence[Answer]) -> None:
    """`Budget lab: $20.00 of $100.00 left this month, $24.40 over after this.`"""
    for budget in budgets:
        left, limit, after = budget["left"], dollars(budget["limit"]), budget["left_after"] or "0"
        now = f"{_unsigned(left)} over the {limit} of" if _is_over(left) else f"{_unsigned(left)} of {limit} left"
        then = (
            f", {_unsigned(after)} {'over' if _is_over(after) else 'left'} after this" if budget["left_after"] else ""
        )
        style = "bold red" if _is_over(left) or _is_over(after) else ""
        say(console, f"Budget {budget['name']}: {now} this {budget['period']}{then}.", style)


def _is_over(amount: str) -> bool:
    return amount.startswith("-")


def _unsigned(amount: str) -> str:
    return dollars(amount.removeprefix("-"))


def _machine(machine: Answer, nodes: int) -> str:
    """`3 x g2-standard-8, 1 x nvidia-l4, ...`, whose prices follow for all of them. Servers of an earlier version do
    not say how many there are.
    """
    count = f"{nodes} x " if nodes > 1 else ""
    gpus = f", {machine['gpu_count']} x {machine['gpu_type']}" if machine["gpu_count"] else ""
    size = f", {machine['vcpus']} vCPUs, {machine['memory_mib'] / 1024:,.0f} GiB" if machine["vcpus"] else ""
    return f"{count}{machine['machine_type']}{gpus}{size}, {machine['disk_gib']} GiB of disk"


def _total(offer: Answer, hours: str) -> str:
    model = MODELS.get(offer["provisioning_model"], offer["provisioning_model"])
    if offer["cost"] is None:
        return f"{offer['zone']}, {model}: not priced"
    span = count_text(int(float(hours)), "hour") if float(hours).is_integer() else f"{hours} hours"
    return f"{dollars(offer['cost'])} for {span} in {offer['zone']}, {model}, {rate(offer['rate_per_hour'])} an hour"
