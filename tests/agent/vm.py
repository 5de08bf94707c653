"""A VM for one test: a folder, a metadata server, and the real agent as a process.

With `loaded`, the agent is a process that has loaded its modules before.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.agent.fake_guard import PATIENCE_S, FakeGuard
from tests.agent.fake_metadata import FakeMetadata
from tests.agent.loaded_agents import LoadedAgent, LoadedAgents
from tests.agent.s3_server import QUICK_START
from tests.transfer_priority import put_chrt

ATTEMPT = "nightly-7f3a-1"


class Vm:
    def __init__(
        self, folder: Path, agent: Path, metadata: FakeMetadata, guard: FakeGuard, loaded: LoadedAgents | None = None
    ) -> None:
        self.folder, self._agent, self.metadata, self._guard, self._loaded = folder, agent, metadata, guard, loaded
        self.tools = put_chrt(folder / "bin")
        self.home, self.logs = folder / "home", folder / "logs"
        self.work = folder / "work"
        self.volatile = folder / "volatile"
        self.spoken = folder / "agent.log"
        self.agents: list[subprocess.Popen[bytes] | LoadedAgent] = []
        self._reboots = 0
        self.attempt = ATTEMPT
        self.pace = ""  # of the fleet's clock, in a simulated cloud
        self.path = f"{self.tools}:/usr/bin:/bin"

    def order(self, *command: str, **more: Any) -> None:
        """Puts an attempt into the metadata, with all waiting cut down to hundredths of a second."""
        document = {
            "attempt": self.attempt,
            "guard": self._guard.url,
            "command": list(command),
            "workdir": str(self.work),
            "secret_manager": self.metadata.secret_manager,
            "heartbeat_s": 0.1,
            "poll_s": 0.03,
            "retry_s": 0.02,
            "retry_most_s": 0.1,
            "notice_grace_s": 20.0,
            "cancel_grace_s": 20.0,
            **more,
        }
        self.metadata.set("instance/attributes/costguard-attempt", json.dumps(document))
        self.metadata.set("instance/attributes/costguard-token", self._guard.token)

    def train(self, script: str, **more: Any) -> None:
        self.order(sys.executable, "-u", "-c", script, **more)

    def boot(self) -> subprocess.Popen[bytes] | LoadedAgent:
        """Starts the agent, as the boot script does."""
        environment = {
            "PATH": self.path,
            "COSTGUARD_METADATA": self.metadata.url,
            "COSTGUARD_HOME": str(self.home),
            "COSTGUARD_LOGS": str(self.logs),
            "COSTGUARD_VOLATILE": str(self.volatile),
            "COSTGUARD_PACE": self.pace,
            **QUICK_START,
            **({"COSTGUARD_BOOT_ID": f"after-{self._reboots}"} if self._reboots else {}),
        }
        self.agents.append(self._started(environment))
        return self.agents[-1]

    def _started(self, environment: dict[str, str]) -> subprocess.Popen[bytes] | LoadedAgent:
        if self._loaded is not None and not self.pace:  # which the modules read while they are loaded
            return self._loaded.start(environment, self.spoken)
        with self.spoken.open("ab") as spoken:
            return subprocess.Popen(
                [sys.executable, "-I", str(self._agent)], stdout=spoken, stderr=spoken, cwd="/", env=environment
            )

    def finished(self) -> int:
        """The last agent's exit code, once it has nothing left to do."""
        return self.agents[-1].wait(PATIENCE_S)

    def crash(self) -> None:
        self.agents[-1].kill()
        self.agents[-1].wait(PATIENCE_S)

    def reboot(self) -> None:
        """Reboots as after a power cut: nothing of it runs any more, and the next boot has an id of its own."""
        self.crash()
        run = max(self.run_folders())
        command = json.loads((run / "command.json").read_text())["pid"]
        os.killpg(command, signal.SIGKILL)
        if (container := self.tools / "container").exists():  # of docker_stub: its output would be waited for
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(container.read_text()), signal.SIGKILL)
        exit_file = run / "exit.json"
        wait_until_unlocked(run / "lock")
        exit_file.unlink()
        self._reboots += 1

    def restart(self) -> subprocess.Popen[bytes] | LoadedAgent:
        """Restarts a VM that was stopped, with its disk: nothing of it runs any more."""
        self.finished()
        self._reboots += 1
        return self.boot()

    def run_folders(self) -> list[Path]:
        return list((self.home / "attempts" / self.attempt / "runs").iterdir())

    def output(self, run: int = 1) -> str:
        return (self.logs / f"{self.attempt}.{run}.log").read_text()

    def tool(self, name: str, script: str) -> None:
        """Puts a program of ours into the VM's PATH."""
        path = self.tools / name
        path.write_text(f"#!{sys.executable}\n{script}")
        path.chmod(0o755)

    def close(self) -> None:
        """Ends what is left of the agents, their runners and their commands."""
        for agent in self.agents:
            agent.kill()
            agent.wait(PATIENCE_S)
        for run in self.run_folders() if (self.home / "attempts").exists() else []:
            while not is_unlocked(run / "lock"):  # a runner that has only just begun tells its command later
                if (run / "command.json").exists():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(json.loads((run / "command.json").read_text())["pid"], signal.SIGKILL)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_until_unlocked(path: Path) -> None:
    """Waits until the process that holds the lock has ended."""
    subprocess.run(["flock", str(path), "true"], timeout=PATIENCE_S, check=True)


def is_unlocked(path: Path) -> bool:
    return (
        subprocess.run(["flock", "--wait", "0.1", str(path), "true"], timeout=PATIENCE_S, check=False).returncode == 0
    )
