"""`costguard sweep`: a job for each set of parameters, launched, listed, cancelled and resumed together."""

from __future__ import annotations

import secrets
import threading
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from costguard.cli import sweep_file
from costguard.cli.command_line import CommandGroupWithDefault, CommandLine
from costguard.cli.job import file as job_file
from costguard.cli.job import jobs
from costguard.cli.job.launch import posted, request, tell
from costguard.cli.job.quotes import say_budgets
from costguard.cli.options import DEFAULT_URL, AsJson, Key, Limit, Me, Reason, Url, has_filter, print_json
from costguard.cli.server import ServerClient, WrongUsage
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
)
from costguard.ledger.narrate import sentence
from costguard.model.duration import span_text
from costguard.model.sweep import SweepState
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard sweep init > sweep.toml                    a commented example to begin with

  costguard sweep launch sweep.toml --dry-run          what it would cost

  costguard sweep launch sweep.toml                    the word launch may be left out

  costguard sweep job.toml --seeds 5                   the same job five times, each with a seed of its own
"""
_STYLES = {"running": "green", "recovering": "yellow", "failed": "bold red", "cancelled": "dim", "waiting": "dim"}
_POLL_S = 5


class Goal(StrEnum):
    """The better direction of a metric, as trainers name it."""

    MIN = "min"
    MAX = "max"


_BETTER = {Goal.MIN: "lower", Goal.MAX: "higher"}


class _FileFirst(CommandGroupWithDefault):
    """`costguard sweep FILE` is `costguard sweep launch FILE`."""

    default = "launch"


SweepId = Annotated[str, typer.Argument(metavar="SWEEP", help="The sweep's id, such as s7k2m9q4, or its name.")]
Limited = Annotated[
    str | None, typer.Option("--ceiling", metavar="USD", help="The new ceiling of all members together.")
]


def register(app: typer.Typer) -> None:
    group = CommandLine(
        cls=_FileFirst, no_args_is_help=True, help="Sweeps: a job for each set of parameters, with a common ceiling."
    )
    group.command("init", epilog="Example:  costguard sweep init > sweep.toml")(init)
    group.command("launch", epilog=_EXAMPLES)(launch)
    group.command("list", epilog="Example:  costguard sweep list --all")(list_)
    group.command("show", epilog="Example:  costguard sweep show s7k2m9q4")(show)
    group.command("cancel", epilog="Example:  costguard sweep cancel s7k2m9q4 --reason 'wrong data'")(cancel)
    group.command("resume", epilog="Example:  costguard sweep resume s7k2m9q4 --ceiling 200")(resume)
    group.command("keep", epilog="Example:  costguard sweep keep s7k2m9q4 --member 3")(keep)
    app.add_typer(group, name="sweep")


def init(as_json: AsJson = False) -> None:
    """Print a commented example of a sweep's file."""
    print_json({"file": sweep_file.EXAMPLE}) if as_json else print(sweep_file.EXAMPLE, end="")


