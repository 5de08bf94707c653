"""The check that the VMs of a gang reach each other, before any of their commands starts.

Each VM asks every other one at two ports, that of the rendezvous and a high one, since launchers take ports of their
own: a rule that lets one through is not enough. Both sides prove by the round's secret that they belong to the job: a
stranger at the port is no member. A VM has passed when it reached all others and all have reached it,
so that nobody waits for an answer any more; at the high port it goes on answering, for an agent that was killed and
asks again.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import threading
import time
from typing import Any, Callable, NamedTuple, Sequence

# Above the ports that Linux gives to outgoing connections: ip_local_port_range is 32768 to 60999
# (kernel.org, Documentation/networking/ip-sysctl.rst).
HIGH_PORT = 61400
CONNECT_S = 3.0
AGAIN_S = 0.5
MOST_BYTES = 4096
SILENT, REFUSED, STRANGER = "no answer", "the connection is refused", "something that is no member of this job answers"


class Unreached(NamedTuple):
    """A VM that did not answer another one as a member does. `why` is SILENT, REFUSED or STRANGER."""

    node: int
    address: str
    port: int
    why: str


class PeerCheck:
    """Checks one VM's connections in one round. `ports` are the rendezvous port and the high one."""

    def __init__(self, round_: int, node: int, addresses: Sequence[str], secret: str, ports: Sequence[int]) -> None:
        self._round, self._node, self._addresses, self._ports = round_, node, addresses, tuple(ports)
        self._secret = secret.encode()
        self._others = [other for other in range(len(addresses)) if other != node]
        self._arrived: set[tuple[int, int]] = set()  # the others that reached this VM, by node and port
        self._reached: set[tuple[int, int]] = set()
        self._passed: set[int] = set()  # the others that need nothing more of this VM
        self._problems: dict[tuple[int, int], str] = {}
        self._listeners: dict[int, socket.socket] = {}
        self._has_passed = False
        self._over = threading.Event()

    def run(self, wait: Callable[[float], object], limit_s: float) -> list[Unreached]:
        """Returns what was not reached in `limit_s`; empty where all is well. Raises OSError, and what `wait` raises.

        OSError: a port of this VM is not free.
        """
        latest = time.monotonic() + limit_s
        try:
            while not self._listen():
                if time.monotonic() > latest:
                    for port in self._ports:
                        self._bind(port)
                wait(AGAIN_S)
            for other in self._others:
                threading.Thread(target=self._ask_until_over, args=(other,), daemon=True).start()
            while not self._is_complete() and time.monotonic() <= latest:
                wait(min(AGAIN_S, 0.1))
            self._has_passed = self._is_complete()
        finally:
            self._over.set()
            self.close(self._ports[0])
            if not self._has_passed:
                self.close(self._ports[1])
        return [] if self._has_passed else self._unreached()

    def close(self, port: int) -> None:
        """Ends listening at a port."""
        listener = self._listeners.pop(port, None)
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes its thread
            listener.close()

    def _is_complete(self) -> bool:
        both = {(other, port) for other in self._others if other not in self._passed for port in self._ports}
        return both <= self._arrived and both <= self._reached

    def _unreached(self) -> list[Unreached]:
        missing = [
            (other, port)
            for other in self._others
            for port in self._ports
            if (other, port) not in self._reached and other not in self._passed
        ]
        return [
            Unreached(at, self._addresses[at], port, self._problems.get((at, port)) or SILENT) for at, port in missing
        ]

    def _listen(self) -> bool:
        """Says whether it listens at both ports: what ended just now may still hold one."""
        for port in self._ports:
            try:
                self._bind(port)
            except OSError:
                return False
        return True

    def _bind(self, port: int) -> None:
        if port in self._listeners:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._addresses[self._node], port))
            listener.listen(64)
        except OSError as problem:
            listener.close()
            raise OSError(f"port {port} of this VM cannot be used: {problem.strerror}") from None
        self._listeners[port] = listener
        threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()

    def _accept(self, listener: socket.socket, port: int) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self._answer, args=(connection, port), daemon=True).start()

    def _answer(self, connection: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError), connection:
            connection.settimeout(CONNECT_S)
            lines = connection.makefile("rb")
            nonce, passed = os.urandom(16).hex(), self._has_passed
            question = json.loads(lines.readline(MOST_BYTES))["nonce"]
            proof = self._proof("answer", self._node, port, question, passed)
            _write(connection, {"node": self._node, "nonce": nonce, "has_passed": passed, "proof": proof})
            hello = json.loads(lines.readline(MOST_BYTES))
            if _is_same(hello["proof"], self._proof("hello", hello["node"], port, nonce, False)):
                self._arrived.add((hello["node"], port))
                _write(connection, {"ok": True})

    def _ask_until_over(self, other: int) -> None:
        """The high port first, and again each time: a VM that has passed says so there, and its command may be at the
        other one already. It may have passed although its last answer was lost.
        """
        while not self._over.is_set() and other not in self._passed:
            for port in reversed(self._ports):
                if other not in self._passed:
                    problem = self._ask(other, port)
                    if not problem:
                        self._reached.add((other, port))
                    if self._problems.get((other, port)) != STRANGER:  # which ends before this one, and then refuses
                        self._problems[other, port] = problem
            if {(other, port) for port in self._ports} <= self._reached:
                return
            self._over.wait(AGAIN_S)

    def _ask(self, other: int, port: int) -> str:
        """Returns "" where the member was reached, and has taken this one's name."""
        nonce = os.urandom(16).hex()
        try:
            with socket.create_connection((self._addresses[other], port), CONNECT_S) as connection:
                lines = connection.makefile("rb")
                _write(connection, {"nonce": nonce})
                said = json.loads(lines.readline(MOST_BYTES))
                proof = self._proof("answer", other, port, nonce, said["has_passed"])
                if said["node"] != other or not _is_same(said["proof"], proof):
                    return STRANGER
                if said["has_passed"]:
                    self._passed.add(other)
                _write(
                    connection,
                    {"node": self._node, "proof": self._proof("hello", self._node, port, said["nonce"], False)},
                )
                return "" if json.loads(lines.readline(MOST_BYTES)).get("ok") else STRANGER
        except socket.timeout:
            return SILENT
        except ConnectionError:
            return REFUSED
        except OSError:  # no route
            return SILENT
        except (ValueError, KeyError, TypeError, AttributeError):
            return STRANGER

    def _proof(self, what: str, node: int, port: int, nonce: str, passed: bool) -> str:
        text = json.dumps([what, self._round, node, port, nonce, passed])
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


def _write(connection: socket.socket, document: dict[str, Any]) -> None:
    connection.sendall(json.dumps(document).encode() + b"\n")


def _is_same(said: object, proof: str) -> bool:
    return isinstance(said, str) and hmac.compare_digest(said.encode(), proof.encode())
