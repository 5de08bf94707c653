"""The documents: the reference leaves nothing out, links lead somewhere, and commands are real."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.authenticators import ADMIT_ALL
from tests.cli.printed import documents
from tests.house import PACKAGES
from typer.core import TyperGroup

from costguard.access.rules import Rules
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.cli.app import app as cli
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.settings import VARIABLES, setting_keys

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "service" / "docs" / "reference"
DECISIONS = ROOT / "service" / "docs" / "decisions"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
DOCUMENTS = documents()
_ADDRESS = re.compile(r"\b(https?)://([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)")
_LOCAL = frozenset({"127.0.0.1", "cloud.example", "localhost", "metadata.google.internal"})  # and the simulated cloud
_EXAMPLES = (".example", ".example.com", "REGION.run.app")
_HOSTS = frozenset(
    {
        "accounts.google.com",
        "api.slack.com",
        "api.wandb.ai",
        "cloud.google.com",
        "docs.cloud.google.com",
        "focus.finops.org",
        "github.com",
        "modelcontextprotocol.io",
        "www.googleapis.com",
        "www.standardwebhooks.com",
    }
)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _reference(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """`costguard db upgrade` for a command in a group; a group alone is no command."""
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            if not inner.hidden:
                yield from _commands(inner, f"{path} {name}")
    if not isinstance(command, TyperGroup) or command.invoke_without_command:
        yield path, command


COMMANDS = dict(_commands(typer.main.get_command(cli), "costguard"))


def test_reference_names_every_setting() -> None:
    """Each key of the settings file is written out with its section: `watch.every`, `presets.NAME.limit`."""
    assert [key for key in setting_keys() if f"| `{key}` |" not in _reference("settings")] == []


def test_reference_names_every_variable() -> None:
    """Each environment variable that is read is named."""
    assert [variable for variable in VARIABLES if f"| `{variable}` |" not in _reference("settings")] == []


def test_reference_names_every_route(tmp_path: Path) -> None:
    """Each path of the REST API is written out."""
    database = Database.open(f"sqlite:///{tmp_path}/never-opened.db")
    deps = Deps(
        database=database,
        clock=SystemClock(),
        rules=Rules({}),
        authenticator=ADMIT_ALL,
        version="0",
        stale_after=timedelta(hours=1),
        status=lambda: DaemonStatus(),
    )
    paths = create_app(deps).openapi()["paths"]
    assert paths
    assert [path for path in paths if f" `{path}`\n" not in _reference("api")] == []


def test_reference_names_every_command() -> None:
    """Each command is written out as it is typed."""
    assert COMMANDS
    assert [command for command in COMMANDS if f"\n## {command}\n" not in _reference("commands")] == []


def test_every_room_is_in_the_developers_guide() -> None:
    """Each folder of the product's packages that holds modules has its row in the table of rooms."""
    guide = (ROOT / "service/docs/develop.md").read_text("utf-8")
    packages = [ROOT / "service" / name for name in PACKAGES]
    rooms = [path.parent for package in packages for path in package.glob("*/__init__.py")]
    places = [str(room.relative_to(ROOT)) for room in rooms if room.name != "api" or room.parent.name == "costguard"]
    assert len(places) > 30
    assert [place for place in places if f"`{place}" not in guide] == []


def test_readme_is_one_page() -> None:
    """The rest is in a guide."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """A link to a file of the project names one that exists, and a link to a heading one that is in the file."""
    broken = []
    for target in _LINK.findall(_FENCE.sub("", document.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (heading and file.suffix == ".md" and heading not in _anchors(file)):
            broken.append(target)
    assert broken == []


def test_addresses_outside_are_of_known_hosts() -> None:
    """There is no network in tests, so their shape is checked: https, and a host whose spelling was checked."""
    wrong = []
    for document in DOCUMENTS:
        for scheme, host in _ADDRESS.findall(document.read_text("utf-8")):
            is_known = host in _HOSTS or host.endswith(_EXAMPLES) or host.isupper()
            if (scheme, is_known) != ("https", True) and not (scheme == "http" and host in _LOCAL):
                wrong.append((document.name, f"{scheme}://{host}"))
    assert wrong == []


def test_decisions_are_numbered_and_name_their_file() -> None:
    """Each number is used once, and each decision in force ends with what embodies it or says that it is gone."""
    entries = [entry for file in DECISIONS.glob("*.md") for entry in _decisions(file)]
    assert sorted(number for number, _ in entries) == list(range(1, len(entries) + 1))
    assert len(entries) > 100
    unnamed = [number for number, entry in entries if not re.search(r"\]\([^)]+\)$|\*$|^~~", entry.strip())]
    assert unnamed == []


def test_index_of_decisions_names_every_file_and_number() -> None:
    """The index lists each file with the numbers in it, and the next free number."""
    index = DECISIONS.with_suffix(".md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\(decisions/\1\) \| .+ \| ([\d, ]+) \|$", index, re.MULTILINE)
    held = {file.name: sorted(number for number, _ in _decisions(file)) for file in DECISIONS.glob("*.md")}
    assert {name: [int(number) for number in numbers.split(", ")] for name, numbers in rows} == held
    assert f"**{max(map(max, held.values())) + 1}**" in index


def test_decisions_are_in_a_file_for_each_room() -> None:
    """A file of decisions has the name of a room or of a package, or is house, tests or superseded."""
    packages = [path for path in (ROOT / "service").glob("costguard*") if path.is_dir()]
    rooms = {room.parent.name for package in packages for room in package.glob("*/__init__.py")}
    rooms |= {package.name.removeprefix("costguard_") for package in packages}
    assert {file.stem for file in DECISIONS.glob("*.md")} - rooms == {"house", "superseded", "tests"}


def _decisions(file: Path) -> list[tuple[int, str]]:
    entries = re.findall(r"^\*\*(\d+)\. (.+?)(?=\n\n|\Z)", file.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [(int(number), entry) for number, entry in entries]


def _anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", file.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
