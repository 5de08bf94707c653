"""`costguard spend`: cost by day, owner and other groups."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console

from costguard.cli.options import (
    DEFAULT_URL,
    AsJson,
    Cluster,
    From,
    Last,
    OneJob,
    OneKeeper,
    OnePreset,
    OneProject,
    To,
    Url,
    days,
    job_id,
    only,
)
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, cell, dollars, render, say, say_price_note, show_table
from costguard.errors import CostguardError
from costguard.model.budget import LabelFilter
from costguard.model.keeper import (
    CLUSTER_LABEL,
    KEEPER_LABEL,
    KIND_LABEL,
    POOL_LABEL,
    KeeperKind,
    label_of_cluster,
)
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard spend                                   this month, day by day

  costguard spend --last 7d --by owner              the last week, by owner

  costguard spend --by owner --basis bill           what was paid, after discounts, where the bill is closed

  costguard spend --by owner,preset                 by owner and preset, the most expensive first

  costguard spend --from 2026-01-01 --by project --csv > spend.csv

  costguard spend --by day,vm --csv > vms.csv       each VM with its job, owner, team and labels

  costguard spend --last 30d --by label:experiment  by the value of a VM label, split when a label changed; for
                                                    time before changes were kept, by the first labels known

  costguard spend --by pool                         by cluster and node pool; --cluster train/t4 is one pool alone

  costguard spend --by owner --label experiment=a   by owner, only while VMs had this label and value

  costguard spend --last 30d --focus charges.csv    each charge in the format of FOCUS 1.2; also .parquet
"""
_UNGROUPED = {"owner": "unclaimed"}
_GROUPINGS = ("day", "project", "preset", "owner", "job", "provisioning_model", "vm")
_OF_LABEL = "label:"
_MOST_UNPRICED = 5


_OF_KEEPER = {"keeper": KEEPER_LABEL, "cluster": CLUSTER_LABEL, "pool": POOL_LABEL, "kind": KIND_LABEL}


def _groupings(given: list[str] | None) -> list[str] | None:
    """The label alone, or none but the fixed ones: a label's spend has one grouping."""
    if given is not None and len(given) == 1 and given[0] in _OF_KEEPER:
        return [f"{_OF_LABEL}{_OF_KEEPER[given[0]]}"]
    labels = [name for name in given or () if name.startswith(_OF_LABEL)]
    if not labels:
        return only(_GROUPINGS)(given)
    label = labels[0].removeprefix(_OF_LABEL)
    if len(given or ()) > 1 or not label or any(mark in label for mark in ",/ "):
        raise typer.BadParameter("a label stands alone, such as label:experiment.")
    return given


def _basis(given: str | None) -> str | None:
    if given not in (None, "ledger", "bill"):
        raise typer.BadParameter(f"{given!r} is neither ledger nor bill.")
    return given


def _label(given: str | None) -> str | None:
    try:
        return None if given is None else str(LabelFilter.parse(given))
    except ValueError as error:
        raise typer.BadParameter(f"{given!r} is not {error}.") from None


def register(app: typer.Typer) -> None:
    app.command("spend", epilog=_EXAMPLES)(spend)


_Basis = Annotated[
    str | None,
    typer.Option(
        "--basis",
        metavar="ledger|bill",
        callback=_basis,
        help="bill: what was paid, on days that closed on Google's bill.",
    ),
]
_Labelled = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="NAME=VALUE",
        callback=_label,
        help="Only while VMs had this label: experiment=a; experiment= for an empty value, !experiment for none.",
    ),
]


_By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="NAME",
        callback=_groupings,
        help=f"{', '.join(_GROUPINGS)}; several with commas. Or keeper, cluster, pool, kind or label:KEY alone.",
    ),
]


