"""`costguard stop`, `keep`, `claim` and `disown`: requests about one VM."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any

import typer

from costguard.cli.fleet import find_vm
from costguard.cli.options import DEFAULT_URL, AsJson, Me, Project, Reason, Url, Vm, print_json
from costguard.cli.server import ServerClient
from costguard.cli.tables import clean_lines
from costguard.errors import CostguardError, ServerUnreachable
from costguard.ledger.narrate import sentence

_MOST_POLLS = 150  # a second apart: most settings have a pass at least every minute
_KEEP_EXAMPLES = """Examples:

  costguard keep trainer-3                             until tomorrow morning, in your time zone

  costguard keep trainer-3 --hours 6 --reason "sweep"  for six more hours
"""

Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done or refused; exits 1 when it is refused.")]

# Requests that need no options of their own: the help and the example of each.
_PLAIN = {
    "stop": (
        "Stop a VM; if it runs a job, the job is cancelled. Its disks stay, and bill. Of what Vertex AI runs, a custom "
        "job is cancelled, a Colab runtime stopped and a model undeployed.",
        "costguard stop trainer-3 --reason 'done for today' --wait",
    ),
    "claim": (
        "Claim a VM or other resource: from now on its cost counts as yours, and you get its reminders.",
        "costguard claim trainer-3",
    ),
    "disown": (
        "Say that you do not own a VM or other resource: from now on its team gets its reminders.",
        "costguard disown trainer-3 --reason 'not of my team'",
    ),
}


def register(app: typer.Typer) -> None:
    for verb, (summary, example) in _PLAIN.items():
        app.command(verb, help=summary, epilog=f"Example:  {example}")(_plain(verb))
    app.command("keep", epilog=_KEEP_EXAMPLES)(keep)


def _plain(verb: str) -> Callable[..., None]:
    def command(
        vm: Vm,
        project: Project = None,
        reason: Reason = "",
        wait: Wait = False,
        owner: Me = "",
        url: Url = DEFAULT_URL,
        as_json: AsJson = False,
    ) -> None:
        _request(verb, ServerClient(url), vm, project, {"reason": reason, "by": owner}, wait, as_json)

    return command


def keep(
    vm: Vm,
    hours: Annotated[
        int | None,
        typer.Option("--hours", metavar="HOURS", min=1, help="Hours to keep it. Default: until tomorrow morning."),
    ] = None,
    project: Project = None,
    reason: Reason = "",
    wait: Wait = False,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Keep a VM or other resource for a while: no reminder is sent about it, and no rule stops it."""
    _request("keep", ServerClient(url), vm, project, {"reason": reason, "by": owner, "hours": hours}, wait, as_json)


def _request(
    verb: str,
    server: ServerClient,
    vm: str,
    projects: list[str] | None,
    body: dict[str, Any],
    wait: bool,
    as_json: bool,
) -> None:
    instance = find_vm(server, vm, projects, gone=False)
    given = {name: value for name, value in body.items() if value not in (None, "")}
    # The request is for the lifetime that was shown, not for one that starts meanwhile.
    started = {"started_at": instance["started_at"]} if instance["started_at"] else {}
    seen = started if verb in ("stop", "keep") else {}
    key = secrets.token_hex(16)
    answer = server.post("instances", instance["project"], instance["gce_id"], verb, body={**given, **seen}, key=key)
    if wait:
        pause = threading.Event()
        answer = follow(server, answer, _tell, lambda: pause.wait(1))
    if as_json:
        print_json(answer)
    elif answer["request"]["status"] == "open":
        _print(f"Requested: {verb} {instance['name']}. The next pass decides on it. {_id(answer)}")
    else:
        _print(f"{sentence(answer['request']['outcome'])} {_id(answer)}")
    if answer["request"]["status"] == "refused":
        raise typer.Exit(1)


def follow(
    server: ServerClient, answer: dict[str, Any], tell: Callable[[str], None], pause: Callable[[], object]
) -> dict[str, Any]:
    """Waits until a pass has settled the request, also while the server restarts.

    Raises CostguardError where no pass settles it in time.
    """
    tell(f"Requested: {answer['request']['kind']} {answer['request']['name']}. Waiting for the next pass.")
    for _ in range(_MOST_POLLS):
        if answer["request"]["status"] != "open":
            return answer
        pause()
        try:
            answer = server.get("requests", str(answer["request"]["id"]))
        except ServerUnreachable:
            continue  # the request is stored
    raise CostguardError(
        f"No pass has handled request {answer['request']['id']} yet; it stays open.",
        "`costguard events` shows what becomes of it, and /readyz whether a daemon runs.",
    )


def _id(answer: dict[str, Any]) -> str:
    return f"(request {answer['request']['id']})"


def _tell(text: str) -> None:
    print(clean_lines(text), file=sys.stderr, flush=True)


def _print(text: str) -> None:
    print(clean_lines(text))
