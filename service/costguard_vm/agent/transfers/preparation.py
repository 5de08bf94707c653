"""The context of the steps around a command: the command's secrets, transfers, and the attempt's folders."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from costguard_vm.agent.calls import HttpCalls, Metadata, fetch_secrets
from costguard_vm.agent.containers import Image
from costguard_vm.agent.failures import patiently
from costguard_vm.agent.processes import Gentle
from costguard_vm.agent.settings import AttemptSettings

from .phases import Phases
from .tool import ToolFinder
from .transfer import Transfer, Wait

SECRET_TRIES = 6


class CommandSecrets:
    """The command's secrets, read once, and transfers that use them. Safe for several threads."""

    def __init__(self, settings: AttemptSettings, metadata: Metadata, folder: str, tool: ToolFinder) -> None:
        self._settings, self.metadata, self._folder, self._tool = settings, metadata, folder, tool
        self._lock = threading.Lock()
        self._secrets: dict[str, str] | None = None
        self._transfer: Transfer | None = None

    def secrets(self, wait: Wait) -> Mapping[str, str]:
        """The secrets by variable. Raises NotStarted or Trouble."""
        with self._lock:
            if self._secrets is None:
                settings, http = self._settings, HttpCalls()
                self._secrets = patiently(
                    lambda: fetch_secrets(settings, self.metadata, http), wait, SECRET_TRIES, settings.retry_s
                )
            return self._secrets

    def transfer(self, wait: Wait, is_gentle: Gentle = False) -> Transfer:
        """Returns the transfer for copies to and from buckets.

        Raises NotStarted or Trouble where the secrets cannot be read.
        """
        secrets = self.secrets(wait)
        with self._lock:
            if self._transfer is None:
                environment = {**self._settings.environment, **secrets}
                self._transfer = Transfer(
                    self._settings, environment, self._folder, wait, self.metadata, self._tool.path
                )
            return self._transfer.waiting(wait, is_gentle)


class StageFolders(NamedTuple):
    """The folders of a run. `attempt` stays for later runs on this VM; `run` is this run's.

    `volumes` is the folder below which the paths of a simulated VM lie; "" on a real one. `log` is a file.
    """

    attempt: str
    run: str
    volumes: str = ""
    log: str = ""


class StageCalls(NamedTuple):
    """The ways of a step to the guard. `token` is the attempt's; `checkpoint` brings the checkpoint to resume from.

    `stand_by` returns once the command may begin, with what the guard said; None where nothing is waited for.
    """

    token: str = ""
    checkpoint: Callable[[Stage], None] | None = None
    stand_by: Callable[[], Mapping[str, Any]] | None = None


class Stage:
    """The context of a step. Steps run at once: each changes only what no other one reads.

    `wait` pauses, and raises where the command is not wanted any more. `send` reports an event of the run.
    """

    def __init__(
        self,
        settings: AttemptSettings,
        run: int,
        folders: StageFolders,
        wait: Wait,
        credentials: CommandSecrets,
        send: Callable[..., None],
        phases: Phases,
        calls: StageCalls = StageCalls(),
    ) -> None:
        self.settings, self.run, self.wait, self.send = settings, run, wait, send
        self.folder, self.run_folder, self.volumes, self.log = folders
        self.token, self.checkpoint, self.stand_by = calls
        self.phases, self._credentials = phases, credentials
        self.go: Mapping[str, Any] = {}  # what the guard said when it let a VM that stood by begin
        self.reach_peers: Callable[[], None] | None = None  # in a job of several VMs
        self.launched_by: Callable[[list[str]], list[str]] = list  # gives the command what its launcher needs
        self.arguments: list[str] = []  # added to the command
        self.environment: dict[str, str] = {}  # of the command, in addition to the settings'
        self.changes: dict[str, Any] = {}  # of the settings, for the command
        self.image: Image | None = None

    @property
    def metadata(self) -> Metadata:
        return self._credentials.metadata

    @property
    def secrets(self) -> Mapping[str, str]:
        """Raises NotStarted or Trouble where they cannot be read."""
        return self._credentials.secrets(self.wait)

    @property
    def transfer(self) -> Transfer:
        return self._credentials.transfer(self.wait)
