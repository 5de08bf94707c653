"""Records stacks of real trainings, slow and sound, by the agent's own sampler: `python -m tests.profile.record`.

It needs an interpreter with PyTorch, pandas, Pillow, lmdb and NumPy (`--python`), and py-spy; some twenty minutes.
Each training runs alone; four seconds after its third step come four windows of three seconds, one second apart. What
it writes, `tests/profile/recorded/NAME.json.gz`, are the windows as an agent sends them, and the versions.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from costguard_vm.agent.watch.profile_watch import take_window
from costguard_vm.profile.window import as_bounded_json

RECORDED = Path(__file__).parent / "recorded"
TRAININGS = Path(__file__).parent / "trainings"
WINDOWS, SPAN_S, PAUSE_S, WARM_UP_S = 4, 3, 1.0, 4.0
_LIBRARIES = ("torch", "pandas", "numpy", "PIL")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    RECORDED.mkdir(exist_ok=True)
    versions = _versions(arguments.python)
    for kind in ("slow", "sound", "second"):
        for name in _said(arguments.python, f"{kind}.py").split():
            if not arguments.only or name in arguments.only:
                record(arguments.python, kind, name, versions)


def _versions(python: str) -> dict[str, str]:
    code = f"import json, sys, {', '.join(_LIBRARIES)}; names = {_LIBRARIES}; "
    code += "print(json.dumps({'Python': sys.version.split()[0], **{n: sys.modules[n].__version__ for n in names}}))"
    versions: dict[str, str] = json.loads(_said(python, "-c", code))
    return versions


def record(python: str, kind: str, name: str, versions: dict[str, str]) -> None:
    nap = threading.Event()
    py_spy = shutil.which("py-spy") or str(Path(sys.executable).parent / "py-spy")
    with tempfile.TemporaryDirectory() as folder:
        command, began = [python, str(TRAININGS / f"{kind}.py"), name, folder], Path(folder) / "began"
        environment = {**os.environ, "TRAINING_BEGAN": str(began)}
        with subprocess.Popen(command, cwd=TRAININGS, env=environment, start_new_session=True) as training:
            try:
                while not began.exists() and training.poll() is None:
                    nap.wait(0.5)
                nap.wait(WARM_UP_S)
                windows = []
                for _ in range(WINDOWS):
                    windows.append(as_bounded_json(take_window(py_spy, training.pid, f"{folder}/looks", SPAN_S)))
                    nap.wait(PAUSE_S)
                assert training.poll() is None, f"{name} ended by itself"
            finally:
                os.killpg(training.pid, signal.SIGKILL)
    document = {"kind": kind, "name": name, "versions": versions, "windows": windows}
    path = RECORDED / f"{name}.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))
    print(f"{kind:>5} {name:<24} {path.stat().st_size:>7,} bytes, {windows[0].get('error', '')}", flush=True)


def _said(*command: str) -> str:
    return subprocess.run(command, cwd=TRAININGS, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
