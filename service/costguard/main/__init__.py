"""The composition root: builds everything from settings, and passes it in.

Members are imported when they are first used: a command that needs one part starts without loading all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costguard.main.guard import Guard, opened
    from costguard.main.local_access import first_link
    from costguard.main.serve import daemon_of, service
    from costguard.processes.web_process import start_web_processes

__all__ = ["Guard", "daemon_of", "first_link", "opened", "service", "start_web_processes"]
_HOMES = {
    "Guard": "costguard.main.guard",
    "daemon_of": "costguard.main.serve",
    "first_link": "costguard.main.local_access",
    "opened": "costguard.main.guard",
    "service": "costguard.main.serve",
    "start_web_processes": "costguard.processes.web_process",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    member = getattr(import_module(_HOMES[name]), name)
    globals()[name] = member  # else the module of this name, now loaded, would stand where the function is expected
    return member