def launch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep's file, such as sweep.toml.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would cost, and launch nothing.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", min=1, help="Launch each set of parameters, or a job's file, N times."),
    ] = None,
    halving: Annotated[
        int | None,
        typer.Option("--halving", metavar="ETA", min=2, help="Stop losers at equal steps: 3 keeps the best third."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="Halve by this evaluation; default: the job's own metric."),
    ] = None,
    goal: Annotated[
        Goal | None, typer.Option("--goal", metavar="min|max", help="The better direction of the metric.")
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", metavar="HOURS", help="The hours that each member runs, with --dry-run.")
    ] = 1,
    key: Key = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is over; exits 1 when it did not succeed.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Launch a sweep: the server launches its members in turn, also while this computer is off."""
    server = ServerClient(url)
    parts = sweep_file.read(file, may_be_job=seeds is not None)
    job = job_file.job_of(parts["launch"], "[launch]")
    body: dict[str, Any] = {name: parts[name] for name in ("name", "at_once", "seeds", "grid", "list") if name in parts}
    if seeds is not None:
        body["seeds"] = seeds
    if (how := _halving(parts.get("halving"), halving, metric, goal)) is not None:
        body["halving"] = how
    if "ceiling" in parts:
        body["ceiling"] = str(parts["ceiling"])
    if dry_run:
        quote = server.post("sweep-quotes", body={**body, "job": job.body, "hours": hours})  # it needs no code
        render(quote, as_json, show_quote)
        if quote["refusals"]:
            raise typer.Exit(1)
        return
    body["job"] = request(server, job, job.body)
    answer = posted(server, "sweeps", body, key or secrets.token_hex(16))
    if wait:
        pause = threading.Event()
        speak = (lambda _: None) if as_json else tell
        answer = jobs.follow(server, "sweep", answer, speak, lambda: pause.wait(_POLL_S), _is_over)
    render(answer, as_json, show_sweep)
    if wait and answer["sweep"]["state"] != SweepState.SUCCEEDED:
        raise typer.Exit(1)


def _halving(of_file: Any, eta: int | None, metric: str | None, goal: Goal | None) -> dict[str, Any] | None:
    """Reads how losers are stopped, of the file and the options over it; None: not at all. Raises WrongUsage."""
    said: dict[str, Any] = {"eta": of_file} if isinstance(of_file, int) else dict(of_file or {})
    said |= {name: value for name, value in (("eta", eta), ("metric", metric), ("goal", goal)) if value is not None}
    if not said:
        return None
    if "eta" not in said:
        raise WrongUsage("A metric to halve by was given, and not how many members go on.", "Add --halving 3.")
    if unknown := sorted(set(said) - {"eta", "metric", "goal"}):
        raise WrongUsage(f"halving: {unknown[0]} means nothing here.", "Known are eta, metric and goal.")
    if "goal" in said and said["goal"] not in tuple(Goal):
        raise WrongUsage(f"halving: the goal {said['goal']} is unknown.", "Write min or max.")
    better = {"better": _BETTER[Goal(said["goal"])]} if "goal" in said else {}
    return {"eta": said["eta"], "metric": said.get("metric", ""), **better}


def list_(
    state: Annotated[SweepState | None, typer.Option("--state", metavar="STATE", help="Only this state.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="ADDRESS", help="Only this owner's.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include sweeps that are over.")] = False,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List sweeps, the newest first: state with its reason, members by state, and cost so far."""
    wanted = state if state is not None or everything else SweepState.RUNNING
    answer = ServerClient(url).pages("sweeps", "sweeps", limit, state=wanted, owner=owner)
    render(answer, as_json, show_sweeps, has_filter(owner, wanted))


