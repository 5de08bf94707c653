"""Launching a job from its form: what it would cost, what is wrong, and that a job is made once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from tests.authenticators import ADMIT_ALL, FixedAuthenticator, signed_in
from tests.jobs.job_service import B200, PRESETS, RULES, JobSetup, priced
from tests.pages.html import Page, tidy

from costguard.access.rules import by_name
from costguard.db.transaction import Database
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.job_rows import JobFilters
from costguard.model.access import Role
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Job, JobKind

ADA = signed_in(Role.OPERATOR, "ada@lab.example")
CSRF = {"csrf": "the page's own"}
FORM = {**CSRF, "key": "k1", "kind": "training", "preset": "t4", "command": "python train.py"}
ATTACK = "</textarea><script>alert(1)</script>"


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Reads are the API's too, and tested on both kinds there."""
    return priced(sqlite_database)


@pytest.fixture
def office(database: Database) -> JobSetup:
    return JobSetup(database)


@pytest.fixture
def client_of(client_with: Callable[..., TestClient], office: JobSetup) -> Callable[[FixedAuthenticator], TestClient]:
    """A browser with a session, which shows redirects."""

    def made(authenticator: FixedAuthenticator) -> TestClient:
        client = client_with(rules=office.rules, jobs=office.it, authenticator=authenticator)
        client.follow_redirects = False
        return client

    return made


def shown(text: str) -> tuple[Page, str]:
    page = Page(text)
    assert page.mistakes == []
    return page, tidy(page.text)


def stored(office: JobSetup) -> list[Job]:
    with office.database.read() as connection:
        return job_rows.page(connection, JobFilters(), None, 100)


def values(page: Page) -> dict[str, str]:
    return {
        str(attrs["name"]): str(attrs.get("value", ""))
        for tag, attrs in page.tags
        if tag == "input" and attrs.get("type") not in ("radio", "checkbox")
    }


