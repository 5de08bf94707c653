"""Jobs, zones and recoveries as the commands show them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from rich.console import Console
from tests.cli.job_answers import ATTEMPT, DETAIL, DEV, JOB, NO_DISKS, SECOND, SSH

from costguard.cli.job.jobs import about_output, show_jobs
from costguard.cli.job.page import show_job
from costguard.cli.places import show_places, show_recoveries


def shown(show: Callable[..., None], *arguments: Any, width: int = 200) -> str:
    out = io.StringIO()
    show(Console(file=out, width=width), *arguments)
    return out.getvalue()


def test_jobs_are_listed_with_why_they_are_so() -> None:
    """Where nothing fits, it says how to see more."""
    text = shown(show_jobs, {"jobs": [JOB], "kept_disks": NO_DISKS, "next_cursor": None}, True)
    (line,) = (line for line in text.splitlines() if line.startswith("j7k2m9q4"))
    for part in ("llama", "ada@lab.example", "a100", "running", "41,200", " 2 ", "$5.30", "Attempt 2 runs in"):
        assert part in line
    assert "costguard jobs --all" in shown(show_jobs, {"jobs": [], "kept_disks": NO_DISKS, "next_cursor": None}, True)


def test_a_job_tells_its_progress_its_risk_and_its_losses() -> None:
    """The page has dollars at each, and what comes next."""
    text = " ".join(shown(show_job, DETAIL).split())
    for part in (
        "Next: If its VM is lost, it resumes from step 40,000.",
        "$5.30 of $60.00 at most (about $1.47 an hour)",
        "41,200, 12,034 an hour, $0.1286 per 1,000 steps",
        "0.3417 at step 41,200; best, the lowest: 0.3011 at step 38,000",
        "gs://lab/run/checkpoint-40000 at step 40,000, written 2026-11-20 11:50:00",
        "10 min ($0.24): the work since 2026-11-20 11:50:00",
        "1 of 100 preemptions, 0 of 3 crashes, deadline 2026-11-21 08:00:00",
        "attempt 1 preempted. Lost: 12 min ($0.31); running again after 5 min.",
        "TORN: checkpoint-40500: trainer_state.json is missing",
    ):
        assert part in text


def test_a_job_of_several_vms_costs_what_they_cost_together() -> None:
    """Each VM is an attempt with its node; one without a price leaves the sum unknown."""
    vms = [{**SECOND, "number": number + 2, "node": number, "rate_per_hour": "1.47"} for number in range(3)]
    gang = {**DETAIL, "spec": {**DETAIL["spec"], "nodes": 3}, "attempts": vms}
    text = " ".join(shown(show_job, gang).split())
    assert "$5.30 of $60.00 at most (about $4.41 an hour)" in text
    assert "a100: 3 VMs, each a2-highgpu-1g" in text
    vms[1]["rate_per_hour"] = None
    assert "an hour)" not in shown(show_job, {**gang, "attempts": vms})


def test_the_checkpoint_interval_is_shown_where_it_is_known() -> None:
    """It comes with what a change achieved; an earlier server says nothing of it."""
    assert "saving every" not in shown(show_job, DETAIL)
    interval = {"text": "saving every 2 h loses $41 of an expected $312", "achieved": "since it saves every 20 min"}
    text = " ".join(shown(show_job, {**DETAIL, "save_interval": interval}).split())
    assert "saves saving every 2 h loses $41 of an expected $312; since it saves every 20 min" in text
    assert "saving every" not in shown(show_job, {**DETAIL, "save_interval": None})


def test_a_full_disk_and_the_images_digest_are_shown() -> None:
    """While the job goes on, and where the image was asked for by its tag."""
    disk = {"state": "full", "mount": "/", "free_bytes": 0, "total_bytes": 1, "text": "disk full: 0 bytes left on /"}
    digest = "sha256:" + "a" * 64
    job = {**JOB, "image": "acme/train:7", "image_digest": digest}
    answer = {**DETAIL, "job": job, "attempts": [ATTEMPT, {**SECOND, "disk": disk}]}
    text = " ".join(shown(show_job, answer, width=300).split())
    assert "Attempt 2: disk full: 0 bytes left on /" in text
    assert f"acme/train:7, pulled as {digest}" in text
    over = {**answer, "job": {**job, "settled_at": "2026-11-20T12:00:00Z"}}
    assert "disk full" not in shown(show_job, over, width=300)


def test_attempts_share_one_axis_of_time() -> None:
    """Four hours in 32 signs: eight an hour. Waiting, working and saving stand under each other."""
    lines = shown(show_job, DETAIL).splitlines()
    (first,) = (line for line in lines if line.startswith("1  us-central1-a"))
    (second,) = (line for line in lines if line.startswith("2  us-central1-b"))
    (saved,) = (line for line in lines if line.lstrip().startswith("checkpoints"))
    assert "░░░░█████████████···············" in first.replace(" ", "")
    assert "················████████████████" in second.replace(" ", "")
    assert saved.index("▲") == first.index("░") + 14
    assert "0 to 12,800" in first
    assert "12,000 to 41,200" in second
    assert "preempted: Google took it back." in first
    assert "to 40,000" in saved
    narrow = shown(show_job, DETAIL, width=80).splitlines()
    assert [line for line in narrow if line.startswith("1  us-central1-a") and "░░█████████·········" in line]


def test_running_time_ends_with_the_last_word_of_the_agent() -> None:
    """It started at 8:30 and was seen to end at 10:00: nobody saw it run after the exit or the last heartbeat."""
    exited = {**ATTEMPT, "exit": {"at": "2026-11-20T09:00:00Z"}, "heard_at": "2026-11-20T10:00:00Z"}
    silent = {**ATTEMPT, "heard_at": "2026-11-20T09:15:00Z"}
    for attempt, ran in ((ATTEMPT, "1 h 30 min"), (exited, "30 min"), (silent, "45 min")):
        text = shown(show_job, {**DETAIL, "attempts": [attempt]}, width=300)
        (line,) = (line for line in text.splitlines() if line.startswith("1  us-central1-a"))
        assert f"  {ran}  " in line


def test_what_is_not_known_of_a_job_is_not_made_up() -> None:
    """No step, nothing to resume from, a location that could not be read, work lost without a price."""
    interruption = {**DETAIL["interruptions"][0], "lost_cost": None, "resumed_at": None, "from_zero": True}
    bare = {
        **DETAIL,
        "job": {**JOB, "step": None, "place": None, "ceiling": None, "deadline": None},
        "attempts": [{**ATTEMPT, "started_at": None, "step": None}, {**SECOND, "error": "Google: out of stock"}],
        "interruptions": [interruption, {**interruption, "lost_seconds": None, "from_zero": False}],
        "checkpoints": [],
        "checkpoint": {**DETAIL["checkpoint"], "error": "No credentials for gs://lab.", "torn": []},
        "work_at_risk": None,
        "lost": {"seconds": 0, "cost": "0", "from_zero": 0},
    }
    text = " ".join(shown(show_job, bare).split())
    seen = "Last seen complete at 2026-11-20 11:58:00: gs://lab/run/checkpoint-40000 at step 40,000"
    assert f"gs://lab/run: NOT READ: No credentials for gs://lab. {seen}" in text
    assert "LOST: 12 min, and it started again from zero; not running again yet." in text
    assert "Lost: not known" in text
    assert "running; Google: out of stock" in text
    nothing = {**bare, "checkpoint": {**DETAIL["checkpoint"], "resume_from": "", "torn": []}}
    assert "gs://lab/run: nothing complete yet" in shown(show_job, nothing)
    assert "gs://lab/run: not looked at yet" in shown(show_job, {**bare, "checkpoint": None})


def test_a_checkpoint_on_a_deleted_disk_is_not_shown_as_if_it_were_there() -> None:
    """The checkpoint's name is still shown."""
    gone = {**DETAIL, "checkpoint": {**DETAIL["checkpoint"], "is_deleted": True}}
    text = " ".join(shown(show_job, gone).split())
    seen = "the last one seen: gs://lab/run/checkpoint-40000 at step 40,000"
    assert f"gs://lab/run: DELETED with its VM's disk; {seen}" in text


