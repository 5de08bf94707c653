"""The steps around a command, in their order: what is on the VM before it starts, and what is brought away at its end.

A step of BEFORE_COMMAND may replace `stage.settings`, add to `stage.arguments` and `stage.environment`; it raises
NotStarted, Trouble or TransferFailed where the command cannot be started. A step of AFTER_SUCCESS runs when the command
ended by itself with code 0, before the exit is reported, and may change the report; a step of BEFORE_EXIT runs after
every end. All must bear to be run again after the agent was killed.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from .code import put_code
from .inputs import fetch_inputs
from .outputs import check_outputs, publish_outputs
from .preparation import Stage

BeforeCommand = Callable[[Stage], None]
AfterCommand = Callable[[Stage, Dict[str, Any]], None]


def download_checkpoint(stage: Stage) -> None:
    """What the run resumes from, where checkpoints travel."""
    if stage.checkpoint is not None:
        stage.checkpoint(stage)


BEFORE_COMMAND: tuple[BeforeCommand, ...] = (check_outputs, fetch_inputs, put_code, download_checkpoint)
AFTER_SUCCESS: tuple[AfterCommand, ...] = (publish_outputs,)
BEFORE_EXIT: tuple[AfterCommand, ...] = ()  # the rest of the log


def prepare_stage(stage: Stage) -> None:
    for step in BEFORE_COMMAND:
        stage.wait(0)
        step(stage)


def finish_stage(stage: Stage, ended: dict[str, Any], is_success: bool) -> None:
    """`ended` is the report of the command's end, which steps may change."""
    for step in (*(AFTER_SUCCESS if is_success else ()), *BEFORE_EXIT):
        step(stage, ended)
