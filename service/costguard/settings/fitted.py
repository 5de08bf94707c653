"""Fits a settings file to a fleet: presets, limits and owners by what one look at it showed."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from costguard.keepers.reading import keeper_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import rate_per_hour
from costguard.model.duration import span_text
from costguard.model.instance import TPUS, SeenInstance, Shape, gpu_name, gpu_words, noun_of
from costguard.model.keeper import Keeper
from costguard.model.money import ZERO, Money, rate_text
from costguard.model.price import HOURS_A_MONTH
from costguard.model.words import count_text, list_text
from costguard.settings.jobs import LaunchSection

_PEOPLE = (  # label keys that name people, the most telling first
    "owner", "owned-by", "user", "username", "created-by", "creator", "author", "requester", "contact", "responsible",
    "person", "email",
)  # fmt: skip
_TEAMS = ("team", "group", "squad", "department")
# Labels that tools and services of Google write.
_NOT_PEOPLES = ("goog-", "gke-", "k8s-", "costguard-", "cloud-", "dataproc-", "ray-", "skypilot-", "managed-by")
_TO_DEBUG = frozenset({"nvidia-tesla-t4", "nvidia-l4", "nvidia-tesla-p4", "nvidia-tesla-k80"})
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_LIMITS = {8 * _HOUR: "8h", 12 * _HOUR: "12h", 24 * _HOUR: "24h", 2 * _DAY: "2d", 3 * _DAY: "3d"}
_ONE_TO_DEBUG, _SEVERAL, _ONE_TO_TRAIN = 8 * _HOUR, 12 * _HOUR, 24 * _HOUR  # the limits of the shipped presets
_FEWEST = 3  # VMs that show how long such VMs usually run
_MOST_LABELS, _MOST_VALUES, _MOST_SHOWN, _MOST_ZONES = 8, 50, 5, 8


@dataclass(frozen=True, slots=True)
class Wishes:
    """The answers of the user; "" where there is none."""

    projects: tuple[str, ...]
    time_zone: str = "UTC"
    contact: str = ""
    domain: str = ""
    channel: str = ""
    endpoint: str = ""
    has_slack_token: bool = False


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Holds what a look at a project showed. `unread` says why a part of it, or all, could not be read."""

    project: str
    vms: tuple[SeenInstance, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PricedVm:
    """A VM with its keeper, if it has one, and its rate in dollars an hour; None where a part has no price."""

    vm: SeenInstance
    keeper: Keeper | None
    rate: Money | None

    @property
    def has_accelerator(self) -> bool:
        return self.vm.shape.gpu_type is not None and self.vm.shape.gpu_count > 0

    def age(self, now: datetime) -> timedelta:
        return now - (self.vm.last_started_at or self.vm.created_at)


@dataclass(frozen=True, slots=True)
class SeenFleet:
    """All VMs of the looks, priced at `now`."""

    now: datetime
    looks: tuple[FirstLook, ...]
    vms: tuple[PricedVm, ...]

    @property
    def accelerated(self) -> tuple[PricedVm, ...]:
        return tuple(one for one in self.vms if one.has_accelerator)


def seen_fleet(looks: Iterable[FirstLook], book: PriceBook, now: datetime) -> SeenFleet:
    """Prices each VM that bills as a machine; the others have the rate zero, and disks have no part in it."""
    looks = tuple(looks)
    return SeenFleet(now, looks, tuple(_seen(vm, book, now) for look in looks for vm in look.vms))


def _seen(vm: SeenInstance, book: PriceBook, now: datetime) -> PricedVm:
    rate = rate_per_hour(vm.shape, vm.region, vm.provisioning_model, book, now) if vm.status.bills_machine else ZERO
    return PricedVm(vm, keeper_of(vm.labels, vm.origin, vm.zone), rate)


def fleet_text(vms: Sequence[PricedVm]) -> str:
    """`4 VMs, 3 running, $12.40 an hour`"""
    running = sum(one.vm.status.bills_machine for one in vms)
    rates = [one.rate for one in vms]
    total_rate = sum((rate for rate in rates if rate is not None), ZERO)
    noun = noun_of(one.vm.key.kind for one in vms)
    unpriced = f" and {count_text(rates.count(None), noun)} without a price" if None in rates else ""
    return f"{count_text(len(vms), noun)}, {running} running, {rate_text(total_rate)} an hour{unpriced}"


def fitted_settings(wishes: Wishes, fleet: SeenFleet) -> str:
    """Returns the settings file as TOML with comments. What was not seen is left to Costguard's defaults."""
    parts = (
        _head(fleet),
        _watch(wishes, fleet),
        _compute(wishes),
        _owners(wishes, fleet),
        _teams(fleet),
        _slack(wishes),
        _reminders(wishes),
        _ENFORCEMENT,
        *_presets(fleet),
        _spend(fleet),
        _budget(fleet),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


_ENFORCEMENT = """[enforcement]
# Shadow mode: rules stop nothing, and what they would have stopped is recorded.
shadow = true"""


def _head(fleet: SeenFleet) -> str:
    day = fleet.now.date().isoformat()
    projects = count_text(len(fleet.looks), "project")
    lines = [
        f"# Costguard's settings, fitted on {day} to one look at {projects}: {fleet_text(fleet.vms)}.",
        "# `costguard config example` prints every key there is, with its default. Secrets never stand here.",
    ]
    lines += [
        f"# Not read whole, so this file may not fit it: project {look.project}." for look in fleet.looks if look.unread
    ]
    return _lines(lines)


def _watch(wishes: Wishes, fleet: SeenFleet) -> str:
    lines = ["[watch]", f"projects = {_toml(wishes.projects)}"]
    plain = len(fleet.vms) - len(fleet.accelerated)
    if plain:
        have = count_text(plain, "VM has", "VMs have")
        lines += [f"# {have} no GPU or TPU. To leave such VMs alone:", '# vms_without_gpu = "ignore"']
    return _lines(lines)


def _compute(wishes: Wishes) -> str:
    if not wishes.endpoint:
        return ""
    return "\n\n".join(f"[{section}]\nendpoint = {_toml(wishes.endpoint)}" for section in ("compute", "prices"))


def _owners(wishes: Wishes, fleet: SeenFleet) -> str:
    vms = [one for one in fleet.vms if one.keeper is None]
    lines = ["[owners]"]
    label, values = _naming_label(vms, _PEOPLE)
    if label:
        vms_text = count_text(len(vms), "VM that nothing else keeps", "VMs that nothing else keeps")
        lines += [f"# {values.total()} of {vms_text} have this label: {_shown(values)}.", f"label = {_toml(label)}"]
    elif vms:
        lines += ["# No label of your VMs names a person. Costguard then goes by the account that made a VM.",
                  '# label = "owner"']  # fmt: skip
    if wishes.domain:
        first = next(iter(values), "ana")
        lines += [f"# Completes a label: {label or 'owner'}={first} is {first}@{wishes.domain}.",
                  f"domain = {_toml(wishes.domain)}"]  # fmt: skip
    else:
        lines += ["# The domain that completes a label to an address.", '# domain = "example.com"']
    if pools := _pools(fleet):
        lines.append(
            "# Pools and clusters, of which one reminder is sent for all VMs. Name the owners of those you know:"
        )
        lines.append("# clusters = {")
        lines += [f'#   {_toml(where)} = "ana@example.com",  # {fleet_text(of_it)}' for where, of_it in pools]
        lines.append("# }")
    return _lines(lines)


def _pools(fleet: SeenFleet) -> list[tuple[str, list[PricedVm]]]:
    pools = defaultdict[str, list[PricedVm]](list)
    for one in fleet.vms:
        if one.keeper is not None and one.keeper.stops_as_one:
            pools[one.keeper.where].append(one)
    return sorted(pools.items())


def _naming_label(vms: Sequence[PricedVm], keys: Sequence[str]) -> tuple[str, Counter[str]]:
    """The label among these keys that most VMs have, and its values; ("", none) where no VM has one."""
    by_key = defaultdict[str, Counter[str]](Counter)
    for one in vms:
        for key, value in one.vm.labels.items():
            if _plain(key) in keys and value:
                by_key[key][value] += 1
    if not by_key:
        return "", Counter()
    best = min(by_key, key=lambda key: (-by_key[key].total(), keys.index(_plain(key))))
    return best, by_key[best]


def _plain(key: str) -> str:
    """Writes `created_by` and `created-by` as one."""
    return key.replace("_", "-")


def _teams(fleet: SeenFleet) -> str:
    label, values = _naming_label(fleet.vms, _TEAMS)
    if not label:
        return ""
    name = next(iter(values))
    lines = [f"# The label {label} names teams: {_shown(values)}. A VM belongs to its owner's team:"]
    lines += [f"# [teams.{_toml(name)}]", '# members = ["ana@example.com"]', f'# channel = "#{name}"']
    return _lines(lines)


def _slack(wishes: Wishes) -> str:
    lines = ["[slack]", f"channel = {_toml(wishes.channel or '#gpu-costs')}", "socket_mode = true"]
    if wishes.channel and wishes.has_slack_token:
        return _lines(lines)
    why = "# Reminders are sent once Slack is set up (service/docs/slack.md): COSTGUARD_SLACK_TOKEN and"
    how = "# COSTGUARD_SLACK_APP_TOKEN hold its tokens. Until then pages and commands show what would be due."
    return _lines([why, how, *(f"# {line}" for line in lines)])


def _reminders(wishes: Wishes) -> str:
    lines = ["[reminders]", f"time_zone = {_toml(wishes.time_zone)}"]
    if wishes.contact:
        lines += ["# Is reminded last, where nobody else answers.", f"contact = {_toml(wishes.contact)}"]
    return _lines(lines)


def _presets(fleet: SeenFleet) -> Iterator[str]:
    groups = defaultdict[str, list[PricedVm]](list)
    for one in fleet.accelerated:
        groups[_preset_name(one.vm.shape)].append(one)
    for name, vms in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield _preset(name, vms, fleet.now)


def _preset_name(shape: Shape) -> str:
    """Names it after the machine family, and after GPUs that are attached to any machine: `n1-t4`, `a2-multi`."""
    kind = shape.gpu_type or ""
    name = f"n1-{gpu_name(kind)}" if shape.family == "n1" else shape.family
    return f"{name}-multi" if shape.gpu_count > 1 and kind not in TPUS else name


def _preset(name: str, vms: Sequence[PricedVm], now: datetime) -> str:
    shape = vms[0].vm.shape
    kinds = sorted({one.vm.shape.gpu_type or "" for one in vms})
    is_several, is_tpu = shape.gpu_count > 1, kinds[0] in TPUS
    limit, late = _limit(vms, is_several, now)
    words = list_text([gpu_words(kind) for kind in kinds])
    counted = "TPU chips" if is_tpu else "Two or more GPUs" if is_several else "One GPU"
    kept = sum(one.keeper is not None for one in vms)
    seen = f"# Seen: {fleet_text(vms)}" + (f"; {kept} in clusters, groups or notebooks" if kept else "")
    lines = [
        f"[presets.{name}]",
        f"description = {_toml(f'{counted}: {words}')}",
        f"{seen}.",
        *([f"# {late}"] if late else []),
        f'limit = "{_LIMITS[limit]}"',
    ]
    if is_tpu:
        return _lines([*lines, f"match.accelerator = {_toml(kinds[0])}"])
    counts = ["match.gpu_count_min = 2"] if is_several else ["match.gpu_count_min = 1", "match.gpu_count_max = 1"]
    return _lines([*lines, f"match.gpu_types = {_toml(kinds)}", *counts, *_launch(vms)])


def _limit(vms: Sequence[PricedVm], is_several: bool, now: datetime) -> tuple[timedelta, str]:
    """The limit of the shipped preset; longer, up to 3 days, where more than half of three or more VMs run longer.

    Also says how many run longer than it. VMs of clusters and groups have no say: they are meant to stay.
    """
    cheap = all(one.vm.shape.gpu_type in _TO_DEBUG for one in vms)
    first = _SEVERAL if is_several else _ONE_TO_DEBUG if cheap else _ONE_TO_TRAIN
    ages = [one.age(now) for one in vms if one.keeper is None and one.vm.status.bills_machine]
    steps = [step for step in _LIMITS if step >= first]
    if len(ages) < _FEWEST:
        limit = first
    else:
        limit = next((step for step in steps if 2 * sum(age > step for age in ages) <= len(ages)), steps[-1])
    late = sum(age > limit for age in ages)
    if not late:
        return limit, ""
    runs = count_text(late, "VM runs", "VMs run")
    return limit, f"{runs} longer than this limit now, the oldest for {span_text(max(ages))}."


def _launch(vms: Sequence[PricedVm]) -> list[str]:
    """Returns the launch keys: the machine seen most, where it is; a comment where Costguard cannot launch it."""
    (machine, kind, count), _ = Counter(
        (one.vm.shape.machine_type, one.vm.shape.gpu_type, one.vm.shape.gpu_count) for one in vms
    ).most_common(1)[0]
    zones = [zone for zone, _ in Counter(one.vm.zone for one in vms).most_common(_MOST_ZONES)]
    keys: dict[str, Any] = {"machine_type": machine, "gpu_type": kind, "gpu_count": count, "zones": zones}
    try:
        LaunchSection.model_validate(keys)
    except ValidationError:
        return [f"# {machine} is not launched by Costguard."]
    return [f"launch.{key} = {_toml(value)}" for key, value in keys.items()]


def _spend(fleet: SeenFleet) -> str:
    vms = fleet.accelerated or fleet.vms
    values = defaultdict[str, Counter[str]](Counter)
    for one in vms:
        for key, value in one.vm.labels.items():
            if value and _plain(key) not in _PEOPLE and not key.startswith(_NOT_PEOPLES):
                values[key][value] += 1
    often = [key for key, of_it in values.items() if 5 * of_it.total() >= len(vms) and len(of_it) <= _MOST_VALUES]
    if not often:
        return ""
    chosen = sorted(often, key=lambda key: (-values[key].total(), key))[:_MOST_LABELS]
    return f"[spend]\n# Labels that at least a fifth of the VMs have: spend is shown by them.\nlabels = {_toml(chosen)}"


def _budget(fleet: SeenFleet) -> str:
    total_rate = sum((one.rate for one in fleet.vms if one.rate is not None), ZERO)
    if not total_rate:
        return ""
    month = Money(total_rate.nanos * HOURS_A_MONTH)
    cost = f"{rate_text(month)} in {HOURS_A_MONTH} hours"
    return _lines(
        (
            f"# What runs now costs {cost} at list prices, without disks. A budget for it:",
            "# [budgets.all]",
            f"# limit = {int(month.dollars) + 1}",
        )
    )


def _shown(values: Mapping[str, int]) -> str:
    names = sorted(values, key=lambda value: (-values[value], value))
    more = [f"{len(names) - _MOST_SHOWN} more"] if len(names) > _MOST_SHOWN else []
    return list_text([*names[:_MOST_SHOWN], *more])


def _lines(lines: Iterable[str]) -> str:
    """Joins lines of the file. A character that would end one early, such as a line feed in a label, is a `?`."""
    return "\n".join("".join(char if char.isprintable() else "?" for char in line) for line in lines)


def _toml(value: object) -> str:
    """A value as TOML, whose strings, lists and truths are written as JSON's."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
