"""The rules of the house catch what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docstrings import is_fragment
from tests.house import broken_rules

CONTRACT = """
[[tool.importlinter.contracts]]
name = "The parts of rooms"
containers = ["costguard.rooms"]
"""


def test_broken_rules_are_named(tmp_path: Path) -> None:
    """A stray file at the top, a file too long and a test that does not state its rule are named with their place."""
    (tmp_path / ".gitignore").write_text("/build/\n__pycache__/\n")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "long.py").write_text("\n" * 500)
    (tmp_path / "requirements.txt").write_text("\n" * 500)
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "long.py").write_text("\n" * 401)
    (tmp_path / "service" / "full.py").write_text("\n" * 400)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_mute.py").write_text('def test_a():\n    "says"\n\ndef test_b():\n    pass\n')
    assert broken_rules(tmp_path) == [
        "notes.txt: nothing else stands at the top of the house; move it into service, tests or deploy",
        "service/long.py: 401 lines; past 400, split it",
        "tests/test_mute.py:4: test_b has no docstring that states its rule",
    ]


def test_banned_words_and_names_are_named(tmp_path: Path) -> None:
    """A banned word in a text, and a variable that does not say what it holds, are named with what to write instead."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "service").mkdir()
    (tmp_path / "tests").mkdir()
    word = "an" + "ew"
    (tmp_path / "service" / "page.html").write_text(f"<p>fine</p>\n<p>Begin {word}.</p>\n")
    (tmp_path / "service" / "names.py").write_text("def total(of: int) -> int:\n    each = of + 1\n    return each\n")
    (tmp_path / "service" / "parts.py").write_text("class RunUp: ...\n\n\ndef _told_apart(outbox: int) -> None: ...\n")
    assert broken_rules(tmp_path) == [
        "service/names.py:1: of does not say what it holds",
        "service/names.py:2: each does not say what it holds",
        f'service/page.html:2: "{word}" is not a word of the house; for example "again"',
        "service/parts.py:4: _told_apart does not say what it holds",
        "service/parts.py:1: RunUp does not say what it holds",
    ]


def test_long_functions_and_shared_class_names_are_named(tmp_path: Path) -> None:
    """A function over 60 lines and a class name used in two files are named; private classes may repeat."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "tests").mkdir()
    package = tmp_path / "service" / "costguard"
    package.mkdir(parents=True)
    (package / "one.py").write_text("class Budget: ...\n\n\nclass _Row: ...\n")
    (package / "two.py").write_text("class Budget: ...\n\n\nclass _Row: ...\n")
    (package / "work.py").write_text("def long() -> None:\n" + "    pass\n" * 60)
    assert broken_rules(tmp_path) == [
        "service/costguard/work.py:1: long has 61 lines; split it",
        "service/costguard/two.py: the class name Budget is taken by service/costguard/one.py; say what this one is",
    ]


def test_crowded_folders_are_named(tmp_path: Path) -> None:
    """A folder with more than 30 modules is named; the package's own file does not count."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "imports.toml").write_text(CONTRACT)
    package = tmp_path / "service" / "costguard" / "rooms"
    package.mkdir(parents=True)
    for name in ("__init__", *(f"part{number}" for number in range(30))):
        (package / f"{name}.py").write_text("")
    assert not [rule for rule in broken_rules(tmp_path) if "modules" in rule]
    (package / "cost.py").write_text("")
    assert broken_rules(tmp_path) == [
        "service/costguard/rooms: 31 modules in one folder, and 30 may be; divide it by what they are about"
    ]


def test_folders_without_a_contract_are_named(tmp_path: Path) -> None:
    """A folder of eight modules needs a contract of its imports; the package's own file does not count."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "tests").mkdir()
    package = tmp_path / "service" / "costguard" / "rooms"
    package.mkdir(parents=True)
    for name in ("__init__", *(f"part{number}" for number in range(7))):
        (package / f"{name}.py").write_text("")
    assert broken_rules(tmp_path) == []
    (package / "cost.py").write_text("")
    assert broken_rules(tmp_path) == [
        "costguard.rooms: 8 modules and no contract of their imports; add one to tests/imports_of_rooms.toml"
    ]
    (tmp_path / "tests" / "imports_of_rooms.toml").write_text(CONTRACT)
    assert broken_rules(tmp_path) == []


def test_rooms_of_too_many_lines_are_named(tmp_path: Path) -> None:
    """A folder whose modules together have more than 6,000 lines is named."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "tests").mkdir()
    package = tmp_path / "service" / "costguard" / "rooms"
    package.mkdir(parents=True)
    for number in range(20):
        (package / f"part{number}.py").write_text("\n" * 300)
    assert not [rule for rule in broken_rules(tmp_path) if "lines in one folder" in rule]
    (package / "cost.py").write_text("\n")
    assert [rule for rule in broken_rules(tmp_path) if "lines in one folder" in rule] == [
        "service/costguard/rooms: 6,001 lines in one folder, and 6,000 may be; divide it by what they are about"
    ]


