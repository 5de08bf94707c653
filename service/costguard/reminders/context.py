"""The context of a plan: rules, people and quiet hours, computed once for all VMs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from costguard.access import teams
from costguard.access.rules import Rules
from costguard.model.delivery.person import AccountLookup, Person
from costguard.model.moments import zone_of
from costguard.model.money import Money
from costguard.model.preset import Preset
from costguard.model.reminder import QuietRule, Team
from costguard.reminders.watched import WatchedVm


class PlanContext:
    """The settings, the people and the time of one plan. Results are cached while the plan is made."""

    def __init__(
        self,
        rules: Rules,
        people: Mapping[str, AccountLookup],
        now: datetime,
        answers_since: datetime | None = None,
    ) -> None:
        self.answers_since = answers_since  # since when people could answer; None: no gap is known
        self.rules = rules
        self.people = people
        self.now = now
        self.zone = zone_of(rules.time_zone)
        self._teams: dict[tuple[str, str], Team | None] = {}
        self._contacts: dict[tuple[str, str, str], str] = {}
        self._quiet: dict[tuple[str, datetime], datetime | None] = {}

    def preset(self, vm: WatchedVm) -> Preset | None:
        return self.rules.presets.get(vm.preset)

    def is_looked_up(self, address: str) -> bool:
        """Says whether Slack was asked about this address; an empty one needs no lookup."""
        return not address or address.lower() in self.people

    def person(self, address: str) -> Person | None:
        lookup = self.people.get(address.lower())
        return lookup.person if lookup is not None else None

    def zone_name(self, address: str) -> str:
        """Someone's time zone, or the one of channels where Slack tells none."""
        person = self.person(address)
        return (person.time_zone if person is not None else "") or self.rules.time_zone

    def zone_of(self, address: str) -> ZoneInfo:
        return zone_of(self.zone_name(address), self.rules.time_zone)

    def team(self, vm: WatchedVm) -> Team | None:
        key = (vm.key.project, vm.owner)
        if key not in self._teams:
            self._teams[key] = teams.team_of(*key, self.rules.teams)
        return self._teams[key]

    def channel(self, vm: WatchedVm) -> str:
        return teams.channel_of(self.team(vm), self.rules)

    def contact(self, vm: WatchedVm) -> str:
        key = (vm.key.project, vm.preset, vm.owner)
        if key not in self._contacts:
            self._contacts[key] = teams.contact_of(*key, self.rules)
        return self._contacts[key]

    def quiet_until(self, vm: WatchedVm, at: datetime) -> datetime | None:
        """When the quiet around this moment ends, where the VM's owner is."""
        above = self.rules.quiet.unless_above
        if above is not None and vm.rate is not None and vm.rate > above:
            return None
        key = (self.zone_name(vm.owner), at)
        if key not in self._quiet:
            self._quiet[key] = quiet_until(self.rules.quiet, key[0], None, at)
        return self._quiet[key]


_DAY = timedelta(days=1)
_FAR = timedelta(days=8)  # a rule that makes every day quiet has no end; this one stands for it


def quiet_until(rule: QuietRule, zone_name: str, rate: Money | None, now: datetime) -> datetime | None:
    """When the quiet that holds now ends, a night and the weekend after it being one; None: it is not quiet.

    A rate that is not known is no reason to wake anybody.
    """
    if rate is not None and rule.unless_above is not None and rate > rule.unless_above:
        return None
    zone = zone_of(zone_name)
    until = now
    while until - now < _FAR and (end := _end(rule, zone, until)) is not None:
        until = end
    return until if until > now else None


def _end(rule: QuietRule, zone: ZoneInfo, at: datetime) -> datetime | None:
    """The end of the quiet piece around this moment.

    Pieces are cut in UTC: an hour that the clock repeats or leaves out lies wholly in one of them, or in none.
    """
    today = at.astimezone(zone).date()
    if today.weekday() in rule.days:
        return _moment(today + _DAY, time(), zone)
    for day in (today - _DAY, today):
        ends_on = day if rule.starts < rule.ends else day + _DAY
        starts_at, ends_at = _moment(day, rule.starts, zone), _moment(ends_on, rule.ends, zone)
        if rule.starts != rule.ends and starts_at <= at < ends_at:
            return ends_at
    return None


def _moment(day: date, at: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, at, zone).astimezone(UTC)
