"""A newcomer's first hour: every command that README.md and docs/jobs.md print, as printed, against one demo."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from tests.cli.demo_story import DemoStory
from tests.cli.lines import reading
from tests.cli.printed import ROOT, commands_of
from tests.cli.test_demo import demo, read_until
from tests.cli.typed import Typist
from tests.first_hour.readme import set_up_commands
from tests.sandbox.guest.served_vms import PATIENCE_S, processes_of

DOCUMENTS = (ROOT / "README.md", ROOT / "service" / "docs" / "jobs.md")
JOB = "train-moons"  # the demo's own, by its name
_OF_THE_JOB = re.compile(r"\b(?:JOB|j7k2m9q4)\b")  # what stands for a job in the documents

# What needs more than a demo has. Each is named by how it begins, and why it is not run here.
ELSEWHERE: Mapping[str, str] = {
    "make demo": "installs Costguard first; tests/cli/test_demo.py starts it, and this test the command that it runs",
    "docker build ": "needs Docker, and the source at its address",
    "pip install git+": "needs the source at its address",
    "cd bert": "goes to the reader's own folder",
    "costguard launch a100 --workdir . --setup 'pip install .' --input s3://": "needs buckets; `make pipeline` runs it",
    "costguard launch a100 --image europe-docker.pkg.dev/": "needs a bucket of Google's and an image there",
    "costguard launch a100 --input s3://": "needs buckets and Google's Secret Manager",
    "costguard launch --like fb12": "needs an earlier job of that name; tests/cli/test_like.py runs it",
    "costguard alike": "needs runs of one script on several machines; tests/cli/test_commands.py runs it",
    "costguard lineage": "needs jobs that started from another; tests/cli/test_commands.py runs it",
    "costguard launch a100 --save-every": "needs a bucket; tests/agent/test_saving.py has an agent ask for saves",
    "costguard checkpoints gs://": "needs a bucket of Google's",
}
# Commands of jobs.md that are named without what they act on.
NAMED = ("costguard job", "costguard diagnose", "costguard delete-disk")


@dataclass(frozen=True, slots=True)
class Step:
    """A printed command, and what of its answer shows that it did what its document says."""

    command: str
    shows: str
    code: int = 0

    @property
    def is_about_the_job(self) -> bool:
        return _OF_THE_JOB.search(self.command) is not None

    @property
    def waits(self) -> bool:
        """Says whether an attempt that has just begun shows nothing yet: the demo's job loses its VM twice."""
        return self.command == "costguard output JOB"


JOURNEY = (
    # README.md, "Try it"
    Step("costguard jobs", JOB),
    Step("costguard reminders preview", "finetune-cleo"),
    Step("costguard spend", "$"),
    # README.md, "Watch your project in shadow mode", a day later
    Step("costguard report", "Watching since"),
    # jobs.md
    Step("costguard quote a100 --hours 20", "Budget training-today"),
    Step("costguard launch a100 --workdir . --setup 'pip install -e .' -- python train.py", "Submitted"),
    Step("costguard launch job.toml", "Submitted"),
    Step("costguard launch t4 --dev", "How to reach it"),
    Step("costguard job JOB", "acme-training"),
    Step("costguard output JOB", "step "),
    Step("costguard drill j7k2m9q4", JOB),
    Step("costguard cancel JOB --never-mind", JOB),
    Step("costguard cancel JOB", JOB),
    Step("costguard recoveries", "interrupt"),
    Step("costguard places", "us-central1-"),
)
WATCHED = "costguard ps --watch 2"


def test_every_printed_command_is_part_of_the_journey() -> None:
    """A new one has to be run below, or to say why it cannot be; and nothing is run that no document prints."""
    printed = {command for document in DOCUMENTS for command in commands_of(document.read_text("utf-8"))}
    run = {step.command for step in JOURNEY} | {WATCHED, *NAMED}
    printed -= set(set_up_commands()) - run  # tests/first_hour runs them
    elsewhere = {command for command in printed if command.startswith(tuple(ELSEWHERE))}
    assert printed - run - elsewhere == set()
    assert run - printed == set()
    assert [begin for begin in ELSEWHERE if not any(command.startswith(begin) for command in printed)] == []