def test_functions_of_many_parameters_are_named(tmp_path: Path) -> None:
    """More than 8 without `self` are named, also by keyword alone; commands and routes take what users may give."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "tests").mkdir()
    package = tmp_path / "service" / "costguard"
    package.mkdir(parents=True)
    eight = "a: int, b: int, c: int, d: int, *, e: int, f: int, g: int, h: int"
    (package / "cost.py").write_text(
        f"class Cost:\n    def eight(self, {eight}) -> None: ...\n\n"
        f"    def nine(self, {eight}, i: int) -> None: ...\n\n\n"
        f"@app.get('/cost')\ndef route({eight}, i: int) -> None: ...\n\n\n"
        f"def command({eight}, i: int) -> None: ...\n\n\napp.command('cost')(command)\n"
    )
    assert broken_rules(tmp_path) == [
        "service/costguard/cost.py: nine has 9 parameters, and 8 may be; give it a value that holds some"
    ]


def test_tests_of_no_room_are_named(tmp_path: Path) -> None:
    """Tests are in the folder of their room, or in one of those that concern several rooms."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "service" / "costguard" / "ledger").mkdir(parents=True)
    for folder in ("ledger", "scenario", "ledgers"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / "test_it.py").write_text("")
    assert broken_rules(tmp_path) == [
        "tests/ledgers: there is no room of this name; a room's tests are in the folder with its name"
    ]


def test_class_names_in_texts_are_named(tmp_path: Path) -> None:
    """A label or a page with a class's name is named; docstrings, `__all__`, kinds of events and English are not."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "tests").mkdir()
    package = tmp_path / "service" / "costguard"
    package.mkdir(parents=True)
    (package / "disk.py").write_text(
        'class DiskReading:\n    """A DiskReading."""\n\n\nclass Job: ...\n\n\nclass JobFailed: ...\n\n\n'
        '__all__ = ["DiskReading"]\nFIGURES = {"DiskReading": "full", "Job": f"no {__all__} JobFailed"}\n'
        'KIND = "JobFailed"\n'
    )
    (package / "page.html").write_text("<p>{{ DiskReading }}</p>\n<p>The DiskReading.</p>\n")
    assert broken_rules(tmp_path) == [
        "service/costguard/disk.py:12: JobFailed is the name of a class; write a person's word",
        "service/costguard/disk.py:12: DiskReading is the name of a class; write a person's word",
        "service/costguard/page.html:2: DiskReading is the name of a class; write a person's word",
    ]


def test_docstrings_that_begin_with_a_fragment_are_counted_by_room(tmp_path: Path) -> None:
    """A room may have as many fragments as the table says: one more is named with its place, one less is noted."""
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "docstrings.toml").write_text('"costguard/jobs" = 1\n"costguard/spend" = 2\n')
    for room in ("jobs", "spend", "access"):
        (tmp_path / "service" / "costguard" / room).mkdir(parents=True)
        (tmp_path / "service" / "costguard" / room / "rows.py").write_text('"""Of a room."""\n')
    (tmp_path / "service" / "costguard" / "clock.py").write_text('"""Tells the time in UTC."""\n')
    assert broken_rules(tmp_path) == [
        "costguard/access: 1 docstrings begin with a fragment and 0 may; write sentences in "
        "service/costguard/access/rows.py:1",
        "costguard/spend: 1 docstrings begin with a fragment and not 2; write 1 in tests/docstrings.toml now",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Prices one hour of a VM, in nano-dollars.", False),
        ("The price of an hour.", False),
        ("`rate` is in nano-dollars an hour.", False),
        ("", False),
        ("One row. More than that.", True),
        ("What a VM costs.", True),
        ("Of a job.", True),
        ("None: it is not known.", True),
        ("Also where nothing runs.", True),
        ("Where the page of this token starts. Raises ValueError, and more.", True),
        ("Where two presets match, the first is the VM's.", False),
    ],
)
def test_fragments_differ_from_sentences(text: str, expected: bool) -> None:
    """A relative clause, a preposition or a pronoun at the head makes a fragment, as does a clause alone."""
    assert is_fragment(text) is expected