def spend(
    first: From = None,
    to: To = None,
    last: Last = None,
    by: _By = None,
    project: OneProject = None,
    preset: OnePreset = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="ADDRESS", help='Only this owner; "" for unclaimed VMs.')
    ] = None,
    job: OneJob = None,
    label: _Labelled = None,
    keeper: OneKeeper = None,
    cluster: Cluster = None,
    basis: _Basis = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    focus: Annotated[
        Path | None,
        typer.Option(
            "--focus",
            metavar="FILE",
            help="Write every charge to this file, in the format of FOCUS 1.2: .csv or .parquet.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the cost in a range of UTC days, including today up to now."""
    if sum((as_csv, as_json, focus is not None)) > 1:
        raise typer.BadParameter("--csv, --json and --focus exclude each other.")
    label = _one_label(label, keeper, cluster)
    _check(focus, by, label, basis)
    server = ServerClient(url)
    first, to = days(server, first, to, last)
    query: dict[str, Any] = {
        "from": first,
        "to": to,
        "group_by": by,
        "project": project,
        "preset": preset,
        "owner": owner,
        "job": job_id(server, job),
        "label": label,
        "basis": basis,
    }
    if by and by[0].startswith(_OF_LABEL):
        _show_by_label(server, by[0].removeprefix(_OF_LABEL), query, as_csv, as_json)
    elif focus is not None:
        del query["group_by"], query["basis"]
        _write_focus(server, focus, query)
    elif as_csv:
        print(server.get_csv("spend", **query, format="csv"), end="")
    else:
        render(server.get("spend", **query), as_json, show_spend)


def _one_label(label: str | None, keeper: KeeperKind | None, cluster: str | None) -> str | None:
    """The label by which spend is filtered: the ledger has keepers, clusters and pools among its own."""
    by_cluster = f"{label_of_cluster(cluster)}={cluster}" if cluster is not None else None
    given = [
        one for one in (label, f"{KEEPER_LABEL}={keeper.value}" if keeper else None, by_cluster) if one is not None
    ]
    if len(given) > 1:
        raise typer.BadParameter("--label, --keeper and --cluster exclude each other.")
    return _label(given[0]) if given else None


def _check(focus: Path | None, by: list[str] | None, label: str | None, basis: str | None) -> None:
    """Raises where options exclude each other. What was paid is known by VM and day alone."""
    if focus is not None and by:
        raise typer.BadParameter("--focus writes each charge, so it takes no --by.")
    if basis != "bill":
        return
    if focus is not None:
        raise typer.BadParameter("FOCUS has the ledger's charges, at list prices.", param_hint="--basis")
    if by and by[0].startswith(_OF_LABEL):
        raise typer.BadParameter("The bill's basis has no rows by label.", param_hint="--basis")
    if label is not None:
        raise typer.BadParameter("The bill's basis has no filter by label.", param_hint="--label")


def _show_by_label(server: ServerClient, label: str, query: dict[str, Any], as_csv: bool, as_json: bool) -> None:
    if query["label"] is not None:
        raise typer.BadParameter("Spend by label takes no filter by label.", param_hint="--label")
    path = f"spend/labels/{quote(label, safe='')}"
    only_these = {name: value for name, value in query.items() if name not in {"group_by", "basis", "label"}}
    if as_csv:
        print(server.get_csv(path, **only_these, format="csv"), end="")
    else:
        render(server.get(path, **only_these), as_json, show_label_spend)


def _write_focus(server: ServerClient, path: Path, query: dict[str, Any]) -> None:
    """The file appears when it is whole. Days that were not given are the server's."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in {"csv", "parquet"}:
        raise typer.BadParameter(f"{path.name} must end in .csv or .parquet.", param_hint="--focus")
    spent = server.get("spend", **query)
    query |= {"from": spent["from"], "to": spent["to"]}
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.writelines(_focus_parts(server, kind, query))
        part.replace(path)
    except OSError as error:
        raise CostguardError(
            f"{path} cannot be written: {error.strerror}.", "Name a file in a folder of yours."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    print(f"Wrote {path}: {path.stat().st_size:,} bytes.")
    if spent["unpriced"]:
        unpriced = count_text(spent["unpriced"], "lifetime or disk", "lifetimes and disks")
        print(f"NOT PRICED, and so without a row: {unpriced}. `costguard spend` names them.")


def _focus_parts(server: ServerClient, kind: str, query: dict[str, Any]) -> Iterator[bytes]:
    """CSV comes day by day, so that a year of a large fleet needs little memory; a Parquet file comes whole."""
    if kind == "parquet":
        yield server.get_bytes("focus", "application/vnd.apache.parquet", **query)
        return
    day, last = date.fromisoformat(query["from"]), date.fromisoformat(query["to"])
    is_first = True
    while day <= last:
        text = server.get_csv("focus", **{**query, "from": day.isoformat(), "to": day.isoformat()})
        yield (text if is_first else text.partition("\r\n")[2]).encode()
        day, is_first = day + timedelta(days=1), False


def show_spend(console: Console, answer: Answer) -> None:
    total = answer["total"]
    if answer["rows"]:
        columns = (*map(_group, answer["group_by"]), *_FIGURES, _GAP)
        texts = ("All", *[""] * (len(answer["group_by"]) - 1))
        foot = [cell(text, "bold") for text in (*texts, *(column.cell(total).plain for column in _FIGURES), "")]
        show_table(console, columns, answer["rows"], foot)
    console.print()
    say(console, f"{dollars(total['total'])} from {answer['from']} to {answer['to']} (UTC)", "bold")
    say_price_note(console, answer)
    if answer["paid_days"] is not None:
        say(console, f"What was paid on {count_text(answer['paid_days'], 'day')}; list prices on the others.")
    if answer["unpriced"]:
        unpriced = count_text(answer["unpriced"], "lifetime or disk", "lifetimes and disks")
        say(console, f"NOT PRICED and not in these amounts: {unpriced}, such as", "bold red")
        for span in answer["unpriced_spans"][:_MOST_UNPRICED]:
            say(console, f"  {span['project']} / {span['name']}: {span['reason']}", "bold red")


def show_label_spend(console: Console, answer: Answer) -> None:
    total = answer["total"]
    if answer["rows"]:
        column = Column(answer["label"], lambda row: "(no label)" if row["value"] is None else row["value"] or '""')
        foot = [cell("All", "bold"), *(cell(figure.cell(total).plain, "bold") for figure in _FIGURES), cell("")]
        show_table(console, (column, *_FIGURES, _GAP), answer["rows"], foot)
    console.print()
    say(console, f"{dollars(total['total'])} from {answer['from']} to {answer['to']} (UTC)", "bold")
    if answer["unpriced"]:
        unpriced = count_text(answer["unpriced"], "lifetime or disk", "lifetimes and disks")
        say(console, f"NOT PRICED and not in these amounts: {unpriced}. `costguard spend` names them.", "bold red")


def _group(name: str) -> Column:
    if name == "vm":
        return Column("VM", lambda row: row["vm"]["name"])
    title = name.replace("_", " ").capitalize()
    return Column(title, lambda row: row["group"][name] or _UNGROUPED.get(name, "-"))


def _figure(title: str, key: str, spare: int = 0, unknown: str = "?") -> Column:
    """An amount. A group of unpriced VMs alone has no zeros: its amounts are not known."""

    def amount(row: Answer) -> str:
        is_unknown = row.get("unpriced") and not row["total"].strip("0.")
        return unknown if is_unknown else dollars(row[key])

    return Column(title, amount, right=True, spare=spare)


_FIGURES = (
    _figure("Machine", "machine", 3),
    _figure("GPU, TPU", "gpu", 4),
    _figure("Storage", "storage", 2),
    _figure("Total", "total", unknown="unpriced"),
    Column("Hours", lambda row: row["hours"][:-3], right=True, spare=1),
)
_GAP = Column("", lambda row: cell(f"+ {row['unpriced']} unpriced" if row["unpriced"] else "", "bold red"))
