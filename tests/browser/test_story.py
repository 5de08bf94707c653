"""The demo, read and acted on from its pages: the real program, its simulated cloud, and a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.watching import picture, watched
from tests.forked_guard import ForkedProgram, begin
from tests.sandbox.guest.served_vms import processes_of

import costguard_sandbox

PATIENCE_S = 90.0
SCENARIO = str(Path(costguard_sandbox.__file__).with_name("scenarios") / "demo.toml")
UNCLAIMED = "instance-20261118-041207"
PATIENCE_MS = PATIENCE_S * 1000
COMMAND = "python3 -u -c 'import time; [print(\"step\", n) or time.sleep(1) for n in range(1000)]'"


@dataclass
class Demo:
    """The running program and what it printed so far."""

    process: ForkedProgram
    printed: list[str] = field(default_factory=list)
    _more: threading.Condition = field(default_factory=threading.Condition)

    def read(self) -> None:
        for line in self.process.stdout:
            with self._more:
                self.printed.append(line)
                self._more.notify_all()

    def find(self, pattern: str) -> str:
        """Returns the match of the group, as soon as it is printed."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, "".join(self.printed))

        with self._more:
            assert self._more.wait_for(found, PATIENCE_S), "".join(self.printed)
            match = found()
        assert match is not None
        return match[1]

    def vm(self, project: str, zone: str, name: str) -> Any:
        """Returns the VM as Google would tell it."""
        cloud = self.find(r"Slack as people see it: (http://[0-9.:]+)/slack")
        with urlopen(f"{cloud}/compute/v1/projects/{project}/zones/{zone}/instances/{name}", timeout=30) as answer:
            return json.load(answer)


@contextmanager
def demo(folder: Path) -> Iterator[Demo]:
    """Runs the demo in a process of its own; Ctrl-C ends it, and nothing that it started is left.

    By its file, the scenario has the fleet's story and one job: tests/cli/test_journey.py plays the others.
    """
    options = ["--listen", "127.0.0.1:0", "--scenario", SCENARIO]
    process = begin(["demo", *options], {**os.environ, "TMPDIR": str(folder)}, folder)
    running = Demo(process)
    reader = threading.Thread(target=running.read)
    reader.start()
    try:
        yield running
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()
    assert processes_of(folder) == []


def test_the_demos_story_is_read_and_acted_on(context: BrowserContext, tmp_path: Path) -> None:
    """A VM is stopped, another kept, a job launched and cancelled; what Google is asked is what was pressed."""
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    with demo(tmp_path) as program:
        link = program.find(r"Open it in a browser: (\S+)")
        with watched(context, link.partition("/sign-in")[0]) as page:
            page.goto(link)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_load_state("load")  # a link that is pressed before the scripts are there leads to a page
            _stop(page, program)
            _keep(page)
            _launch(page)
            _cancel(page)


def _stop(page: Page, program: Demo) -> None:
    """Two GPUs that nobody answers for: Google is asked within seconds, and the page comes to say so by itself."""
    row = page.get_by_role("row").filter(has_text=UNCLAIMED)
    expect(row).to_contain_text("unowned")
    row.get_by_role("link", name="Stop").click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text(f"Stop {UNCLAIMED}?")
    picture(page, "story-stop")
    sheet.get_by_label("Why").fill("nobody knows it")
    sheet.get_by_role("button", name="Stop it").click()
    expect(sheet).to_be_hidden()
    expect(row).to_contain_text("stopped")
    assert program.vm("acme-research", "us-east1-c", UNCLAIMED)["status"] == "TERMINATED"


def _keep(page: Page) -> None:
    row = page.get_by_role("row").filter(has_text="debug-ana")
    row.locator("summary").click()
    row.get_by_role("link", name="Keep").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Why").fill("a lecture tomorrow")
    sheet.get_by_role("button", name="Keep it").click()
    expect(sheet).to_be_hidden()
    expect(row).to_contain_text("kept until")


def _launch(page: Page) -> None:
    """The quote comes while one types; the job's page tells when its command runs, and what it prints."""
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.locator("main")).to_contain_text("train-moons")
    page.get_by_role("link", name=re.compile("Launch")).first.click()
    page.get_by_role("radio", name=re.compile("^t4")).check()
    page.get_by_label(re.compile("^Project")).select_option("acme-training")
    page.get_by_label(re.compile("^Command")).fill(COMMAND)
    page.get_by_label(re.compile("^Ceiling")).fill("20")
    quote = page.get_by_role("region", name="Estimated cost")
    expect(quote).to_contain_text("an hour")
    picture(page, "story-launch")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_load_state("load")
    expect(page.locator("#job-name")).to_contain_text("running")
    expect(page.locator("#output")).to_contain_text("step 3")


def _cancel(page: Page) -> None:
    page.get_by_role("link", name="Cancel").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Why").fill("enough was seen")
    sheet.get_by_role("button", name="Cancel the job").click()
    expect(sheet).to_be_hidden()
    expect(page.locator("#job-name")).to_contain_text("cancelled")
    picture(page, "story-cancelled")
