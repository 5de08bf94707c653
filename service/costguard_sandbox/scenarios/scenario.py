"""Scenario files: the fleet at the start of the simulated cloud, and the events afterwards."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from costguard_sandbox.clock import WorldClock
from costguard_sandbox.gce.catalogue.prices import NoRate, PriceList
from costguard_sandbox.gce.cloud import DEFAULT_USER
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.faults import CloudFault
from costguard_sandbox.gce.filters import BadFilter, compile_filter
from costguard_sandbox.gce.system_events import EVENTS, Reclaim
from costguard_sandbox.guest.local import LocalGuestSettings
from costguard_sandbox.scenarios.belongings import ScenarioBelonging, read_belonging
from costguard_sandbox.scenarios.bill import ScenarioBill, read_bill
from costguard_sandbox.scenarios.kept import ScenarioGroup, read_group, read_notebook, read_pool
from costguard_sandbox.scenarios.keys import Keys, ScenarioError
from costguard_sandbox.scenarios.vertex import ScenarioResource, read_resource
from costguard_sandbox.scenarios.vms import ScenarioVM, read_load, read_local_vms, read_vm
from costguard_sandbox.slack.clicks import PlannedClick
from costguard_sandbox.slack.model import DEFAULT_PEOPLE
from costguard_sandbox.world import World

_SHIPPED = Path(__file__).parent
_PROJECT = re.compile(r"[a-z][-a-z0-9]{4,28}[a-z0-9]")
_VERBS = ("start", "stop", "suspend", "resume", "delete")
_ACTS = (*_VERBS, *EVENTS, "reclaim", "insert", "load", "fault", "price", "click")
_LOOKS_EVERY = timedelta(seconds=5)
_PATIENCE = timedelta(hours=6)
_log = logging.getLogger(__name__)

Act = Callable[[World], None]


@dataclass(frozen=True, slots=True)
class ScenarioEvent:
    """Something that happens `at` a time after the start."""

    at: timedelta
    what: str
    act: Act


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    seed: int
    projects: tuple[str, ...]
    fleet: tuple[ScenarioVM, ...]
    groups: tuple[ScenarioGroup, ...]
    belongings: tuple[ScenarioBelonging | ScenarioResource, ...]
    events: tuple[ScenarioEvent, ...]
    local_vms: LocalGuestSettings | None = None
    runs_vms: bool = False
    bill: ScenarioBill | None = None
    queued_inserts_end: bool = False  # see FlexStart.ends_inserts


def shipped() -> list[str]:
    """The names of the included scenarios."""
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def load(name_or_path: str | Path) -> Scenario:
    """An included scenario by name, or one from a file. Raises ScenarioError."""
    path = Path(name_or_path)
    if str(name_or_path) in shipped():
        path = _SHIPPED / f"{name_or_path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        names = ", ".join(shipped())
        raise ScenarioError(f"{path}: cannot be read ({error}); expected a TOML file or one of: {names}") from None
    return read(text, path)


def read(text: str, path: Path) -> Scenario:
    try:
        keys = Keys(tomllib.loads(text), str(path))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: is not TOML: {error}") from None
    projects = keys.texts("projects")
    for project in projects:
        if not _PROJECT.fullmatch(project):
            raise keys.wrong("projects", f"project ids of 6 to 30 characters a-z, 0-9 and -, not {project!r}")
    if not projects:
        raise keys.wrong("projects", "at least one project id")
    plain = [read_vm(one, projects) for one in keys.tables("instance")]
    fleet = (*plain, *(read_notebook(one, projects) for one in keys.tables("notebook")))
    groups = [read_group(one, projects) for one in keys.tables("group")]
    groups += [read_pool(one, projects) for one in keys.tables("pool")]
    loose = tuple(read_belonging(one, projects) for one in keys.tables("belonging"))
    belongings: tuple[ScenarioBelonging | ScenarioResource, ...] = (
        *loose,
        *(read_resource(one, projects) for one in keys.tables("vertex")),
    )
    events = tuple(_read_event(one, projects, fleet) for one in keys.tables("event"))
    runs_vms, local_vms = read_local_vms(keys.table("local_vms")) if keys.has("local_vms") else (False, None)
    title, seed = keys.text("title", path.stem), keys.whole("seed", 1)
    bill = read_bill(keys.table("bill")) if keys.has("bill") else None
    made = (tuple(groups), belongings, events, local_vms, runs_vms, bill, keys.flag("queued_inserts_end"))
    scenario = Scenario(path.stem, title, seed, projects, fleet, *made)
    keys.done()
    return scenario


def build(scenario: Scenario, clock: WorldClock, *, wait_moves_clock: bool = False) -> World:
    """A world at the clock's time, after the fleet's history and with the events planned."""
    start = clock.now()
    made: tuple[ScenarioGroup | ScenarioBelonging | ScenarioResource, ...] = (*scenario.groups, *scenario.belongings)
    ages = [*(vm.started_ago for vm in scenario.fleet), *(one.made_ago for one in made)]
    oldest = max(ages, default=timedelta(0))
    world = World(
        clock,
        projects=scenario.projects,
        seed=scenario.seed,
        begins=start - oldest,
        wait_moves_clock=wait_moves_clock,
        local_guests=scenario.local_vms if scenario.runs_vms else None,
    )
    world.flex_start.ends_inserts = scenario.queued_inserts_end
    for vm in scenario.fleet:
        world.at(start - vm.started_ago, _guarded(world, f"insert {vm.name}", vm.insert))
        if vm.stopped_ago is not None:
            world.at(start - vm.stopped_ago, _guarded(world, f"stop {vm.name}", vm.stop))
    for one in made:
        world.at(start - one.made_ago, _guarded(world, f"make {one.name}", one.make))
    for event in scenario.events:
        world.at(start + event.at, _guarded(world, event.what, event.act))
    if scenario.bill is not None:
        scenario.bill.offer(world, start, start - oldest)
    with world.settled():
        return world


def _guarded(world: World, what: str, act: Act) -> Callable[[], None]:
    """A user may have deleted or stopped the VM before its event."""

    def happen() -> None:
        try:
            act(world)
        except (Refused, ValueError) as refused:
            _log.warning("scenario: %s did not happen: %s", what, refused)

    return happen


def _read_event(keys: Keys, projects: tuple[str, ...], fleet: tuple[ScenarioVM, ...]) -> ScenarioEvent:
    at = keys.duration("at")
    do = keys.choice("do", _ACTS)
    if do == "insert":
        vm = read_vm(keys.table("instance"), projects, in_past=False)
        act: Act = vm.insert
        what = f"insert {vm.name}"
    elif do == "fault":
        what, act = _read_fault(keys)
    elif do == "reclaim":
        what, act = _read_reclaim(keys, projects)
    elif do == "price":
        what, act = _read_price(keys.table("price"))
    elif do == "click":
        what, act = _read_click(keys)
        _check_known(keys, "vm", {vm.name for vm in fleet} | {name for _, name in _inserted(keys)})
    else:
        project, name = keys.choice("project", projects), keys.text("name")
        what = f"{do} {name}"
        if do == "load":
            load = read_load(keys)
            act = partial(World.set_load, project=project, name=name, load=load)
        else:
            user = keys.text("user", DEFAULT_USER)
            notice = keys.duration("notice", None) if do in EVENTS else None
            act = _trigger(do, project, name, notice) if do in EVENTS else _request(do, project, name, user)
        here = {vm.name for vm in fleet if vm.project == project}
        _check_known(keys, "name", here | {name for where, name in _inserted(keys) if where == project})
    keys.done()
    return ScenarioEvent(at, what, act)


def _inserted(keys: Keys) -> set[tuple[object, object]]:
    """The project and name of each VM that an event of this scenario inserts."""
    tables = [one["instance"] for one in keys.siblings() if isinstance(one.get("instance"), dict)]
    return {(one.get("project"), one.get("name")) for one in tables}


def _check_known(keys: Keys, key: str, names: Collection[object]) -> None:
    if keys.text(key) not in names:
        raise keys.wrong(key, f"the name of an instance of this scenario, in its project, not {keys.text(key)!r}")


def _read_click(keys: Keys) -> tuple[str, Act]:
    """A click on a button of the latest message about a VM, once there is one."""
    user = keys.choice("user", [name for name, _ in DEFAULT_PEOPLE])
    button, vm = keys.text("button"), keys.text("vm")
    patience = keys.duration("within", _PATIENCE)

    def act(world: World) -> None:
        world.slack.clicks.plan(PlannedClick(user, button, vm, world.timeline.now + patience))

    return f"click {button} of {vm}", act


def _request(verb: str, project: str, name: str, user: str) -> Act:
    def act(world: World) -> None:
        world.request(verb, project, world.instance(project, name).zone, name, user)

    return act


def _trigger(event: str, project: str, name: str, notice: timedelta | None) -> Act:
    def act(world: World) -> None:
        world.trigger_after_notice(event, project, name, notice=notice)

    return act


def _read_reclaim(keys: Keys, projects: tuple[str, ...]) -> tuple[str, Act]:
    """Spot VMs by a filter, such as those of jobs; the event waits `within` a time for the first one."""
    wanted = Reclaim(
        keys.choice("project", projects) if keys.has("project") else "",
        keys.text("region", ""),
        keys.text("zone", ""),
        keys.text("filter", ""),
        keys.duration("up_for", timedelta(0)),
        keys.duration("notice", None),
    )
    patience = keys.duration("within", timedelta(0))
    try:
        compile_filter(wanted.filter)
    except BadFilter as wrong:
        raise keys.wrong("filter", f"a filter of the Compute API: {wrong}") from None

    def act(world: World) -> None:
        until = world.timeline.now + patience

        def look() -> None:
            if not world.reclaim(wanted) and world.timeline.now < until:
                world.at(world.timeline.now + _LOOKS_EVERY, look)

        look()

    return "reclaim", act


def _read_fault(keys: Keys) -> tuple[str, Act]:
    values = keys.fault("fault")
    lasts = keys.duration("lasts", None)

    def act(world: World) -> None:
        fault = world.faults.add(**values)
        if lasts is not None:
            world.at(world.timeline.now + lasts, lambda: _clear(world, fault))

    return f"fault {values['kind']}", act


def _clear(world: World, fault: CloudFault) -> None:
    world.faults.remove(fault.id)


def _read_price(keys: Keys) -> tuple[str, Act]:
    resource, region = keys.text("resource"), keys.text("region")
    spot, nanos = keys.flag("spot"), keys.dollars("dollars")
    keys.done()
    try:
        PriceList().history(resource, region, spot)
    except NoRate as unknown:
        raise keys.wrong("resource", f"something that has a price: {unknown}") from None

    def act(world: World) -> None:
        world.prices.change(resource, region, spot, nanos, world.timeline.now)

    return f"price of {resource} in {region}", act
