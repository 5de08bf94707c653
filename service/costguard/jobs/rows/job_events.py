"""The events of jobs and their VMs: one sentence each, for the audit log and the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from costguard.jobs.decide.checkpoints.disk import DiskReading
from costguard.jobs.decide.checkpoints.work_at_risk import WorkAtRisk
from costguard.jobs.decide.gang.straggler import Straggler
from costguard.jobs.decide.machines.bound_savings import PromisedSaving, saving_text
from costguard.jobs.decide.planned import AtRisk
from costguard.jobs.decide.recovery.log_ends import hang_by_log
from costguard.jobs.rows.agent_fields import BoundStretch
from costguard.model.attempt import Attempt, Outcome
from costguard.model.duration import span_text
from costguard.model.event import Event, event_key, new_event
from costguard.model.instance import InstanceKey
from costguard.model.job import Job, JobState, OnHang, SeenCheckpoint
from costguard.model.moments import zone_of
from costguard.model.money import about_text, rate_text
from costguard.model.reported.drill import Drill, in_words
from costguard.model.reported.hang import Hang
from costguard.model.reported.progress import SeriesPoint
from costguard_vm.diagnosis.words import headline, number_text

_UTC = zone_of("UTC")
_BOUND = "JobBoundFound"


def launched(job: Job, attempt: Attempt, now: datetime) -> Event:
    rate = f", {about_text(rate_text(attempt.rate))} an hour" if attempt.rate is not None else ""
    address = f"; {attempt.address.in_words}" if attempt.address is not None else ""
    text = (
        f"Attempt {attempt.number} of job {job.title} was asked of Google: {_model(attempt)} "
        f"{job.recipe.machine_type} in {attempt.zone}{rate}, for at most {span_text(attempt.max_run)}; "
        f"{begins(attempt)}{address}."
    )
    return of_attempt("AttemptLaunched", job, attempt, now, text, "launched")


def takes_over(job: Job, attempt: Attempt, now: datetime) -> Event:
    text = (
        f"Attempt {attempt.number} of job {job.title} takes over from attempt {attempt.follows} in {attempt.zone}, "
        f"where its VM was made ready; {begins(attempt)}."
    )
    return of_attempt("AttemptTakesOver", job, attempt, now, text, "takes_over", follows=attempt.follows)


def round_began(job: Job, attempt: Attempt, number: int, vms: int, now: datetime) -> Event:
    """`attempt` is any member's: all `vms` begin with the same checkpoint."""
    of_all = f" of {job.spec.vm_count}" if job.spec.is_elastic else ""
    text = (
        f"Round {number} of job {job.title} begins on {vms}{of_all} VM{'' if vms == 1 and not of_all else 's'} in "
        f"{attempt.zone}, all of which are ready; {begins(attempt)}."
    )
    return of_job("GangRoundBegan", job, now, text, f"round/{number}/began", round=number)


def round_over(job: Job, number: int, reason: str, now: datetime) -> Event:
    text = f"Job {job.title}: {_closed(reason)}"
    return of_job("GangRoundOver", job, now, text, f"round/{number}/over", round=number)


def policy_made(job: Job, name: str, region: str, now: datetime) -> Event:
    text = f"The placement policy {name} was made in {region} for job {job.title}: its VMs there stand close together."
    return of_job("PlacementPolicyMade", job, now, text, f"policy/{region}/made", region=region, policy=name)


def policy_deleted(job: Job, name: str, region: str, now: datetime) -> Event:
    text = f"The placement policy {name} of job {job.title} in {region} is deleted: the job is over, and no VM uses it."
    return of_job("PlacementPolicyDeleted", job, now, text, f"policy/{region}/deleted", region=region, policy=name)


def restarted(job: Job, attempt: Attempt, now: datetime) -> Event:
    text = f"{attempt.name} of job {job.title} is started again in {attempt.zone}: its disk holds the checkpoints."
    return of_attempt("AttemptRestarted", job, attempt, now, text, f"restarted/{attempt.restarts}")


