"""A VM that a rule is about to stop, and what may change between the decision and the stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert, update
from tests.builders import PROJECT, at
from tests.fakes import FakeActuator
from tests.reminders.execute_setup import ZONE, Scene
from tests.reminders.reminder_rows import message

from costguard.access.rules import Access, Rules
from costguard.db.tables import utilisation
from costguard.db.transaction import Database
from costguard.model.action import StopInstance
from costguard.model.observation import Sighting
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import Enforcement, QuietRule, ReminderRule, Subject
from costguard.model.utilisation import IdleRule, IdleState
from costguard.reminders import gather
from costguard.reminders.execute import ActionOutcome
from costguard.reminders.stop_case import ByTheRules

ROOT = "root@example.com"
STOPS = ReminderRule(enforcement=Enforcement.STOP, stop_after=2, grace=timedelta(minutes=30))
PRESET = Preset(OTHER, Match(), timedelta(minutes=30), idle=IdleRule(500, 500, timedelta(minutes=10)), reminders=STOPS)
FREE = Preset("free", Match(labels={"free": "yes"}), None)
RULES = Rules(
    {OTHER: PRESET, "free": FREE},
    channel="#gpu",
    is_shadow=False,
    quiet=QuietRule(days=frozenset(range(7))),  # quiet all week: no reason to go on billing
    access=Access(admins=frozenset({ROOT})),
)
LATER_LIMIT = replace(RULES, presets={OTHER: replace(PRESET, limit=timedelta(hours=9)), "free": FREE})


class Meanwhile(FakeActuator):
    """Google, where something happens while the VM is looked at: after the decision, before the last check."""

    happens: Callable[[], object] | None = None

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        if self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return super().look(project, zone, name)


def scene_of(database: Database) -> Scene:
    return Scene(database, google=Meanwhile())


@dataclass
class Judged:
    """A VM past its limit since 10:30, of which Slack accepted reminders at 10:30 and 11:00; it is 12:00."""

    scene: Scene
    subject: Subject
    rules: Rules = field(default=RULES)
    name: str = "vm-1"

    @property
    def google(self) -> Meanwhile:
        assert isinstance(self.scene.google, Meanwhile)
        return self.scene.google

    def decided(self) -> StopInstance:
        """Returns the decision of a pass now, which is a stop."""
        with self.scene.database.read() as connection:
            plan, _ = gather.look_at(connection, self.rules, self.scene.clock.now())
        stops = [action for action in plan.actions if isinstance(action, StopInstance)]
        return next(action for action in stops if action.subject == self.subject)

    def carry_out(
        self,
        action: StopInstance,
        meanwhile: Callable[[], object] | None = None,
        rules: Rules | None = None,
        answers_since: datetime | None = None,
    ) -> ActionOutcome:
        """Carries it out by the real last check, under rules that may have changed since the decision, and
        after a gap.
        """
        self.google.happens = meanwhile
        still_due = ByTheRules(rules or self.rules, lambda: answers_since)
        executor = self.scene.executor(still_due=still_due)
        (outcome,) = executor.carry_out([action])
        return outcome

    def settle(self, rules: Rules | None = None) -> None:
        self.scene.executor(still_due=ByTheRules(rules or self.rules)).settle()

    def at_google(self, **labels: str) -> None:
        self.google.vms[PROJECT, ZONE, self.name].labels |= {
            key.replace("_", "-"): value for key, value in labels.items()
        }

    def warn(self, *moments: str, cycle: int = 0) -> None:
        with self.scene.database.write() as connection:
            for stage, moment in enumerate(moments):
                key = f"reminder/{self.subject}/{cycle}/{stage}/owner"
                given: dict[str, Any] = {"cycle": cycle, "stage": stage, "accepted_at": at(moment)}
                message(connection, key, subject=str(self.subject), **given)

    def measured(
        self, state: IdleState, since: str = "10:00", good_until: str = "13:00", is_weak: bool = False
    ) -> None:
        """Stores measurements of the VM, in place of those before."""
        values = {
            "state": state.value,
            "since": at(since),
            "good_until": at(good_until),
            "is_weak": is_weak,
            "measured_at": at(since),
            "sentence": "GPU under 5 %",
            "announced": "",
        }
        row = self.subject.instance_id
        with self.scene.database.write() as connection:
            if not connection.execute(
                update(utilisation).where(utilisation.c.instance_id == row).values(values)
            ).rowcount:
                connection.execute(insert(utilisation).values(instance_id=row, run_started_at=at("10:00"), **values))


def judged_at(database: Database, moment: datetime | None = None, **given: Any) -> Judged:
    scene = scene_of(database)
    judged = Judged(scene, scene.run(), **given)
    judged.warn("10:30", "11:00")
    if moment is not None:
        scene.clock.moment = moment
    return judged
