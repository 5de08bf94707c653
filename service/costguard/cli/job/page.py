"""Prints a job for `costguard job`: its values, and the timeline of its attempts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Console

from costguard.cli.job import vms
from costguard.cli.job.progress_values import progress_values
from costguard.cli.job.rounds import show_rounds, steps_text
from costguard.cli.tables import (
    NARROW,
    Answer,
    Column,
    amount_text,
    cell,
    dollars,
    moment,
    rate,
    say,
    say_price_note,
    show_table,
    show_values,
    when,
)
from costguard.ledger.narrate import sentence
from costguard.model.delivery.tracker import Tracker
from costguard.model.duration import hours_text, span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.money import about_text
from costguard.model.words import count_text

_ENDED_WELL = {None, "succeeded"}
_BAR, _NARROW_BAR = 32, 20  # characters
_WORKING, _BOOTING, _FREE, _SAVED = "█", "░", "·", "▲"
# In the order of the pages.
USES = {
    "kept": "kept",
    "lost": "lost",
    "unsaved": "not saved yet",
    "starting": "starting",
    "ending": "ending",
    "waiting": "waiting",
}
MODELS = {model.value: model.in_words for model in ProvisioningModel}


def show_job(console: Console, answer: Answer) -> None:
    job = answer["job"]
    say(console, f"{job['title']}  {job['id']}  {job['state']}", "bold")
    say(console, sentence(job["reason"]))
    if answer["next"] and answer["next"] != job["reason"]:
        say(console, f"Next: {answer['next']}")
    console.print()
    show_values(console, _values(answer))
    say_price_note(console, answer)
    if answer["attempts"]:
        console.print()
        _show_attempts(console, answer)
    show_rounds(console, answer)
    for interruption in answer["interruptions"]:
        line = _interruption(interruption, job["settled_at"] is not None)
        say(console, line, "bold red" if interruption["from_zero"] else "yellow")
    for drill in answer.get("drills", ()):
        say(console, _drill(drill), "" if drill["result"] in (None, "saved") else "yellow")
    for torn in (answer["checkpoint"] or {}).get("torn", ()):
        say(console, f"TORN: {torn}", "yellow")
    for attempt in answer["attempts"]:
        disk = attempt.get("disk")  # servers of an earlier version do not send it
        if job["settled_at"] is None and disk is not None and disk["text"]:
            say(console, f"Attempt {attempt['number']}: {disk['text']}", "bold red")
        if job["settled_at"] is None and (hang := attempt.get("hang")) is not None:
            say(console, f"HANGS: no progress since {when(hang['since'])}: {hang['text']}", "bold red")
            for line in hang["where"].splitlines():
                say(console, f"  {line}", "dim")
    if answer["kept_disk"]:
        say(console, _kept_disk(answer), "yellow")
    if answer["ssh_command"]:
        show_ssh(console, answer)


def show_ssh(console: Console, answer: Answer) -> None:
    """Prints the commands that reach its VM; a dev VM also has a notebook."""
    say(console, f"Shell:     {answer['ssh_command']}")
    if answer["notebook_command"]:
        say(console, f"Notebook:  {answer['notebook_command']}, then http://localhost:8888")


def _kept_disk(answer: Answer) -> str:
    kept = answer["kept_disk"]
    return (
        f"DISK KEPT: {kept['vm']} is stopped in {kept['zone']}; its disk of {kept['gib']} GiB bills {disk_bills(kept)} "
        f"and holds {kept['holds']}. Delete both with: costguard delete-disk {answer['job']['id']}"
    )


def disk_bills(kept: Answer) -> str:
    """`about $10.00 a month`, of a kept disk."""
    return f"{about_text(dollars(kept['monthly']))} a month" if kept["monthly"] is not None else "an unknown price"


def _tracked(run: Answer) -> str:
    """Describes the state of logging to a run of a tracker."""
    if run["error"]:
        return f"run {run['run']} has {count_text(run['waiting'], 'point')} to come: {run['error']}"
    if run["logged_at"] is None:
        return f"run {run['run']}, to which nothing was logged yet"
    return f"run {run['run']}, last logged {when(run['logged_at'])}"


def _values(answer: Answer) -> Iterator[tuple[str, str]]:
    job, spec, recipe = answer["job"], answer["spec"], answer["recipe"]
    yield "owner", job["owner"]
    gpus = f", {recipe['gpu_count']} x {recipe['gpu_type']}" if recipe["gpu_count"] else ""
    model = MODELS.get(recipe["provisioning_model"], "on-demand")
    several = vms.several(answer)
    yield "preset", f"{job['preset']}: {several}{recipe['machine_type']}{gpus}, {model}, project {job['project']}"
    if job["image"]:
        digest = job.get("image_digest")
        pulled = f", pulled as {digest}" if digest and "@" not in job["image"] else ""
        again = ", pulled again on each VM" if spec.get("pull") else ""
        yield "image", f"{job['image']}{pulled}{again}"
    if job["command"]:
        yield "command", " ".join(job["command"])
    yield "requested", f"{when(job['created_at'])} by {job['via']}"
    if job["cancel_asked_at"]:
        yield "cancel", f"requested by {job['cancel_asked_by']} at {when(job['cancel_asked_at'])}"
    elif job.get("cancel_after_at"):
        yield (
            "cancel",
            f"after its next checkpoint, requested by {job['cancel_after_by']} at {when(job['cancel_after_at'])}",
        )
    yield "cost", _cost(answer)
    if job["step"] is not None:
        yield "step", _progress(answer)
    if (metric := job.get("metric")) is not None:
        yield "metric", _metric(metric)
        if (kept := metric.get("kept")) is not None:  # an earlier server does not say it
            yield "best checkpoint", f"step {kept['step']:,}, metric {kept['text']}: {kept['place']}"
    if spec["checkpoint"]:
        yield "checkpoint", _checkpoint(answer)
    if (on_notice := answer.get("on_notice")) is not None and on_notice["text"]:
        yield "notices", "; ".join(filter(None, (on_notice["text"], on_notice["save"])))
    if (interval := answer.get("save_interval")) is not None:
        yield "saves", "; ".join(filter(None, (interval["text"], interval["achieved"])))
    if (risk := answer["work_at_risk"]) is not None:
        yield "at risk", f"{_worth(risk['seconds'], risk['cost'])}: the work since {when(risk['since'])}"
    lost = answer["lost"]
    if lost["seconds"]:
        zero = f", from zero {count_text(lost['from_zero'], 'time')}" if lost["from_zero"] else ""
        yield "lost", f"{_worth(lost['seconds'], lost['cost'])}{zero}"
    for run in answer.get("trackers", ()):
        yield Tracker(run["tracker"]).in_words, _tracked(run)
    if (bound := answer.get("bound")) is not None:
        yield "bound by", bound
    if (still := answer.get("standstill")) is not None:
        yield "hint", f"{still['metric']} seems to stand still: it {still['text']}"
    yield from progress_values(answer.get("progress"))
    if (goodput := answer.get("goodput")) is not None:  # servers of an earlier version do not send it
        yield "goodput", goodput_text(goodput)
    if (stored := answer.get("plan")) is not None and (plan := stored["plan"]) is not None:
        yield "plan", plan["reason"]
        if plan["at_risk"] is not None:
            yield "deadline", plan["at_risk"]["text"]
    yield from _data(answer)
    if (most := answer["spec"].get("max_vm_seconds")) is not None:
        hours = [hours_text(timedelta(seconds=seconds)) for seconds in (answer["vm_seconds"], most)]
        yield "vm hours", f"{hours[0]} of {hours[1]} at most"
    yield "limits", _limits(answer)


def goodput_text(goodput: Answer) -> str:
    """`83.40% of the paid time kept (kept 5 h, lost 1 h); $1.31 a useful GPU-hour`, as its page has it."""
    share, seconds = goodput["kept_percent_of_paid"], goodput["seconds"]
    kept = "no VM was paid for yet" if share is None else f"{share}% of the paid time kept"
    uses = ", ".join(
        f"{name} {span_text(timedelta(seconds=seconds[use]))}" for use, name in USES.items() if seconds[use]
    )
    hourly = goodput["cost_per_useful_gpu_hour"]
    return kept + (f" ({uses})" if uses else "") + (f"; {rate(hourly)} a useful GPU-hour" if hourly is not None else "")


def _cost(answer: Answer) -> str:
    job = answer["job"]
    parts = [amount_text(job["cost"])]
    if job["ceiling"] is not None:
        parts.append(f"of {dollars(job['ceiling'])} at most")
    if (hourly := vms.hourly(answer)) is not None:
        parts.append(f"({about_text(rate(hourly))} an hour)")
    return " ".join(parts)


def _progress(answer: Answer) -> str:
    pace = answer["pace"]
    parts = [f"{answer['job']['step']:,}"]
    if pace["per_hour"] is not None:
        parts.append(f"{float(pace['per_hour']):,.0f} an hour")
    if pace["cost_per_1000_steps"] is not None:
        parts.append(f"{dollars(pace['cost_per_1000_steps'], 4)} per 1,000 steps")
    return ", ".join(parts)


def _metric(metric: Answer) -> str:
    """`0.3417 at step 41,200; best, the lowest: 0.3011 at step 38,000`."""
    best = _measured(metric["best"]) if metric["best"] is not None else "unknown"
    way = "highest" if metric["better"] == "higher" else "lowest"
    return f"{_measured(metric['last'])}; best, the {way}: {best}"


def _measured(value: Answer) -> str:
    step = f" at step {value['step']:,}" if value["step"] is not None else ""
    return f"{value['text']}{step}"


def _checkpoint(answer: Answer) -> str:
    location, seen = answer["spec"]["checkpoint"]["location"], answer["checkpoint"]
    if seen is None:
        return f"{location}: not looked at yet"
    at = f" at step {seen['step']:,}" if seen["step"] is not None else ""
    if seen["is_deleted"]:
        last = f"; the last one seen: {seen['resume_from']}{at}" if seen["resume_from"] else ""
        return f"{location}: DELETED with its VM's disk{last}"
    if seen["error"]:
        last = f" Last seen complete at {when(seen['seen_at'])}: {seen['resume_from']}{at}" if seen["seen_at"] else ""
        return f"{location}: NOT READ: {seen['error']}{last}"
    if not seen["resume_from"]:
        return f"{location}: nothing complete yet, as of {when(seen['looked_at'])}"
    return f"{seen['resume_from']}{at}, written {when(seen['written_at'])}"


def _data(answer: Answer) -> Iterator[tuple[str, str]]:
    """Yields its data, code and setup, each with the progress of the latest VM."""
    spec = answer["spec"]
    reported = {
        (one["kind"], one["source"], one["target"]): one["text"]
        for attempt in answer["attempts"]
        for one in attempt["transfers"]
    }
    for one in spec["inputs"]:
        text = reported.get(("input", one["source"], one["path"]), "")
        yield "input", f"{one['source']} in {one['path']}{f'; {text}' if text else ''}"
    for one in spec["outputs"]:
        text = reported.get(("output", one["path"], one["destination"]), "")
        yield "output", f"{one['path']} to {one['destination']}{f'; {text}' if text else ''}"
    if (plan := spec["checkpoint"]) is not None and (to := plan.get("publish_to")):
        which = {"best": "the best", "latest": "the newest"}.get(plan["publish"] or "", "a")
        text = reported.get(("result", plan["location"], to), f"{which} checkpoint, where it succeeds")
        yield "result", f"{to}; {text}"
    if (code := spec["code"]) is not None:
        branch = f" of {code['branch']}" if code["branch"] else ""
        commit = f"commit {code['commit'][:12]}{branch}" if code["commit"] else "in no repository"
        changed = ", with changes that were not committed" if code["diff"] else ""
        yield "code", f"{count_text(code['files'], 'file')}, {commit}{changed}"
    if spec["setup"]:
        yield "setup", spec["setup"]


def _limits(answer: Answer) -> str:
    job, spec = answer["job"], answer["spec"]
    parts = [
        f"{job['preemptions']} of {count_text(spec['max_preemptions'], 'preemption')}",
        f"{job['crashes']} of {count_text(spec['max_crashes'], 'crash', 'crashes')}",
    ]
    if job["deadline"]:
        late = moment(answer["as_of"]) > moment(job["deadline"]) and job["settled_at"] is None
        parts.append(f"deadline {when(job['deadline'])}{' (PAST)' if late else ''}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class _JobAxis:
    """A job's time from its request to its end, or to now, as a number of characters."""

    first: datetime
    last: datetime
    width: int

    def place(self, text: str) -> int:
        whole = max(self.last - self.first, timedelta(seconds=1))
        return min(self.width - 1, max(0, int(self.width * (moment(text) - self.first) / whole)))

    def bar(self, attempt: Answer, as_of: str) -> str:
        marks = [_FREE] * self.width
        end = self.place(attempt["ended_at"] or as_of)
        for place in range(self.place(attempt["intended_at"]), end + 1):
            marks[place] = _BOOTING
        for place in range(self.place(attempt["started_at"]), end + 1) if attempt["started_at"] else ():
            marks[place] = _WORKING
        return "".join(marks)

    def saves(self, checkpoints: list[Answer]) -> str:
        marks = [" "] * self.width
        for checkpoint in checkpoints:
            marks[self.place(checkpoint["written_at"])] = _SAVED
        return "".join(marks)