def test_an_attempt_that_passed_over_a_checkpoint_says_why() -> None:
    """The reason is below the attempts, with the attempt that failed; nothing is said of those that did not."""
    why = "attempt 1 failed at once after it resumed from step 12,500: the complete checkpoint before it is tried"
    passing = {**DETAIL, "attempts": [ATTEMPT, {**SECOND, "resume_why": why}]}
    text = " ".join(shown(show_job, passing).split())
    assert f"Attempt 2 resumed from gs://lab/run/checkpoint-12000, because {why}." in text
    assert "because" not in shown(show_job, DETAIL)


def test_a_dev_vm_says_how_to_reach_it() -> None:
    """The page has a shell, and a notebook."""
    text = shown(show_job, DEV)
    assert f"Shell:     {SSH}\n" in text
    assert "-L 8888:localhost:8888, then http://localhost:8888" in text


def test_an_output_says_whose_it_is_and_where_the_rest_is() -> None:
    """The text is shown also where there is none."""
    answer = {"job": "j1", "attempt": 2, "heard_at": "2026-11-20T12:00:00Z", "output": "x", "log": "/var/log/x.log"}
    text = "Attempt 2, reported at 2026-11-20 12:00:00 UTC. The whole log is on its VM: /var/log/x.log"
    assert about_output(answer) == text
    empty = about_output({**answer, "output": ""})
    assert empty.startswith("It printed nothing.")
    assert empty.endswith(" The attempt before it: costguard output j1 --attempt 1")
    assert "before" not in about_output({**answer, "output": "", "attempt": 1})
    nothing = {"job": "j1", "attempt": None, "heard_at": None, "output": "", "log": ""}
    assert "costguard job j1" in about_output(nothing)


