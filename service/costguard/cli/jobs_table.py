"""Jobs in words and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.text import Text

from costguard.cli.format import age, amount_text, count, dollars, moment, rate, when
from costguard.cli.tables import NARROW, Row, cell, say, say_nothing, show_table
from costguard.ledger.narrate import sentence

_STYLES = {"running": "green", "recovering": "yellow", "failed": "bold red", "cancelled": "dim", "succeeded": "dim"}
_ENDED_WELL = {None, "succeeded"}
_BAR, _NARROW_BAR = 32, 20  # characters
_WORKS, _COMES, _FREE, _SAVED = "█", "░", "·", "▲"


@dataclass(frozen=True, slots=True)
class Axis:
    """A job's time from its beginning to its end, or to now, on so many characters."""

    first: datetime
    last: datetime
    width: int

    def place(self, text: str) -> int:
        whole = max(self.last - self.first, timedelta(seconds=1))
        return min(self.width - 1, max(0, int(self.width * (moment(text) - self.first) / whole)))


def show(console: Console, answer: dict[str, Any], asked: bool) -> None:
    rows: list[Row] = [
        {
            "Job": cell(each["id"]),
            "Name": cell(each["name"] or "-"),
            "Owner": cell(each["owner"]),
            "Preset": cell(each["preset"]),
            "State": _state(each),
            "Step": cell(_step(each["step"])),
            "Attempts": cell(each["attempts"]),
            "Cost": cell(amount_text(each["cost"]), "" if each["cost"]["complete"] else "bold red"),
            "Why, and what comes next": cell(sentence(each["reason"])),
        }
        for each in answer["jobs"]
    ]
    if rows:
        spare = ("Attempts", "Step", "Preset", "Owner")
        prose = ("Why, and what comes next",)
        show_table(console, tuple(rows[0]), rows, right=("Step", "Attempts", "Cost"), prose=prose, spare=spare)
    else:
        say_nothing(console, "job", asked, "`costguard jobs --all` shows those that are over too.")
    if answer["next_cursor"] is not None:
        say(console, f"Shown: the newest {len(rows)}. --limit 0 shows all.")
    for each in answer["jobs"]:
        if each["kept_disk"] is not None:
            text = f"{each['title']}: its disk is kept: {_bills(each['kept_disk'])}; costguard delete-disk {each['id']}"
            say(console, text, "yellow")
    if (kept := answer["kept_disks"])["count"] > 1:
        say(console, f"In all, {kept['count']} disks are kept: {amount_text(kept['monthly'])} a month.", "yellow")


def _state(of: dict[str, Any]) -> Text:
    if of["kept_disk"] is not None:
        return cell(f"{of['state']}, disk kept", "yellow")
    return cell(of["state"], _STYLES.get(of["state"], ""))


def show_job(console: Console, answer: dict[str, Any]) -> None:
    job = answer["job"]
    say(console, f"{job['title']}  {job['id']}  {job['state']}", "bold")
    say(console, sentence(job["reason"]))
    if answer["next"] and answer["next"] != job["reason"]:
        say(console, f"Next: {answer['next']}")
    console.print()
    show_table(console, ("", " "), [{"": cell(name), " ": cell(value)} for name, value in _about(answer)], prose=(" ",))
    if answer["attempts"]:
        console.print()
        _attempts(console, answer)
    for each in answer["interruptions"]:
        say(console, _interruption(each, job["settled_at"] is not None), "bold red" if each["from_zero"] else "yellow")
    for torn in (answer["checkpoint"] or {}).get("torn", ()):
        say(console, f"TORN: {torn}", "yellow")
    for each in answer["attempts"]:
        disk = each.get("disk")  # servers of an earlier version tell nothing of it
        if job["settled_at"] is None and disk is not None and disk["text"]:
            say(console, f"Attempt {each['number']}: {disk['text']}", "bold red")
    if answer["kept_disk"]:
        say(console, kept_disk(answer), "yellow")
    if answer["ssh_command"]:
        show_access(console, answer)


def show_access(console: Console, answer: dict[str, Any]) -> None:
    """How to reach its VM; a notebook is for dev VMs."""
    say(console, f"Shell:     {answer['ssh_command']}")
    if answer["notebook_command"]:
        say(console, f"Notebook:  {answer['notebook_command']}, then http://localhost:8888")


def show_cancelled(console: Console, answer: dict[str, Any]) -> None:
    job = answer["job"]
    say(console, f"{job['title']}: {sentence(job['reason'])}")
    say(console, f"See it with: costguard job {job['id']}")


def show_disk_deleted(console: Console, answer: dict[str, Any]) -> None:
    say(console, f"The disk of {answer['job']['title']} is being deleted, with its VM.")


def kept_disk(answer: dict[str, Any]) -> str:
    """What a disk that is kept holds and costs, and how it goes."""
    kept = answer["kept_disk"]
    return (
        f"DISK KEPT: {kept['vm']} is stopped in {kept['zone']}; its disk of {kept['gib']} GiB bills {_bills(kept)} "
        f"and holds {kept['holds']}. Delete both with: costguard delete-disk {answer['job']['id']}"
    )