def show(sweep_id: SweepId, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show a sweep: each member with its parameters, state, step, metric and cost."""
    render(ServerClient(url).get("sweeps", sweep_id), as_json, show_sweep)


def cancel(
    sweep_id: SweepId, reason: Reason = "", owner: Me = "", url: Url = DEFAULT_URL, as_json: AsJson = False
) -> None:
    """Cancel a sweep: open members may save first, and no others are launched. Repeating it is harmless."""
    body = {"reason": reason, **({"by": owner} if owner else {})}
    render(ServerClient(url).post("sweeps", sweep_id, "cancel", body=body), as_json, show_state)


def resume(
    sweep_id: SweepId,
    member: Annotated[
        list[int] | None, typer.Option("--member", metavar="NUMBER", help="Only this member; repeatable.")
    ] = None,
    ceiling: Limited = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", metavar="N", min=1, help="The new number of members at a time.")
    ] = None,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Launch failed members again from their checkpoints, and members that were never launched."""
    body: dict[str, Any] = {"members": member or [], "ceiling": ceiling, "at_once": at_once}
    answer = ServerClient(url).post("sweeps", sweep_id, "resume", body={**body, **({"by": owner} if owner else {})})
    render(answer, as_json, show_state)


def keep(
    sweep_id: SweepId,
    member: Annotated[
        list[int] | None,
        typer.Option("--member", metavar="NUMBER", help="Only this member; repeatable. Default: all, ending halving."),
    ] = None,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Keep members from being stopped by halving. Without --member no member is stopped any more."""
    body = {"members": member or [], **({"by": owner} if owner else {})}
    render(ServerClient(url).post("sweeps", sweep_id, "keep", body=body), as_json, show_state)


def _is_over(answer: Answer) -> bool:
    return bool(answer["sweep"]["state"] != SweepState.RUNNING)


def _state(row: Answer) -> Text:
    return cell(row["state"], _STYLES.get(row["state"], ""))


_SWEEPS = (
    Column("Sweep", "id"),
    Column("Name", lambda sweep: sweep["name"] or "-"),
    Column("Owner", "owner", spare=3),
    Column("Preset", "preset", spare=2),
    Column("State", _state),
    Column("Done", lambda sweep: f"{sweep['succeeded']}/{sweep['members']}", right=True),
    Column("Failed", "failed", right=True, spare=1),
    Column("Cost", lambda sweep: amount_text(sweep["cost"]), right=True),
    Column("Why, and what comes next", lambda sweep: sentence(sweep["reason"]), prose=True),
)


def show_sweeps(console: Console, answer: Answer, is_filtered: bool) -> None:
    nothing = nothing_fits("sweep", is_filtered, "`costguard sweep list --all` includes those that are over.")
    show_page(console, _SWEEPS, answer, "sweeps", nothing=nothing, order="newest")


def show_sweep(console: Console, answer: Answer) -> None:
    """Prints its state and the table of its members, the best by its metric first, and the sweep's result."""
    show_state(console, answer)
    parameters = [
        Column(name, lambda member, name=name: member["parameters"][name])  # type: ignore[misc]
        for name in answer["parameters"]
    ]
    metric = [Column(f"Best ({answer['better']})", _metric, right=True)] if answer["better"] else []
    columns = (
        Column("No.", "number", right=True),
        *parameters,
        Column("State", _state),
        Column("Step", lambda member: "-" if member["step"] is None else f"{member['step']:,}", right=True, spare=3),
        *metric,
        Column("Attempts", "attempts", right=True, spare=1),
        Column("Cost", lambda member: amount_text(member["cost"]), right=True),
        Column("Job", lambda member: member["job"] or "-"),
        Column("Why", lambda member: sentence(member["reason"]) if member["reason"] else "", prose=True, spare=2),
    )
    show_table(console, columns, answer["members"])
    if answer.get("result") is not None:
        say(console, answer["result"]["text"], "bold")


def show_state(console: Console, answer: Answer) -> None:
    sweep = answer["sweep"]
    say(console, f"{sweep['title']}  {sweep['id']}  {sweep['state']}", "bold")
    say(console, sentence(sweep["reason"]))
    limit = f" of at most {dollars(sweep['ceiling'])}" if sweep["ceiling"] is not None else ""
    reserved = f"; VMs that run may cost {dollars(sweep['reserved'])} more" if sweep["reserved"] is not None else ""
    say(console, f"Cost so far: {amount_text(sweep['cost'])}{limit}{reserved}.")
    if (halving := answer["halving"]) is not None:
        say(console, _halving_text(halving))
    if sweep["state"] == SweepState.RUNNING:
        say(console, f"Cancel it with: costguard sweep cancel {sweep['id']}", "dim")
    elif sweep["succeeded"] < sweep["members"]:
        say(console, f"Go on with what is left: costguard sweep resume {sweep['id']}", "dim")


def _halving_text(halving: Answer) -> str:
    """`Halving by val_loss has stopped 6 members, which is expected to save 41 hours of GPUs ($73.20).`"""
    by = f"Halving by {halving['metric'] or 'its metric'}"
    if halving["ended_at"] is not None:
        by += f", which {halving['ended_by']} ended,"
    if halving["waits"] and not halving["stopped"]:
        return f"{by} waits: {halving['waits']}."
    said = f"{by} has stopped {count_text(halving['stopped'], 'member')}"
    if halving["gpu_time"] is None:
        return f"{said}." if not halving["stopped"] else f"{said}; what that saves is not known."
    cost = f" ({dollars(halving['saved'])})" if halving["saved"] is not None else ""
    missing = f", without {halving['unknown']} of unknown pace or price" if halving["unknown"] else ""
    return f"{said}, expected to save {span_text(timedelta(seconds=halving['gpu_time']))} of GPUs{cost}{missing}."


def _metric(member: Answer) -> Text:
    metric = member["metric"]
    if metric is None or metric["best"] is None:
        return cell("-")
    return cell(metric["best"]["text"], "bold green" if member["is_best"] else "")


def show_quote(console: Console, answer: Answer) -> None:
    members, hours = answer["members"], float(answer["hours"])
    if members:
        names = list(members[0]["parameters"])
        parameters = [
            Column(name, lambda member, name=name: member["parameters"][name])  # type: ignore[misc]
            for name in names
        ]
        costs = Column("Cost", lambda member: _cost(member["first"]), right=True)
        zones = Column("Zone", lambda member: member["first"]["zone"] if member["first"] else "-")
        show_table(console, (Column("No.", "number", right=True), *parameters, zones, costs), members)
        total = dollars(answer["total"]) if answer["total"] is not None else "not priced"
        length = span_text(timedelta(hours=hours))
        say(console, f"{count_text(len(members), 'member')} of {length} each: {total}.", "bold")
        say(
            console,
            f"With so many at once, the last ends after {span_text(timedelta(seconds=answer['span_seconds']))}.",
        )
    if answer["ceiling"] is not None:
        say(console, f"They stop at the ceiling of {dollars(answer['ceiling'])}.")
    say_budgets(console, answer["budgets"])
    for warning in answer["warnings"]:
        say(console, f"WARNING: {warning}", "yellow")
    for refusal in answer["refusals"]:
        say(console, f"WOULD BE REFUSED: {refusal['message']}", "bold red")


def _cost(offer: Answer | None) -> str:
    return "not priced" if offer is None or offer["cost"] is None else dollars(offer["cost"])
