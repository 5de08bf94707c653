"""`costguard stop`, `keep`, `claim` and `disown`: what people ask of a VM."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any

import typer

from costguard.cli import complete
from costguard.cli.client import Server
from costguard.cli.finding import the_vm
from costguard.cli.format import clean_lines
from costguard.cli.options import DEFAULT_URL, AsJson, Me, Project, Url, print_json
from costguard.errors import CostguardError, ServerUnreachable
from costguard.ledger.narrate import sentence

_PATIENCE = 150  # looks, a second apart: a pass comes at least every minute in most settings
_KEEP_EXAMPLES = """Examples:

  costguard keep trainer-3                             until tomorrow morning, where you are

  costguard keep trainer-3 --hours 6 --reason "sweep"  for six hours more
"""

Vm = Annotated[
    str,
    typer.Argument(metavar="VM", help="Its name, or Google's numeric id.", autocompletion=complete.vms),
]
Why = Annotated[str, typer.Option("--reason", help="For whoever reads it later.")]
Wait = Annotated[bool, typer.Option("--wait", help="Until it is carried out or refused; exits 1 when it is refused.")]


# What is asked without more ado, what its help says, and how it is typed.
_PLAIN = {
    "stop": (
        "Stop a VM. One that works on a job has the job cancelled; disks stay, and bill.",
        "costguard stop trainer-3 --reason 'done for today' --wait",
    ),
    "claim": (
        "Say that a VM is yours: what it costs from now on counts for you, and you are asked about it.",
        "costguard claim trainer-3",
    ),
    "disown": (
        "Say that a VM is not its owner's: its team is asked about it from now on.",
        "costguard disown trainer-3 --reason 'not of my team'",
    ),
}


def register(app: typer.Typer) -> None:
    for verb, (told, example) in _PLAIN.items():
        app.command(verb, help=told, epilog=f"Example:  {example}")(_plain(verb))
    app.command("keep", epilog=_KEEP_EXAMPLES)(keep)


def _plain(verb: str) -> Callable[..., None]:
    def asked(
        vm: Vm,
        project: Project = None,
        reason: Why = "",
        wait: Wait = False,
        owner: Me = "",
        url: Url = DEFAULT_URL,
        as_json: AsJson = False,
    ) -> None:
        _ask(verb, Server(url), vm, project, {"reason": reason, "by": owner}, wait, as_json)

    return asked


def keep(
    vm: Vm,
    hours: Annotated[int | None, typer.Option("--hours", min=1, help="Else until tomorrow morning.")] = None,
    project: Project = None,
    reason: Why = "",
    wait: Wait = False,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Keep a VM: nobody is asked about it for so long, and no rule stops it."""
    _ask("keep", Server(url), vm, project, {"reason": reason, "by": owner, "hours": hours}, wait, as_json)


def _ask(
    verb: str,
    server: Server,
    vm: str,
    projects: list[str] | None,
    body: dict[str, Any],
    wait: bool,
    as_json: bool,
) -> None:
    found = the_vm(server, vm, projects, gone=False)
    given = {name: value for name, value in body.items() if value not in (None, "")}
    # The run that was looked at is the one that is meant.
    seen = {"started_at": found["started_at"]} if verb in ("stop", "keep") and found["started_at"] else {}
    key = secrets.token_hex(16)
    answer = server.post("instances", found["project"], found["gce_id"], verb, body={**given, **seen}, key=key)
    if wait:
        pause = threading.Event()
        answer = follow(server, answer, _tell, lambda: pause.wait(1))
    if as_json:
        print_json(answer)
    elif answer["request"]["status"] == "open":
        _print(f"Asked to {verb} {found['name']}; the next pass looks at it. {_id(answer)}")
    else:
        _print(f"{sentence(answer['request']['outcome'])} {_id(answer)}")
    if answer["request"]["status"] == "refused":
        raise typer.Exit(1)


def follow(
    server: Server, answer: dict[str, Any], tell: Callable[[str], None], pause: Callable[[], object]
) -> dict[str, Any]:
    """Until a pass has settled it. Raises CostguardError when none does in time; a server may be away meanwhile."""
    tell(f"Asked to {answer['request']['asked']} {answer['request']['name']}; waiting for the next pass.")
    for _ in range(_PATIENCE):
        if answer["request"]["status"] != "open":
            return answer
        pause()
        try:
            answer = server.get("requests", str(answer["request"]["id"]))
        except ServerUnreachable:
            continue  # what was asked for is stored
    raise CostguardError(
        f"No pass has looked at request {answer['request']['id']} yet; it stays open.",
        "`costguard facts` tells what becomes of it, and /readyz whether a daemon runs.",
    )


def _id(answer: dict[str, Any]) -> str:
    return f"(request {answer['request']['id']})"


def _tell(text: str) -> None:
    print(clean_lines(text), file=sys.stderr, flush=True)


def _print(text: str) -> None:
    print(clean_lines(text))
