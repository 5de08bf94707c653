"""What decisions about many VMs have in common, found once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from costguard.access import teams
from costguard.access.rules import Rules
from costguard.model.moments import zone_of
from costguard.model.person import Acquaintance, Person
from costguard.model.preset import Preset
from costguard.model.reminder import Team
from costguard.reminders import quiet
from costguard.reminders.watched import Watched


class Surroundings:
    """The settings, the people and the moment of one plan. Answers are remembered for as long as the plan is made."""

    def __init__(self, rules: Rules, people: Mapping[str, Acquaintance], now: datetime) -> None:
        self.rules = rules
        self.people = people
        self.now = now
        self.zone = zone_of(rules.time_zone)
        self._teams: dict[tuple[str, str], Team | None] = {}
        self._contacts: dict[tuple[str, str, str], str] = {}
        self._quiet: dict[tuple[str, datetime], datetime | None] = {}

    def preset(self, vm: Watched) -> Preset | None:
        return self.rules.presets.get(vm.preset)

    def is_looked_up(self, address: str) -> bool:
        """Whether it is known who that is, or that nobody is. Nobody needs to be asked about no address."""
        return not address or address.lower() in self.people

    def person(self, address: str) -> Person | None:
        found = self.people.get(address.lower())
        return found.person if found is not None else None

    def zone_name(self, address: str) -> str:
        """Somebody's time zone, or the one of channels where Slack tells none."""
        person = self.person(address)
        return (person.time_zone if person is not None else "") or self.rules.time_zone

    def zone_of(self, address: str) -> ZoneInfo:
        return zone_of(self.zone_name(address), self.rules.time_zone)

    def team(self, vm: Watched) -> Team | None:
        key = (vm.key.project, vm.owner)
        if key not in self._teams:
            self._teams[key] = teams.team_of(*key, self.rules.teams)
        return self._teams[key]

    def channel(self, vm: Watched) -> str:
        return teams.channel_of(self.team(vm), self.rules)

    def contact(self, vm: Watched) -> str:
        key = (vm.key.project, vm.preset, vm.owner)
        if key not in self._contacts:
            self._contacts[key] = teams.contact_of(*key, self.rules)
        return self._contacts[key]

    def quiet_until(self, vm: Watched, at: datetime) -> datetime | None:
        """When the quiet around this moment ends, where the VM's owner is."""
        above = self.rules.quiet.unless_above
        if above is not None and vm.rate is not None and vm.rate > above:
            return None
        key = (self.zone_name(vm.owner), at)
        if key not in self._quiet:
            self._quiet[key] = quiet.quiet_until(self.rules.quiet, key[0], None, at)
        return self._quiet[key]
