"""A headless browser of this machine; `python -m tests.browser.found` installs one where it may."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Nothing is asked of the network, and no other user of the machine is kept out: it sees the tests' own pages alone.
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_PACKAGE = NAMES[0]
_LONGEST_S = 300


def browser(which: Callable[[str], str | None] = shutil.which) -> str | None:
    """COSTGUARD_TEST_BROWSER names one that is not on the PATH."""
    return os.environ.get("COSTGUARD_TEST_BROWSER") or next((path for name in NAMES if (path := which(name))), None)


def missing() -> str:
    return (
        f"No browser is here, which pages are tested with; install one of {', '.join(NAMES)}"
        f" (on Debian: apt-get install {_PACKAGE}), or name one in COSTGUARD_TEST_BROWSER."
    )


def main() -> int:
    """Never fails: what cannot be tested without a browser says so itself."""
    if browser() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing a browser for the tests (once)...", flush=True)
        _install()
    if browser() is None:
        print(missing())
    return 0


def _install() -> None:
    install = ("install", "--yes", "--no-install-recommends", _PACKAGE, "fonts-dejavu-core")
    for command in (install, ("update",), install):
        done = subprocess.run(
            ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={_LONGEST_S}", *command],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if browser() is not None:
            return
    print(done.stderr.strip())


if __name__ == "__main__":
    sys.exit(main())
