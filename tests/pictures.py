"""Pictures of every kind of message, as people see it: `python -m tests.pictures`, with a headless browser."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.browser import found
from tests.palette import with_palette
from tests.slack.samples import NOW, SAMPLES

from costguard.model.delivery.message import Content, EphemeralContent, ListContent, ReminderContent, VmCard
from costguard.model.reminder import Target
from costguard.slack.client import SlackNotifier
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

FOLDER = Path(__file__).parents[1] / "deploy" / "pictures"
MOST_BYTES = 60_000
_WIDTH, _TALLEST = 720, 3000
_MEASURE = (
    "<script>document.documentElement.dataset.height ="
    " Math.ceil(document.querySelector('article').getBoundingClientRect().bottom)</script>"
)


def main() -> int:
    browser = found.browser()
    if browser is None:
        print(found.missing())
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    world = World(ManualClock(NOW))
    world.slack.limits.enforced = False
    too_large = []
    with running(world) as url:
        notifier = SlackNotifier(BOT_TOKEN, f"{url}/slack/api/")
        for name, sample in SAMPLES.items():
            picture = FOLDER / f"slack-{name}.png"
            photograph(browser, f"{url}/slack/message?{urlencode(sent(notifier, world.slack, sample))}", picture)
            size = picture.stat().st_size
            print(f"{picture.relative_to(FOLDER.parents[1])}  {size:,} bytes")
            if size > MOST_BYTES:
                too_large.append(name)
    if too_large:
        print(f"Larger than {MOST_BYTES:,} bytes: {', '.join(too_large)}.")
    return 1 if too_large else 0


def sent(notifier: SlackNotifier, slack: Workspace, sample: Content | ListContent) -> dict[str, str]:
    """Sends through the real client to the workspace; returns where it stands, and for whom."""
    content = known(slack, sample)
    viewer, channel = slack.user("ana"), "#gpu-costs"
    if isinstance(content, ReminderContent) and content.target is not Target.CHANNEL:
        viewer = slack.user("chiara" if content.target is Target.CONTACT else content.card.owner or "ana")
        channel = notifier.open_direct(viewer.id)
    if isinstance(content, EphemeralContent | ListContent):
        # Lists are answers to a command; the client sends them all the same.
        notifier.post_ephemeral(channel, viewer.id, cast("Content", content))
    else:
        notifier.post(channel, content, "picture")
    message = slack.messages(channel, ephemeral=True)[-1]
    return {"viewer": viewer.id, "channel": message.channel, "ts": message.ts}


def known(slack: Workspace, sample: Content | ListContent) -> Content | ListContent:
    """Returns the content with the owners' ids in this workspace."""

    def placed(card: VmCard) -> VmCard:
        return replace(card, owner_id=slack.user(card.owner).id) if card.owner_id else card

    match sample:
        case ReminderContent():
            return replace(sample, card=placed(sample.card))
        case ListContent():
            return replace(sample, cards=tuple((placed(card), buttons, text) for card, buttons, text in sample.cards))
    return sample


def photograph(browser: str, address: str, picture: Path) -> None:
    """Exactly as tall as the message: a first look, with the style written into the page, measures it."""
    with urlopen(address, timeout=30) as answer:
        page = answer.read().decode()
    with urlopen(re.sub(r"/slack/.*", "/slack/static/style.css", address), timeout=30) as answer:
        style = answer.read().decode()
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "page.html"
        local.write_text(re.sub("<link[^>]*>", lambda _: f"<style>{style}</style>", page) + _MEASURE)
        seen = subprocess.run(
            [browser, *found.OPTIONS, f"--window-size={_WIDTH},{_TALLEST}", "--dump-dom", local.as_uri()],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    height = re.search(r'data-height="(\d+)"', seen.stdout)
    assert height, seen.stdout[:500] + seen.stderr
    size = f"--window-size={_WIDTH},{height[1]}"
    subprocess.run([browser, *found.OPTIONS, size, f"--screenshot={picture}", address], capture_output=True, check=True)
    picture.write_bytes(with_palette(picture.read_bytes()))


if __name__ == "__main__":
    sys.exit(main())
