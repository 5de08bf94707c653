"""`costguard replay`: what each policy for deadlines would have cost on recorded availability of Spot VMs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.replay_prices import hours_of, shares, waits_of
from costguard.cli.server import ServerClient
from costguard.cli.tables import Column, console, say, show_table
from costguard.cli.traces import documents
from costguard.errors import Invalid
from costguard.model.words import count_text

if TYPE_CHECKING:
    from costguard.deadlines.replay import PolicyResult, Replay
    from costguard.deadlines.series import ZoneSeries

_HISTORY_GAP_S = 300
_EXAMPLES = """Examples:

  costguard replay --traces traces --work 48h --deadline 72h --overhead 0.2h

  costguard replay --traces traces --work 18h --deadline 30h --zones all --price-ratio 3.14 --json

  costguard replay --traces traces --work 48h --deadline 72h --prices spot=1.93,flex=2.02,demand=3.67 --waits 0h-2h,0.2

  costguard replay --history --work 18h --deadline 30h    over the fleet's own ledger
"""

Traces = Annotated[
    Path | None, typer.Option("--traces", metavar="DIR", help="A folder of series, one JSON file for a zone.")
]
History = Annotated[
    bool, typer.Option("--history", help="Replay the fleet's own Spot history instead, as the server's ledger has it.")
]
Days = Annotated[
    int, typer.Option("--days", metavar="DAYS", min=1, max=90, help="The number of days to look back, with --history.")
]
Work = Annotated[str, typer.Option("--work", metavar="TIME", help="Work of the job, such as 48h.")]
Deadline = Annotated[
    str, typer.Option("--deadline", metavar="TIME", help="Time from the launch to the deadline, such as 72h.")
]
Overhead = Annotated[
    str, typer.Option("--overhead", metavar="TIME", help="The time that each start costs, such as 0.2h or 12m.")
]
Zones = Annotated[
    str,
    typer.Option(
        "--zones", metavar="each|all|NAME,...", help="Zones that a job may use together, each by a file's name."
    ),
]
PriceRatio = Annotated[
    float | None,
    typer.Option(
        "--price-ratio",
        metavar="K",
        help="The on-demand price divided by the Spot price, instead of the prices of the files.",
    ),
]
FlexPrice = Annotated[
    float | None,
    typer.Option(
        "--flex-price",
        metavar="SHARE",
        help="Let jobs ask for flex-start VMs too, an hour of which costs this share of one on demand, such as 0.55.",
    ),
]
Prices = Annotated[
    str | None,
    typer.Option(
        "--prices",
        metavar="spot=P,demand=P[,flex=P][,reserved=P]",
        help="Prices of an hour in all zones, not --price-ratio and --flex-price. A reserved VM is always there.",
    ),
]
WaitsOf = Annotated[
    str | None,
    typer.Option(
        "--waits",
        metavar="FROM-TO[,SHARE]",
        help="Range of the waits for flex-start, all as likely, and the share never granted. Without it: 0h-2h,0.2.",
    ),
]
Runs = Annotated[int, typer.Option("--runs", metavar="N", help="Runs of each policy, over all recordings.")]
Seed = Annotated[int, typer.Option("--seed", metavar="S", help="Seed of the random starts.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Write also a drawing as SVG to this file.")]


def register(app: typer.Typer) -> None:
    app.command("replay", epilog=_EXAMPLES)(replay)


def replay(
    work: Work,
    deadline: Deadline,
    traces: Traces = None,
    history: History = False,
    days: Days = 90,
    overhead: Overhead = "0.2h",
    zones: Zones = "each",
    price_ratio: PriceRatio = None,
    flex_price: FlexPrice = None,
    prices: Prices = None,
    waits: WaitsOf = None,
    runs: Runs = 1000,
    seed: Seed = 0,
    plot: Plot = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Say what each policy for deadlines would have cost on recorded series, relative to on-demand.

    Every policy runs from the same random starts. A policy sees the record before the moment of its decision, never
    after it; the optimum knows all of it, and is the least that any policy could cost. Without --price-ratio the prices
    are those of the files, and 3.14 where they name none. With a price of flex-start, the planner may ask for such
    VMs, and is compared with itself without them, and with flex-start alone.
    """
    from costguard.deadlines.replay import ALL_ZONES, ReplayTask, policies  # not for other commands to wait for
    from costguard.deadlines.replay import replay as replay_series
    from costguard.deadlines.series import read_folder

    if history == (traces is not None):
        raise typer.BadParameter("give one of them.", param_hint="--traces or --history")
    names = None if zones == "each" else ALL_ZONES if zones == "all" else tuple(filter(None, zones.split(",")))
    price_ratio, flex_price, reserved_price = shares(prices, price_ratio, flex_price)
    if waits is not None and flex_price is None:
        raise typer.BadParameter(
            "they are of flex-start: give its price with --flex-price or --prices.", param_hint="--waits"
        )
    task = ReplayTask(
        hours_of(work, "--work"), hours_of(deadline, "--deadline"), hours_of(overhead, "--overhead"), names,
        price_ratio, runs, seed, flex_price, reserved_price,
    )  # fmt: skip
    if waits is not None:
        task = task._replace(waits=waits_of(waits))
    series = read_folder(traces) if traces is not None else _history(url, days)
    replayed = replay_series(series, task, policies(with_flex=flex_price is not None))
    if plot is not None:
        _write_plot(plot, f"{work} of work within {deadline}, {overhead} a start", replayed)
    if as_json:
        print(json.dumps([_rounded(result) for result in replayed.results], indent=2))
        return
    show_table(console(), _COLUMNS, replayed.results)
    say(
        console(),
        f"{count_text(runs, 'run')} over {count_text(len(replayed.recordings), 'recording')}, seed {seed}.",
        "dim",
    )
    if replayed.left_out:
        say(console(), f"Left out, as shorter than the deadline: {', '.join(replayed.left_out)}.", "dim")