def ended(job: Job, attempt: Attempt, outcome: Outcome, reason: str, now: datetime) -> Event:
    text = f"Attempt {attempt.number} of job {job.title} in {attempt.zone} ended: {_closed(reason)}"
    return of_attempt("AttemptEnded", job, attempt, now, text, "ended", outcome=outcome.value)


def rested(job: Job, attempt: Attempt, run: int, reason: str, now: datetime) -> Event:
    text = (
        f"Run {run} of attempt {attempt.number} of job {job.title} in {attempt.zone} was interrupted: {_closed(reason)}"
    )
    return of_attempt("AttemptInterrupted", job, attempt, now, text, f"rested/{run}", run=run)


def started(job: Job, attempt: Attempt, run: int, at: datetime) -> Event:
    text = f"The command of job {job.title} runs in {attempt.zone} (attempt {attempt.number}): {begins(attempt)}."
    return of_attempt("AttemptStarted", job, attempt, at, text, f"started/{run}", run=run)


def resumed(job: Job, attempt: Attempt, run: int, after: timedelta, at: datetime) -> Event:
    later = f"{span_text(after)} after it was interrupted"
    text = f"Job {job.title} works again in {attempt.zone}, {later}; {begins(attempt)}."
    seconds = after // timedelta(seconds=1)
    return of_attempt("JobResumed", job, attempt, at, text, f"resumed/{run}", run=run, seconds=seconds)


def from_zero(
    job: Job, attempt: Attempt, loss: WorkAtRisk, now: datetime, has_saved: bool, what: str = "from_zero"
) -> Event:
    """Work that was paid for is lost. `has_saved`: something of it was ever seen at its location, complete or not."""
    cost = f", {about_text(str(loss.cost))}" if loss.cost is not None else ""
    if job.spec.checkpoint is None:
        why = "it saves no checkpoints"
    elif has_saved:
        why = f"there is no complete checkpoint at {job.spec.checkpoint.location}"
    else:
        why = "it had not saved a checkpoint yet"
    lost = f"{span_text(loss.span)} of work{cost}, are lost"
    text = f"Job {job.title} starts again from the beginning, for {why}: {lost}."
    nanos = loss.cost.nanos if loss.cost is not None else None
    seconds = loss.span // timedelta(seconds=1)
    return of_attempt(
        "JobRestartedFromZero", job, attempt, now, text, what, seconds=seconds, nanos=nanos, saved=has_saved
    )


def flushed(job: Job, attempt: Attempt, run: int, saved: Sequence[str], left: Sequence[str], now: datetime) -> Event:
    """Reports the checkpoints that reached the location before a stopped run's VM was gone."""
    made = f"uploaded in time: {', '.join(saved)}" if saved else "none was uploaded by this run"
    lost = f"; not in time: {', '.join(left)}" if left else ""
    text = f"Attempt {attempt.number} of job {job.title} was stopped, and of its checkpoints {made}{lost}."
    return of_attempt("CheckpointsFlushed", job, attempt, now, text, f"flushed/{run}", run=run)


def unrecognised(job: Job, attempt: Attempt, run: int, files: str, now: datetime) -> Event:
    """Reports files that are no checkpoints, once for each run: the job could not resume from any of them."""
    text = f"Job {job.title} is not protected: {_closed(files)} Until then a preemption loses all of its work."
    return of_attempt("CheckpointsUnrecognised", job, attempt, now, text, f"unrecognised/{run}", run=run, files=files)


def not_uploaded(job: Job, attempt: Attempt, run: int, error: str, now: datetime) -> Event:
    """Written once for each run, with the first error."""
    text = f"Checkpoints of job {job.title} are not uploaded from attempt {attempt.number}: {_closed(error)}"
    return of_attempt("CheckpointsNotUploaded", job, attempt, now, text, f"not_uploaded/{run}", run=run)


def torn(job: Job, what: str, now: datetime) -> Event:
    """`what` is the checkpoint's name, and why it is not complete."""
    name = what.split(":", 1)[0]
    text = f"A checkpoint of job {job.title} is not complete, and is passed over: {_closed(what)}"
    return of_job("CheckpointTorn", job, now, text, f"torn/{name}", checkpoint=name)