def _show_attempts(console: Console, answer: Answer) -> None:
    """The timeline: a column of the bar is the same moment in every row. The last row shows the checkpoints."""
    job, as_of, checkpoints = answer["job"], answer["as_of"], answer["checkpoints"]
    first, last = moment(job["created_at"]), moment(job["settled_at"] or as_of)
    axis = _JobAxis(first, last, _NARROW_BAR if console.width < NARROW else _BAR)
    columns = (
        Column("#", "number", right=True),
        *((Column("Node", "node", right=True),) if answer["spec"].get("nodes", 1) != 1 else ()),
        Column("Zone", "zone"),
        Column("Model", "model", spare=2),
        Column("Requested (UTC)", "requested", spare=4),
        Column("Timeline", "bar"),
        Column("Ran", "ran", right=True, spare=5),
        Column("Steps", "steps", spare=3),
        Column("$/h", "rate", right=True, spare=1),
        Column("How it ended", "ending", prose=True),
    )
    rows = [_attempt(attempt, axis, as_of) for attempt in answer["attempts"]]
    if checkpoints:
        steps = [checkpoint["step"] for checkpoint in checkpoints if checkpoint["step"] is not None]
        newest = f"to {max(steps):,}" if steps else ""
        saved = {"zone": "checkpoints", "bar": axis.saves(checkpoints), "steps": newest}
        rows.append({**dict.fromkeys(rows[0], ""), **saved})
    show_table(console, columns, rows)
    for attempt in answer["attempts"]:
        if why := attempt["resume_why"]:
            say(console, f"Attempt {attempt['number']} resumed from {attempt['resume_from']}, because {why}.")
        if address := attempt.get("address"):  # servers of an earlier version do not send it
            has = "an external address" if address["is_external"] else "no external address"
            say(console, f"Attempt {attempt['number']} has {has}: {address['why']}.")
    span = span_text(last - first)
    say(
        console, f"The bar is {span} long: {_BOOTING} requested and booting, {_WORKING} running, {_SAVED} saved.", "dim"
    )


