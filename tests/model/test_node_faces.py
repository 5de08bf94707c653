"""A range of VMs in the API and in the command, as one declaration makes them."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from costguard.api.fields import Body, Out
from costguard.api.job.options import shows_options, takes_options, values_of
from costguard.cli.job.launch_options import JobOptions, takes_job
from costguard.jobs.submit.check.options import submission_of
from costguard.model.options.node_count import NodeRange
from costguard.pages.launch_form import FIELDS


@takes_options("")
class JobBody(Body):
    """A job."""


@shows_options("")
class SpecOut(Out):
    """A job's spec."""


@pytest.mark.parametrize(("given", "count"), [(4, 4), ("2..8", NodeRange(2, 8)), ("4..4", 4)])
def test_the_api_takes_and_shows_it(given: object, count: object) -> None:
    """A job's spec shows what can be sent again."""
    body: Any = JobBody.model_validate({"preset": "t4", "nodes": given})
    spec = submission_of(values_of(body), "ana@example.com").spec
    assert spec.vm_count == count
    shown: Any = SpecOut.read(spec)
    assert shown.model_dump(mode="json")["nodes"] == (count if isinstance(count, int) else str(count))


@pytest.mark.parametrize("given", [0, 65, "8..2", "two", "4", True, 2.0])
def test_the_api_refuses_anything_else(given: object) -> None:
    """A number is no text there."""
    with pytest.raises(ValidationError, match="nodes"):
        JobBody.model_validate({"preset": "t4", "nodes": given})


@pytest.mark.parametrize(("words", "sent"), [(["--nodes", "4"], 4), (["--nodes", "2..8"], "2..8"), ([], None)])
def test_the_command_sends_it(words: list[str], sent: object) -> None:
    """The server decides about what is left out."""
    seen: list[JobOptions] = []
    app = typer.Typer()
    app.command()(takes_job(lambda job: seen.append(job)))
    result = CliRunner().invoke(app, ["t4", *words])
    assert result.exit_code == 0, result.output
    assert seen[0].parts().get("nodes") == sent


def test_the_command_says_what_to_write() -> None:
    """The error names both forms."""
    app = typer.Typer()
    app.command()(takes_job(lambda _: None))
    result = CliRunner().invoke(app, ["t4", "--nodes", "8..2"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "such as 4, or a range such as 2..8" in " ".join(result.output.split())


def test_the_form_has_it() -> None:
    """It is one field, as it was."""
    assert FIELDS.count("nodes") == 1
