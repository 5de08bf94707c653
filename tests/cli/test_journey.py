"""A newcomer's first hour: every command that README.md and docs/jobs.md print, as printed, against one demo."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.demo_story import DemoStory
from tests.cli.test_demo import demo, read_until
from tests.cli.typed import Typist
from tests.sandbox.guest.served_vms import PATIENCE_S

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "service" / "docs" / "jobs.md")
PROGRAMS = frozenset({"cd", "costguard", "docker", "gcloud", "make", "pip"})
JOB = "train-moons"  # the demo's own, by its name
_OF_THE_JOB = re.compile(r"\b(?:JOB|j7k2m9q4)\b")  # what stands for a job in the documents

# What needs more than a demo has. Each is named by how it begins, and why it is not run here.
ELSEWHERE: Mapping[str, str] = {
    "make demo": "installs Costguard first; tests/cli/test_demo.py starts it, and this test the command that it runs",
    "docker build ": "needs Docker, and the source at its address",
    "pip install git+": "needs the source at its address",
    "gcloud iam ": "changes a Google Cloud project",
    "gcloud projects ": "changes a Google Cloud project",
    "cd bert": "goes to the reader's own folder",
    "costguard launch a100 --workdir . --setup 'pip install .' --input s3://": "needs buckets; `make pipeline` runs it",
    "costguard launch a100 --image europe-docker.pkg.dev/": "needs a bucket of Google's and an image there",
    "costguard launch a100 --input s3://": "needs buckets and Google's Secret Manager",
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
    # README.md, "Watch your project in shadow mode"
    Step("costguard init --project PROJECT", "Wrote costguard.toml"),
    Step("costguard doctor", "grants all", code=2),  # whose backups it cannot know
    Step("costguard pass", "debug-ana"),
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
_WATCHED = "costguard ps --watch 2"
_SERVED = "costguard serve"


def commands_of(text: str) -> list[str]:
    """Returns commands in the order of the text: the lines of its blocks of commands, and commands named in its
    sentences.
    """
    commands: list[str] = []
    at = 0
    for block in re.finditer(r"^ *```(\w*)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        commands += _in_sentences(text[at : block.start()])
        commands += _in_block(block[2]) if not block[1] else []
        at = block.end()
    return list(dict.fromkeys([*commands, *_in_sentences(text[at:])]))


def _in_sentences(text: str) -> list[str]:
    """Returns commands in sentences, with those that stand alone, four spaces in."""
    alone = re.findall(r"^ {4,}(costguard .*)$", text, re.MULTILINE)
    return [" ".join(one.partition("  #")[0].split()) for one in [*re.findall(r"`(costguard [^`]+)`", text), *alone]]


def _in_block(block: str) -> list[str]:
    lines = [line.strip() for line in re.sub(r"\\\n\s*", "", block).splitlines() if line.strip()]
    if any(line.startswith("[") for line in lines):  # a part of a settings file
        return []
    unknown = {line.split()[0] for line in lines} - PROGRAMS
    assert not unknown, f"a block of commands begins with {unknown}: say here what that program is"
    return [" ".join(line.partition("  #")[0].split()) for line in lines]


def test_every_printed_command_is_part_of_the_journey() -> None:
    """A new one has to be run below, or to say why it cannot be; and nothing is run that no document prints."""
    printed = {command for document in DOCUMENTS for command in commands_of(document.read_text("utf-8"))}
    run = {step.command for step in JOURNEY} | {_WATCHED, _SERVED, *NAMED}
    elsewhere = {command for command in printed if command.startswith(tuple(ELSEWHERE))}
    assert printed - run - elsewhere == set()
    assert run - printed == set()
    assert [begin for begin in ELSEWHERE if not any(command.startswith(begin) for command in printed)] == []


def test_a_newcomer_gets_what_the_documents_say(tmp_path: Path, typist: Typist) -> None:
    """Each command as printed, in the environment that the demo prints, JOB standing for the demo's own job.

    Meanwhile the demo plays the whole product.
    """
    with demo(tmp_path, "--steps", "3000") as process:
        seen = read_until(process, "export COSTGUARD_URL")
        printed = dict(part.split("=", 1) for part in seen.rpartition("export ")[2].split())
        (cloud,) = set(re.findall(r"(http://\S+)/slack", seen))
        newcomer = Newcomer(tmp_path / "bert", {**printed, "HOME": str(tmp_path)}, typist, cloud)
        with reading(process, signal.SIGTERM) as lines:
            with (
                newcomer.watching(_WATCHED, "debug-ana"),
                newcomer.watching("costguard launch t4 --workdir . --follow -- python train.py", "succeeded"),
            ):
                failed = []
                lines.until("launched a training")
                for step in JOURNEY:
                    if step.is_about_the_job:
                        lines.until("It prints: step")
                    failed += newcomer.does(step)
            assert failed == [], "".join(lines.seen[-30:])
            DemoStory(printed, cloud).is_told()
            lines.until("The tool `fleet` answered: ")
            with newcomer.watching(_SERVED, "Costguard is at http://127.0.0.1:"):
                pass
            for command in NAMED:
                assert newcomer.types(f"{command} --help").returncode == 0


@dataclass
class Lines:
    """The lines that a process has printed so far."""

    seen: list[str] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def until(self, wanted: str) -> None:
        with self.news:
            assert self.news.wait_for(lambda: any(wanted in line for line in self.seen), PATIENCE_S), "".join(self.seen)


@contextmanager
def reading(process: subprocess.Popen[str], ending: signal.Signals) -> Iterator[Lines]:
    """Reads on in a thread, so that the process never waits for a reader. Ends the process with the block."""
    lines = Lines()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with lines.news:
                lines.seen.append(line)
                lines.news.notify_all()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lines
    finally:
        process.send_signal(ending)
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            reader.join()


class Newcomer:
    """Someone with the demo's printed line in their shell, in a folder with a script."""

    def __init__(self, folder: Path, environ: Mapping[str, str], typist: Typist, cloud: str) -> None:
        folder.mkdir()
        (folder / "train.py").write_text("print('step 1 loss 2.0')\n")
        (folder / "pyproject.toml").write_text("[project]\nname = 'bert'\nversion = '1'\n")
        (folder / "job.toml").write_text('preset = "a100"\ncommand = "python train.py"\nceiling = 300\n')
        self._folder, self._typist, self._cloud = folder, typist, cloud
        self._pause = threading.Event()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
        self._environ = {**clean, **environ}
        self._after: Mapping[str, Callable[[], None]] = {"costguard init --project PROJECT": self._let_any_port_do}

    def does(self, step: Step) -> list[str]:
        """Returns what was not as it should be. Where a step waits, it is typed again each second, as people do."""
        for _ in range(int(PATIENCE_S) if step.waits else 1):
            done = self.types(step.command)
            self._after.get(step.command, lambda: None)()
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
        """A project stands for PROJECT, and the demo's cloud for Google."""
        words = shlex.split(_OF_THE_JOB.sub(JOB, command).replace("PROJECT", "acme-training"))[1:]
        return [*words, "--endpoint", self._cloud] if words[0] == "init" else words

    def _let_any_port_do(self) -> None:
        with (self._folder / "costguard.toml").open("a") as file:
            file.write('[server]\nlisten = "127.0.0.1:0"\n')
