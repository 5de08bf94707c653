"""The steps around a command: what is on the VM before it starts, and what is brought away at its end.

Those of BEFORE_COMMAND run at once, each as soon as those that it comes after have ended. A step may add to
`stage.changes`, `stage.arguments` and `stage.environment`; it raises NotStarted, Trouble or TransferFailed where the
command cannot be started. A step of AFTER_SUCCESS runs when the command ended by itself with code 0, before the exit is
reported, and may change the report, and one of AFTER_FLAT where it was ended because its metric stood still; a step of
BEFORE_EXIT runs after every end. All must bear to be run again after the agent was killed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Dict, NamedTuple, Tuple

from .checkpoints import on_the_vm
from .containers import AUTH_VARIABLE, pull_image
from .runner import config_of
from .settings import FLAT, AttemptSettings, NotStarted, Unwanted
from .transfers.code import put_code
from .transfers.inputs import fetch_inputs
from .transfers.outputs import check_outputs, publish_outputs
from .transfers.preparation import Stage
from .transfers.result import check_result, publish_result
from .watch.usage import gpus

LOOK_S = 0.5  # until a step that waits sees that another one failed

BeforeCommand = Callable[[Stage], None]
AfterCommand = Callable[[Stage, Dict[str, Any]], None]


class StepBefore(NamedTuple):
    """`after` names the steps that must have ended before this one begins."""

    work: BeforeCommand
    after: Tuple[str, ...] = ()  # noqa: UP006  evaluated by Python 3.8


def wait_for_gpus(stage: Stage) -> None:
    """Their drivers are installed at the first boot."""
    settings, latest = stage.settings, time.monotonic() + stage.settings.gpu_wait_s
    while settings.gpus > len(gpus() or []):
        if time.monotonic() > latest:
            raise NotStarted(f"this VM should have {settings.gpus} GPUs, and nvidia-smi shows {len(gpus() or [])}")
        stage.wait(4 * settings.poll_s)


def read_secrets(stage: Stage) -> None:
    """Once, for all steps that copy or pull."""
    _ = stage.secrets


def pull(stage: Stage) -> None:
    settings = stage.settings
    if not settings.image:
        return
    registries = stage.secrets.get(AUTH_VARIABLE, "")
    folder = stage.folder
    stage.image = pull_image(settings, folder, config_of(folder), stage.metadata, stage.wait, registries)
    stage.send("image", image=settings.image, digest=stage.image.digest)


def download_checkpoint(stage: Stage) -> None:
    """Downloads the checkpoint that the run resumes from, where checkpoints travel."""
    if stage.checkpoint is not None:
        stage.checkpoint(stage)


def reach_peers(stage: Stage) -> None:
    """The VMs of one job reach each other, before any of them begins."""
    if stage.reach_peers is not None:
        stage.reach_peers()


# The check of the outputs removes what an earlier attempt left there, which may be below an input's address.
BEFORE_COMMAND: Mapping[str, StepBefore] = {
    "gpus": StepBefore(wait_for_gpus),
    "code": StepBefore(put_code),
    "secrets": StepBefore(read_secrets),
    "image": StepBefore(pull, ("secrets",)),
    "outputs": StepBefore(check_outputs, ("secrets",)),
    "result": StepBefore(check_result, ("secrets",)),
    "inputs": StepBefore(fetch_inputs, ("outputs",)),
    "checkpoint": StepBefore(download_checkpoint, ("outputs",)),
    "peers": StepBefore(reach_peers),
}
AFTER_SUCCESS: tuple[AfterCommand, ...] = (publish_outputs, publish_result)
AFTER_FLAT: tuple[AfterCommand, ...] = (publish_result,)
BEFORE_EXIT: tuple[AfterCommand, ...] = ()  # the rest of the log


# While another VM of the job trains, nothing is touched where that one writes.
AFTER_GO = ("outputs", "result", "checkpoint", "peers")


def prepare_stage(stage: Stage) -> None:
    steps = dict(BEFORE_COMMAND)
    if _is_checkpoint_among_inputs(stage):  # it goes over them, as a base model is replaced by what was made of it
        steps["checkpoint"] = StepBefore(download_checkpoint, ("inputs",))
    if stage.stand_by is None:
        run_together(steps, stage)
        return
    later = (*AFTER_GO, "inputs") if _are_outputs_among_inputs(stage.settings) else AFTER_GO
    run_together(_only(steps, [name for name in steps if name not in later]), stage)
    stage.go = stage.stand_by()
    stage.arguments += stage.go.get("arguments", [])
    run_together(_only(steps, later), stage)


def _only(steps: Mapping[str, StepBefore], names: Sequence[str]) -> dict[str, StepBefore]:
    return {name: StepBefore(steps[name].work, tuple(set(steps[name].after) & set(names))) for name in names}


def _are_outputs_among_inputs(settings: AttemptSettings) -> bool:
    """Says whether the VM that still trains may publish below an address that is downloaded."""
    sources = [f"{source.rstrip('/')}/" for source in settings.inputs.values()]
    return any(f"{output.rstrip('/')}/".startswith(source) for output in settings.outputs for source in sources)


def run_together(steps: Mapping[str, StepBefore], stage: Stage) -> None:
    """Returns when all have ended. The first failure ends the others where they next wait, and is raised.

    No thread of a step is left: what is raised here may be reported as the end, and nothing writes after it.
    """
    hold = stage.wait
    failures: list[BaseException] = []
    ended = {name: threading.Event() for name in steps}

    def wait(seconds: float) -> None:
        latest = time.monotonic() + seconds
        while True:
            if failures:
                raise Unwanted("another step before the command failed")
            left = latest - time.monotonic()
            hold(max(0.0, min(left, LOOK_S)))
            if left <= LOOK_S:
                return

    def run(name: str, step: StepBefore) -> None:
        try:
            for earlier in step.after:
                ended[earlier].wait()
            wait(0)
            step.work(stage)
        except BaseException as problem:  # raised below; of the others, what they met because of the first is not
            failures.append(problem)
        finally:
            ended[name].set()

    stage.wait = wait
    threads = [threading.Thread(target=run, args=one, name=one[0], daemon=True) for one in steps.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # a signal that comes just before a wait without an end is handled after it
            thread.join(LOOK_S)
    stage.wait = hold
    if failures:
        raise failures[0]


def _is_checkpoint_among_inputs(stage: Stage) -> bool:
    """Says whether an input is downloaded into the folder of checkpoints, or a folder above it."""
    settings = stage.settings
    local = settings.checkpoint.get("local", "")
    if not local:
        return False
    saved, *places = (os.path.realpath(on_the_vm(settings, path, stage.volumes)) for path in (local, *settings.inputs))
    return any(os.path.commonpath([saved, place]) in (saved, place) for place in places)


def finish_stage(stage: Stage, ended: dict[str, Any], why: str) -> None:
    """`ended` is the report of the command's end, which steps may change; `why` says why it had to stop, if it had.

    A command that was ended because its metric stood still has saved its result. Its outputs are taken for whole only
    where it then ended with code 0. One that ended by itself is a success only once all is published: a VM that ends
    before that was lost, whatever the code of its command.
    """
    is_whole = _is_whole(ended)
    steps = AFTER_SUCCESS if is_whole and why in ("", FLAT) else AFTER_FLAT if why == FLAT else ()
    for step in (*steps, *BEFORE_EXIT):
        step(stage, ended)
    if is_whole and not why:
        ended["asked"] = None


def succeeds_already(settings: AttemptSettings, ended: Mapping[str, Any], why: str) -> bool:
    """Says whether a command that ended with code 0 by itself is a success at once, as nothing is to be published."""
    return _is_whole(ended) and not why and not (settings.outputs or settings.publish)


def _is_whole(ended: Mapping[str, Any]) -> bool:
    return ended.get("reason") == "exited" and ended.get("code") == 0