def test_a_newcomer_gets_what_the_documents_say(tmp_path: Path, typist: Typist) -> None:
    """Each command as printed, in the environment that the demo prints, JOB standing for the demo's own job.

    Meanwhile the demo plays the whole product; SIGTERM ends it, and it leaves nothing behind.
    """
    with demo(tmp_path, "--steps", "3000") as process:
        seen = read_until(process, "export COSTGUARD_URL")
        printed = dict(part.split("=", 1) for part in seen.rpartition("export ")[2].split())
        (cloud,) = set(re.findall(r"(http://\S+)/slack", seen))
        newcomer = Newcomer(tmp_path / "bert", {**printed, "HOME": str(tmp_path)}, typist)
        with reading(process, signal.SIGTERM) as lines:
            with (
                newcomer.watching(WATCHED, "debug-ana"),
                newcomer.watching("costguard launch t4 --workdir . --follow -- python train.py", "succeeded"),
            ):
                failed = []
                lines.until("launched a training")
                for step in JOURNEY:
                    if step.is_about_the_job:
                        lines.until("It prints: step")
                    failed += newcomer.does(step)
            assert failed == [], "".join(lines.seen[-30:])
            DemoStory(printed, cloud).is_played()
            lines.until("The tool `fleet` answered: ")
            for command in NAMED:
                assert newcomer.types(f"{command} --help").returncode == 0
        assert process.returncode == 0
        assert "Traceback" not in process.stderr.read()
    assert processes_of(tmp_path) == []
    assert list(tmp_path.glob("costguard-demo-*")) == []
    assert not [one for one in distributions() if one.metadata["Name"] == "bert"], "a VM installs on its own disk"


class Newcomer:
    """Someone with the demo's printed line in their shell, in a folder with a script."""

    def __init__(self, folder: Path, environ: Mapping[str, str], typist: Typist) -> None:
        folder.mkdir()
        (folder / "train.py").write_text("print('step 1 loss 2.0')\n")
        (folder / "pyproject.toml").write_text("[project]\nname = 'bert'\nversion = '1'\n")
        (folder / "job.toml").write_text('preset = "a100"\ncommand = "python train.py"\nceiling = 300\n')
        self._folder, self._typist = folder, typist
        self._pause = threading.Event()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
        self._environ = {**clean, **environ}

    def does(self, step: Step) -> list[str]:
        """Returns what was not as it should be. Where a step waits, it is typed again each second, as people do."""
        for _ in range(int(PATIENCE_S) if step.waits else 1):
            done = self.types(step.command)
            if done.returncode == step.code and step.shows in done.stdout + done.stderr:
                return []
            self._pause.wait(1 if step.waits else 0)
        return [f"{step.command} ended with {done.returncode}: {done.stdout}{done.stderr}"]

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        """Types as into a shell: with what stands for a job filled in, and into a file where it says so."""
        words = self._words(command)
        file = words[words.index(">") + 1] if ">" in words else None
        done = self._typist.type(words[: words.index(">")] if file else words, self._environ, self._folder)
        if file:
            (self._folder / file).write_text(done.stdout)
        return done

    @contextmanager
    def watching(self, command: str, wanted: str) -> Iterator[None]:
        """A command that goes on, in a process of its own: until the block has ended and it has shown this."""
        program = str(Path(sys.executable).with_name("costguard"))
        with (
            subprocess.Popen(
                [program, *self._words(command)],
                env=self._environ,
                cwd=self._folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process,
            reading(process, signal.SIGINT) as lines,
        ):
            yield
            lines.until(wanted)

    def _words(self, command: str) -> list[str]:
        return shlex.split(_OF_THE_JOB.sub(JOB, command))[1:]
