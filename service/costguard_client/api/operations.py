"""Every call of the API. Generated from its document by `python -m tests.golden api`: do not edit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Literal

from costguard_client.calls import Call

if TYPE_CHECKING:
    from costguard_client.api import schemas


def get_bill(
    *, from_: date | str | None = None, to: date | str | None = None, project: str | None = None
) -> Call[schemas.BillResponse]:
    """Compare the ledger with Google's bill. Compares the ledger with Google's bill. Days are UTC, and amounts
    dollars at the rate of the bill's own rows. Nothing is corrected in the ledger.
    """
    return Call("GET", ("api", "v1", "bill"), {"from": from_, "to": to, "project": project})


def list_budgets() -> Call[schemas.BudgetsResponse]:
    """List budgets. Lists the spend, forecast, limit and thresholds of each budget in its present period."""
    return Call("GET", ("api", "v1", "budgets"))


def get_code(sha256: str) -> Call[schemas.ArchiveOut]:
    """Get an archive of code. Says whether the archive must be uploaded before a job can name it. An unused
    archive is deleted after 30 days.
    """
    return Call("GET", ("api", "v1", "code", sha256))


def put_code(sha256: str) -> Call[schemas.ArchiveOut]:
    """Upload an archive of code. Uploads a gzipped tar of files and links, without folders, under the SHA-256
    of the tar. A repeat changes nothing.
    """
    return Call("PUT", ("api", "v1", "code", sha256))


def advise_commitments(*, days: int | None = None) -> Call[schemas.CommitmentsResponse]:
    """Advise what to commit to. Advises the level of each commitment that would have cost least over the last
    days, its saving and its risk. Whole billing accounts buy commitments: use that the ledger does not watch is
    not in it.
    """
    return Call("GET", ("api", "v1", "commitments"), {"days": days})


def read_commitment_hours(*, days: int | None = None) -> Call[schemas.CommitmentHoursResponse]:
    """Read what commitments covered by the hour. Reads, for each hour of the last closed days of Google's bill,
    what commitments covered and what they wasted.
    """
    return Call("GET", ("api", "v1", "commitments", "hours"), {"days": days})


def get_setup() -> Call[schemas.SetupOut]:
    """Read what the set-up needs. Reads what was checked of Google, Slack and the server's own computer when
    the server started. `unknown` is what could not be asked. `costguard doctor`, where the server runs, asks
    again.
    """
    return Call("GET", ("api", "v1", "doctor"))


def get_enforcement(
    *, from_: date | str | None = None, to: date | str | None = None
) -> Call[schemas.EnforcementResponse]:
    """List stops and what they saved. Lists stops by when they were decided, the latest first, each with its
    rule, reminder and evidence.
    """
    return Call("GET", ("api", "v1", "enforcement"), {"from": from_, "to": to})


def list_events(
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    kind: str | None = None,
    project: str | None = None,
    gce_id: str | None = None,
    job: str | None = None,
    who: str | None = None,
    words: str | None = None,
    sort: Literal["newest", "oldest"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.EventsResponse]:
    """List events. Lists the audit log. Events are appended once and never changed. As CSV, `Link` leads to the
    next page.
    """
    return Call(
        "GET",
        ("api", "v1", "events"),
        {
            "since": since,
            "until": until,
            "kind": kind,
            "project": project,
            "gce_id": gce_id,
            "job": job,
            "who": who,
            "words": words,
            "sort": sort,
            "limit": limit,
            "cursor": cursor,
        },
    )


def list_executions(
    *, label: str | None = None, value: str | None = None, limit: int | None = None
) -> Call[schemas.ExecutionsResponse]:
    """Add up executions of workflows. Lists executions of workflows, such as Flyte's, with the cost of all of
    their jobs and VMs. An execution is known by the value of a label on jobs or VMs; the settings name the
    labels. The cost is of all time.
    """
    return Call("GET", ("api", "v1", "executions"), {"label": label, "value": value, "limit": limit})


def get_forecast(
    *,
    period: Literal["day", "week", "month"] | None = None,
    project: str | None = None,
    preset: str | None = None,
    owner: str | None = None,
    team: str | None = None,
    job: str | None = None,
    label: str | None = None,
) -> Call[schemas.ForecastResponse]:
    """Forecast the spend of a period. Forecasts the spend at the end of the present day, week or month; of
    everything where no scope is given.
    """
    return Call(
        "GET",
        ("api", "v1", "forecast"),
        {
            "period": period,
            "project": project,
            "preset": preset,
            "owner": owner,
            "team": team,
            "job": job,
            "label": label,
        },
    )


def get_goodput(
    *,
    from_: date | str | None = None,
    to: date | str | None = None,
    group_by: Sequence[schemas.GoodputGrouping] | None = None,
    project: str | None = None,
    preset: str | None = None,
    owner: str | None = None,
    job: str | None = None,
) -> Call[schemas.GoodputResponse]:
    """Get what jobs' time and cost went into. Divides the time and cost of training jobs by use, over UTC days
    including both ends. Development VMs are not counted.
    """
    return Call(
        "GET",
        ("api", "v1", "goodput"),
        {
            "from": from_,
            "to": to,
            "group_by": group_by,
            "project": project,
            "preset": preset,
            "owner": owner,
            "job": job,
        },
    )


def list_instances(
    *,
    project: Sequence[str] | None = None,
    preset: Sequence[str] | None = None,
    owner: Sequence[str] | None = None,
    status: Sequence[schemas.Status] | None = None,
    name: str | None = None,
    gce_id: str | None = None,
    gpu: str | None = None,
    spot: bool | None = None,
    keeper: Sequence[schemas.KeeperKind] | None = None,
    cluster: str | None = None,
    gone: bool | None = None,
    sort: schemas.Sort | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.FleetResponse]:
    """List instances with their cost. Lists all VMs and other resources with their cost an hour and so far, and
    what of the fleet cannot be read.
    """
    return Call(
        "GET",
        ("api", "v1", "instances"),
        {
            "project": project,
            "preset": preset,
            "owner": owner,
            "status": status,
            "name": name,
            "gce_id": gce_id,
            "gpu": gpu,
            "spot": spot,
            "keeper": keeper,
            "cluster": cluster,
            "gone": gone,
            "sort": sort,
            "limit": limit,
            "cursor": cursor,
        },
    )


def get_instance(project: str, gce_id: str) -> Call[schemas.InstanceResponse]:
    """Get a VM or other resource with its whole history. Gets a VM or other resource: why it has not been
    stopped, its lifetimes and storage, and each charge.
    """
    return Call("GET", ("api", "v1", "instances", project, gce_id))


def claim_instance(
    project: str, gce_id: str, body: schemas.RequestBody, *, key: str | None = None
) -> Call[schemas.RequestResponse]:
    """Claim a VM or other resource. Makes the requester the owner: its cost counts as theirs from now on. Only
    operators of its team can claim what is unowned. The team's channel is notified; until then, or for an hour,
    a claim does not allow stopping it. The request is stored and carried out by the next pass, within seconds:
    follow the request in the response.
    """
    return Call("POST", ("api", "v1", "instances", project, gce_id, "claim"), body=body, key=key)


def disown_instance(
    project: str, gce_id: str, body: schemas.RequestBody, *, key: str | None = None
) -> Call[schemas.RequestResponse]:
    """Disown a VM or other resource. Makes it unowned; its team gets the reminders. The request is stored and
    carried out by the next pass, within seconds: follow the request in the response.
    """
    return Call("POST", ("api", "v1", "instances", project, gce_id, "disown"), body=body, key=key)


def keep_instance(
    project: str, gce_id: str, body: schemas.KeepBody, *, key: str | None = None
) -> Call[schemas.RequestResponse]:
    """Keep a VM or other resource. Holds back reminders about it, and stops by rules, during that time. The
    request is stored and carried out by the next pass, within seconds: follow the request in the response.
    """
    return Call("POST", ("api", "v1", "instances", project, gce_id, "keep"), body=body, key=key)


def stop_instance(
    project: str, gce_id: str, body: schemas.RequestBody, *, key: str | None = None
) -> Call[schemas.RequestResponse]:
    """Stop a VM or other resource. Stops the VM, or cancels the job that it runs; disks are kept, and bill. Of
    what Vertex AI runs, cancels a custom job, stops a Colab runtime or undeploys a model. The request is stored
    and carried out by the next pass, within seconds: follow the request in the response.
    """
    return Call("POST", ("api", "v1", "instances", project, gce_id, "stop"), body=body, key=key)


def list_jobs(
    *,
    state: Sequence[schemas.JobState] | None = None,
    owner: Sequence[str] | None = None,
    preset: Sequence[str] | None = None,
    project: Sequence[str] | None = None,
    kind: Sequence[schemas.JobKind] | None = None,
    open: bool | None = None,
    or_disk_kept: bool | None = None,
    sort: Literal["newest", "oldest"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.JobsResponse]:
    """List jobs. Lists jobs with the state of each, the reason for it, its cost, and the place of its VM."""
    return Call(
        "GET",
        ("api", "v1", "jobs"),
        {
            "state": state,
            "owner": owner,
            "preset": preset,
            "project": project,
            "kind": kind,
            "open": open,
            "or_disk_kept": or_disk_kept,
            "sort": sort,
            "limit": limit,
            "cursor": cursor,
        },
    )


def launch_job(body: schemas.JobBody, *, key: str | None = None) -> Call[schemas.JobResponse]:
    """Launch a job. Accepts the job, or lists everything that is wrong with it. The daemon launches its VM
    within seconds.
    """
    return Call("POST", ("api", "v1", "jobs"), body=body, key=key)


def get_job(job_id: str) -> Call[schemas.JobResponse]:
    """Get a job with all its attempts. Gets the request, every VM that tried it, its interruptions, and the
    next step.
    """
    return Call("GET", ("api", "v1", "jobs", job_id))


def compare_alike(job_id: str) -> Call[schemas.AlikeResponse]:
    """Compare the cost of a job's script by machine. Compares the job with runs of the same script (the same
    code, or the same command line) on other machines. The newest 500 trainings of its project are looked at.
    """
    return Call("GET", ("api", "v1", "jobs", job_id, "alike"))


def list_attempts(job_id: str) -> Call[schemas.AttemptsResponse]:
    """List the attempts of a job. Lists the job's attempts, each with its own VM, in order."""
    return Call("GET", ("api", "v1", "jobs", job_id, "attempts"))


