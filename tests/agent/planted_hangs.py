"""Trainings that print steps and then hang, in one of five ways, with what real programs hang in.

What each stands for: two threads that wait for each other's lock; a read that never returns, as from a dead file
server; a loader whose worker was killed while its parent waits for the next batch; ranks of which one never arrives at
a barrier; and a loop that never ends.
"""

from __future__ import annotations

KINDS = ("deadlock", "fifo", "worker", "collective", "loop")

_STEPS = """
import os, signal, sys, threading, time
for step in range(1, {steps} + 1):
    until = time.process_time() + {work}
    while time.process_time() < until:
        pass
    time.sleep({pause})
    print('step', step, flush=True)
"""

_HANGS = {
    "deadlock": """
first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(2)
def take(one, other):
    with one:
        both.wait()
        other.acquire()
threading.Thread(target=take, args=(first, second), daemon=True).start()
take(second, first)
""",
    "fifo": """
os.mkfifo('pipe')
open('pipe').read()
""",
    "worker": """
import multiprocessing
def load(batches):
    os.kill(os.getpid(), signal.SIGKILL)
fork = multiprocessing.get_context('fork')
batches = fork.Queue()
worker = fork.Process(target=load, args=(batches,))
worker.start()
batches.get()
""",
    "collective": """
import multiprocessing
def rank(barrier, is_late):
    if is_late:
        threading.Event().wait()
    barrier.wait()
fork = multiprocessing.get_context('fork')
barrier = fork.Barrier(4)
ranks = [fork.Process(target=rank, args=(barrier, number == 3)) for number in range(4)]
for one in ranks:
    one.start()
for one in ranks:
    one.join()
""",
    "loop": """
while True:
    pass
""",
}


def planted(kind: str, steps: int = 8, work: float = 0.01, pause: float = 0.1) -> str:
    """Each step takes `work` seconds of a processor, and then waits for `pause` seconds."""
    return _STEPS.format(steps=steps, work=work, pause=pause) + _HANGS[kind]
