"""The page Launch: the form as it was filled in, what is wrong with it, what it would cost, and the launch itself."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from fastapi import Request
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from costguard.access import roles
from costguard.access.roles import Actor
from costguard.errors import Conflict, Invalid
from costguard.jobs.rows import job_rows
from costguard.jobs.submit.submission import JobRefusal
from costguard.jobs.submit.submit import JobQuote, available_service
from costguard.ledger import projects
from costguard.model.access import Permission, Principal
from costguard.model.instance import ProvisioningModel, gpu_words
from costguard.model.job import Job, JobCode
from costguard.model.launch import Recipe
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.option import Option, Panel, Takes
from costguard.pages import launch_form
from costguard.pages.job.page import no_such_job
from costguard.pages.page import Form, Given, Source, page_router, redirect
from costguard.pages.query import LONGEST, BadAddress
from costguard.pages.show import job_link
from costguard.web.permissions import Asker

_LONGEST_KEY = 100
# Shown at first; all other fields stand behind "More".
_SIMPLE = ("kind", "preset", "project", "command", "checkpoint.location", "checkpoint.resume", "ceiling")

router = page_router(Permission.JOBS)  # a quote reads buckets, with Costguard's own credentials


@dataclass(frozen=True, slots=True)
class PresetChoice:
    """A preset that can be launched."""

    name: str
    machine: str
    model: ProvisioningModel
    description: str


@dataclass(frozen=True, slots=True)
class FormPart:
    """Fields that stand together. `is_training`: a VM to work on has none of them."""

    title: str
    options: Sequence[Option]

    @property
    def is_training(self) -> bool:
        return not any(option.of_dev for option in self.options)


def form_parts(options: Sequence[Option] = JOB_OPTIONS) -> list[FormPart]:
    """Returns the fields of the form by panel. The few that the page itself places are not among them."""
    shown = [option for option in options if option.input is not None]
    parts = [FormPart(panel, [option for option in shown if option.panel is panel]) for panel in Panel]
    return [part for part in parts if part.options]


@dataclass(frozen=True, slots=True)
class LaunchPage:
    """`wrong` holds sentences by field, `refused` those that belong to none. `quote` is None where none was made.

    `key` names this form, so that sending it twice launches once.
    """

    values: Mapping[str, str]
    key: str
    choices: Sequence[PresetChoice]
    projects: list[tuple[str, str]]  # values with their words
    wrong: Mapping[str, Sequence[str]]
    refused: Sequence[str]
    quote: JobQuote | None
    machine: str  # of the quote's VM, in words
    names_others: bool  # whether the viewer may launch in another's name
    notice: str = ""

    def value(self, name: str) -> str:
        return self.values.get(name, "")

    def typed(self, name: str) -> Markup:
        """Returns the typed text in full: it is sent again with the form."""
        return escape(self.value(name))

    @property
    def parts(self) -> Sequence[FormPart]:
        """Returns the fields behind "More", made of the declarations of a job's options."""
        return form_parts()

    def choices_of(self, option: Option) -> Sequence[tuple[str, str]]:
        """Returns the values of a list to choose from, with their words; the first is what counts if nobody chooses."""
        if option.input is not None and option.input.words:
            return option.input.words
        values = ("yes", "no") if option.takes is Takes.SWITCH else tuple(map(str, option.choices))
        return (("", "as by default"), *((value, value) for value in values))

    @property
    def has_more(self) -> bool:
        """Says whether a field beyond the few that most jobs need holds something, or is wrong."""
        return self.is_opened(*(name for name in launch_form.FIELDS if name not in _SIMPLE))

    @property
    def is_wrong_behind(self) -> bool:
        return any(name not in _SIMPLE for name in self.wrong)

    def is_opened(self, *names: str) -> bool:
        """Says whether a collapsed part of the form holds something."""
        return any(self.values.get(name) or self.wrong.get(name) for name in names)


@router.get("/launch")
def show_launch(request: Request, pages: Given, me: Asker) -> HTMLResponse:
    """The form: empty, or like the job that `like` names."""
    source, address = pages.source, request.query_params
    available_service(source.jobs)
    values = {name: value for name, value in address.items() if name in launch_form.FIELDS}
    if job_id := address.get("like", ""):
        values = launch_form.like(_job(source, job_id)) | values
    choices = _choices(source)
    if choices and not values.get("preset"):
        values["preset"] = choices[0].name
    return pages.render(request, "launch.html", launch=_page(source, me, values, _new_key()))


@router.post("/launch/quote")
def quote_launch(request: Request, pages: Given, me: Asker, form: Form) -> HTMLResponse:
    """The quote next to the form, and the messages under its fields."""
    page = _page(pages.source, me, launch_form.typed(form), "")
    return pages.render(request, "launch_quote.html", launch=page, fields=launch_form.FIELDS)


