"""Aims of lives: more of some trouble, people and VMs, so that a rule is needed within days.

An aim changes how much of each there is. What comes when, and to which VM, is still drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_CHANGES_LOST = (
    "answers to changes lost",
    "changes answered with 503",
    "deletes answered with 503",
    "changes that arrive later",
    "requests that arrive twice",
    "google silent",
)
_STOPS_LOST = (
    "no stop is taken",
    "stops answered with garbage",
    "stops answered with silence",
    "stops answered though done",
    "answers to changes lost",
    "stops that arrive much later",
)
_LATE = ("inserts that arrive much later",)
_SPOT_LOST = ("capacity reclaimed", "one preempted", "preempted in a start", "host failed", "out of stock")
# Where a guard stands still: around what is written under its lease.
_WRITERS = ("actions.execute", "actions.execute", "actions.execute", "daemon.reconcile", "messages.outbox")
_PLACES = tuple(f"{when} by {who}" for who in _WRITERS for when in ("before a write", "after a commit"))
_LOOKS = ("before a write by ledger.record", "after a commit by ledger.record")


@dataclass(frozen=True, slots=True)
class Aim:
    """`often` multiplies how often the faults of `kinds` come; None of them: all kinds, as often as ever.

    `presses` replaces people's habits, and `hours` says how long they think at most. `people`, `jobs` and `events`
    multiply the numbers of VMs, jobs, and of what happens to VMs of a second project. `places` are where guards stand
    still, `freezes` times a day. `presets` weighs the kinds of people's VMs, in the order of the fleet's list.
    """

    kinds: tuple[str, ...] | None = None
    often: float = 1
    more: Mapping[str, float] = field(default_factory=dict)  # and so many times as often those of some kinds
    people: float = 1
    jobs: float = 1
    events: float = 1
    days: float = 5
    hours: float = 10
    pages: float = 0.0  # the chance that an operator asks for a stop on a page, at each visit
    presses: Mapping[str, float] | None = None
    presets: tuple[float, ...] = (2, 1, 3, 5, 3)
    asks: Mapping[str, float] = field(default_factory=dict)
    on_disk: float = 0.3
    meddles: float = 0.0  # the chance that a VM is protected while the guard looks at it before a stop
    restarts: float = 0.0  # the chance that a VM is stopped and started while the guard looks at it before a stop
    answers: float = 0.0  # the chance that someone answers a message while a guard stands still
    mutes: float = 0.0  # the chance that nobody hears an agent for hours, while its command goes on
    grouped: float = 0.0  # the share of people's VMs that a managed group or a service of Google keeps
    keepers: tuple[str, ...] = ("group", "gke", "old gke", "dataproc", "batch", "dataflow")  # which of them
    pools: int = 0  # node pools of the second project, whose autoscaler removes idle nodes
    stops_through: bool = False  # the settings allow the stops of groups and Workbench
    moods: int = 0  # how often people's notebooks come to be idle and work again; some have no Ops Agent
    agentless: float = 0.0  # the share of notebooks that are never worked on, and never have an Ops Agent
    wishes: tuple[float, float] = (0.2, 30)  # hours from a job's submission to what people want of it
    freezes: float = 0.0
    places: tuple[str, ...] = ()
    reprices: float = 0.03  # the share of `events` that Google changes prices with
    wild: int = 0  # VMs of the second project, made first of all; 0: as many as there are of people's
    brief: float = 0.0  # the share of `events` that are runs of about a minute
    deadlines: float = 0.3  # the share of trainings that must be done by a moment
    bursts: float = 0.0  # the share of `events` that are several things in a row, at one VM
    graceful: float = 0.0  # the share of the second project's VMs that stop gracefully
    glances: float = 0.0  # the chance that VMs there are stopped and started while the guard looks
    keeps_operations: float = 9600  # hours, by Google
    reads_prices: float = 192  # hours, from one reading of prices to the next
    is_unpriced: bool = False  # the ledger begins without a price
    are_stamps_apart: bool = False  # a start's stamp and the end of its operation are not the same moment
    is_often: bool = False  # visits are minutes apart
    pace: float = 0.3  # of visits then: less is more often
    is_at_months_end: bool = False
    is_hasty: bool = False  # rules act within hours, at any time of day
    minutes: tuple[float, float] = (30, 1500)  # that a job's command takes
    fails: float = 0.0  # the chance that a job's command fails within its first minute
    looks_apart: float = 0.0  # minutes, at least, from one look at VMs to the next; jobs go on between them
    has_gaps: bool = False  # the guard's machine sleeps, and its parts give signs of life while it is awake
    is_shared: bool = False  # two replicas share the projects, and one or the other is killed or stands still
    is_strict: bool = False  # rules stop VMs that work on jobs, unless the guard knows better


AIMS: Mapping[str, Aim] = {
    "": Aim(),
    "takeover": Aim(
        ("no stop is taken", "capacity reclaimed", "zone unreachable"), 6, people=2, jobs=3, events=0.5, days=3,
        hours=1, presses={"stop": 0.5, "keep:4": 0.3}, presets=(6, 0, 0, 5, 3), freezes=8,
        places=_PLACES, is_often=True,
    ),
    "replicas": Aim(
        ("no stop is taken", "capacity reclaimed", "zone unreachable"), 4, people=2, jobs=4, events=4, days=3, hours=1,
        presses={"stop": 0.4, "keep:4": 0.3}, presets=(4, 0, 0, 5, 3), is_often=True, is_hasty=True, is_shared=True,
    ),
    "overtaken": Aim(
        ("no stop is taken",), 4, people=5, jobs=0, events=0, days=3, hours=5,
        presses={"stop": 0.1, "keep:4": 0.1}, presets=(2, 0, 0, 6, 4), freezes=25, answers=0.5,
        places=("after a commit by actions.execute", "before a write by actions.execute"), is_often=True, is_hasty=True,
    ),
    "looks": Aim(
        ("capacity reclaimed",), 6, people=2, jobs=1, events=2, days=3, freezes=8, places=_LOOKS, is_often=True
    ),
    "stops": Aim(
        _STOPS_LOST, 8, people=5, jobs=0, events=0, days=3, hours=3, pages=0.25, more={"no stop is taken": 4},
        presses={"keep:4": 0.1, "keep": 0.05, "stop": 0.3, "disown": 0.15, "claim": 0.1}, presets=(2, 0, 0, 6, 4),
        is_often=True, is_hasty=True,
    ),
    "rules": Aim(
        (), people=5, jobs=0, events=0, days=3, hours=5, presses={"keep:4": 0.1, "keep": 0.05}, presets=(6, 0, 0, 5, 4),
        meddles=0.1, restarts=0.1, moods=6, is_often=True, is_hasty=True,
    ),
    "restarted": Aim(
        ("host failed",), 60, people=5, jobs=0, events=0, days=3, hours=5, presses={"keep:4": 0.2, "claim": 0.1},
        presets=(2, 0, 0, 6, 4), is_often=True, is_hasty=True,
    ),
    "groups": Aim(
        (), people=5, jobs=0, events=0, days=3, hours=5, pages=0.25, presses={"keep:4": 0.1, "stop": 0.3},
        presets=(6, 0, 0, 5, 4), moods=4, grouped=0.5, is_often=True, is_hasty=True,
    ),
    "keepers": Aim(
        (), people=5, jobs=0, events=0, days=3, hours=5, pages=0.25, presses={"keep:4": 0.1, "stop": 0.3},
        presets=(6, 0, 0, 5, 4), moods=4, grouped=0.6, keepers=("group", "group", "workbench", "workbench", "gke"),
        pools=2, stops_through=True, is_often=True, is_hasty=True,
    ),
    "idleness": Aim(
        (), people=4, jobs=0, events=0, days=2, hours=5, presses={"keep:4": 0.1}, presets=(6, 0, 0, 0, 1), moods=4,
        agentless=0.5, is_often=True, pace=0.08, is_hasty=True,
    ),
    "settings": Aim(
        ("no stop is taken", "settings changed"), 8, people=8, jobs=0, events=0, days=3, hours=3,
        more={"no stop is taken": 8, "settings changed": 3}, presets=(2, 0, 0, 6, 4),
        presses={"keep:4": 0.1, "stop": 0.4, "disown": 0.3, "claim": 0.05},
        is_often=True, is_hasty=True,
    ),
    "zones": Aim(
        ("zone unreachable",), 10, people=5, jobs=0, events=0, days=3, presets=(4, 0, 1, 5, 4), is_often=True,
        is_hasty=True,
    ),
    "work": Aim((), jobs=20, people=0, events=0, days=2, deadlines=0, is_strict=True, is_often=True),
    "orphans": Aim(
        (*_LATE, "changes answered with 503"), 20, people=0, jobs=60, events=0, days=2, deadlines=0, is_often=True,
        asks={"cancel": 0.7}, wishes=(0.01, 0.6), on_disk=0.0,
    ),
    "silences": Aim(
        ("no delete is taken", "zone unreachable"), 20, people=0, jobs=40, events=0, days=2, deadlines=0, is_often=True,
        mutes=0.5,
    ),
    "gaps": Aim(
        ("guard's machine asleep", "clock jumps"), 6, people=0, jobs=8, events=0, days=2, deadlines=0, is_often=True,
        has_gaps=True,
    ),
    "brief jobs": Aim(
        ("one preempted",), 6, people=0, jobs=60, events=0, days=2, deadlines=0, is_often=True, pace=0.02, on_disk=0,
        asks={"cancel": 0.4}, wishes=(0.02, 0.3), minutes=(1, 60), fails=0.3, looks_apart=30,
    ),
    "preemptions": Aim(_SPOT_LOST, 5, people=0, jobs=15, events=0, days=3, asks={"cancel after a checkpoint": 0.3}),
    "disks": Aim((*_CHANGES_LOST, "one preempted", "host failed"), 6, people=0, jobs=8, events=0, days=3, on_disk=1),
    "deadlines": Aim(
        ("capacity reclaimed", "one preempted", "out of stock", "preempted in a start"), 12, people=0, jobs=8, events=0,
        days=3, on_disk=0.05, deadlines=1, is_often=True,
    ),
    "left disks": Aim(
        (*_LATE, "one preempted"), 20, people=0, jobs=120, events=0, days=1, deadlines=0, is_often=True, pace=0.02,
        more={_LATE[0]: 6}, on_disk=1, asks={"cancel": 0.7, "delete its disk": 0.1}, wishes=(0.01, 0.6),
    ),
    "restores": Aim(
        ("database restored", "restored once more", "zone unreachable", "one preempted"), 6, people=0.5, jobs=30,
        events=0, days=3, deadlines=0, is_often=True, more={"database restored": 5, "restored once more": 5},
    ),
    "restored launches": Aim(
        (*_LATE, "capacity reclaimed", "database restored", "restored once more"), 12, people=0, jobs=60, events=0,
        days=2, deadlines=0.3, is_often=True, pace=0.1, on_disk=0, wishes=(5, 60),
        more={"database restored": 12, "restored once more": 6, "capacity reclaimed": 2, _LATE[0]: 8},
    ),
    "deletions": Aim((), people=0, jobs=0, events=30, days=3, wild=25, freezes=10, places=_LOOKS[1:], is_often=True),
    "prices": Aim(("prices misprinted",), 20, people=0.3, jobs=0, events=4, wild=12, reprices=0.2, reads_prices=5),
    "unpriced": Aim(("prices of nothing",), 100, people=0, jobs=0, events=8, days=3, wild=8, reads_prices=5,
                    is_unpriced=True),
    "fates": Aim(_SPOT_LOST, 3, people=0.3, jobs=0, events=25, days=4, wild=20, brief=0.2, bursts=0.5),
    "months": Aim((), people=0.3, jobs=0, events=8, days=4, wild=15, is_at_months_end=True),
    "glances": Aim(("statuses without a name",), 20, people=0, jobs=0, events=15, days=3, wild=20, bursts=0.3,
                   graceful=0.5, glances=0.5, is_often=True),
    "forgotten": Aim(("guard off",), 10, people=0, jobs=0, events=25, days=4, wild=20, bursts=0.4, keeps_operations=3),
    "unwatched": Aim(("project unwatched",), 20, people=0, jobs=0, events=15, days=4, wild=15, bursts=0.2),
    "stamps": Aim((), people=0, jobs=0, events=20, days=3, wild=20, are_stamps_apart=True),
}  # fmt: skip