def passed_over(job: Job, attempt: Attempt, checkpoint: str, now: datetime) -> Event:
    """Reports a complete checkpoint that was passed over. Nothing is deleted: its owner may know better."""
    run = f"Round {attempt.round}" if attempt.formation else f"Attempt {attempt.number}"
    text = f"{run} of job {job.title} {begins(attempt).removeprefix('it ')}. {checkpoint} is left where it is."
    what = f"passed_over/{attempt.round}" if attempt.formation else "passed_over"
    return of_attempt("CheckpointPassedOver", job, attempt, now, text, what, checkpoint=checkpoint)


def stalled(job: Job, attempt: Attempt, seen: SeenCheckpoint, risk: WorkAtRisk, now: datetime) -> Event:
    which = f"the newest is {seen.resume_from}" if seen.resume_from else "there is none yet"
    rate = f" while it costs {about_text(rate_text(attempt.rate))} an hour" if attempt.rate is not None else ""
    cost = f", {about_text(str(risk.cost))}," if risk.cost is not None else ""
    text = f"Job {job.title} saves nothing new{rate}: {which}; {span_text(risk.span)} of work{cost} would be lost."
    saved = f"{seen.written_at:%Y%m%dT%H%M%S}" if seen.written_at is not None else "none"
    return of_attempt("CheckpointsStalled", job, attempt, now, text, f"stalled/{attempt.agent.run}/{saved}")


def disk_low(job: Job, attempt: Attempt, run: int, disk: DiskReading, now: datetime) -> Event:
    """Reports a disk that runs full, once for each run."""
    text = f"The VM of job {job.title} in {attempt.zone} runs out of disk: {disk.text}."
    return of_attempt("DiskNearlyFull", job, attempt, now, text, f"disk/{run}", run=run, free_bytes=disk.free)


def hangs(job: Job, attempt: Attempt, run: int, hang: Hang, now: datetime) -> Event:
    """Reports a hang, once for each."""
    what = {"evaluating": "its evaluation goes on without an end", "loading": "nothing was done since its start"}
    step = f"no step since {hang.since:%H:%M} UTC{'' if hang.step is None else f', after step {hang.step:,}'}"
    silence = f"{span_text(now - hang.since)}, and {span_text(hang.bound)} were to be expected at most"
    rate = f" It costs {about_text(rate_text(attempt.rate))} an hour." if attempt.rate is not None else ""
    text = (
        f"Job {job.title} seems to hang in {attempt.zone}: {what.get(hang.phase, step)} ({silence}). "
        f"{_closed(hang.text[0].upper() + hang.text[1:])}{hang_by_log(attempt.agent.output)}{rate}{_restarts(job)}"
    )
    return of_attempt("JobHangs", job, attempt, now, text, f"hangs/{run}/{hang.since:%Y%m%dT%H%M%S}", run=run)


def _restarts(job: Job) -> str:
    return " It is restarted from its newest checkpoint." if job.spec.on_hang is OnHang.RESTART else ""


def loss_wrong(
    job: Job, attempt: Attempt, point: SeriesPoint, value: float | None, usual: float | None, now: datetime
) -> Event:
    """Reports a loss, once for each time it goes wrong.

    `value` None: it is no finite number; `usual` is the median before.
    """
    place = f" at {point.unit} {point.done:,.10g}" if point.unit and point.done is not None else ""
    what = "is not a finite number" if value is None else f"is {value:.4g}"
    before = f"; it was {usual:.4g} before" if usual is not None else ""
    rate = f" It costs {about_text(rate_text(attempt.rate))} an hour." if attempt.rate is not None else ""
    text = f"The loss of job {job.title} {what}{place}{before}.{rate}"
    return of_attempt("JobLossWrong", job, attempt, now, text, f"loss/{point.run}/{point.at:%Y%m%dT%H%M%S%f}")


def stands_still(job: Job, name: str, words: str, mark: str, now: datetime) -> Event:
    """A hint: nothing acts on it. Once for each best value."""
    text = f"The metric {name} of job {job.title} seems to stand still: it {words}."
    return of_job("JobStandsStill", job, now, text, f"stands_still/{mark}", metric=name)