@router.post("/launch")
def launch_job(request: Request, pages: Given, me: Asker, form: Form) -> Response:
    """The job's page, or the form again with a message under each wrong field."""
    made = _launched(pages.source, me, launch_form.typed(form), _new_key())
    if isinstance(made, LaunchPage):
        return pages.render(request, "launch.html", status=HTTPStatus.UNPROCESSABLE_ENTITY, launch=made)
    return redirect(job_link(made.id))


def _page(
    source: Source,
    me: Principal,
    values: Mapping[str, str],
    key: str,
    refused: Sequence[JobRefusal] = (),
    notice: str = "",
) -> LaunchPage:
    """The form with the quote of what is in it, and the reasons against it."""
    owner = _owner(me, values)
    form = launch_form.submission(values, owner.address, partial(_code, source))
    quote = None
    if source.jobs is not None and _choices(source):
        quote = source.jobs.quote(form.submission, form.hours, owner.authority)
    wrong: dict[str, list[str]] = {}
    general: list[str] = []
    for refusal in dict.fromkeys([*form.wrong, *(refused or _refusals(quote, values))]):
        field = launch_form.field_of(refusal.where)
        wrong.setdefault(field, []).append(refusal.message) if field else general.append(refusal.message)
    with source.database.read() as connection:
        watched = [(look.project, look.project) for look in projects.read_all(connection)]
    return LaunchPage(
        values=values,
        key=key,
        choices=_choices(source),
        projects=watched,
        wrong=wrong,
        refused=general,
        quote=quote,
        machine=_machine(quote),
        names_others=_names_others(me),
        notice=notice,
    )


def _launched(source: Source, me: Principal, values: Mapping[str, str], new_key: str) -> Job | LaunchPage:
    """The job, or the form again. Raises Forbidden and Invalid, and ProblemError where this server takes no jobs."""
    owner = roles.actor(me, values.get("owner", "") if _names_others(me) else "")
    form = launch_form.submission(values, owner.address, partial(_code, source))
    key = values.get("key", "")[:_LONGEST_KEY] or new_key
    if form.wrong:
        return _page(source, me, values, key)
    try:
        job, _ = available_service(source.jobs).submit(form.submission, f"page/{me.own(key)}", "page", owner.authority)
    except Invalid as refused:
        return _page(source, me, values, key, [JobRefusal(part, message) for part, message in refused.fields])
    except Conflict:
        notice = "This form was already used to launch a job with other values. Click Launch again to launch another."
        return _page(source, me, values, new_key, notice=notice)
    return job


def _refusals(quote: JobQuote | None, values: Mapping[str, str]) -> list[JobRefusal]:
    """A quote may be shown before one of several projects is chosen."""
    refusals = quote.refusals if quote is not None else ()
    return [refusal for refusal in refusals if refusal.where != "project" or values.get("project")]


def _owner(me: Principal, values: Mapping[str, str]) -> Actor:
    """A quote may be shown before an owner is named."""
    named = values.get("owner", "") if _names_others(me) else ""
    return roles.actor(me, named) if me.address or named.strip() else Actor("")


def _names_others(me: Principal) -> bool:
    return me.may(Permission.ADMIN) or not me.address


def _choices(source: Source) -> list[PresetChoice]:
    return [
        PresetChoice(preset.name, _made_of(recipe), recipe.provisioning_model, preset.description)
        for preset in source.rules.presets.values()
        if (recipe := preset.launch) is not None
    ]


def _made_of(recipe: Recipe) -> str:
    gpus = f", {recipe.gpu_count} × {gpu_words(recipe.gpu_type)}" if recipe.gpu_count else ""
    return f"{recipe.machine_type}{gpus}"


def _machine(quote: JobQuote | None) -> str:
    if quote is None or quote.recipe is None:
        return ""
    recipe, shape = quote.recipe, quote.shape
    parts = [recipe.machine_type]
    if shape is not None:
        parts.append(f"{shape.vcpus} vCPUs, {shape.memory_mib / 1024:,.10g} GiB")
    if recipe.gpu_count:
        parts.append(f"{recipe.gpu_count} × {gpu_words(recipe.gpu_type)}")
    count = f"{quote.spec.nodes} × " if quote.spec.nodes > 1 else ""  # prices are of all of them
    return count + ", ".join([*parts, f"{recipe.disk_gib} GiB disk"])


def _job(source: Source, job_id: str) -> Job:
    job = None
    if len(job_id) <= LONGEST and "\x00" not in job_id:
        with source.database.read() as connection:
            job = job_rows.read(connection, job_rows.id_of(connection, job_id))
    if job is None:
        raise no_such_job(job_id)
    return job


def _code(source: Source, job_id: str) -> JobCode:
    """The code of an earlier job. Raises ValueError where there is none."""
    try:
        code = _job(source, job_id).spec.code
    except BadAddress:
        raise ValueError("There is no job with this id: look for it under Jobs.") from None
    if code is None:
        raise ValueError("That job brought no code: name one that was launched with costguard launch --workdir.")
    return code


def _new_key() -> str:
    return secrets.token_urlsafe(12)
