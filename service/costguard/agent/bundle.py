"""The agent as the one file that travels to a VM: `python3 agent.pyz`."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

STAYS = {"bundle.py"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources make the same file
# Ended at once: Python aborts where a thread is still saying something as it ends.
START = b"""import os, sys
if sys.argv[1:2] == ["run"]:
    from costguard_agent.runner import main
else:
    from costguard_agent.main import main
code = main()
sys.stdout.flush()
os._exit(code)
"""


def bundle() -> bytes:
    """A zip that Python runs as it is, made of the sources in this folder."""
    files = {"__main__.py": START}
    for source in sorted(Path(__file__).parent.glob("*.py")):
        if source.name not in STAYS:
            files[f"costguard_agent/{source.name}"] = source.read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
