"""Scripts that the VMs of the tests run. Each waits for a file in its working directory instead of sleeping."""

from __future__ import annotations

WAIT = """
import os, pathlib, signal, sys, time
def wait(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.01)
"""

# Saves on SIGTERM, as a training script should.
SAVES = f"""{WAIT}
def save(*_):
    print("saving", flush=True)
    wait("may-save")
    pathlib.Path("checkpoint").write_text("step 7")
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
print("step 7")
wait("never")
"""

IGNORES = f"""{WAIT}
signal.signal(signal.SIGTERM, lambda *_: print("not yet"))
print("ready")
wait("never")
"""

COUNTS = f"""{WAIT}
with open("starts", "a") as file:
    file.write("started\\n")
print("step", os.environ["COSTGUARD_RUN"])
wait("go")
print("finished")
"""