def cancel_is_due(job: Job, by: str, reason: str, now: datetime) -> Event:
    """A cancel that waited for a checkpoint."""
    return of_job("CancelAsked", job, now, f"Job {job.title}: {reason}", "cancel_asked", actor=by)


def cancel_after(job: Job, by: str, now: datetime) -> Event:
    text = f"{by} asked to cancel job {job.title} after its next checkpoint."
    return of_job("CancelAfterAsked", job, now, text, f"cancel_after_asked/{now:%Y%m%dT%H%M%S%f}", actor=by)


def stopped_when_flat(job: Job, metric: str, reason: str, now: datetime) -> Event:
    text = f"Job {job.title} is {_closed(reason)}"
    return of_job("JobStoppedWhenFlat", job, now, text, "stopped_when_flat", metric=metric)


def never_mind(job: Job, by: str, now: datetime) -> Event:
    taken_back = " It is not cancelled after its next checkpoint." if job.cancel_after_at is not None else ""
    text = f"{by} wants no hint about job {job.title} before it has a new best value.{taken_back}"
    return of_job("HintSilenced", job, now, text, f"hint_silenced/{now:%Y%m%dT%H%M%S%f}", actor=by)


def goes_on(job: Job, attempt: Attempt, run: int, hang: Hang, now: datetime) -> Event:
    """A hang is over, for the command made a step again."""
    text = f"Job {job.title} makes progress again in {attempt.zone}, {span_text(now - hang.since)} after its last step."
    return of_attempt("JobGoesOn", job, attempt, now, text, f"goes_on/{run}/{hang.since:%Y%m%dT%H%M%S}", run=run)


def bound_key(job_id: str, bound: str) -> str:
    """Returns the key of this bound's event, whatever its text."""
    return event_key(_BOUND, job_id, f"bound/{bound}")


def bounded(job: Job, attempt: Attempt, stretch: BoundStretch, saving: PromisedSaving | None, now: datetime) -> Event:
    """Reports a bound, once for each bound of a job."""
    verdict = stretch.verdict
    numbers = ", ".join(number_text(number) for number in verdict.numbers)
    saved = f" Mending it saves {text}." if (text := saving_text(saving)) else ""
    advice = f" {_closed(stretch.advice[0].upper() + stretch.advice[1:])}" if stretch.advice else ""
    text = f"Job {job.title} is bound by {headline(verdict)}: {numbers}.{advice}{saved}"
    return of_job(
        _BOUND,
        job,
        now,
        text,
        f"bound/{verdict.bound}",
        attempt=attempt.name,
        bound=verdict.bound,
        cause=verdict.cause,
        share=verdict.share,
    )


def straggles(job: Job, straggler: Straggler, now: datetime) -> Event:
    """Reports the VM that the others of a gang wait for, once for each VM."""
    numbers = ", ".join(number_text(number) for number in straggler.verdict.numbers)
    text = f"Job {job.title}: {_closed(straggler.text)}" + (f" Measured: {_closed(numbers)}" if numbers else "")
    what = f"straggler/{straggler.name}"
    return of_job(
        "JobStragglerFound", job, now, text, what, attempt=straggler.name, node=straggler.node, gpu=straggler.gpu
    )


def drill_requested(job: Job, drill: Drill, now: datetime) -> Event:
    text = f"{drill.requested_by} asked for a preemption drill of job {job.title}."
    return of_job("DrillRequested", job, now, text, f"drill/{drill.number}", actor=drill.requested_by)


def drilled(job: Job, drill: Drill, now: datetime) -> Event:
    """Once, when it is known how it ended."""
    text = f"Preemption drill {drill.number} of job {job.title}: {_closed(in_words(drill))}"
    result = drill.result.value if drill.result is not None else ""
    return of_job("DrillEnded", job, now, text, f"drilled/{drill.number}", number=drill.number, result=result)


def late(job: Job, deadline: datetime) -> Event:
    text = f"Job {job.title} was to be finished by {deadline.astimezone(_UTC):%a %-d %b %H:%M} UTC; it goes on."
    return of_job("JobDeadlinePassed", job, deadline, text, "deadline")


