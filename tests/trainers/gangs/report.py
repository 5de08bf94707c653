"""The gangs' part of `service/docs/trainers.md`, which `python -m tests.trainers gangs` writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from tests.trainers.gangs.verdicts import GangTally
from tests.trainers.report import PAGE, versions

HEAD = "## Gangs, killed"
_NAMES = ("torch", "accelerate", "lightning", "orbax-checkpoint", "jax", "deepspeed")
_HEADS = ("Gang", "Kills", "Right", "Nothing to resume from", "Newer ones passed over", "Parts named", "Wrong")
_ABOUT = """A job of several VMs has a checkpoint once every rank's part of it is there. Real processes with what
`torchrun` gives them train and save together, over gloo: each node into a folder of its own, or all into one. A rank, a
node or all are killed by SIGKILL within a save, and the others go on for up to 0.3 s before they are killed too. The
product's judge looks at the folders of all nodes, and the framework loads what they hold together, in as many
processes, newest first."""
_COLUMNS = """Right: no step that the judge calls complete fails to load or gives a rank other values than it saved,
and no newer one that all ranks reported as saved was passed over. Newer ones passed over: saves that were begun and do
not load. Parts named: the judge named files that are missing or torn; elsewhere rank 0's last file or a rename showed
it."""


def rows(tallies: Sequence[GangTally]) -> list[tuple[str, ...]]:
    """A row a gang, and the sum."""
    made = [(one.kind.title, one.kills, one.right, one.nothing, one.torn, one.named, len(one.wrong)) for one in tallies]
    total = ("All", *(sum(int(row[at]) for row in made) for at in range(1, len(_HEADS))))
    return [tuple(str(cell) for cell in row) for row in (*made, total)]


def section(tallies: Sequence[GangTally], seed: int, today: date) -> str:
    """Returns the part in Markdown, from its heading on."""
    measured = ", ".join(f"{name} {version}" for name, version in versions(_NAMES).items())
    early = sum(one.early for one in tallies)
    count = "No step loads" if not early else "1 step loads" if early == 1 else f"{early} steps load"
    return "\n".join(
        [
            HEAD,
            "",
            _ABOUT,
            "",
            f"Measured on {today:%-d %B %Y} with seed {seed}: {measured}, on CPU.",
            "",
            "| " + " | ".join(_HEADS) + " |",
            "|---|" + "--:|" * (len(_HEADS) - 1),
            *("| " + " | ".join(row) + " |" for row in rows(tallies)),
            "",
            _COLUMNS,
            f"{count} that not every rank had reported as saved and that the judge did not count yet.",
            "",
        ]
    )


def write(text: str) -> None:
    """Puts the part into the page, in the place of the one before."""
    page = PAGE.read_text()
    before = page.partition(f"\n{HEAD}\n")[0].rstrip("\n")
    PAGE.write_text(f"{before}\n\n{text}")


def kept(page: str) -> str:
    """The gangs' part of the page as it is, to be kept when the rest is written; "" where there is none."""
    match = re.search(rf"^{HEAD}\n.*", page, re.MULTILINE | re.DOTALL)
    return f"\n{match[0]}" if match else ""