def _history(url: str, days: int) -> list[ZoneSeries]:
    """The fleet's own zones, with the prices of its own VMs."""
    from costguard.deadlines.series import series_of

    series = [series_of(document, name) for name, document in documents(ServerClient(url), days, _HISTORY_GAP_S)]
    if not series:
        raise Invalid(
            f"The fleet launched and asked for no Spot VM in the last {days} days.",
            "Replay recorded series with --traces DIR.",
        )
    return series


def _write_plot(path: Path, title: str, replayed: Replay) -> None:
    from costguard.deadlines.plot import Line, drawing

    lines = [Line(_NAMES.get(one.policy, one.policy), [(one.relative_cost, *one.ci95)]) for one in replayed.results]
    try:
        path.write_text(drawing(title, ["cost with its 95 % interval"], lines), encoding="utf-8")
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}.", "Name a file in a folder of yours.") from None


def _rounded(result: PolicyResult) -> dict[str, object]:
    """JSON knows no infinity: one run has no interval."""
    low, high = result.ci95
    interval = [round(low, 6), round(high, 6)] if math.isfinite(low) else None
    return result.as_json() | {
        "relative_cost": round(result.relative_cost, 6),
        "ci95": interval,
        "preemptions": round(result.preemptions, 3),
    }


def _interval(result: PolicyResult) -> str:
    low, high = result.ci95
    return f"{low:.3f} to {high:.3f}" if math.isfinite(low) else "unknown"


_NAMES = {
    "greedy": "Greedy, safety net",
    "uniform_progress": "Uniform Progress",
    "planner_without_flex": "Planner, no flex-start",
    "flex_alone": "Flex-start alone",
    "planner": "Planner",
    "optimum": "Optimum, knows all",
}
_COLUMNS = (
    Column("Policy", lambda row: _NAMES.get(row.policy, row.policy)),
    Column("Cost", lambda row: f"{row.relative_cost:.3f}", right=True),
    Column("95 %", _interval),
    Column("On time", lambda row: f"{row.on_time:.1%}", right=True),
    Column("Preemptions", lambda row: f"{row.preemptions:.1f}", right=True),
    Column("Runs", lambda row: f"{row.runs:,}", right=True),
)
