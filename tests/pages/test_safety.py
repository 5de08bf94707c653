"""Nothing that others chose does harm in a page, and nothing comes from elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.authenticators import signed_in
from tests.pages import story
from tests.pages.html import Page

import costguard.pages
from costguard.db.transaction import Database
from costguard.model.access import Role
from costguard.pages.fleet import PAGE_SIZE

FOLDER = Path(costguard.pages.__file__).parent
VENDOR = FOLDER / "static" / "vendor"
# The pages escape, and say what a browser may do, whatever the database; that all answer is tried on both.
PAGES = (
    "/",
    "/?gone=yes",
    "/spend",
    "/spend?group_by=owner",
    "/budgets",
    "/jobs",
    "/jobs?state=x",
    "/jobs/none",
    "/vm/lab/9000",
    "/vm/lab/9000/stop",
    "/vm/lab/none",
    "/tokens",
    "/spend?from=x",
)
ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "</title></svg><b>",
    "&lt;b&gt;&#60;",
)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_names_chosen_by_attackers_are_only_text(database: Database, client_with: Callable[..., TestClient]) -> None:
    """A name, a label, an owner, a reason or an event is shown as it is, and starts no tag."""
    with database.write() as connection:
        rows.prices(connection)
        for number, attack in enumerate(ATTACKS):
            project = attack.replace("/", "|")  # a path cannot hold it, and a project's id never does
            part = {"scope": attack, "code": "x", "reason": attack}
            rows.project(connection, project, [part])
            words: dict[str, Any] = dict.fromkeys(
                ("name", "zone", "preset", "owner", "owner_source", "created_by"), attack
            )
            vm = rows.instance(
                connection,
                **{
                    **words,
                    "project": project,
                    "gce_id": f"{number}",
                    "machine_type": attack,
                    "labels": {attack: attack},
                },
            )
            rows.lifetime(connection, vm, NOW - story.HOUR, owner=attack, preset=attack, ended_by=attack)
            rows.storage(connection, vm, NOW - story.HOUR, name=attack, resource=attack)
            columns = {"text": attack, "actor": attack, "project": project, "gce_id": f"{number}", "name": attack}
            rows.event(connection, f"f{number}", NOW, **columns)
    client = client_with(authenticator=signed_in(Role.ADMIN, "root@lab.example"))
    fleet = client.get("/").text
    assert all(attack in Page(fleet).text for attack in ATTACKS)
    pages = [fleet, client.get("/spend?group_by=owner").text]
    vms = [address for address in Page(fleet).addresses if re.fullmatch("/vm/[^/]+/[0-9](/claim)?", address)]
    assert len(vms) >= 2 * len(ATTACKS)
    pages += [client.get(address).text for address in vms]
    for attack in ATTACKS:
        texts = [client.get("/", params={"owner": attack}).text, client.get(f"/spend?group_by={attack}").text]
        assert all(attack in Page(text).text for text in texts)
        pages += texts
    for text in pages:
        page = Page(text)
        assert page.mistakes == []
        assert {tag for tag, _ in page.tags}.isdisjoint({"img", "b"})
        assert all(attrs.get("src") for tag, attrs in page.tags if tag == "script")
        assert all(not name.startswith("on") and name != "style" for _, attrs in page.tags for name in attrs)
        assert all(address.startswith(("/", "#")) for address in page.addresses)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_what_turns_or_hides_text_is_shown(database: Database, client: TestClient) -> None:
    """Marks that reverse, hide or split writing appear as their numbers, so that two names never look alike."""
    with database.write() as connection:
        rows.project(connection)
        rows.instance(connection, "a\u202eb\u200bc\u2066d\x07e\u00adf")
    text = client.get("/").text
    assert "a[U+202E]b[U+200B]c[U+2066]d[U+0007]e[U+00AD]f" in text
    assert not re.search("[\u202e\u200b\u2066\x07\u00ad]", text)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_huge_value_leaves_the_page_small(database: Database, client: TestClient) -> None:
    """A megabyte in one field is cut, and its length told."""
    with database.write() as connection:
        rows.project(connection)
        rows.event(connection, "f", NOW, text="x" * 1_000_000)
    text = client.get("/").text
    assert len(text) < 30_000
    assert "(1,000,000 characters)" in text


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_every_answer_says_what_a_browser_may_do(database: Database, client: TestClient) -> None:
    """Scripts and styles from here alone, no frames, no guessing of types, no referrer; wrong addresses included."""
    story.tell(database)
    for address in PAGES:
        _says_what_it_may(client.get(address).headers)


def _says_what_it_may(headers: Mapping[str, str]) -> None:
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_static_files_may_be_kept_while_they_are_the_same(client: TestClient) -> None:
    """A file that a page names is addressed by its content and kept; without that, it is requested again."""
    addresses = [a for a in Page(client.get("/").text).addresses if a.startswith("/static/")]
    assert len(addresses) >= 4
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get(address.partition("?")[0]).headers["cache-control"] == "no-cache"
    assert client.get("/static/../app.py").status_code == 404


def test_nothing_comes_from_elsewhere() -> None:
    """No template and no static file names another address, or has a script or a style inside a tag."""
    own = [path for path in FOLDER.glob("static/**/*") if path.is_file() and VENDOR not in path.parents]
    for path in sorted([*FOLDER.glob("templates/*"), *own]):
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"\{[{%].*?[%}]\}", "x", text) or path.suffix == ".js", path.name
        assert not re.search(r"https?:|@import|url\(|\sstyle=|\son[a-z]+=|\|\s*safe\b|innerHTML|eval\(", text), (
            path.name
        )


def test_what_others_wrote_is_as_they_published_it() -> None:
    """Every vendored file is named with its sum, its package and its licence, and says none of its own source maps."""
    lines = [line.split() for line in (VENDOR / "CHECKSUMS").read_text("utf-8").splitlines() if line[0] != "#"]
    assert {name for _, name, *_ in lines} == {path.name for path in VENDOR.iterdir()} - {"CHECKSUMS"}
    for digest, name, package, version, licence in lines:
        content = (VENDOR / name).read_bytes()
        assert sha256(content).hexdigest() == digest, name
        assert b"sourceMappingURL" not in content
        assert package
        assert version[0].isdigit()
        assert licence in ("0BSD", "MIT")


def test_links_that_are_offered_exist(database: Database, dialect: str, client: TestClient) -> None:
    """No link on any page leads nowhere."""
    story.tell(database)
    seen: set[str] = set()
    for address in PAGES:
        seen |= {link for link in Page(client.get(address).text).addresses if link.startswith("/")}
    if dialect == "postgresql":  # one link of each path: what others ask of it is tried on SQLite
        seen = set({link.partition("?")[0]: link for link in sorted(seen)}.values())
    assert {address: client.get(address).status_code for address in seen} == dict.fromkeys(seen, 200)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_full_page_of_vms_is_quick_and_small(database: Database, client: TestClient) -> None:
    """The most VMs that a page holds take well under a second, and little on the wire."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for number in range(PAGE_SIZE + 20):
            vm = rows.instance(connection, f"vm-{number}", gce_id=str(number), owner=f"user{number % 40}@lab.example")
            rows.lifetime(connection, vm, NOW - story.HOUR * (1 + number % 50))
            rows.storage(connection, vm, NOW - story.HOUR * (1 + number % 50))
    client.get("/")
    took = []
    for _ in range(3):
        started = time.process_time()  # of the processor: other tests run at the same time
        answer = client.get("/", headers={"Accept-Encoding": "gzip"})
        took.append(time.process_time() - started)
    print(f"page: {min(took) * 1000:.0f} ms, {len(answer.content):,} B, {answer.headers['content-length']} B sent")
    assert min(took) < 0.5
    assert int(answer.headers["content-length"]) < 40_000