def cancel_job(job_id: str, body: schemas.CancelBody) -> Call[schemas.JobResponse]:
    """Cancel a job. Stores the request. The daemon notifies the command, and then deletes the VM. Where the job
    saves on its VM's own disk, the VM is stopped instead and its disk kept, which bills, unless `delete_disk`
    confirms that everything saved there may be lost.
    """
    return Call("POST", ("api", "v1", "jobs", job_id, "cancel"), body=body)


def delete_disk(job_id: str, body: schemas.DeleteDiskBody) -> Call[schemas.JobResponse]:
    """Delete a job's kept disk. Confirms that everything the job saved on its VM's own disk is lost. The daemon
    deletes the VM with its disk.
    """
    return Call("POST", ("api", "v1", "jobs", job_id, "delete-disk"), body=body)


def get_diagnosis(job_id: str) -> Call[schemas.DiagnosisResponse]:
    """Get what bounds a job. Diagnoses the bottleneck from the measurements of the agent on the VM. Nothing
    acts on it. Unread measurements are unknown.
    """
    return Call("GET", ("api", "v1", "jobs", job_id, "diagnosis"))


def drill_job(job_id: str, body: schemas.DrillBody) -> Call[schemas.JobResponse]:
    """Drill a preemption of a job. Stores the request. At the next moment at which little is at stake, the
    command gets the notice of a preemption. Its save is timed and judged; then it is started again on the same
    VM, from its newest complete checkpoint.
    """
    return Call("POST", ("api", "v1", "jobs", job_id, "drill"), body=body)


