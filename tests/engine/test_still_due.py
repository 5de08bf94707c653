"""Right before a rule stops a VM it is judged anew, by all that is known by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from tests.builders import at
from tests.engine.execute_setup import ANA, Scene
from tests.engine.reminder_rows import message

from costguard.engine.acting.still_due import ByTheRules
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import Asked, Enforcement, Keep, ReminderRule, Subject
from costguard.policy.rules import Protection, Rules
from costguard.store import answers
from costguard.store.transaction import Database

STOPS = ReminderRule(enforcement=Enforcement.STOP, stop_after=2, grace=timedelta(minutes=30))
PRESET = Preset(OTHER, Match(), timedelta(minutes=30), reminders=STOPS)
RULES = Rules({OTHER: PRESET}, channel="#gpu", is_shadow=False)


@dataclass
class Judged:
    """A VM past its limit since 10:30, of which Slack accepted reminders at 10:30 and 11:00; it is 12:00."""

    scene: Scene
    subject: Subject

    def why_not(self, rules: Rules = RULES, labels: Mapping[str, str] | None = None) -> str:
        with self.scene.database.read() as connection:
            return ByTheRules(rules)(connection, self.subject, labels or {}, self.scene.clock.now())


@pytest.fixture
def judged(sqlite_database: Database) -> Judged:
    scene = Scene(sqlite_database)
    subject = scene.run()
    with sqlite_database.write() as connection:
        for stage, moment in enumerate(["10:30", "11:00"]):
            message(
                connection,
                f"reminder/{subject}/0/{stage}/owner",
                subject=str(subject),
                stage=stage,
                accepted_at=at(moment),
            )
    return Judged(scene, subject)


def test_as_due_as_it_was(judged: Judged) -> None:
    """Warned twice, nobody answered, and the grace is over."""
    assert judged.why_not() == ""


def test_within_the_grace(judged: Judged) -> None:
    """A decision of before does not count: the grace is measured once more."""
    judged.scene.clock.moment = at("11:29")
    assert judged.why_not() == "somebody answered, or it is not due any more"


def test_a_keep_undoes_it(judged: Judged) -> None:
    """An answer starts the stages anew, even where the time that it gave is over."""
    request = judged.scene.ask(judged.subject, Asked.KEEP)
    with judged.scene.database.write() as connection:
        answers.add_keep(connection, Keep(judged.subject, at("11:30"), ANA, at("11:01")), request.id)
    assert judged.why_not() == "somebody answered, or it is not due any more"


def test_a_label_that_protects_it_from_this_moment_on(judged: Judged) -> None:
    """What Google shows right now counts, not what was seen at the last look."""
    assert judged.why_not(labels={"costguard-protect": "paper"}) == "it is protected by label costguard-protect: paper"


def test_a_run_that_is_over(judged: Judged) -> None:
    """Nothing is due about a VM that came to rest."""
    judged.scene.come_to_rest()
    assert judged.why_not() == "it does not run any more"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rules: replace(rules, is_shadow=True), "rules stop nothing while [enforcement] shadow is true"),
        (lambda rules: replace(rules, protection=Protection(names=("vm-*",))), "it is protected by name vm-*"),
        (
            lambda rules: replace(rules, presets={OTHER: replace(PRESET, limit=None)}),
            "preset other sets no limit any more",
        ),
        (
            lambda rules: replace(rules, presets={OTHER: replace(PRESET, reminders=ReminderRule())}),
            "somebody answered, or it is not due any more",
        ),
    ],
)
def test_other_settings(judged: Judged, change: Callable[[Rules], Rules], why: str) -> None:
    """A stop that was intended before a restart is not carried out under settings that do not ask for it."""
    assert judged.why_not(change(RULES)) == why
