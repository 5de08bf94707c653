"""The composition root: builds everything from settings, and passes it in.

What stands here is loaded when it is first used: a command that needs one part alone starts without the weight of all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costguard.main.access import sign_in_link
    from costguard.main.guard import Guard, opened
    from costguard.main.serve import daemon_of, serve

__all__ = ["Guard", "daemon_of", "opened", "serve", "sign_in_link"]
_HOMES = {
    "Guard": "guard",
    "daemon_of": "serve",
    "opened": "guard",
    "serve": "serve",
    "sign_in_link": "access",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found  # else the module `serve`, now loaded, would stand where the function is expected
    return found