def read_lineage(job_id: str) -> Call[schemas.LineageResponse]:
    """Add up the cost of a job's lineage. Lists the jobs that it started from, such as a pretraining, and those
    that started from it, such as fine-tunings. A job starts from another where its location held a checkpoint,
    or where an input, its command or its environment names an address in the place where the other stores its
    checkpoints or outputs. It is written down as the job is submitted.
    """
    return Call("GET", ("api", "v1", "jobs", job_id, "lineage"))


def never_mind(job_id: str, body: schemas.NeverMindBody) -> Call[schemas.JobResponse]:
    """Silence the hint about a job. Silences the hint at its metric's standstill until a new best value, and
    undoes a cancel after a checkpoint.
    """
    return Call("POST", ("api", "v1", "jobs", job_id, "never-mind"), body=body)


def get_output(
    job_id: str,
    *,
    attempt: int | None = None,
    begin: str | None = None,
    search: str | None = None,
    lines: int | None = None,
) -> Call[schemas.OutputResponse]:
    """Get a job's output. Returns the end of the output, which is kept with the attempt, or the stored output,
    which is some 30 seconds behind.
    """
    return Call(
        "GET",
        ("api", "v1", "jobs", job_id, "output"),
        {"attempt": attempt, "begin": begin, "search": search, "lines": lines},
    )


