"""Every option of a job is declared once, and each face makes its own form of it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError
from tests.golden import flyte_options
from tests.jobs.job_service import SPEC
from typer.testing import CliRunner

from costguard.api.fields import Body
from costguard.api.job.options import takes_options
from costguard.cli.job.launch_options import JobOptions, parameters_of, takes_job
from costguard.jobs.submit.check.options import submission_of
from costguard.jobs.submit.submission import Overrides
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.option import Flag, Input, Option, Panel, Takes
from costguard.pages.launch import form_parts

_PRODUCT = Path(__file__).parents[2] / "service"
_GENERATED = {"costguard_client/api/schemas.py", "costguard_client/api/task_options.py"}
MADE_UP = Option(
    place="patience",
    takes=Takes.COUNT,
    least=1,
    most=9,
    panel=Panel.WATCH,
    description="The number of times that it waits.",
    flag=Flag("--patience", "TIMES", "How often it waits."),
    input=Input("Patience", "times", "3"),
)
WITH_IT = (*JOB_OPTIONS, MADE_UP)


def test_a_declared_option_is_in_the_api_document() -> None:
    """The document has its bounds and its description, and a value beyond them is refused."""

    @takes_options("", WITH_IT)
    class JobBody(Body):
        """A job."""

    part = JobBody.model_json_schema()["properties"]["patience"]
    assert part["description"] == "The number of times that it waits."
    assert part["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 9}
    body: Any = JobBody.model_validate({"preset": "t4", "patience": 3})
    assert body.patience == 3
    with pytest.raises(ValidationError, match="patience"):
        JobBody.model_validate({"preset": "t4", "patience": 10})


def test_a_declared_option_is_in_the_help_and_is_read() -> None:
    """The help has it as the command takes it."""
    seen: list[JobOptions] = []
    app = typer.Typer()
    app.command()(takes_job(lambda job: seen.append(job), WITH_IT))
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120", "TERM": "dumb"}).output
    assert re.search(r"--patience +TIMES \[x>=1\] +How often it waits\.", shown), shown
    assert CliRunner().invoke(app, ["t4", "--patience", "3"]).exit_code == 0
    assert seen[0]["patience"] == 3


def test_a_declared_option_is_in_the_form() -> None:
    """The form has it in the part of its panel."""
    (part,) = [part for part in form_parts(WITH_IT) if MADE_UP in part.options]
    assert (part.title, part.is_training) == ("Progress and drills", True)


def test_a_declared_option_is_a_field_of_a_flyte_task() -> None:
    """The generated module is code that runs."""
    text = flyte_options.text(WITH_IT).replace("from __future__ import annotations", "")
    module: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "generated", "exec", dont_inherit=True), module)
    assert module["TaskOptions"](preset="t4", patience=3).patience == 3
    assert module["PLACES"]["patience"] == "patience"


def test_an_option_is_in_few_files() -> None:
    """The limit of transfers: its declaration, its field, the agent's setting, and the part that keeps to it."""
    named = {
        str(path.relative_to(_PRODUCT))
        for path in [*_PRODUCT.rglob("*.py"), *_PRODUCT.rglob("*.html")]
        if "bandwidth_mib_s" in path.read_text("utf-8")
    }
    assert named - _GENERATED == {
        "costguard/model/options/code_and_data.py",
        "costguard/model/job.py",
        "costguard_vm/agent/settings.py",
        "costguard_vm/agent/transfers/transfer.py",
    }


def test_places_are_unique_and_every_option_has_a_face() -> None:
    """A command takes it, or a form; data of a job that neither can name would reach nobody."""
    places = [option.place for option in JOB_OPTIONS]
    assert len(places) == len(set(places))
    by_hand = {"kind", "preset", "owner", "command"}
    assert {option.place for option in JOB_OPTIONS if not option.flag and not option.input} <= by_hand
    names = [parameter.name for _, parameter in parameters_of()]
    assert len(names) == len(set(names))
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for _, parameter in parameters_of())


def test_what_nobody_gave_is_as_the_spec_has_it() -> None:
    """The declarations' defaults are those of the classes: one value, not two."""
    made = submission_of({"preset": SPEC.preset, "project": SPEC.project, "command": SPEC.command}, SPEC.owner)
    assert made.spec == SPEC
    assert made.overrides == Overrides()
    assert all(not one.is_set_in(made.spec) for one in JOB_OPTIONS if one.group in ("checkpoint", "metric"))