def test_a_job_is_launched_once_however_often_the_form_is_sent(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """The job is in the name of the signed-in person; sent again with other contents it asks before it launches
    another.
    """
    client = client_of(ADA)
    page, text = shown(client.get("/launch").text)
    assert "$0.172 an hour Spot in us-central1-a, where it would start now: $0.17 for 1 h." in text
    assert values(page)["csrf"] == CSRF["csrf"]
    form = {**FORM, "key": values(page)["key"], "owner": "mallory@lab.example"}
    for _ in range(2):
        answer = client.post("/launch", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/j1")
    (job,) = stored(office)
    assert (job.spec.owner, job.spec.command, job.via) == ("ada@lab.example", ("python", "train.py"), "page")
    again = client.post("/launch", data={**form, "command": "python other.py"})
    page, text = shown(again.text)
    assert again.status_code == 422
    assert "Click Launch again to launch another." in text
    fresh = {**form, "command": "python other.py", "key": values(page)["key"]}
    assert client.post("/launch", data=fresh).headers["location"] == "/jobs/j2"


def fields(page: Page) -> list[tuple[str, bool]]:
    """The names of the form's fields in their order, each with whether it stands behind a closed "More"."""
    names: dict[str, bool] = {}
    is_behind = False
    for tag, attrs in page.tags:
        is_behind = is_behind or (tag == "details" and attrs.get("class") == "more all" and "open" not in attrs)
        is_behind = is_behind and tag != "aside"
        if tag in ("input", "select", "textarea") and attrs.get("type") != "hidden":
            names.setdefault(str(attrs["name"]), is_behind)
    return list(names.items())


def test_five_fields_are_enough_for_most_jobs(client_of: Callable[[FixedAuthenticator], TestClient]) -> None:
    """All others stand behind "More", which is open where one of them holds something or is wrong."""
    client = client_of(ADA)
    simple = [name for name, is_behind in fields(shown(client.get("/launch").text)[0]) if not is_behind]
    assert simple == ["kind", "preset", "command", "checkpoint.location", "checkpoint.resume", "ceiling"]
    assert not any(is_behind for _, is_behind in fields(shown(client.get("/launch?image=lab/train:7").text)[0]))
    wrong = client.post("/launch", data={**FORM, "workdir": "work"})
    assert not any(is_behind for _, is_behind in fields(shown(wrong.text)[0]))
    quote = client.post("/launch/quote", data={**CSRF, "preset": "t4", "deadline_in_hours": "soon"})
    assert "A field behind More has to be changed." in shown(quote.text)[1]


def test_what_is_wrong_stands_beside_its_field(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """The typed text comes back whole and harmless, and nothing is stored."""
    long = "x" * 5_000
    wrong = {
        **FORM,
        "command": f"echo {ATTACK} {long}",
        "ceiling": "lots",
        "environment": "A=1\r\nB=2",
        "workdir": "work",
    }
    answer = client_of(ADA).post("/launch", data=wrong)
    page, text = shown(answer.text)
    assert answer.status_code == 422
    assert "This is not an amount in dollars: enter one such as 60 or 12.50." in text
    assert f"echo {ATTACK} {long}" in page.text
    assert "A=1\nB=2" in page.text
    assert [attrs["name"] for _, attrs in page.tags if attrs.get("aria-invalid")] == ["ceiling", "workdir"]
    assert "2 things to correct: ceiling, workdir" in text
    refused = client_of(ADA).post("/launch", data={**FORM, "command": "", "checkpoint.resume": "--from x"})
    text = shown(refused.text)[1]
    for part in ("There is neither a command nor an image", "It does not say where the checkpoints lie"):
        assert part in text
    assert stored(office) == []


def test_the_quote_follows_what_is_typed(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """Next to each field, too; what is not typed yet is no mistake, and nothing is stored."""
    client = client_of(ADA)
    answer = client.post("/launch/quote", data={**CSRF, "preset": "t4", "work_hours": "10", "overrides.buy": "demand"})
    page, text = shown(answer.text)
    assert "$0.539 an hour on demand in us-central1-a, where it would start now: $5.39 for 10 h." in text
    wrongs = {str(attrs["id"]) for tag, attrs in page.tags if tag == "p" and "hx-swap-oob" in attrs}
    assert {"wrong-command", "wrong-overrides-zones", "wrong-environment"} <= wrongs
    assert "to correct" not in text
    text = shown(client.post("/launch/quote", data={**CSRF, "preset": "t4", "ceiling": "0.01"}).text)[1]
    assert "is less than 10 minutes cost" in text
    text = shown(client.post("/launch/quote", data={**CSRF, "preset": "nope"}).text)[1]
    assert "There is no preset &#39;nope&#39;" in text or "There is no preset 'nope'" in text
    assert (stored(office), office.woken) == ([], 0)


def test_an_expensive_launch_is_asked_about_as_the_command_asks(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """The question comes above the settings' amount ($100 by default), in the same words; not below it, nor with
    errors.
    """
    client = client_of(ADA)
    expensive = {**CSRF, "preset": "t4", "command": "python train.py", "work_hours": "2400", "overrides.buy": "demand"}
    text = shown(client.post("/launch/quote", data=expensive).text)[1]
    rate = shown(client.post("/launch/quote", data={**expensive, "work_hours": "1"}).text)[1]
    assert "Continue?" not in rate
    assert re.search(r"It may cost \$[\d,.]+: 100 d at \$[\d.]+ an hour\. Continue\?", text), text
    capped = shown(client.post("/launch/quote", data={**expensive, "ceiling": "50"}).text)[1]
    assert "Continue?" not in capped
    wrong = shown(client.post("/launch/quote", data={**expensive, "deadline_in_hours": "soon"}).text)[1]
    assert "Continue?" not in wrong


def test_a_vm_to_work_on_is_launched(client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup) -> None:
    """The rest of the form is as it stood for a training."""
    client_of(ADA).post("/launch", data={**FORM, "kind": "dev"})
    assert [job.spec.kind for job in stored(office)] == [JobKind.DEV]


def test_another_like_a_job_begins_with_what_it_had(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """The form has its command, where it saves and its limits; a job that is not there is said so."""
    client = client_of(ADA)
    whole = {
        **FORM, "environment": "EPOCHS=3", "checkpoint.location": "gs://lab/run", "ceiling": "12.50",
        "checkpoint.resume": "--from {checkpoint}", "work_hours": "1.5", "name": "resnet",
        "checkpoint.uploads_itself": "yes",
    }  # fmt: skip
    client.post("/launch", data=whole)
    page, _ = shown(client.get("/launch?like=j1").text)
    for name in ("checkpoint.location", "checkpoint.resume", "ceiling", "work_hours", "name"):
        assert values(page)[name].rstrip("0") == whole[name].rstrip("0")
    assert "python train.py" in page.text
    assert client.get("/launch?like=none").status_code == 404


def test_code_comes_from_an_earlier_job_that_brought_some(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """A job that is not there, or brought none, is named under the field; nothing is stored for it."""
    client = client_of(ADA)
    client.post("/launch", data=FORM)
    for job_id, message in (("none", "There is no job with this id"), ("j1", "That job brought no code")):
        answer = client.post("/launch", data={**FORM, "key": "k2", "code": job_id})
        page, text = shown(answer.text)
        assert (answer.status_code, message in text) == (422, True)
        assert [attrs["name"] for _, attrs in page.tags if attrs.get("aria-invalid")] == ["code"]
    assert len(stored(office)) == 1


def test_an_admin_may_name_another_and_the_master_token_must(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """Viewers get no form, and nobody without the page's proof launches."""
    admin = client_of(signed_in(Role.ADMIN, "root@lab.example"))
    admin.post("/launch", data={**FORM, "owner": "bob@lab.example"})
    admin.post("/launch", data={**FORM, "key": "k2"})
    assert [job.spec.owner for job in stored(office)] == ["root@lab.example", "bob@lab.example"]
    assert client_of(ADMIT_ALL).get("/launch").status_code == 200
    assert client_of(ADMIT_ALL).post("/launch", data=FORM).status_code == 422
    viewer = client_of(signed_in(Role.VIEWER, "vic@lab.example"))
    for answer in (viewer.get("/launch"), viewer.post("/launch", data=FORM), viewer.post("/launch/quote", data=FORM)):
        assert answer.status_code == 403
    assert client_of(ADA).post("/launch", data={**FORM, "csrf": "guessed"}).status_code == 403
    assert len(stored(office)) == 2


def test_where_nothing_can_be_launched_it_says_how(client_with: Callable[..., TestClient], office: JobSetup) -> None:
    """The page is without a form where there is no recipe, and where this process takes no jobs."""
    rules = replace(RULES, presets=by_name([PRESETS[-1]]))
    text = shown(client_with(rules=rules, jobs=office.it, authenticator=ADA).get("/launch").text)[1]
    assert "Add launch settings to a preset in the settings file" in text
    answer = client_with(authenticator=ADA).get("/launch")
    assert (answer.status_code, "Ask the one that was started with" in answer.text) == (503, True)


def test_a_machine_that_google_does_not_sell_so_is_refused_in_words(
    client_of: Callable[[FixedAuthenticator], TestClient], office: JobSetup
) -> None:
    """The form says how Google sells it and what to do; no job is made."""
    on_demand = replace(B200, provisioning_model=ProvisioningModel.STANDARD)
    office.rules = replace(RULES, presets={"t4": replace(RULES.presets["t4"], launch=on_demand)})
    answer = client_of(ADA).post("/launch", data=FORM)
    assert answer.status_code == 422
    assert "Google sells a4-highgpu-8g as Spot, by flex-start or by reservation, not on demand" in shown(answer.text)[1]
    assert stored(office) == []