def _attempt(attempt: Answer, axis: _JobAxis, as_of: str) -> Answer:
    started, hourly = attempt["started_at"], attempt["rate_per_hour"]
    return {
        "number": attempt["number"],
        "node": attempt.get("node", 0),  # servers of an earlier version do not send it
        "zone": attempt["zone"],
        "model": MODELS.get(attempt["provisioning_model"], "on-demand"),
        "requested": when(attempt["asked_at"] or attempt["intended_at"]),
        "bar": axis.bar(attempt, as_of),
        "ran": span_text(max(timedelta(), _ran_until(attempt, as_of) - moment(started))) if started else "-",
        "steps": steps_text(attempt),
        "rate": "-" if hourly is None else rate(hourly),
        "ending": cell(_outcome(attempt), "" if attempt["outcome"] in _ENDED_WELL else "yellow"),
    }


def _ran_until(attempt: Answer, as_of: str) -> datetime:
    """The end that its agent reported, else its last report: whether it ran after that is not known."""
    if attempt["exit"] is not None:
        return moment(attempt["exit"]["at"])
    seen = moment(attempt["ended_at"] or as_of)
    return min(seen, moment(attempt["heard_at"])) if attempt["heard_at"] else seen


def _outcome(attempt: Answer) -> str:
    if attempt["outcome"] is not None:
        outcome = attempt["outcome"].replace("_", " ")
        return f"{outcome}: {attempt['reason']}" if attempt["reason"] else outcome
    return f"{attempt['state']}; {attempt['error']}" if attempt["error"] else str(attempt["state"])


def _drill(drill: Answer) -> str:
    at = when(drill["began_at"] or drill["requested_at"])
    return f"{at}  drill {drill['number']}: {drill['text']}."


def _interruption(interruption: Answer, is_over: bool) -> str:
    happened, back, seconds = (interruption[name] for name in ("happened_at", "resumed_at", "lost_seconds"))
    from_zero = interruption["from_zero"]
    lost = "not known" if seconds is None else _worth(seconds, interruption["lost_cost"])
    zero = ", and it started again from zero" if from_zero else ""
    if back:
        resumed = f"running again after {span_text(moment(back) - moment(happened))}"
    else:
        resumed = "the job did not go on" if is_over else "not running again yet"
    ended = f"attempt {interruption['attempt']} {interruption['outcome'].replace('_', ' ')}"
    return f"{when(happened)}  {ended}. {'LOST' if from_zero else 'Lost'}: {lost}{zero}; {resumed}."


def _worth(seconds: int, cost: str | None) -> str:
    """`12 min ($0.31)`."""
    span = span_text(timedelta(seconds=seconds))
    return span if cost is None else f"{span} ({dollars(cost)})"
