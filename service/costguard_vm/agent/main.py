"""The agent as a process."""

from __future__ import annotations

import os
import signal
import sys
import threading

from .attempt import AgentAttempt
from .calls import Metadata
from .claim import claimed_settings
from .failures import Trouble, patiently
from .files import PACE, lock, make_folder, say
from .settings import AgentPaths, NotStarted, at_pace, read_settings


def main() -> int:
    """0 where there is nothing more to do on this VM; with another code, systemd starts the agent again."""
    os.umask(0o077)
    names = ("metadata", "home", "logs", "volumes")
    given = {
        name: os.environ[f"COSTGUARD_{name.upper()}"] for name in names if f"COSTGUARD_{name.upper()}" in os.environ
    }
    places = AgentPaths(**given)
    make_folder(places.home)
    if lock(os.path.join(places.home, "agent.lock")) is None:
        say("another agent already runs here")
        return 0
    metadata, wait = Metadata(places.metadata), threading.Event().wait

    def attribute(name: str) -> str:
        return patiently(lambda: metadata.get(f"instance/attributes/{name}")[0], wait, 0, 1)

    try:
        shared = attribute("costguard-attempt")
        claimed = claimed_settings(shared, metadata, places.home, wait)
        text, token = claimed if claimed is not None else (shared, attribute("costguard-token").strip())
        settings, wrong = read_settings(text)
        attempt = AgentAttempt(at_pace(settings, PACE), token, metadata, places)
    except (Trouble, NotStarted, ValueError) as problem:
        say(f"nothing to do on this VM: {problem}")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, attempt.end)
    if attempt.work(wrong):
        os.execv(sys.executable, [sys.executable, "-I", os.path.abspath(sys.argv[0])])  # noqa: S606  itself
    return 0
