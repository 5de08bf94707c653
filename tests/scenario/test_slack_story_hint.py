"""The hint in a job's thread that its metric stands still, and its buttons, as people see them."""

from __future__ import annotations

from tests.jobs import job_rows as stored_jobs
from tests.scenario.slack_story import DAY, MINUTE, Story, buttons, shown, story

from costguard.events import audit_log
from costguard.jobs.rows import job_events, job_rows
from costguard.jobs.rows.progress import progress_rows
from costguard.model.attempt import AttemptState
from costguard.model.job import Job, JobState
from costguard.model.reported.progress import EVALUATION, SeriesPoint
from costguard_sandbox.slack.model import Message

STOP, NEVER_MIND = "job:stop_after", "job:never_mind"


def hinted(team: Story) -> Message:
    """Ana's job stands still, and Slack has shown her the hint."""
    with team.guard.database.write() as connection:
        job = stored_jobs.added(
            connection,
            "j7k2m9q4",
            name="bert",
            owner="ana@example.com",
            state=JobState.RUNNING,
            created_at=team.now - DAY,
        )
        stored_jobs.attempt(connection, job.id, 1, state=AttemptState.RUNNING, intended_at=team.now - DAY)
        points = [
            SeriesPoint(1, f"{EVALUATION}eval_loss", team.now - (90 - n) * MINUTE, "step", n, value)
            for n in range(90)
            for value in [1 + 9 / (1 + n) if n < 30 else 1.3 + 0.004 * (n % 3)]
        ]
        progress_rows.add(connection, [progress_rows.NewPoints(job.id, 1, points)])
        event = job_events.stands_still(job, "eval_loss", "gained 0.1% of all its gain", "eval_loss/1", team.now)
        audit_log.append(connection, [event], team.now)
    team.later(MINUTE)
    return hint(team)


def hint(team: Story) -> Message:
    (message,) = (one for one in team.sent() if "may have stopped improving" in shown(one))
    return message


def job(team: Story) -> Job:
    with team.guard.database.read() as connection:
        read = job_rows.read(connection, "j7k2m9q4")
    assert read is not None
    return read


def test_a_hint_is_decided_in_its_thread(sqlite_url: str) -> None:
    """Stop after the next checkpoint, then never mind: stored in her name, and the message shows what was chosen."""
    with story(sqlite_url) as team:
        message = hinted(team)
        assert list(buttons(message)) == [STOP, NEVER_MIND]
        assert team.press(message, STOP).ok
        assert job(team).cancel_after_by == "ana@example.com"
        team.later(MINUTE)
        assert "ana@example.com chose to stop it after its next checkpoint" in shown(hint(team))
        assert list(buttons(hint(team))) == [NEVER_MIND]
        assert team.press(hint(team), NEVER_MIND).ok
        assert (job(team).cancel_after_at, job(team).never_mind_by) == (None, "ana@example.com")
        team.later(MINUTE)
        assert buttons(hint(team)) == {}
        assert "no hint before it has a new best value" in shown(hint(team))
        assert len(team.events("HintSilenced")) == 1


def test_the_buttons_go_with_the_job(sqlite_url: str) -> None:
    """A press on what Slack still shows is answered with how it stands."""
    with story(sqlite_url) as team:
        message = hinted(team)
        with team.guard.database.write() as connection:
            job_rows.set_state(connection, "j7k2m9q4", JobState.SUCCEEDED, "done", None, team.now)
        team.click(message, STOP)
        team.later(MINUTE)
        assert any("is over: it succeeded" in text for text in team.private_messages("ana"))
        assert buttons(hint(team)) == {}
