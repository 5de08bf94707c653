"""The steps around a command: what is on the VM before it starts, and what is brought away after it has ended.

One list each, in order. A step of BEFORE_COMMAND may replace `stage.settings`, add to `stage.arguments` and
`stage.environment`; it raises NotStarted, Trouble or TransferFailed where the command cannot be started. A step of
AFTER_SUCCESS runs when the command ended by itself with code 0, before the exit is reported, and may change the report;
a step of BEFORE_EXIT runs after every end. All must bear to be run again after the agent was killed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Callable, Dict

from .calls import HttpCalls, Metadata, fetch_secrets, patiently
from .settings import AttemptSettings
from .tool import RcloneFinder
from .transfer import Transfer, Wait

SECRET_TRIES = 6


class CommandSecrets:
    """The command's secrets, read once, and transfers that use them. Safe for several threads."""

    def __init__(self, settings: AttemptSettings, metadata: Metadata, folder: str, tool: RcloneFinder) -> None:
        self._settings, self._metadata, self._folder, self._tool = settings, metadata, folder, tool
        self._lock = threading.Lock()
        self._secrets: dict[str, str] | None = None
        self._transfer: Transfer | None = None

    def secrets(self, wait: Wait) -> Mapping[str, str]:
        """The secrets by variable. Raises NotStarted or Trouble."""
        with self._lock:
            if self._secrets is None:
                settings, http = self._settings, HttpCalls()
                self._secrets = patiently(
                    lambda: fetch_secrets(settings, self._metadata, http), wait, SECRET_TRIES, settings.retry_s
                )
            return self._secrets

    def transfer(self, wait: Wait, is_gentle: bool = True) -> Transfer:
        """For copies to and from buckets. Raises NotStarted or Trouble where the secrets cannot be read."""
        secrets = self.secrets(wait)
        with self._lock:
            if self._transfer is None:
                environment = {**self._settings.environment, **secrets}
                self._transfer = Transfer(
                    self._settings, environment, self._folder, wait, self._metadata, self._tool.path
                )
            return self._transfer.waiting(wait, is_gentle)


class Stage:
    """What a step works with.

    `folder` is the attempt's, which stays for later runs on this VM; `run_folder` is this run's. `wait` pauses, and
    raises where the command is not wanted any more. `send` reports an event of the run. `volumes` is the folder below
    which the paths of a simulated VM lie; "" on a real one.
    """

    def __init__(
        self,
        settings: AttemptSettings,
        run: int,
        folder: str,
        run_folder: str,
        wait: Wait,
        credentials: CommandSecrets,
        send: Callable[..., None],
        volumes: str = "",
        log: str = "",
        checkpoint: Callable[[Stage], None] | None = None,
    ) -> None:
        self.settings, self.run, self.folder, self.run_folder = settings, run, folder, run_folder
        self.wait, self.send, self.volumes, self.log = wait, send, volumes, log
        self._credentials, self.checkpoint = credentials, checkpoint
        self.arguments: list[str] = []  # added to the command
        self.environment: dict[str, str] = {}  # of the command, in addition to the settings'

    @property
    def transfer(self) -> Transfer:
        return self._credentials.transfer(self.wait)


BeforeCommand = Callable[[Stage], None]
AfterCommand = Callable[[Stage, Dict[str, Any]], None]


def download_checkpoint(stage: Stage) -> None:
    """What the run resumes from, where checkpoints travel."""
    if stage.checkpoint is not None:
        stage.checkpoint(stage)


BEFORE_COMMAND: tuple[BeforeCommand, ...] = (download_checkpoint,)  # after data, code, setup
AFTER_SUCCESS: tuple[AfterCommand, ...] = ()  # outputs
BEFORE_EXIT: tuple[AfterCommand, ...] = ()  # the rest of the log


def prepare_stage(stage: Stage) -> None:
    for step in BEFORE_COMMAND:
        stage.wait(0)
        step(stage)


def finish_stage(stage: Stage, ended: dict[str, Any], is_success: bool) -> None:
    """`ended` is the report of the command's end, which steps may change."""
    for step in (*(AFTER_SUCCESS if is_success else ()), *BEFORE_EXIT):
        step(stage, ended)
