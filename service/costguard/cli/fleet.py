"""`costguard ps` and `costguard show`: the fleet, and one VM."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from costguard.cli.ledger import gpu, show_charges, show_lifetime
from costguard.cli.options import (
    DEFAULT_URL,
    AsJson,
    Cluster,
    Keepers,
    Limit,
    Owner,
    Preset,
    Project,
    Url,
    Vm,
    has_filter,
)
from costguard.cli.server import ServerClient
from costguard.cli.tables import (
    NARROW,
    Answer,
    Column,
    amount_text,
    cell,
    clean_lines,
    console,
    dollars,
    limit_text,
    moment,
    nothing_fits,
    ran,
    rate,
    render,
    say,
    say_price_note,
    show_table,
    show_values,
    when,
)
from costguard.errors import CostguardError, ServerUnreachable
from costguard.model.duration import span_text
from costguard.model.instance import InstanceKind, Status, is_id
from costguard.model.keeper import KeeperKind
from costguard.model.words import count_text

_PS_EXAMPLES = """Examples:

  costguard ps                          the whole fleet, the most expensive first

  costguard ps --owner "" --sort age    what nobody owns, the oldest first

  costguard ps --watch 5                refreshed every five seconds
"""
_MOST_REASONS, _MOST_NAMES = 5, 3
_OF_VERTEX = {kind.value: kind.in_words for kind in InstanceKind if kind.is_of_vertex}
_VM = InstanceKind.INSTANCE.value
_MOST_NAMESAKES = 20
_OWNER_SOURCES = {"job": "job", "label": "label", "cluster": "cluster", "claim": "claimed it", "creator": "made it"}
_NAMED = 3  # of projects that are not read


def register(app: typer.Typer) -> None:
    app.command("ps", epilog=_PS_EXAMPLES)(ps)
    app.command("show", epilog="Example:  costguard show trainer-3 --project lab")(show)


def ps(
    project: Project = None,
    preset: Preset = None,
    owner: Owner = None,
    status: Annotated[
        list[Status] | None, typer.Option("--status", metavar="STATUS", help="Only this status, such as running.")
    ] = None,
    gpu_type: Annotated[
        str | None, typer.Option("--gpu", metavar="TYPE", help="An accelerator type, any, or none.")
    ] = None,
    spot: Annotated[
        bool | None, typer.Option("--spot/--no-spot", help="Only what is bought as Spot, or only others.")
    ] = None,
    keeper: Keepers = None,
    cluster: Cluster = None,
    gone: Annotated[bool, typer.Option("--all", "-a", help="Include what is gone.")] = False,
    sort: Annotated[Literal["rate", "age", "name"], typer.Option("--sort", help="The column to sort by.")] = "rate",
    limit: Limit = 200,
    watch: Annotated[
        float | None, typer.Option("--watch", "-w", min=0.5, metavar="SECONDS", help="Refresh this often.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List the fleet: the owner, age, rate and cost so far of each VM and other resource."""
    filters = {"project": project, "preset": preset, "owner": owner, "status": status, "gpu": gpu_type, "spot": spot}
    filters |= {"keeper": [one.value for one in keeper or ()], "cluster": cluster}
    fetch = partial(ServerClient(url).pages, "instances", "instances", limit, **filters, gone=gone, sort=sort)
    if watch is None:
        render(fetch(), as_json, show_fleet, has_filter(*filters.values()))
        return
    if as_json:
        raise typer.BadParameter("--watch shows a table; leave --json out.")
    stop = threading.Event()
    follow(fetch, console(), lambda: stop.wait(watch))


