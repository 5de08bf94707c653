"""service/docs/first-hour.md: a transcript of a real run, whose commands are still those of the documents."""

from __future__ import annotations

import re

from tests.cli.printed import ROOT
from tests.first_hour import first_job, readme
from tests.first_hour.machine import PROJECT
from tests.first_hour.transcript import CUT, HEAD, LONGEST, TAIL, WIDEST
from tests.first_hour.understood import LAUNCHER, WATCHER

TEXT = (ROOT / "service" / "docs" / "first-hour.md").read_text("utf-8")
_STEP = re.compile(
    r"^After (?:\d+ min )?\d+ s; it took (?:\d+ min )?\d+ s(?:, and ended with \d)?\.\n\n"
    r"```console\n\$ (.+)\n((?:.*\n)*?)```\n\n(.+)\n",
    re.MULTILINE,
)
_SECTIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


def _steps(section: str) -> list[tuple[str, list[str], str]]:
    return [(command, answer.splitlines(), said) for command, answer, said in _STEP.findall(section)]


def test_the_watcher_types_what_the_readme_prints() -> None:
    """All of it, in its order; `init` gets the address of the simulated cloud."""
    printed = [readme.INSTALL, *readme.set_up_commands()]
    typed = [command.removesuffix(" --endpoint http://cloud.example") for command, _, _ in _steps(_SECTIONS[0])]
    assert typed == [re.sub(r"\bPROJECT\b", PROJECT, command) for command in printed]


def test_the_launcher_types_what_the_guide_prints() -> None:
    """After the demo has begun, with the demo's own line; a job's name stands for JOB."""
    typed = [command for command, _, _ in _steps(_SECTIONS[1])]
    assert (typed[0], typed[2]) == (first_job.DEMO, "cd bert")
    assert typed[1].startswith("export COSTGUARD_URL=http://")
    job = typed[-1].rpartition(" ")[2]
    assert typed[3:] == [command.replace("JOB", job) for command in first_job.COMMANDS]


def test_answers_are_cut_by_the_rule_that_the_page_states() -> None:
    """A short one is whole; a long one has its ends and the number of lines between."""
    steps = [step for section in _SECTIONS for step in _steps(section)]
    assert len(steps) == TEXT.count("```console")
    for _, answer, _ in steps:
        assert all(len(line) <= WIDEST for line in answer)
        cuts = [line for line in answer if CUT.match(line)]
        assert len(answer) == HEAD + 1 + TAIL if cuts else len(answer) <= LONGEST


def test_each_step_says_what_was_understood() -> None:
    """The page has one or two sentences for each command."""
    for section, words in zip(_SECTIONS, (WATCHER, LAUNCHER), strict=True):
        for command, _, said in _steps(section):
            (own,) = [text for begins, text in words.items() if command.startswith(begins)]
            assert said == own
            assert 1 <= len(re.findall(r"[.:?](?:\s|$)", said)) <= 3


def test_nothing_of_the_computer_is_in_it() -> None:
    """No port of a moment, no folder, no token, no code that signs in."""
    assert re.findall(r"127\.0\.0\.1:(?!8765)\d+|/tmp/|\bcg_[0-9a-z]{8}|/sign-in/(?!CODE)\S+", TEXT) == []
    assert "COSTGUARD_TOKEN=TOKEN" in TEXT
