"""Every command that a document prints is accepted by the real parser, and is run by a test or has a reason."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.printed import ROOT, documents
from tests.cli.test_journey import ELSEWHERE as NOT_IN_THE_JOURNEY
from tests.cli.test_journey import JOURNEY, NAMED, WATCHED
from tests.first_hour.readme import set_up_commands

from costguard.cli.app import app

COMMAND: Any = typer.main.get_command(app)
_PROGRAMS = frozenset(
    "bq cd costguard curl docker gcloud kubectl make pip python sudo terraform".split()  # noqa: SIM905 - a list of words
)
_OF_OUTPUT = frozenset({"console", "json", "python", "toml", "yaml", "ini"})
_FENCE = re.compile(r"^ *```([\w-]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_USAGE = re.compile(r"\[OPTIONS\]|\[ARGS\]")
DOCUMENTS = [path for path in documents() if path.name != "first-hour.md"]  # a transcript, with a test of its own
GUIDES = [
    path
    for path in DOCUMENTS
    if path == ROOT / "README.md" or path.parent == ROOT / "service" / "docs" or path.is_relative_to(ROOT / "deploy")
]
# What another test runs, by how it begins; the test's file names the command's last word.
RUN_BY: Mapping[str, str] = {
    "costguard alike": "tests/cli/test_commands.py",
    "costguard executions": "tests/cli/test_commands.py",
    "costguard launch a100 --label": "tests/cli/test_commands.py",
    "costguard lineage": "tests/cli/test_commands.py",
    "costguard profile j7k2m9q4": "tests/cli/test_commands.py",
    "costguard savings": "tests/cli/test_commands.py",
    "costguard bill read ": "tests/cli/test_bill.py",
    "costguard checkpoints ": "tests/cli/test_checkpoints.py",
    "costguard config check": "tests/cli/test_init.py",
    "costguard db adopt": "tests/cli/test_backups.py",
    "costguard db archive": "tests/cli/test_backups.py",
    "costguard db backup": "tests/cli/test_backups.py",
    "costguard db history": "tests/cli/test_history.py",
    "costguard db restore": "tests/cli/test_backups.py",
    "costguard db upgrade": "tests/cli/test_serve.py",
    "costguard db verify": "tests/cli/test_backups.py",
    "costguard doctor": "tests/cli/test_doctor.py",
    "costguard google-feed": "tests/cli/test_google_feed.py",
    "costguard google-role": "tests/doctor/test_permissions.py",
    "costguard diagnose": "tests/cli/test_commands.py",
    "costguard launch --like": "tests/cli/test_like.py",
    "costguard judge-curve": "tests/cli/test_progress.py",
    "costguard read end": "tests/cli/test_read.py",
    "costguard read error": "tests/cli/test_read.py",
    "costguard read events": "tests/cli/test_read.py",
    "costguard read stragglers": "tests/cli/test_read.py",
    "costguard read-log": "tests/cli/test_progress.py",
    "costguard spend --basis": "tests/cli/test_bill.py",
    "costguard spend --by": "tests/cli/test_commands.py",
    "costguard spend --last 30d --focus": "tests/cli/test_focus.py",
    "costguard stages": "tests/cli/test_stages.py",
    "costguard sweep init": "tests/cli/test_sweeps.py",
    "costguard replay ": "tests/cli/test_replay.py",
    "costguard projects": "tests/cli/test_projects.py",
    "costguard report": "tests/cli/test_report.py",
    "costguard session end": "tests/cli/test_access.py",
    "costguard show VM": "tests/cli/test_commands.py",
    "costguard sign-in": "tests/cli/test_access.py",
    "costguard slack samples": "tests/cli/test_slack.py",
    "costguard schedule end": "tests/cli/test_schedules.py",
    "costguard schedule list": "tests/cli/test_schedules.py",
    "costguard schedule pause": "tests/cli/test_schedules.py",
    "costguard schedule resume": "tests/cli/test_schedules.py",
    "costguard schedule run": "tests/cli/test_schedules.py",
    "costguard schedule show": "tests/cli/test_schedules.py",
    "costguard schedule train.toml": "tests/cli/test_schedules.py",
    "costguard sweep FILE --halving": "tests/cli/test_sweeps.py",
    "costguard sweep sweep.toml --halving": "tests/cli/test_sweeps.py",
    "costguard sweep keep": "tests/cli/test_sweeps.py",
    "costguard sweep cancel": "tests/cli/test_sweeps.py",
    "costguard sweep job.toml --seeds": "tests/cli/test_sweeps.py",
    "costguard sweep launch": "tests/cli/test_sweeps.py",
    "costguard sweep list": "tests/cli/test_sweeps.py",
    "costguard sweep resume": "tests/cli/test_sweeps.py",
    "costguard sweep show": "tests/cli/test_sweeps.py",
    "costguard token create": "tests/cli/test_access.py",
    "costguard webhooks test": "tests/cli/test_webhooks.py",
}
# What no test runs as it is printed: by how it begins, and why.
ELSEWHERE: Mapping[str, str] = {
    **NOT_IN_THE_JOURNEY,
    "costguard launch --workdir": "the option's name; the journey launches with it",
    "costguard launch --profile ...": "the option's name; tests/scenario/test_profile.py launches with it",
    "costguard launch a100x8 --nodes ": "needs PyTorch on each VM; tests/scenario/test_gang.py launches several",
    "costguard launch a100 --stage ": "needs a bucket; tests/agent/test_staging.py stages with a real S3 server",
    "costguard launch a100 --input ": "needs a bucket; tests/agent/test_data.py brings data from a real S3 server",
    "costguard launch a100 --checkpoint ": "needs a bucket; tests/agent/test_result.py publishes to a real S3 server",
    "costguard launch a100 --mlflow-run ": "needs a server of MLflow; `make trackers` runs it",
    "curl ": "asks a server of the reader's own; tests/api asks the same address",
    "docker ": "needs Docker and a registry; tests/deploy reads the file that it builds from",
    "gcloud ": "needs Google; tests/first_hour runs those of the README",
    "kubectl ": "needs a cluster; tests/deploy builds the overlays with kubectl kustomize",
    "pip ": "installs; `make first-hour` installs from a checkout",
    "sudo ": "is typed on the VM that Terraform made",
    "terraform ": "needs Google; `make deploy-checks` plans each set-up with a stand-in provider",
}


@dataclass(frozen=True, slots=True)
class Printed:
    """A line of a block, or a span of a sentence: one may be a mere mention, such as `costguard job`."""

    document: Path
    line: str
    in_block: bool


def _printed() -> Iterator[Printed]:
    for document in DOCUMENTS:
        text = re.sub(r"\s*\\\n\s*", " ", document.read_text("utf-8"))
        for label, block in _FENCE.findall(text):
            for line in block.splitlines() if label not in _OF_OUTPUT else ():
                yield Printed(document, line.strip().removeprefix("$ "), in_block=True)
        for span in re.findall(r"`([^`]+)`", _FENCE.sub("", text)):
            yield Printed(document, " ".join(span.split()), in_block=False)


def _is_command(printed: Printed) -> bool:
    words = printed.line.split()
    return len(words) > 1 and words[0] in _PROGRAMS and not _USAGE.search(printed.line)


PRINTED = [one for one in _printed() if _is_command(one)]


def _without_remarks(line: str) -> str:
    """Cuts off what explains a command: after two spaces, or after a number sign."""
    return re.split(r"\s{2,}|\s+#\s", line)[0] if "\\" not in line else line


def _parts_of_costguard(line: str) -> Iterator[list[str]]:
    """The words after `costguard` in each part of a line, without where its output goes."""
    part: list[str] = []
    for word in [*shlex.split(_without_remarks(line)), ";"]:
        if word not in ("|", "&&", ";", ">", "2>&1"):
            part.append(word)
        else:
            if part[:1] == ["costguard"]:
                yield part[1:]
            part = []


def _problem(words: list[str], *, is_mention: bool) -> str:
    """Returns what the real parser says of it; "" where it is accepted. A mention may lack what the command acts on."""
    command, context = COMMAND, None
    try:
        while True:
            context = command.make_context(command.name, list(words), parent=context)
            rest = [*context._protected_args, *context.args] if hasattr(command, "resolve_command") else []
            if not rest:
                return ""
            _, command, words = command.resolve_command(context, rest)
    except (typer.Exit, SystemExit):
        return ""  # --help, --version, and a group of which nothing more is named
    except Exception as error:
        kind = type(error).__name__
        lacks = kind in ("MissingParameter", "NoArgsIsHelpError") or "requires an argument" in str(error)
        return "" if is_mention and lacks else f"{kind}: {error}"


def test_costguard_accepts_every_printed_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is there, and so are its options, with values of their types."""
    for name in ("job.toml", "train.toml"):
        (tmp_path / name).write_text('preset = "a100"\ncommand = "python train.py"\n')
    monkeypatch.chdir(tmp_path)
    printed = {
        (one.document.name, one.line, one.in_block, tuple(words))
        for one in PRINTED
        if "costguard " in one.line
        for words in _parts_of_costguard(one.line)
        if words and not words[0].startswith("-")
    }
    problems = [
        (document, line, _problem([*words], is_mention=not in_block)) for document, line, in_block, words in printed
    ]
    assert [one for one in problems if one[2]] == []
    assert len(problems) > 200