def show(vm: Vm, project: Project = None, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show a VM or other resource: every lifetime, disk and external address, charge by charge, with its price."""
    server = ServerClient(url)
    instance = find_vm(server, vm, project)
    render(server.get("instances", instance["project"], instance["gce_id"]), as_json, show_vm)


def find_vm(server: ServerClient, vm: str, projects: Sequence[str] | None, gone: bool = True) -> Answer:
    """The VM with this name or Google id; an existing one comes before one that is gone. Raises CostguardError."""
    by = {"gce_id": vm} if is_id(vm) else {"name": vm}
    instances = server.get("instances", project=projects, gone=gone, limit=_MOST_NAMESAKES, **by)["instances"]
    present = [instance for instance in instances if instance["gone_at"] is None] or instances
    if not present:
        seen = "was ever seen" if gone else "exists"
        raise CostguardError(f"No VM or other resource {vm} {seen}.", "`costguard ps --all` lists all that were seen.")
    if len(present) > 1:
        several = "\n".join(f"  {one['gce_id']}  {one['project']} / {one['zone']}" for one in present)
        raise CostguardError(f"Several are called {vm}:\n{several}", "Name one by its id.")
    only: Answer = present[0]
    return only


def follow(fetch: Callable[[], Answer], out: Console, wait: Callable[[], bool]) -> None:
    """Shows the fleet again and again until `wait` says to stop; survives a server that restarts."""
    fleet = fetch()
    if not out.is_terminal:
        while True:
            show_fleet(out, fleet)
            out.print()
            out.file.flush()
            if wait():
                return
            fleet = fetch()
    trouble = ""
    with Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_frame(out, fleet, trouble), refresh=True)
            if wait():
                return
            try:
                fleet, trouble = fetch(), ""
            except ServerUnreachable as error:
                trouble = f"{error.message} This is from {fleet['as_of']}."


def _frame(out: Console, fleet: Answer, trouble: str) -> Text:
    with out.capture() as captured:
        show_fleet(out, fleet)
    frame = Text.from_ansi(captured.get())
    return Text.assemble((f"{clean_lines(trouble)}\n\n", "bold red"), frame) if trouble else frame


def show_fleet(console: Console, fleet: Answer, is_filtered: bool = False) -> None:
    """The table, then its totals; what is not known comes last, where the eye ends."""
    if fleet["instances"]:
        heading = "Resource" if _noun(fleet["instances"]) == "resource" else "VM"
        show_table(console, _columns(heading, fleet["as_of"], console.width < NARROW), fleet["instances"])
    else:
        hint = "`costguard ps --all` shows everything, with its owner, preset and status."
        say(console, nothing_fits("resource", is_filtered, hint))
    totals, shown = fleet["totals"], len(fleet["instances"])
    noun = _noun(fleet["instances"])
    console.print()
    say(
        console,
        f"{count_text(totals['instances'], noun)}, {totals['running']} running"
        f", {rate(totals['rate_per_hour'])} an hour"
        + (f" plus what the unpriced {noun}s cost" if totals["unpriced"] else ""),
        "bold",
    )
    _say_unused(console, fleet.get("unused_reservations"))
    say_price_note(console, fleet)
    if fleet["next_cursor"] is not None:
        say(console, f"Shown: the first {shown}. --limit 0 shows all.")
    if totals["unpriced"]:
        unpriced = count_text(totals["unpriced"], noun)
        say(console, f"NOT PRICED: {unpriced}. `costguard prices` shows what has no price.", "bold red")
        _show_reasons(console, [vm for vm in fleet["instances"] if vm["unpriced"]])
    whole = [part["project"] for part in fleet["unread"] if part["scope"] == "project"]
    if is_long := len(whole) > _NAMED:
        named = f"{', '.join(whole[:_NAMED])} and {len(whole) - _NAMED} more projects"
        say(console, f"NOT READ: {named}. `costguard projects --refusing` says why.", "bold red")
    for part in fleet["unread"]:
        if is_long and part["scope"] == "project":
            continue
        since = part["last_complete_at"]
        age_text = (
            "never read whole" if since is None else f"as of {span_text(moment(fleet['as_of']) - moment(since))} ago"
        )
        where = part["project"] if part["scope"] == "project" else f"{part['project']}, {part['scope']}"
        say(console, f"NOT READ: {where} ({age_text}): {part['reason']}", "bold red")
        if part["command"]:
            say(console, f"  {part['command']}")


def _say_unused(console: Console, unused: Answer | None) -> None:
    """Says what reservations cost that nobody uses: it is in no total of VMs."""
    if unused is None or (not unused["vms"] and unused["rate_per_hour"]["complete"]):
        return
    if not unused["vms"]:
        say(console, "Reservations were not all read: whether VMs are reserved and unused is not known.", "bold red")
        return
    vms = count_text(unused["vms"], "reserved VM")
    say(
        console,
        f"Unused: {vms}, {amount_text(unused['rate_per_hour'])} an hour. `costguard loose` names them.",
        "bold red",
    )


def _show_reasons(console: Console, unpriced: Sequence[Answer]) -> None:
    """Each reason once, with the VMs that have it."""
    names_by_reason: dict[str, list[str]] = defaultdict(list)
    for vm in unpriced:
        for reason in vm["unpriced"]:
            names_by_reason[reason].append(vm["name"])
    for reason, names in list(names_by_reason.items())[:_MOST_REASONS]:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        say(console, f"  {', '.join(names[:_MOST_NAMES])}{more}: {reason}", "red")


def _columns(heading: str, as_of: str, is_narrow: bool) -> tuple[Column, ...]:
    """Returns the columns. In a narrow terminal the owner and the limit are written shorter.

    The limit and the money always stay.
    """
    return (
        Column(heading, _name),
        Column("Project / zone", lambda vm: f"{vm['project']} / {vm['zone']}", spare=1),
        Column("Preset", "preset", spare=2),
        Column("GPU, TPU", gpu, spare=3),
        Column("Owner", _short_owner if is_narrow else owner, spare=7),
        Column("Status", _status, spare=5),
        Column("Age", lambda vm: _age(vm, as_of), right=True, spare=6),
        Column("Limit", lambda vm: _short_limit(vm, as_of) if is_narrow else _limit(vm, as_of)),
        Column("Idle", lambda vm: _idle(vm, as_of), spare=4),
        Column("$/h", _rate, right=True),
        Column("So far", lambda vm: amount_text(vm["total_cost"], dollars), right=True),
    )


def _name(vm: Answer) -> Text:
    """The name; of what Vertex AI runs with its kind, as `train (custom job)`."""
    name = cell(vm["name"])
    if words := _kind(vm):
        name.append(f" ({words})", "dim")
    return name


def _kind(vm: Answer) -> str:
    """`custom job`; "" of VMs, of TPU nodes, and of what a server of an earlier version sends."""
    return _OF_VERTEX.get(vm.get("kind", ""), "")


def _noun(vms: Iterable[Answer]) -> str:
    return "VM" if all(vm.get("kind", _VM) == _VM for vm in vms) else "resource"


def owner(vm: Answer) -> Text:
    """The owner, and how it is known."""
    if not vm["owner"]:
        return cell("unclaimed", "yellow")
    source = _OWNER_SOURCES.get(vm["owner_source"], vm["owner_source"])
    return cell(f"{vm['owner']} ({source})" if source else vm["owner"])


def _short_owner(vm: Answer) -> Text:
    return cell(vm["owner"]) if vm["owner"] else owner(vm)


def _status(vm: Answer) -> Text:
    if vm["gone_at"] is not None:
        return cell("gone", "dim")
    if vm["unread"]:
        return cell(f"{vm['status']}? (not read)", "bold red")
    return cell(vm["status"], "green" if vm["status"] == "running" else "")


def _age(vm: Answer, as_of: str) -> Text:
    is_late = vm["due_at"] is not None and moment(as_of) > moment(vm["due_at"])
    return cell("-" if vm["started_at"] is None else ran(vm["started_at"], as_of), "bold red" if is_late else "")


def _limit(vm: Answer, as_of: str) -> Text:
    if vm["due_at"] is None:
        return cell("none" if vm["started_at"] is not None else "-")
    text = limit_text(as_of, vm["due_at"])
    return cell(text, "bold red" if text.startswith("over") else "")


def _short_limit(vm: Answer, as_of: str) -> Text:
    """Where there is no limit, the status of a VM that is not running."""
    limit = _limit(vm, as_of)
    if vm["due_at"] is None and (vm["status"] != "running" or vm["gone_at"] is not None):
        limit = _status(vm)
    unread = " ?" if vm["unread"] else ""
    return cell(limit.plain.replace("over by ", "over ") + unread, "bold red" if unread else limit.style)


def _idle(vm: Answer, as_of: str) -> Text:
    """`2 h 10 min`, marked where it rests on CPU and network alone; `no` when busy, `?` when not known."""
    idle = vm["idle"]
    if idle is None:
        return cell("-")
    if idle["state"] != "idle":
        return cell("no" if idle["state"] == "busy" else "?")
    return cell(f"{span_text(moment(as_of) - moment(idle['since']))}{' by CPU' if idle['is_weak'] else ''}", "yellow")


def _rate(vm: Answer) -> Text:
    return cell(amount_text(vm["rate_per_hour"], rate), "" if vm["rate_per_hour"]["complete"] else "bold red")


def show_vm(console: Console, answer: Answer) -> None:
    """Prints a VM with its lifetimes and disks."""
    vm = answer["instance"]
    say(console, f"{vm['name']}  {vm['project']} / {vm['zone']}  id {vm['gce_id']}", "bold")
    if not_stopped := answer.get("not_stopped"):  # servers of an earlier version do not send it
        say(console, not_stopped["sentence"])
    due_at = vm["due_at"]
    show_values(
        console,
        (
            ("status", f"gone since {when(vm['gone_at'])}" if vm["gone_at"] else vm["status"]),
            *((("kind", _kind(vm)),) if _kind(vm) else ()),
            ("preset", vm["preset"]),
            ("machine", f"{vm['machine_type']}, {gpu(vm)}"),
            ("owner", owner(vm).plain),
            ("created", f"{when(vm['created_at'])} by {vm['created_by'] or 'an unknown user'}"),
            *_kept_by(vm),
            ("labels", ", ".join(f"{key}={value}" for key, value in sorted(vm["labels"].items())) or "none"),
            ("limit", f"{when(due_at)}, {limit_text(answer['as_of'], due_at)}" if due_at else "none"),
            ("use", _use(vm)),
            ("per hour", amount_text(vm["rate_per_hour"], rate)),
            ("total", amount_text(vm["total_cost"])),
        ),
    )
    say_price_note(console, answer)
    for reason in vm["unpriced"]:
        say(console, f"NOT PRICED: {reason}", "bold red")
    for lifetime in answer["lifetimes"]:
        show_lifetime(console, lifetime)
    for disk in answer["storage"]:
        ended = when(disk["ended_at"]) or "now"
        show_charges(console, f"{disk['name']}, {_size(disk)}, {when(disk['started_at'])} to {ended}", disk)


def _size(store: Answer) -> str:
    count = store.get("addresses", 0)  # servers of an earlier version do not send it
    return f"{count} in use" if count else f"{store['size_gib']} GiB"


def _kept_by(vm: Answer) -> Iterator[tuple[str, str]]:
    """Yields who keeps it, with the evidence; servers of an earlier version do not send it."""
    if (keeper := vm.get("keeper")) is not None and _kind(vm):
        yield "keeper", KeeperKind.VERTEX.in_words  # which names the resource by numbers alone
    elif keeper is not None:
        pool = "/".join(filter(None, (keeper["cluster"] or keeper["name"], keeper["pool"])))
        evidence = f" ({', '.join(keeper['evidence'])})" if keeper["evidence"] else ""
        yield "keeper", f"{keeper['kind']}{f' {pool}' if pool else ''}{evidence}"


def _use(vm: Answer) -> str:
    idle = vm["idle"]
    if vm["started_at"] is None:
        return "not running"
    return "not measured" if idle is None else f"{idle['state']} since {when(idle['since'])}: {idle['evidence']}"
