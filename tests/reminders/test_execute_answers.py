"""Keeps, claims and refusals: written down with the event of who, and the request settled, in one transaction."""

from __future__ import annotations

import pytest
from tests.builders import at
from tests.crashing import CrashPoint, Killed, fragile_database
from tests.reminders.execute_setup import ANA, Scene
from tests.reminders.last_check_setup import judged_at

from costguard.db.transaction import Database
from costguard.ledger import answers
from costguard.model.action import Action, AssignOwner, KeepLifetime, RefuseRequest
from costguard.model.reminder import Claim, Keep, RequestKind
from costguard.reminders.stop_case import ByTheRules


def test_a_keep(database: Database) -> None:
    """The due moment moves once, and the event says by whom, until when and why."""
    scene = Scene(database)
    subject = scene.run()
    request = scene.ask(subject, RequestKind.KEEP, reason="the last epoch")
    action = KeepLifetime(request, at("16:00"), "ana keeps it")
    results = [outcome.result for _ in range(2) for outcome in scene.executor().carry_out([action])]
    assert results == ["settled", "repeated"]
    with database.read() as connection:
        keeps = answers.keeps_of(connection, [subject])[subject]
    assert keeps == (Keep(subject, at("16:00"), ANA, at("12:00"), "the last epoch"),)
    sentence = f"{ANA} keeps vm-1 until Mon 2 Nov 16:00 UTC: the last epoch."
    assert scene.event_texts("LifetimeKept") == [sentence]
    assert scene.requests() == [("done", sentence)]


@pytest.mark.parametrize(("owner", "kind"), [(ANA, "OwnerClaimed"), ("", "OwnerDisowned")])
def test_a_claim_and_its_contrary(database: Database, owner: str, kind: str) -> None:
    """The owner is the one that a person named, with the event of who said so."""
    scene = Scene(database)
    subject = scene.run(labels={"owner": "bo"})
    request = scene.ask(subject, RequestKind.CLAIM if owner else RequestKind.DISOWN)
    scene.executor().carry_out([AssignOwner(request, owner, f"{ANA} said so")])
    with database.read() as connection:
        claims = answers.claims_of(connection, [subject.instance_id])[subject.instance_id]
    assert claims == (Claim(subject.instance_id, owner, ANA, at("12:00")),)
    assert scene.event_texts(kind) == [
        f"{ANA} said so; before, it was bo@example.com's." if owner else f"{ANA} said so."
    ]
    assert scene.requests()[0][0] == "done"


@pytest.mark.parametrize("user_id", ["UANA", ""])
def test_a_refusal(database: Database, user_id: str) -> None:
    """The reason is kept, and sent in private to the person who asked in Slack."""
    scene = Scene(database)
    request = scene.ask(scene.run(), RequestKind.KEEP, user_id=user_id)
    action = RefuseRequest(request, "It was kept three times already.")
    executor = scene.executor()
    executor.carry_out([action])
    executor.carry_out([action])
    assert scene.requests() == [("refused", action.reason)]
    assert scene.ephemerals() == ([("UANA", action.reason)] if user_id else [])


def test_ended_in_the_middle_of_an_answer(database: Database, database_url: str) -> None:
    """All of an answer is written or nothing, so carrying it out again adds nothing twice."""
    scene = Scene(database)
    for step in range(1, 5):
        subject = scene.run(step)
        action: Action = KeepLifetime(scene.ask(subject, RequestKind.KEEP), at("16:00"), "ana keeps it")
        with fragile_database(database_url, CrashPoint(step)) as fragile:
            try:
                scene.executor(database=fragile).carry_out([action])
            except Killed:
                assert step < 4
        scene.executor().carry_out([action])
        with database.read() as connection:
            assert len(answers.keeps_of(connection, [subject])[subject]) == 1
        assert len(scene.event_texts("LifetimeKept")) == step


def test_answers_come_before_stops(database: Database) -> None:
    """A keep is heard before a rule acts on silence, in one plan as well."""
    judged = judged_at(database)
    scene, stop = judged.scene, judged.decided()
    keep = KeepLifetime(scene.ask(judged.subject, RequestKind.KEEP), at("16:00"), "ana keeps it")
    results = scene.executor(still_due=ByTheRules(judged.rules)).carry_out([stop, keep])
    assert [result.result for result in results] == ["settled", "not_needed"]
    assert scene.google.calls == []