def get_profile(job_id: str, *, compare: str | None = None) -> Call[schemas.ProfileResponse]:
    """Get a job's profile. Returns the functions in which the training's main thread and its loader's workers
    spend their time.
    """
    return Call("GET", ("api", "v1", "jobs", job_id, "profile"), {"compare": compare})


def get_job_progress(job_id: str) -> Call[schemas.JobProgressResponse]:
    """Get how far a job's training is. Returns the progress read in its output: step, loss, evaluations and
    speed, and the hours and dollars that are left.
    """
    return Call("GET", ("api", "v1", "jobs", job_id, "progress"))


def list_lifetimes(
    *,
    project: Sequence[str] | None = None,
    gce_id: str | None = None,
    preset: Sequence[str] | None = None,
    owner: Sequence[str] | None = None,
    end_reason: Sequence[schemas.EndReason] | None = None,
    state: Literal["open", "ended"] | None = None,
    started_from: datetime | str | None = None,
    started_before: datetime | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.LifetimesResponse]:
    """List lifetimes, the latest recorded first. Lists continuous billed runs of instances, each with its end,
    the reason for it, and its actor.
    """
    return Call(
        "GET",
        ("api", "v1", "lifetimes"),
        {
            "project": project,
            "gce_id": gce_id,
            "preset": preset,
            "owner": owner,
            "end_reason": end_reason,
            "state": state,
            "started_from": started_from,
            "started_before": started_before,
            "limit": limit,
            "cursor": cursor,
        },
    )


def list_limits() -> Call[schemas.LimitsResponse]:
    """List limits and their queues. Lists the limits on VMs, GPUs and dollars an hour at once: their use, who
    uses them, and who waits for them.
    """
    return Call("GET", ("api", "v1", "limits"))


def list_loose(*, project: str | None = None, fresh: bool | None = None) -> Call[schemas.LooseResponse]:
    """List unused things that bill or hold quota. Lists disks, addresses, snapshots, images and reservations
    that nothing uses, and queued resources of TPUs that are dead, with the command that removes each. All is as
    the projects last answered.
    """
    return Call("GET", ("api", "v1", "loose"), {"project": project, "fresh": fresh})


def get_me() -> Call[schemas.MeResponse]:
    """Get the caller and their permissions. Describes the caller of this request, by its token or session."""
    return Call("GET", ("api", "v1", "me"))


def list_places() -> Call[schemas.PlacesResponse]:
    """List zones with their recent stockouts and preemptions. Lists zones. Besides the price, Costguard chooses
    zones by their stockouts and preemptions, which fade with time.
    """
    return Call("GET", ("api", "v1", "places"))


def list_presets() -> Call[schemas.PresetsResponse]:
    """List presets in the order they are tried. Lists the kinds of VM with the rules that recognise them, their
    limits, and the recipes that launch them.
    """
    return Call("GET", ("api", "v1", "presets"))


def list_prices(
    *,
    resource: str | None = None,
    region: str | None = None,
    history: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.PricesResponse]:
    """List prices. Lists the price of a unit of each billed resource by region, with its first moment and its
    source.
    """
    return Call(
        "GET",
        ("api", "v1", "prices"),
        {"resource": resource, "region": region, "history": history, "limit": limit, "cursor": cursor},
    )


def list_projects() -> Call[schemas.ProjectsResponse]:
    """List the watched projects. Lists the result of the last reads of each project, why it is watched, and the
    parts that could not be read.
    """
    return Call("GET", ("api", "v1", "projects"))


def quote_job(body: schemas.QuoteBody) -> Call[schemas.QuoteOut]:
    """Quote a job. Quotes Spot and on-demand prices in every zone, the cost, the remaining budgets, and the
    reasons to refuse the job.
    """
    return Call("POST", ("api", "v1", "quotes"), body=body)


def get_recoveries(*, days: int | None = None) -> Call[schemas.RecoveriesResponse]:
    """Get how soon preempted work resumed. Measures the time from each preemption until it was noticed, the
    next VM was requested, and the command ran again.
    """
    return Call("GET", ("api", "v1", "recoveries"), {"days": days})


