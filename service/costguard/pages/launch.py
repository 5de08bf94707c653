"""What the launch page shows: the form as it was filled in, what is wrong with it, and what it would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from markupsafe import Markup, escape

from costguard.access import roles
from costguard.access.roles import Actor
from costguard.errors import JobKeyTaken, JobRefused
from costguard.jobs import job_rows
from costguard.jobs.submission import Refusal
from costguard.jobs.submit import JobOffice, Quote
from costguard.ledger import projects
from costguard.model.access import Permission, Principal
from costguard.model.checkpoint import Framework
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Job
from costguard.model.launch import Recipe
from costguard.pages import launch_form
from costguard.pages.asked import LONGEST, BadAddress
from costguard.pages.show import gpu_words
from costguard.pages.source import Source
from costguard.web.office import open_office

_LONGEST_KEY = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """A preset that can be launched."""

    name: str
    machine: str
    is_spot: bool
    description: str


@dataclass(frozen=True, slots=True)
class Launch:
    """`wrong` holds sentences by field, `refused` those that belong to none. `quote` is None where none was made.

    `key` names this form, so that sending it twice launches once.
    """

    values: Mapping[str, str]
    key: str
    choices: Sequence[Choice]
    projects: list[tuple[str, str]]  # values with their words, and so are frameworks
    frameworks: list[tuple[str, str]]
    wrong: Mapping[str, Sequence[str]]
    refused: Sequence[str]
    quote: Quote | None
    machine: str  # what the quote's VM is, in words
    names_others: bool  # whether who asks may launch in another's name
    notice: str = ""

    def value(self, name: str) -> str:
        return self.values.get(name, "")

    def typed(self, name: str) -> Markup:
        """In full, whatever it holds: it is sent again with the form."""
        return escape(self.value(name))

    def is_opened(self, *names: str) -> bool:
        """Whether a part of the form that is folded away holds something."""
        return any(self.values.get(name) or self.wrong.get(name) for name in names)


def first_shown(source: Source, me: Principal, query: Mapping[str, str], key: str) -> Launch:
    """The form as it is first seen: empty, or like a job that was launched before. Raises BadAddress."""
    values = {name: value for name, value in query.items() if name in launch_form.FIELDS}
    if wanted := query.get("like", ""):
        values = launch_form.like(_job(source, wanted)) | values
    choices = _choices(source)
    if choices and not values.get("preset"):
        values["preset"] = choices[0].name
    return shown(source, me, values, key)


def shown(
    source: Source,
    me: Principal,
    values: Mapping[str, str],
    key: str,
    refused: Sequence[Refusal] = (),
    notice: str = "",
) -> Launch:
    """The form with the quote of what is in it, and what speaks against it."""
    owner = _owner(me, values)
    asked = launch_form.submission(values, owner.address)
    quote = None
    if source.jobs is not None and _choices(source):
        quote = source.jobs.quote(asked.submission, asked.hours, owner.authority)
    against = [*asked.wrong, *(refused or _refusals(quote, values))]
    wrong: dict[str, list[str]] = {}
    general: list[str] = []
    for each in dict.fromkeys(against):
        field = launch_form.field_of(each.where)
        wrong.setdefault(field, []).append(each.message) if field else general.append(each.message)
    with source.database.read() as connection:
        watched = [(look.project, look.project) for look in projects.read_all(connection)]
    return Launch(
        values=values,
        key=key,
        choices=_choices(source),
        projects=watched,
        frameworks=[(each.value, each.value) for each in Framework],
        wrong=wrong,
        refused=general,
        quote=quote,
        machine=_machine(quote),
        names_others=_names_others(me),
        notice=notice,
    )


def launched(source: Source, me: Principal, values: Mapping[str, str], new_key: str) -> Job | Launch:
    """The job, or the form again with all that is wrong. Raises ActorError, and ProblemError where none are taken."""
    owner = roles.actor(me, values.get("owner", "") if _names_others(me) else "")
    asked = launch_form.submission(values, owner.address)
    key = values.get("key", "")[:_LONGEST_KEY] or new_key
    if asked.wrong:
        return shown(source, me, values, key)
    try:
        made, _ = office(source).submit(asked.submission, f"page/{key}", "page", owner.authority)
    except JobRefused as refused:
        pairs = zip(refused.parts, refused.problems, strict=True)
        return shown(source, me, values, key, [Refusal(part, message) for part, message in pairs])
    except JobKeyTaken:
        notice = (
            "This form was sent before, with other contents, and that job was launched. Launch once more for another."
        )
        return shown(source, me, values, new_key, notice=notice)
    return made


def office(source: Source) -> JobOffice:
    return open_office(source.jobs)


def _refusals(quote: Quote | None, values: Mapping[str, str]) -> list[Refusal]:
    """A price may be asked for before anybody has chosen among several projects."""
    found = quote.refusals if quote is not None else ()
    return [each for each in found if each.where != "project" or values.get("project")]


def _owner(me: Principal, values: Mapping[str, str]) -> Actor:
    """A quote may be asked for before anybody is named."""
    named = values.get("owner", "") if _names_others(me) else ""
    return roles.actor(me, named) if me.address or named.strip() else Actor("")


def _names_others(me: Principal) -> bool:
    return me.may(Permission.ADMIN) or not me.address


def _choices(source: Source) -> list[Choice]:
    found = ((preset, preset.launch) for preset in source.rules.presets.values())
    return [
        Choice(preset.name, _made_of(recipe), recipe.provisioning_model is ProvisioningModel.SPOT, preset.description)
        for preset, recipe in found
        if recipe is not None
    ]


def _made_of(recipe: Recipe) -> str:
    gpus = f", {recipe.gpu_count} × {gpu_words(recipe.gpu_type)}" if recipe.gpu_count else ""
    return f"{recipe.machine_type}{gpus}"


def _machine(quote: Quote | None) -> str:
    if quote is None or quote.recipe is None:
        return ""
    recipe, shape = quote.recipe, quote.shape
    parts = [recipe.machine_type]
    if shape is not None:
        parts.append(f"{shape.vcpus} vCPUs, {shape.memory_mib / 1024:,.10g} GiB")
    if recipe.gpu_count:
        parts.append(f"{recipe.gpu_count} × {gpu_words(recipe.gpu_type)}")
    return ", ".join([*parts, f"{recipe.disk_gib} GiB disk"])


def _job(source: Source, job_id: str) -> Job:
    found = None
    if len(job_id) <= LONGEST and "\x00" not in job_id:
        with source.database.read() as connection:
            found = job_rows.read(connection, job_id)
    if found is None:
        raise BadAddress(f"There is no job {job_id[:100]}.", "Look for it among the jobs.", HTTPStatus.NOT_FOUND)
    return found