def _bills(kept: dict[str, Any]) -> str:
    return f"about {dollars(kept['monthly'])} a month" if kept["monthly"] is not None else "a price that is not known"


def about_output(answer: dict[str, Any]) -> str:
    """Of which attempt an output is, from when, and where there is more."""
    if answer["attempt"] is None:
        return f"Nothing was heard of job {answer['job']} yet. See how it stands with: costguard job {answer['job']}"
    heard = f", heard at {when(answer['heard_at'])} UTC" if answer["heard_at"] else ""
    said = "" if answer["output"] else "It printed nothing. "
    where = (
        f"All of it is on its VM: {answer['log']}" if answer["log"] else "Its VM is gone: this is all that was kept."
    )
    return f"{said}Attempt {answer['attempt']}{heard}. {where}"


def _about(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    job, spec, recipe = answer["job"], answer["spec"], answer["recipe"]
    yield "owner", job["owner"]
    gpus = f", {recipe['gpu_count']} x {recipe['gpu_type']}" if recipe["gpu_count"] else ""
    model = "Spot" if recipe["provisioning_model"] == "spot" else "on-demand"
    yield "preset", f"{job['preset']}: {recipe['machine_type']}{gpus}, {model}, project {job['project']}"
    if job["image"]:
        digest = job.get("image_digest")
        pulled = f", pulled as {digest}" if digest and "@" not in job["image"] else ""
        again = ", asked for again on each VM" if spec.get("pull") else ""
        yield "image", f"{job['image']}{pulled}{again}"
    if job["command"]:
        yield "command", " ".join(job["command"])
    yield "asked for", f"{when(job['created_at'])} by {job['via']}"
    if job["cancel_asked_at"]:
        yield "cancel", f"asked by {job['cancel_asked_by']} at {when(job['cancel_asked_at'])}"
    yield "cost", _cost(answer)
    yield from _progress(answer)
    if spec["checkpoint"]:
        yield "checkpoint", _checkpoint(answer)
    if (risk := answer["work_at_risk"]) is not None:
        yield "at risk", f"{_worth(risk['seconds'], risk['cost'])}: the work since {when(risk['since'])}"
    lost = answer["lost"]
    if lost["seconds"]:
        zero = f", from zero {count(lost['from_zero'], 'time')}" if lost["from_zero"] else ""
        yield "lost", f"{_worth(lost['seconds'], lost['cost'])}{zero}"
    yield "limits", _limits(answer)


def _cost(answer: dict[str, Any]) -> str:
    job, place = answer["job"], answer["job"]["place"]
    parts = [amount_text(job["cost"])]
    if job["ceiling"] is not None:
        parts.append(f"of {dollars(job['ceiling'])} at most")
    if place is not None and place["rate_per_hour"] is not None and job["settled_at"] is None:
        parts.append(f"(about {rate(place['rate_per_hour'])} an hour)")
    return " ".join(parts)


def _progress(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    step, pace = answer["job"]["step"], answer["pace"]
    if step is None:
        return
    parts = [_step(step)]
    if pace["per_hour"] is not None:
        parts.append(f"{float(pace['per_hour']):,.0f} an hour")
    if pace["cost_per_1000_steps"] is not None:
        parts.append(f"{dollars(pace['cost_per_1000_steps'], 4)} per 1,000 steps")
    yield "step", ", ".join(parts)


def _checkpoint(answer: dict[str, Any]) -> str:
    location, seen = answer["spec"]["checkpoint"]["location"], answer["checkpoint"]
    if seen is None:
        return f"{location}: not looked at yet"
    at = f" at step {_step(seen['step'])}" if seen["step"] is not None else ""
    if seen["is_deleted"]:
        was = f"; the last one that was seen: {seen['resume_from']}{at}" if seen["resume_from"] else ""
        return f"{location}: DELETED with its VM's disk{was}"
    if seen["error"]:
        was = f" Last seen complete at {when(seen['seen_at'])}: {seen['resume_from']}{at}" if seen["seen_at"] else ""
        return f"{location}: NOT READ: {seen['error']}{was}"
    if not seen["resume_from"]:
        return f"{location}: nothing complete yet, as of {when(seen['looked_at'])}"
    return f"{seen['resume_from']}{at}, written {when(seen['written_at'])}"


def _limits(answer: dict[str, Any]) -> str:
    job, spec = answer["job"], answer["spec"]
    parts = [
        f"{job['preemptions']} of {count(spec['max_preemptions'], 'preemption')}",
        f"{job['crashes']} of {count(spec['max_crashes'], 'crash', 'crashes')}",
    ]
    if job["deadline"]:
        late = moment(answer["as_of"]) > moment(job["deadline"]) and job["settled_at"] is None
        parts.append(f"deadline {when(job['deadline'])}{' (PAST)' if late else ''}")
    return ", ".join(parts)


def _attempts(console: Console, answer: dict[str, Any]) -> None:
    """In time: a column of the bar is the same moment in every row."""
    job = answer["job"]
    first, last = moment(job["created_at"]), moment(job["settled_at"] or answer["as_of"])
    axis = Axis(first, last, _NARROW_BAR if console.width < NARROW else _BAR)
    rows = [_attempt(each, axis, answer["as_of"]) for each in answer["attempts"]]
    if answer["checkpoints"]:
        rows.append(_saved(answer["checkpoints"], axis))
    show_table(
        console,
        tuple(rows[0]),
        rows,
        right=("#", "Ran", "$/h"),
        prose=("How it ended",),
        spare=("$/h", "Model", "Steps", "Asked (UTC)", "Ran"),
    )
    for each in answer["attempts"]:
        if each["resume_why"]:
            say(console, f"Attempt {each['number']} resumed from {each['resume_from']}, because {each['resume_why']}.")
    span = age(last - first)
    say(console, f"The bar is {span} long: {_COMES} asked for and booting, {_WORKS} working, {_SAVED} saved.", "dim")


def _attempt(of: dict[str, Any], axis: Axis, as_of: str) -> Row:
    started, ended = of["started_at"], of["ended_at"]
    ran = age(max(timedelta(), _ran_until(of, as_of) - moment(started))) if started else "-"
    marks = [_FREE] * axis.width
    end = axis.place(ended or as_of)
    for place in range(axis.place(of["intended_at"]), end + 1):
        marks[place] = _COMES
    for place in range(axis.place(started), end + 1) if started else ():
        marks[place] = _WORKS
    return {
        "#": cell(of["number"]),
        "Zone": cell(of["zone"]),
        "Model": cell("Spot" if of["provisioning_model"] == "spot" else "on-demand"),
        "Asked (UTC)": cell(when(of["asked_at"] or of["intended_at"])),
        "In time": cell("".join(marks)),
        "Ran": cell(ran),
        "Steps": cell(_steps(of)),
        "$/h": cell("-" if of["rate_per_hour"] is None else rate(of["rate_per_hour"])),
        "How it ended": cell(_outcome(of), "" if of["outcome"] in _ENDED_WELL else "yellow"),
    }


def _ran_until(of: dict[str, Any], as_of: str) -> datetime:
    """The end that its agent reported, else the last moment at which it was heard: nobody saw it run after that."""
    if of["exit"] is not None:
        return moment(of["exit"]["at"])
    seen = moment(of["ended_at"] or as_of)
    return min(seen, moment(of["heard_at"])) if of["heard_at"] else seen


def _saved(seen: list[dict[str, Any]], axis: Axis) -> Row:
    marks = [" "] * axis.width
    for each in seen:
        marks[axis.place(each["written_at"])] = _SAVED
    blank = dict.fromkeys(("#", "Model", "Asked (UTC)", "Ran", "$/h", "How it ended"), cell(""))
    steps = [each["step"] for each in seen if each["step"] is not None]
    newest = f"to {_step(max(steps))}" if steps else ""
    named = {"Zone": cell("checkpoints"), "In time": cell("".join(marks)), "Steps": cell(newest)}
    return {**blank, **named}


def _steps(of: dict[str, Any]) -> str:
    """`12,000 to 41,200`: from the checkpoint that it resumed from."""
    if of["step"] is None:
        return "-"
    since = _step(of["resume_step"]) if of["resume_step"] is not None else "0" if not of["resume_from"] else "?"
    return f"{since} to {_step(of['step'])}"


def _outcome(of: dict[str, Any]) -> str:
    if of["outcome"] is not None:
        return f"{of['outcome'].replace('_', ' ')}: {of['reason']}" if of["reason"] else of["outcome"].replace("_", " ")
    return f"{of['state']}; {of['error']}" if of["error"] else str(of["state"])


def _interruption(of: dict[str, Any], is_over: bool) -> str:
    what = "LOST" if of["from_zero"] else "Lost"
    lost = "not known" if of["lost_seconds"] is None else _worth(of["lost_seconds"], of["lost_cost"])
    back = age(moment(of["resumed_at"]) - moment(of["happened_at"])) if of["resumed_at"] else None
    never = "; the job did not go on" if is_over else "; not back at work yet"
    resumed = f"; back at work after {back}" if back else never
    zero = ", and it started again from zero" if of["from_zero"] else ""
    outcome = of["outcome"].replace("_", " ")
    return f"{when(of['happened_at'])}  attempt {of['attempt']} {outcome}. {what}: {lost}{zero}{resumed}."


def _worth(seconds: int, cost: str | None) -> str:
    """`12 min ($0.31)`."""
    span = age(timedelta(seconds=seconds))
    return span if cost is None else f"{span} ({dollars(cost)})"


def _step(step: int | None) -> str:
    return "-" if step is None else f"{step:,}"
