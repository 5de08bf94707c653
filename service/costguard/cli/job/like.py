"""`costguard launch --like JOB PRESET`: the request for the same job on another preset, and what is not the same."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from costguard.cli.job.launch_options import JobOptions, checked
from costguard.cli.options import complete_jobs
from costguard.cli.server import ServerClient, WrongUsage
from costguard.cli.tables import Answer
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.option import Option, Takes
from costguard_vm.model.checkpoint import names_a_file

Like = Annotated[
    str,
    typer.Option(
        "--like",
        metavar="JOB",
        help="Copy everything of this job that does not belong to its VM; options that are typed with it count more.",
        autocompletion=complete_jobs,
    ),
]
Continues = Annotated[
    bool,
    typer.Option("--continue", help="Go on from the checkpoints of --like's job, not in a new folder."),
]

# Of the job that is copied: its owner, the time that it takes on its preset, and runs that belong to it alone.
_LEFT_OUT = {
    "owner": "",
    "preset": "",
    "deadline": "",
    "deadline_in_hours": "",
    "work_hours": "its expected time, which is of the other preset",
    "mlflow_run": "its MLflow run",
    "wandb_run": "its W&B run",
}
_ITS_VM = "the zones, machine type, disk, boot image and way to buy of its VM"
_OPEN = frozenset({"queued", "provisioning", "running", "recovering"})


@dataclass(frozen=True, slots=True)
class LikeJob:
    """A request for a job like another one. `lines` say what was copied, what is new, and what was left out."""

    body: dict[str, Any]
    lines: Sequence[str]


def like_job(server: ServerClient, named: str, typed: JobOptions, context: typer.Context, continues: bool) -> LikeJob:
    """Reads the job and makes a request like it. Raises WrongUsage, and the server's errors."""
    given = [name for name in context.params if _is_typed(context, name)]
    return copied(server.get("jobs", named), typed.parts(given), secrets.token_hex(2), continues)


def _is_typed(context: typer.Context, name: str) -> bool:
    """A project from the environment is a default; an owner from there says who launches."""
    source = context.get_parameter_source(name)
    return source is not None and (source.name == "COMMANDLINE" or (name, source.name) == ("owner", "ENVIRONMENT"))


def copied(detail: Answer, typed: Mapping[str, Any], mark: str, continues: bool) -> LikeJob:
    """The request: what was `typed` over what the job had. `mark` makes the names of its new folders its own."""
    job = detail["job"]
    body, left_out = _parts(detail), [_ITS_VM]
    left_out += [words for place, words in _LEFT_OUT.items() if words and _at(detail, place) and place not in typed]
    body |= _deadline(detail, typed, left_out)
    suffix = f"{typed['preset']}-{mark}"
    changed = list(_new_places(body, typed, job, suffix, continues))
    if body.get("name") and "name" not in typed:
        body["name"] = _name(body["name"], job["preset"], str(typed["preset"]))
        changed.append(f"its name is {body['name']}")
    names = [one.replace("_", " ") for one in body if one not in typed or isinstance(body[one], dict)]
    lines = [
        f"Like job {_named(job)}: copied {', '.join(names) or 'nothing'}.",
        *(f"New: {change}." for change in changed),
        f"Left out: {'; '.join(left_out)}.",
    ]
    return LikeJob(checked(_over(body, typed)), lines)


def _parts(detail: Answer) -> dict[str, Any]:
    """The job's options as a request has them; those that are as by default are left out."""
    body: dict[str, Any] = {}
    for option in JOB_OPTIONS:
        if option.group == "overrides" or option.place in _LEFT_OUT:
            continue
        value = _value(detail, option)
        if value is None or value == option.unset or value in ([], {}, ""):
            continue
        part = body.setdefault(option.group, {}) if option.group else body
        part[option.name] = value
    return body


def _value(detail: Answer, option: Option) -> Any:
    """Servers of an earlier version do not send what they do not know."""
    if option.group:
        return (detail["spec"].get(option.group) or {}).get(option.name)
    if option.takes is Takes.HOURS:
        seconds = _at(detail, option.place)
        return None if seconds is None else seconds / 3600
    return _at(detail, option.place)


def _at(detail: Answer, place: str) -> Any:
    shown = place.replace("_hours", "_seconds")
    return detail["spec"].get(shown, detail["job"].get(shown))


