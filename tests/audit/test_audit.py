"""Costguard's dependencies have licences that are allowed, and known vulnerabilities are not passed over."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from tests.audit.__main__ import main
from tests.audit.licences import Policy, expression_of, policy, refused
from tests.audit.locked import REQUIREMENTS, locked
from tests.audit.vulnerabilities import NotReached, Vulnerability, accepted_here, unaccepted, vulnerabilities
from tests.gce.server import Answer, Asked, google_error, json_answer, serving

_RULES = Policy({"MIT": "", "Apache-2.0": ""}, {"Apache 2.0": "Apache-2.0", "Odd (X)": "MIT"})


def test_every_locked_package_has_a_licence_that_is_allowed() -> None:
    """The packages are those installed here; a new one needs a reason in licences.toml."""
    packages = locked(REQUIREMENTS.read_text(encoding="utf-8"))
    assert {"fastapi", "sqlalchemy", "psycopg-binary"} <= packages.keys()
    assert list(refused(packages, policy())) == []


@pytest.mark.parametrize(
    ("expression", "is_allowed"),
    [
        ("MIT", True),
        ("Apache 2.0", True),
        ("Odd (X)", True),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND (Apache-2.0 OR GPL-3.0-only)", True),
        ("MIT AND GPL-3.0-only", False),
        ("AGPL-3.0-only", False),
        ("", False),
    ],
)
def test_an_expression_is_allowed_as_a_whole(expression: str, is_allowed: bool) -> None:
    """SPDX: one side of OR is enough, both sides of AND are needed, and no licence is none that is allowed."""
    assert _RULES.allows(expression) is is_allowed


def test_a_licence_is_read_where_packages_write_it() -> None:
    """PEP 639's expression first; a whole text in `License`, or UNKNOWN, says nothing, and classifiers decide."""
    classifiers = ["Topic :: X", "License :: OSI Approved", "License :: OSI Approved :: MIT License"]
    assert expression_of({"License-Expression": ["MIT"], "License": ["GPL"]}) == "MIT"
    assert expression_of({"License": ["Copyright\nall of it"], "Classifier": classifiers}) == "MIT License"
    assert expression_of({"License": ["UNKNOWN"]}) == ""


# In the shape that OSV documents (https://google.github.io/osv.dev/post-v1-querybatch/): ids and moments alone, an
# empty object where nothing is known, and a token where there are more.
_RESULTS: list[dict[str, Any]] = [
    {
        "vulns": [{"id": "GHSA-462w-v97r-4m45", "modified": "2023-03-10T05:23:41.874079Z"}],
        "next_page_token": "more",
    },
    {},
]
_PAGE_TWO = [{"vulns": [{"id": "PYSEC-2014-8", "modified": "2021-07-05T00:01:22.043149Z"}]}]
_PACKAGES = {"jinja2": "2.4.1", "typer": "0.29.2"}


def _osv(request: Asked) -> Answer:
    if request.path == "/v1/querybatch":
        pages = [query.get("page_token") for query in request.body["queries"]]
        return json_answer({"results": _PAGE_TWO if pages == ["more"] else _RESULTS})
    if request.path.endswith("GHSA-462w-v97r-4m45"):
        return json_answer({"id": "GHSA-462w-v97r-4m45", "summary": "Sandbox escape"})
    return google_error(404, "notFound")


def test_vulnerabilities_of_all_pages_are_known() -> None:
    """Each locked version is asked about, and an id without a description is reported all the same."""
    with serving(_osv) as server:
        listed = vulnerabilities(_PACKAGES, server.url)
        queries = server.requests[0].body["queries"]
    assert queries[0] == {"package": {"name": "jinja2", "ecosystem": "PyPI"}, "version": "2.4.1"}
    assert listed == [
        Vulnerability("jinja2", "2.4.1", "GHSA-462w-v97r-4m45", "Sandbox escape"),
        Vulnerability("jinja2", "2.4.1", "PYSEC-2014-8"),
    ]


def test_an_accepted_vulnerability_comes_back_after_its_day() -> None:
    """An exception has a reason and an end."""
    one = Vulnerability("jinja2", "2.4.1", "GHSA-462w-v97r-4m45")
    accepted = {one.id: {"reason": "not called", "until": date(2026, 12, 1)}}
    assert unaccepted([one], accepted, date(2026, 12, 1)) == []
    assert unaccepted([one], accepted, date(2026, 12, 2)) == [one]
    assert all(entry["reason"] and isinstance(entry["until"], date) for entry in accepted_here().values())


def test_too_few_answers_are_no_all_clear() -> None:
    """An answer that leaves out a package could hide what is known of it."""
    with serving(lambda _: json_answer({"results": [{}]})) as server, pytest.raises(NotReached, match="1 of 2"):
        vulnerabilities(_PACKAGES, server.url)


def test_the_audit_fails_where_something_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """The command's exit code is 1, and a line names the package."""

    def every_one(request: Asked) -> Answer:
        if request.path == "/v1/querybatch":
            results: list[dict[str, Any]] = [{} for _ in request.body["queries"]]
            return json_answer({"results": [_PAGE_TWO[0], *results[1:]]})
        return google_error(404, "notFound")

    with serving(every_one) as server:
        assert main(server.url) == 1
    assert "alembic" in capsys.readouterr().out


def test_an_audit_that_was_not_made_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the database cannot be reached the licences alone are judged, and nobody takes that for an all-clear."""
    with serving(lambda _: google_error(503, "backendError")) as server:
        assert main(server.url) == 0
    assert "Vulnerabilities: SKIPPED, nothing was checked." in capsys.readouterr().out
