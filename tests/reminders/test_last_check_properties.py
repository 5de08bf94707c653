"""The decision of a pass and the last check before a stop agree, whatever the ledger holds."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from tests.builders import PROJECT, at, observation, seen
from tests.fakes import FakeCloud
from tests.reminders.execute_setup import ANA, BELONGING, Scene
from tests.reminders.last_check_setup import FREE, PRESET, ROOT, RULES, Judged, scene_of
from tests.reminders.reminder_rows import stop as stop_row

from costguard.access.rules import Protection, Rules
from costguard.db.tables import projects
from costguard.db.transaction import Database
from costguard.ledger import answers
from costguard.ledger.observe import Belonging
from costguard.ledger.record import record
from costguard.model.action import StopInstance
from costguard.model.instance import InstanceKey
from costguard.model.preset import OTHER
from costguard.model.reminder import Enforcement, Keep, RequestKind
from costguard.model.utilisation import IdleState
from costguard.reminders import gather, request_rows
from costguard.reminders.enforcement import rule_text

MOMENTS = ("10:20", "10:45", "11:20", "11:50", "12:30")


@dataclass(frozen=True)
class Life:
    """A life of one VM that has run since 10:00."""

    warned: int  # how many of the moments brought a reminder that Slack accepted
    kept_until: str | None
    idle: IdleState | None
    is_weak: bool
    labels: tuple[tuple[str, str], ...]
    requested: RequestKind | None
    by: str
    stop_before: str | None  # how a stop of the same cycle came out

    def happen_to(self, judged: Judged) -> None:
        judged.warn(*MOMENTS[: self.warned])
        if self.idle is not None:
            judged.measured(self.idle, is_weak=self.is_weak)
        judged.google.vms[PROJECT, "us-central1-a", judged.name].labels.update(self.labels)
        subject = judged.subject
        with judged.scene.database.write() as connection:
            if self.stop_before is not None:
                given = {"outcome": self.stop_before, "settled_at": at("11:55")}
                stop_row(connection, subject.instance_id, subject.lifetime_id, at("11:55"), **given)
        if self.kept_until is not None:
            request = judged.scene.ask(subject, RequestKind.KEEP, key=f"kept {subject}", at=at("11:00"))
            with judged.scene.database.write() as connection:
                assert request.id is not None
                answers.add_keep(connection, Keep(subject, at(self.kept_until), ANA, at("11:00")), request.id)
                request_rows.settle(connection, request.id, "done", "", at("11:00"))
        if self.requested is not None:
            judged.scene.ask(subject, self.requested, key=f"asked {subject}", by=self.by, hours=4)


lives = st.builds(
    Life,
    warned=st.integers(0, len(MOMENTS)),
    kept_until=st.sampled_from([None, None, None, "11:30", "16:00"]),
    idle=st.sampled_from([None, *IdleState]),
    is_weak=st.booleans(),
    labels=st.sampled_from([(), (), (), (("costguard-protect", "true"),), (("free", "yes"),)]),
    requested=st.sampled_from([None, None, None, *RequestKind]),
    by=st.sampled_from([ANA, ROOT]),
    stop_before=st.sampled_from([None, None, None, "failed", "shadow", "not_needed"]),
)
reminder_rules = st.builds(
    lambda verb, after, grace: replace(PRESET.reminders, enforcement=verb, stop_after=after, grace=grace),
    st.sampled_from([Enforcement.STOP, Enforcement.STOP, Enforcement.STOP, Enforcement.REMIND]),
    st.integers(1, 3),
    st.sampled_from([timedelta(), timedelta(minutes=30), timedelta(hours=2)]),
)
settings_of_a_guard = st.builds(
    lambda reminders, limit, shadow, names, channel: replace(
        RULES,
        presets={OTHER: replace(PRESET, limit=limit, reminders=reminders), "free": FREE},
        is_shadow=shadow,
        protection=Protection(names=names),
        channel=channel,
    ),
    reminder_rules,
    st.sampled_from([timedelta(minutes=15), timedelta(minutes=30), timedelta(hours=1), timedelta(hours=9), None]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([(), (), ("vm-2",), ("*-3",)]),
    st.sampled_from(["#gpu", "#gpu", "#gpu", ""]),
)


def decided(judged: Judged, rules: Rules) -> StopInstance | None:
    """Returns the decision of a pass about this VM, had it looked at this moment: labels are of the look."""
    with judged.scene.database.read() as connection:
        plan, fleet = gather.look_at(connection, rules, judged.scene.clock.now())
    by_rule = [action for action in plan.actions if isinstance(action, StopInstance) and action.request is None]
    standing = {decision.subject: decision.stop_at for decision in plan.decisions}
    assert len(fleet) == 3
    return next((stop for stop in by_rule if stop.subject == judged.subject and standing[stop.subject]), None)


def seen_again(scene: Scene, rules: Rules) -> None:
    """A look at Google brings the labels into the ledger, as a pass begins."""
    vms = [
        seen(key=InstanceKey(PROJECT, vm.gce_id), name=name, labels=dict(vm.labels), fingerprint="again")
        for (_, _, name), vm in scene.google.vms.items()
    ]
    belonging = Belonging(tuple(rules.presets.values()), BELONGING.owners)
    record(scene.database, FakeCloud(), observation(*vms, read="12:00"), belonging, None)


@settings(max_examples=30)
@given(st.lists(lives, min_size=3, max_size=3), settings_of_a_guard, st.sampled_from([(), (), (), ("us-central1-a",)]))
def test_a_pass_and_the_last_check_agree(
    sqlite_template: Path, fleet: list[Life], rules: Rules, unread: tuple[str, ...]
) -> None:
    """A VM that a pass decides to stop is stopped; one that it leaves alone is left alone, had it been decided on
    before.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(sqlite_template, Path(folder) / "costguard.db")
        with closing(Database.open(f"sqlite:///{path}")) as database:
            scene = scene_of(database)
            every = [Judged(scene, scene.run(number), name=f"vm-{number}") for number in (1, 2, 3)]
            for life, judged in zip(fleet, every, strict=True):
                life.happen_to(judged)
            seen_again(scene, rules)
            with database.write() as connection:
                parts = [{"scope": scope, "reason": "no answer", "code": "unavailable"} for scope in unread]
                connection.execute(update(projects).where(projects.c.project == PROJECT).values(unread=parts))
            for number, judged in enumerate(every, 1):
                assert_agree(judged, number, rules)


def assert_agree(judged: Judged, number: int, rules: Rules) -> None:
    action = decided(judged, rules)
    preset = rules.presets[OTHER]
    before = action or judged.scene.stop_by_rule(
        judged.subject, number, rule=rule_text(preset), reminder=f"reminder/{judged.subject}/0/0/owner"
    )
    # It was decided on a moment ago, when all was as the rule wants it.
    outcome = judged.carry_out(before, rules=rules)
    is_stopped = any(gce_id == str(1000 + number) for _, gce_id in judged.google.effects)
    assert is_stopped == (action is not None), outcome.text
    if action is None:
        assert outcome.result == ("intended" if "could not be read" in outcome.text else "not_needed")