def _deadline(detail: Answer, typed: Mapping[str, Any], left_out: list[str]) -> dict[str, Any]:
    """A deadline from the launch on is copied; one at a fixed time only while it is ahead."""
    if "deadline" in typed or "deadline_in_hours" in typed:
        return {}
    if seconds := detail["spec"].get("deadline_in_seconds"):
        return {"deadline_in_hours": seconds / 3600}
    deadline = detail["job"].get("deadline")
    if not deadline:
        return {}
    if datetime.fromisoformat(deadline) > datetime.fromisoformat(detail["as_of"]):
        return {"deadline": deadline}
    left_out.append("its deadline, which has passed")
    return {}


def _new_places(
    body: dict[str, Any], typed: Mapping[str, Any], job: Answer, suffix: str, continues: bool
) -> Iterator[str]:
    """Gives it folders of its own: two runs that save in one would overwrite each other's checkpoints."""
    old = body.get("checkpoint", {}).get("location", "")
    if continues:
        _check_continues(old, job)
    elif "://" in old:
        new = typed.get("checkpoint", {}).get("location") or renamed(old, suffix)
        body["checkpoint"]["location"] = new
        yield f"its checkpoints go to {new}"
        if _move(body, old, new):
            yield f"{new} stands for {old} in what it runs, too"
    if (result := body.get("checkpoint", {}).get("publish_to")) and "publish_to" not in typed.get("checkpoint", {}):
        body["checkpoint"]["publish_to"] = renamed(result, suffix)
        yield f"its result goes to {body['checkpoint']['publish_to']}"
    if "outputs" in body and "outputs" not in typed:
        moved = [{**one, "destination": renamed(one["destination"], suffix)} for one in body["outputs"]]
        body["outputs"] = moved
        yield f"its results go to {', '.join(one['destination'] for one in moved)}"


def _check_continues(location: str, job: Answer) -> None:
    named = _named(job)
    if not location:
        raise WrongUsage(f"--continue: job {named} saves no checkpoints.", "Leave --continue out: it starts from zero.")
    if "://" not in location:
        raise WrongUsage(
            f"--continue: job {named} saves on the disk of its own VM, which no other VM has.",
            "Leave --continue out: it starts from zero.",
        )
    if job["state"] in _OPEN:
        raise WrongUsage(
            f"--continue: job {named} is not over, and two jobs that save in {location} overwrite each other's "
            "checkpoints.",
            f"Cancel it first: costguard cancel {job['id']} --after-checkpoint",
        )


def _move(body: dict[str, Any], old: str, new: str) -> bool:
    """Replaces the old folder where the command, its setup or a variable names it. Says whether any did."""
    named = re.compile(rf"{re.escape(old.rstrip('/'))}(?![\w.-])")
    before = repr(body)

    def moved(text: str) -> str:
        return named.sub(lambda _: new.rstrip("/"), text)

    if "command" in body:
        body["command"] = [moved(word) for word in body["command"]]
    if "setup" in body:
        body["setup"] = moved(body["setup"])
    if "environment" in body:
        body["environment"] = {name: moved(value) for name, value in body["environment"].items()}
    if "resume" in body["checkpoint"]:
        body["checkpoint"]["resume"] = moved(body["checkpoint"]["resume"])
    return repr(body) != before


def renamed(place: str, suffix: str) -> str:
    """Returns gs://lab/run-7-a100-3f2a for gs://lab/run-7; the name of a file stays, in a folder of that name."""
    scheme, _, path = place.rstrip("/").partition("://")
    if names_a_file(place) and path.count("/") > 1:
        folder, _, file = path.rpartition("/")
        return f"{scheme}://{folder}-{suffix}/{file}"
    if "/" not in path or (names_a_file(place) and path.count("/") == 1):
        bucket, _, file = path.partition("/")
        return f"{scheme}://{bucket}/{suffix}{f'/{file}' if file else ''}"
    return f"{scheme}://{path}-{suffix}"


def _name(name: str, old: str, new: str) -> str:
    """`llama-h100` for llama, and for the llama-a100 that ran on a100."""
    return f"{name.removesuffix(f'-{old}')}-{new}"


def _over(body: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Puts what was typed over the rest. Variables, secrets, and the parts of a group are replaced one by one."""
    merged = dict(body)
    for name, value in typed.items():
        is_part = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = {**merged[name], **value} if is_part else value
    return merged


def _named(job: Answer) -> str:
    return f"{job['title']} ({job['id']})" if job["title"] != job["id"] else str(job["id"])
