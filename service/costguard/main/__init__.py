"""The composition root: builds everything from settings, and passes it in."""

from costguard.main.guard import Guard, opened
from costguard.main.serve import daemon_of, serve

__all__ = ["Guard", "daemon_of", "opened", "serve"]
