"""Trainings with a planted fault in what they do on SIGTERM, or in how they resume."""

from __future__ import annotations

FIRST_SAVE = 20
# Trains step by step, saves now and then, and resumes from the folder that `--from` names. On SIGTERM it does what
# the variable FAULT says. A checkpoint is a folder with weights and, written last, a marker.
TRAINER = """
import os, pathlib, signal, sys, threading, time
fault, run = os.environ["FAULT"], int(os.environ["COSTGUARD_RUN"])
saved = pathlib.Path(os.environ["SAVED"])
step = int(sys.argv[2].rpartition("-")[2]) if len(sys.argv) > 2 else 0
wanted = []
signal.signal(signal.SIGTERM, lambda *_: wanted.append(1) if not wanted else print("twice", flush=True))
def save(step, place=saved, is_whole=True):
    folder = place / f"step-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_bytes(b"w" * 1000)
    if is_whole:
        (folder / "DONE").touch()
if run > 1 and fault == "crashes on resume" and step > first_save:
    sys.exit(9)
if run > 1 and fault == "resumes from zero":
    step = 0
while True:
    if wanted:
        if fault == "saves too late":
            time.sleep(1)
        while fault == "waits for the word" and not (saved / "word").exists():
            time.sleep(0.01)
        if fault in ("exits at once", "never saves"):
            sys.exit(0)
        if fault == "ignores the notice":
            wanted.clear()
            continue
        if fault == "tears its checkpoint":
            save(step, is_whole=False)
        elif fault == "one rank deadlocks":
            save(step, is_whole=False)
            threading.Event().wait()
        elif fault == "saves elsewhere":
            save(step, saved.parent / "elsewhere")
        elif fault == "saves an old state":
            save(first_save - 1)
        else:
            save(step)
        sys.exit(3 if fault == "exits with a code" else 0)
    step += 1
    print("step", step, flush=True)
    if step == first_save and fault != "never saves":
        save(step)
    time.sleep(0.02)
""".replace("first_save", str(FIRST_SAVE))