def test_every_command_of_a_guide_is_run_or_says_why_not() -> None:
    """The journey runs it, `make first-hour`, a test that is named, or nothing for a reason."""
    run = {step.command for step in JOURNEY} | {WATCHED, *NAMED, *set_up_commands()}
    begins = (*RUN_BY, *ELSEWHERE)
    guides = {_without_remarks(one.line) for one in PRINTED if one.document in GUIDES}
    lines = {line for line in guides if not line.startswith(("make ", "python "))}
    names = {" ".join(words) for words in _names()}
    unknown = {line for line in lines if line not in run | names and not line.startswith(begins)}
    assert sorted(unknown) == []
    assert [one for one in RUN_BY if not any(line.startswith(one) for line in lines)] == []


def _names() -> Iterator[tuple[str, ...]]:
    """Commands by their names alone, as sentences mention them."""
    groups: list[tuple[tuple[str, ...], Any]] = [(("costguard",), COMMAND)]
    while groups:
        path, command = groups.pop()
        yield path
        groups += [((*path, name), inner) for name, inner in getattr(command, "commands", {}).items()]


@pytest.mark.parametrize(("begins", "file"), RUN_BY.items(), ids=list(RUN_BY))
def test_the_named_tests_type_the_command(begins: str, file: str) -> None:
    """Their files name its last word, in quotes."""
    words = [word for word in begins.split() if word.islower()]
    assert f'"{words[-1]}"' in (ROOT / file).read_text("utf-8")


def test_every_printed_target_is_one_of_the_makefile() -> None:
    """`make NAME`, in any document."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    printed = {one.line.split()[1] for one in PRINTED if one.line.startswith("make ")}
    assert len(printed) > 15
    assert printed - targets == set()


def test_every_printed_module_is_there() -> None:
    """`python -m NAME`, in any document."""
    printed = {match[1] for one in PRINTED if (match := re.match(r"python -m (tests\.[\w.]+)", one.line))}
    assert printed
    there = {name for name in printed if (ROOT / name.replace(".", "/")).is_dir()}
    assert {name for name in printed - there if not (ROOT / f"{name.replace('.', '/')}.py").is_file()} == set()