PLACE: dict[str, Any] = {
    "zone": "us-central1-a",
    "gpu_type": "nvidia-tesla-t4",
    "provisioning_model": "spot",
    "stockouts": "1.5",
    "preemptions": "0",
    "presets": ["t4"],
    "events": [{"at": "2026-11-20T11:00:00Z", "outcome": "stockout", "job": "j1", "attempt": 1}],
}


def test_zones_come_with_what_their_scores_rest_on() -> None:
    """The zones show how fast the scores fade."""
    answer = {
        "as_of": "2026-11-20T12:00:00Z",
        "stockout_half_life_seconds": 1800,
        "preemption_half_life_seconds": 86400,
    }
    text = shown(show_places, {**answer, "places": [PLACE]})
    (line,) = (line for line in text.splitlines() if line.startswith("us-central1-a"))
    assert line.split("  ")[0] == "us-central1-a"
    for part in ("nvidia-tesla-t4", "Spot", "1.50", "stockout 1 h ago"):
        assert part in line
    assert "A stockout counts half after 30 min, a preemption after 1 d." in text
    assert "No zone is known" in shown(show_places, {**answer, "places": []})


def test_recoveries_are_a_histogram() -> None:
    """Fractions of a second are shown where they matter; a span that was not measured is named."""
    spans = [
        {
            "what": "noticed",
            "count": 3,
            "median_seconds": "0.4",
            "p90_seconds": "2",
            "longest_seconds": "75",
            "buckets": [{"up_to_seconds": 1, "count": 2}, {"up_to_seconds": None, "count": 1}],
        },
        {
            "what": "resumed",
            "count": 0,
            "median_seconds": None,
            "p90_seconds": None,
            "longest_seconds": None,
            "buckets": [],
        },
    ]
    answer = {
        "since": "2026-10-21T12:00:00Z",
        "interruptions_total": 3,
        "by_outcome": {"preempted": 2, "host_error": 1},
        "noticed_first": {"notice": 2, "operation": 1},
        "from_zero": 1,
        "lost_seconds": 720,
        "lost_cost": "0.31",
        "spans": spans,
    }
    text = shown(show_recoveries, answer)
    assert "3 interruptions since 2026-10-21 12:00:00 UTC: 2 preempted, 1 host error." in text
    assert "First detected by: the VM's preemption notice 2, Google's operations 1." in text
    assert "Lost: 12 min of work ($0.31); started from zero: 1 time." in text
    assert "until it was detected: median 0.4 s, 9 of 10 within 2 s, longest 1 min 15 s" in text
    bars = {line.split("█")[0].strip(): line.count("█") for line in text.splitlines() if "█" in line}
    assert bars == {"to 1 s": 30, "longer": 15}
    assert "until the command ran again: not measured yet." in text
    assert "No job was interrupted since" in shown(show_recoveries, {**answer, "interruptions_total": 0})