def deadline_at_risk(job: Job, at_risk: AtRisk, now: datetime) -> Event:
    """Reports a deadline at risk, once a day for each reason."""
    text = f"Job {job.title} may miss its deadline. {at_risk.text}"
    what = f"deadline_at_risk/{at_risk.risk.value}/{now:%Y%m%d}"
    return of_job("JobDeadlineAtRisk", job, now, text, what, risk=at_risk.risk.value)


def waits(job: Job, episode: int, reason: str, now: datetime) -> Event:
    text = f"Job {job.title} {_closed(_said(reason))}"
    return of_job("JobWaits", job, now, text, f"waits/{episode}")


_OVER = {
    JobState.SUCCEEDED: ("JobSucceeded", "finished"),
    JobState.FAILED: ("JobFailed", "failed"),
    JobState.CANCELLED: ("JobCancelled", "was cancelled"),
}


def over(job: Job, state: JobState, reason: str, cost: str, now: datetime) -> Event:
    kind, verb = _OVER[state]
    priced = f", at {cost}" if cost else ""
    text = f"Job {job.title} {verb}{priced}: {_closed(reason)}"
    return of_job(kind, job, now, text, "over", actor=job.cancel_asked_by if state is JobState.CANCELLED else "")


def orphan_deleted(project: str, zone: str, name: str, gce_id: str, reason: str, now: datetime) -> Event:
    text = f"{name} in {zone} of project {project} is deleted: {_closed(reason)}"
    return new_event("OrphanDeleted", now, text, project, gce_id, vm=InstanceKey(project, gce_id), name=name)


def orphan_kept(project: str, zone: str, name: str, gce_id: str, reason: str, now: datetime) -> Event:
    text = (
        f"{name} in {zone} of project {project} is stopped and not deleted, since its disk may hold the only copy "
        f"of what its job saved: {_closed(reason)} Its disk bills until someone deletes the VM."
    )
    return new_event("OrphanKept", now, text, project, gce_id, "kept", vm=InstanceKey(project, gce_id), name=name)


def disk_kept(job: Job, attempt: Attempt, holds: str, monthly: str, now: datetime) -> Event:
    text = (
        f"{attempt.name} of job {job.title} is stopped in {attempt.zone}, and its disk of {job.recipe.disk_gib} GiB is "
        f"kept: it holds {holds}. It bills {monthly} until you agree that it goes: costguard delete-disk {job.id}"
    )
    return of_attempt("DiskKept", job, attempt, now, text, "disk_kept")


def disk_given_up(job: Job, by: str, holds: str, now: datetime) -> Event:
    text = f"{by} agreed that the disk of job {job.title} is deleted, and with it {holds}."
    return of_job("DiskGivenUp", job, now, text, "disk_given_up", actor=by)


def of_attempt(
    kind: str, job: Job, attempt: Attempt, at: datetime, text: str, what: str, actor: str = "", **data: object
) -> Event:
    vm = InstanceKey(attempt.project, attempt.gce_id)
    named = {"job": job.id, "attempt": attempt.name, **data}
    identity = attempt.project, attempt.name, what
    return new_event(kind, at, text, *identity, vm=vm, name=attempt.name, actor=actor, data=named)


def of_job(kind: str, job: Job, at: datetime, text: str, what: str, actor: str = "", **data: object) -> Event:
    named = {"job": job.id, **data}
    return new_event(kind, at, text, job.id, what, project=job.spec.project, actor=actor, data=named)


def begins(attempt: Attempt) -> str:
    """Describes how it begins, in words."""
    if not attempt.took_over:
        return f"it is made ready while attempt {attempt.follows} runs, and takes over from it then"
    if not attempt.resume_from:
        return "it starts from the beginning"
    step = f"step {attempt.resume_step}, " if attempt.resume_step is not None else ""
    why = f", because {attempt.resume_why}" if attempt.resume_why else ""
    return f"it resumes from {step}{attempt.resume_from}{why}"


def _closed(words: str) -> str:
    return words if words.endswith((".", "…")) else f"{words}."


def _said(reason: str) -> str:
    return reason if reason.startswith("waits") else f"waits: {reason}"


def _model(attempt: Attempt) -> str:
    words = attempt.provisioning_model.in_words
    return f"an {words}" if words.startswith("o") else f"a {words}"