def list_reminders(
    *,
    subject: str | None = None,
    gce_id: str | None = None,
    status: Literal["intended", "sending", "accepted", "withdrawn", "failed"] | None = None,
    kind: Literal["reminder", "digest", "report", "reservation", "notification", "job", "ephemeral"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.MessagesResponse]:
    """List messages, the latest first. Lists reminders, digests and notifications, with their recipients and
    whether Slack accepted them.
    """
    return Call(
        "GET",
        ("api", "v1", "reminders"),
        {"subject": subject, "gce_id": gce_id, "status": status, "kind": kind, "limit": limit, "cursor": cursor},
    )


def preview_reminders() -> Call[schemas.PreviewResponse]:
    """Preview reminders and stops. Previews the reminders and stops of a pass at this moment, as far as the
    ledger knows the fleet. Nothing is sent.
    """
    return Call("GET", ("api", "v1", "reminders", "preview"))


def get_report(*, days: int | None = None) -> Call[schemas.ReportResponse]:
    """Get what rules would have done, and a month of it. Reports since watching began: the VMs that rules
    stopped or would have stopped, their cost after that, and the fleet's GPU use.
    """
    return Call("GET", ("api", "v1", "report"), {"days": days})


def list_requests(
    *,
    status: Literal["open", "done", "refused"] | None = None,
    project: str | None = None,
    gce_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.RequestsResponse]:
    """List requests for VMs and other resources, the latest first. Lists requests from Slack, pages, REST and
    the command line, including requests that a pass refused.
    """
    return Call(
        "GET",
        ("api", "v1", "requests"),
        {"status": status, "project": project, "gce_id": gce_id, "limit": limit, "cursor": cursor},
    )


def get_request(request_id: str | int) -> Call[schemas.RequestResponse]:
    """Get a request. Gets a request. It is open until a pass has looked at it; then done or refused, with the
    reason.
    """
    return Call("GET", ("api", "v1", "requests", str(request_id)))


def get_savings(
    *,
    from_: date | str | None = None,
    to: date | str | None = None,
    project: str | None = None,
    preset: str | None = None,
    owner: str | None = None,
) -> Call[schemas.SavingsResponse]:
    """Get what Spot and stops saved, and what keeps cost. Estimates savings, each with its method. Usage that
    could not be compared is listed, and never counted as saved.
    """
    return Call(
        "GET", ("api", "v1", "savings"), {"from": from_, "to": to, "project": project, "preset": preset, "owner": owner}
    )


def get_tips(*, quarter: str | None = None) -> Call[schemas.TipsResponse]:
    """Account for the tips of a quarter. Says how many reminders, hints and diagnoses a quarter had, how many
    were followed, and what that saved. A tip is followed by evidence alone: a user stopped the VM, cancelled
    the job, or the next run's steps cost less.
    """
    return Call("GET", ("api", "v1", "savings", "tips"), {"quarter": quarter})


def quote_schedule(body: schemas.ScheduleQuoteBody) -> Call[schemas.ScheduleQuoteOut]:
    """Quote a schedule. Quotes one run and a month of them, with the next due times. Nothing is stored."""
    return Call("POST", ("api", "v1", "schedule-quotes"), body=body)


def list_schedules(
    *,
    state: Sequence[schemas.ScheduleState] | None = None,
    owner: Sequence[str] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.SchedulesResponse]:
    """List schedules. Lists schedules, the newest first, with the state of each, its next due time and its last
    run.
    """
    return Call("GET", ("api", "v1", "schedules"), {"state": state, "owner": owner, "limit": limit, "cursor": cursor})


def create_schedule(body: schemas.ScheduleBody, *, key: str | None = None) -> Call[schemas.ScheduleResponse]:
    """Create a schedule. Accepts the schedule, or lists everything that is wrong with its times or its job."""
    return Call("POST", ("api", "v1", "schedules"), body=body, key=key)


def get_schedule(schedule_id: str) -> Call[schemas.ScheduleResponse]:
    """Get a schedule with its last runs. Gets each of the last runs with its outcome, its job and its cost."""
    return Call("GET", ("api", "v1", "schedules", schedule_id))


def end_schedule(schedule_id: str, body: schemas.ScheduleActBody) -> Call[schemas.ScheduleResponse]:
    """End a schedule. Ends it for good. Runs that were launched go on."""
    return Call("POST", ("api", "v1", "schedules", schedule_id, "end"), body=body)


def pause_schedule(schedule_id: str, body: schemas.ScheduleActBody) -> Call[schemas.ScheduleResponse]:
    """Pause a schedule. Launches no runs until it is resumed. Runs that were launched go on."""
    return Call("POST", ("api", "v1", "schedules", schedule_id, "pause"), body=body)


def resume_schedule(schedule_id: str, body: schemas.ScheduleActBody) -> Call[schemas.ScheduleResponse]:
    """Resume a schedule. Goes on with the next due time. Those in between do not count as missed."""
    return Call("POST", ("api", "v1", "schedules", schedule_id, "resume"), body=body)


def run_schedule(
    schedule_id: str, body: schemas.ScheduleActBody, *, key: str | None = None
) -> Call[schemas.ScheduleResponse]:
    """Run a schedule now. Launches a run within seconds, in addition to those at its times; also while it is
    paused.
    """
    return Call("POST", ("api", "v1", "schedules", schedule_id, "run"), body=body, key=key)


def end_sessions(*, address: str | None = None) -> Call[schemas.EndedSessionsResponse]:
    """Sign a person out everywhere. Ends all sessions of one person. Their tokens stay valid: when a person
    leaves, revoke those too.
    """
    return Call("DELETE", ("api", "v1", "sessions"), {"address": address})


def list_sessions(*, limit: int | None = None, cursor: str | None = None) -> Call[schemas.SessionsResponse]:
    """List sessions, the latest first. Lists your own browser sessions; admins see everyone's. People who sign
    in through a proxy have none here.
    """
    return Call("GET", ("api", "v1", "sessions"), {"limit": limit, "cursor": cursor})


def end_session(session_id: str) -> Call[schemas.SessionResponse]:
    """End a session. Ends the session: its browser is signed out at once. A session that has ended is not
    found.
    """
    return Call("DELETE", ("api", "v1", "sessions", session_id))


def get_spend(
    *,
    from_: date | str | None = None,
    to: date | str | None = None,
    group_by: Sequence[schemas.Grouping] | None = None,
    project: str | None = None,
    preset: str | None = None,
    owner: str | None = None,
    job: str | None = None,
    label: str | None = None,
    basis: Literal["ledger", "bill"] | None = None,
) -> Call[schemas.SpendResponse]:
    """Get spend. Spend over UTC days, including both ends, with today's share so far."""
    return Call(
        "GET",
        ("api", "v1", "spend"),
        {
            "from": from_,
            "to": to,
            "group_by": group_by,
            "project": project,
            "preset": preset,
            "owner": owner,
            "job": job,
            "label": label,
            "basis": basis,
        },
    )


def get_spend_by_label(
    label: str,
    *,
    from_: date | str | None = None,
    to: date | str | None = None,
    project: str | None = None,
    preset: str | None = None,
    owner: str | None = None,
    job: str | None = None,
) -> Call[schemas.LabelSpendResponse]:
    """Get spend by a label. Spend over at most a year of UTC days by the value of a VM label, split at the
    moment a label changed. Changes are known from the day Costguard began to keep them: for earlier time a VM's
    labels of that day count. Of several changes between two looks at a project only the last one is known. It
    is read from charges, like spend by VM, so it takes longer than spend by preset. A label with more than
    2,000 values is refused.
    """
    return Call(
        "GET",
        ("api", "v1", "spend", "labels", label),
        {"from": from_, "to": to, "project": project, "preset": preset, "owner": owner, "job": job},
    )


def list_stages() -> Call[schemas.StagesResponse]:
    """List data stages. Lists the data that is kept near the VMs, the stage used last first, with what its
    storage costs.
    """
    return Call("GET", ("api", "v1", "stages"))


def delete_stage(digest: str, body: schemas.DeleteStageBody) -> Call[schemas.StageResponse]:
    """Delete a data stage. Deletes a stage's objects within minutes. The next job that names its source fetches
    that again.
    """
    return Call("POST", ("api", "v1", "stages", digest, "delete"), body=body)


def quote_sweep(body: schemas.SweepQuoteBody) -> Call[schemas.SweepQuoteOut]:
    """Quote a sweep. Quotes the cost of each member and of all, and the reasons to refuse the sweep. Nothing is
    stored.
    """
    return Call("POST", ("api", "v1", "sweep-quotes"), body=body)


def list_sweeps(
    *,
    state: Sequence[schemas.SweepState] | None = None,
    owner: Sequence[str] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[schemas.SweepsResponse]:
    """List sweeps. Lists sweeps, the newest first, with the state of each, the reason for it, its cost, and its
    members by state.
    """
    return Call("GET", ("api", "v1", "sweeps"), {"state": state, "owner": owner, "limit": limit, "cursor": cursor})


def launch_sweep(body: schemas.SweepBody, *, key: str | None = None) -> Call[schemas.SweepResponse]:
    """Launch a sweep. Accepts the sweep, or lists everything that is wrong with any member. The daemon launches
    them in turn.
    """
    return Call("POST", ("api", "v1", "sweeps"), body=body, key=key)


def get_sweep(sweep_id: str) -> Call[schemas.SweepResponse]:
    """Get a sweep with all its members. Gets each member with its parameters, its job, its metric and its cost."""
    return Call("GET", ("api", "v1", "sweeps", sweep_id))


def cancel_sweep(sweep_id: str, body: schemas.CancelSweepBody) -> Call[schemas.SweepResponse]:
    """Cancel a sweep. Cancels every open member, whose command may save first, and launches no others."""
    return Call("POST", ("api", "v1", "sweeps", sweep_id, "cancel"), body=body)


def keep_sweep_members(sweep_id: str, body: schemas.KeepMembersBody) -> Call[schemas.SweepResponse]:
    """Keep members of a sweep from halving. Keeps members from being stopped as losers; with none named ends
    halving for the whole sweep.
    """
    return Call("POST", ("api", "v1", "sweeps", sweep_id, "keep"), body=body)


def resume_sweep(sweep_id: str, body: schemas.ResumeSweepBody) -> Call[schemas.SweepResponse]:
    """Resume a sweep. Launches another job for each member that failed, which resumes from the member's
    checkpoints.
    """
    return Call("POST", ("api", "v1", "sweeps", sweep_id, "resume"), body=body)


def list_tokens(*, limit: int | None = None, cursor: str | None = None) -> Call[schemas.TokensResponse]:
    """List tokens, the latest first. Lists your own tokens; admins see everyone's. Secrets are never shown."""
    return Call("GET", ("api", "v1", "tokens"), {"limit": limit, "cursor": cursor})


def create_token(body: schemas.TokenBody, *, key: str | None = None) -> Call[schemas.NewTokenResponse]:
    """Create a token. Creates a token with at most the caller's permissions. The secret is only in this
    response.
    """
    return Call("POST", ("api", "v1", "tokens"), body=body, key=key)


def revoke_token(token_id: str) -> Call[schemas.TokenResponse]:
    """Revoke a token. Revokes the token: requests with it are refused from now on. Revoking it again changes
    nothing.
    """
    return Call("DELETE", ("api", "v1", "tokens", token_id))


def confirm_token(token_id: str) -> Call[schemas.TokenResponse]:
    """Confirm a token that was created in a one-time link's session. Confirms the token, which then lasts as
    long as requested at its creation. People who signed in with a link cannot confirm tokens.
    """
    return Call("POST", ("api", "v1", "tokens", token_id, "confirm"))


def list_traces(*, days: int | None = None, gap_seconds: int | None = None) -> Call[schemas.TracesResponse]:
    """Get the fleet's Spot history as series. Returns lifetimes of Spot VMs and stockouts that jobs met, by
    zone, without the name of a project, a person or a VM.
    """
    return Call("GET", ("api", "v1", "traces"), {"days": days, "gap_seconds": gap_seconds})


def get_liveness() -> Call[schemas.AliveResponse]:
    """Check that the process is alive. Answers while the process does, without the database or Google."""
    return Call("GET", ("healthz",))


def get_problem(kind: str) -> Call[schemas.ProblemKindOut]:
    """Explain a kind of problem. Explains the `type` of a problem document, where it is not about:blank."""
    return Call("GET", ("problems", kind))


def get_readiness() -> Call[schemas.ReadyDetailResponse | schemas.ReadyResponse]:
    """Check that its answers can be trusted. The verdict alone, unless the caller has the permission read: then
    also the reasons. 503 when the database cannot be read, no daemon acts, nothing was ever seen, or there are
    no prices. A database that does not answer within two seconds counts as unreadable, and no daemon as acting.
    One project that cannot be read leaves it ready but degraded, because the others still answer. So do
    problems with Slack.
    """
    return Call("GET", ("readyz",))