def test_a_job_that_is_over_is_not_awaited_back_at_work() -> None:
    """A job that failed for good did not go on; one that is open may."""
    cut = {**DETAIL["interruptions"][0], "resumed_at": None}
    over = {**DETAIL, "job": {**JOB, "settled_at": "2026-11-20T11:00:00Z"}, "interruptions": [cut]}
    assert "the job did not go on." in " ".join(shown(show_job, over).split())
    going = {**DETAIL, "job": {**JOB, "settled_at": None}, "interruptions": [cut]}
    assert "not running again yet." in " ".join(shown(show_job, going).split())


def test_a_kept_disk_is_shown_with_its_cost_and_how_it_goes() -> None:
    """A kept disk is never forgotten."""
    kept = {"vm": "cg-j1-1", "zone": "us-central1-a", "gib": 100, "holds": "step 40", "monthly": "10.00"}
    text = " ".join(shown(show_job, {**DETAIL, "kept_disk": kept}).split())
    assert "its disk of 100 GiB bills about $10.00 a month and holds step 40." in text
    assert "costguard delete-disk j7k2m9q4" in text


def test_output_of_a_vm_that_is_gone_is_not_said_to_be_on_it() -> None:
    """There is no VM any more to look at."""
    answer = {"attempt": 1, "job": "j1", "heard_at": None, "output": "x", "log": ""}
    assert "Its VM is gone" in about_output(answer)
    assert "on its VM: /var/log" in about_output({**answer, "log": "/var/log/costguard/a.1.log"})


def test_runs_of_trackers_come_with_how_they_stand() -> None:
    """The state is what is to come and why, or when something was logged last."""
    runs = [
        {"tracker": "mlflow", "run": "abc", "waiting": 3, "logged_at": None, "error": "MLflow cannot be reached."},
        {"tracker": "wandb", "run": "lab/bert/1", "waiting": 0, "logged_at": None, "error": ""},
    ]
    text = shown(show_job, {**DETAIL, "trackers": runs}, width=300)
    assert "run abc has 3 points to come: MLflow cannot be reached." in text
    assert "run lab/bert/1, to which nothing was logged yet" in text


def test_result_says_which_checkpoint_it_is() -> None:
    """The page has what the VM reported, and before that what will be published."""
    plan = {**DETAIL["spec"]["checkpoint"], "publish_to": "gs://lab/models/bert", "publish": "best"}
    before = {**DETAIL, "spec": {**DETAIL["spec"], "checkpoint": plan}}
    assert "gs://lab/models/bert; the best checkpoint, where it succeeds" in " ".join(shown(show_job, before).split())
    text = "step 20, the best: its metric is 0.3; published: 1.0 GiB, 4 files"
    sent = {"kind": "result", "source": plan["location"], "target": plan["publish_to"], "text": text}
    after = {**before, "attempts": [ATTEMPT, {**SECOND, "transfers": [sent]}]}
    assert f"gs://lab/models/bert; {text}" in " ".join(shown(show_job, after).split())
