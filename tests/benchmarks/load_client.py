"""Ten thousand agents and two hundred dashboards, in one light process: `poll` and sockets, no library.

On its standard input is one JSON object, on its standard output another; see `Load` and `Seen`.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from datetime import UTC, datetime
from heapq import heapify, heapreplace
from typing import Literal, TypedDict

_SHUT = select.EPOLLERR | select.EPOLLHUP
_LONGEST_S = 60.0  # without an answer
# Reports are numbered from here: none is far ahead of what was accepted before.
_BEGAN = datetime.now(UTC).timestamp() - 60  # noqa: TID251 - real VMs' clocks
_OUTPUT = [f"epoch 3 | step {step} | loss 0.0123 | lr 0.0001 | 812 samples/s, 41 ms a batch" for step in range(20)]


class Load(TypedDict):
    """`agents` are names and tokens of attempts. Each reports once in `every_s`; `dashboards` are header, address and
    seconds between two refreshes of one open page, as the page itself asks for them."""

    port: int
    agents: list[tuple[str, str]]
    every_s: float
    dashboards: list[tuple[str, str, float]]
    seconds: float


class Seen(TypedDict):
    """Seconds from the moment when a request was due to its whole answer, which must be right; `errors` by what was
    wrong, `failed_in` by the 10 s in which they came; `late` is how far behind its own plan this process was at most,
    `cpu` its own."""

    reports: list[float]
    pages: list[float]
    health: list[float]
    errors: dict[str, int]
    failed_in: dict[str, int]
    late: float
    cpu: float
    took: float


class _Call:
    """A caller, who is due again and again: `AGENT` opens a connection for each report, as the agent does."""

    kind: Literal["reports", "pages", "health"] = "pages"

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.due = 0.0  # of the request that is under way
        self.socket: socket.socket | None = None
        self.is_waiting = self.is_kept = False  # kept: its connection has carried an answer before
        self.left = b""
        self.got = bytearray()
        self.length = -1  # of the whole answer; -1: its head has not come

    def request(self) -> bytes:
        raise NotImplementedError

    def wrong(self, status: int, body: bytes) -> str:
        """Returns what is wrong with the answer; "" where nothing is."""
        return "" if status in (200, 304) else str(status)


class _Agent(_Call):
    """Every second report brings a minute's signals and points of its curves as well, half of them at a time."""

    kind = "reports"

    def __init__(self, name: str, token: str, every_s: float, number: int) -> None:
        super().__init__(every_s)
        self._head = (
            f"POST /api/v1/attempts/{name}/events HTTP/1.1\r\nHost: guard\r\nAccept-Encoding: identity\r\n"
            f"User-Agent: Python-urllib/3.11\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            "Connection: close\r\nContent-Length: "
        ).encode()
        self._number, self._seq, self._step = number, 0, 1000 + number % 997

    def request(self) -> bytes:
        now = datetime.now(UTC)  # noqa: TID251 - real VMs' clocks
        self._step += 37
        self._seq = seq = int(now.timestamp() - _BEGAN) * 4 + 3
        at = now.isoformat()
        busy = 0.5 + seq % 50 / 100
        values = (at, seq - 2, at, self._step, at, busy, 4 << 30, seq % 1000, busy, at, self._step, self._step)
        body = _HEARTBEAT % values
        if (seq // 4 // round(self.every_s) + self._number) % 2:
            body += _MINUTE % (seq - 1, at, seq, at, at, self._step)
        body += "]}"
        return self._head + f"{len(body)}\r\n\r\n{body}".encode()

    def wrong(self, status: int, body: bytes) -> str:
        if status != 200:
            return f"report {status}"
        answer = json.loads(body)
        if answer["cancel"]:
            return "report cancelled"
        return "" if self._seq - 2 <= answer["accepted_through"] <= self._seq else "report not accepted"


# What the agent sends of a training that prints, on a VM with one GPU: 4 KB, and 2 KB more every minute.
_MACHINE = (
    '{"cpu": %f, "cpus": 8, "memory_used_bytes": %d, "memory_total_bytes": 31000000000, "disk_free_bytes": 70000000000,'
    ' "disk_total_bytes": 100000000000, "disk_mount": "/", "disk_read_bytes_per_s": %d, "disk_written_bytes_per_s": 0,'
    ' "network_in_bytes_per_s": 51234, "network_out_bytes_per_s": 1234, "gpus": [{"index": 0, "uuid":'
    ' "GPU-1d2c3b4a-0000-1111-2222-333344445555", "name": "Tesla T4", "utilisation": %f, "memory_used_bytes":'
    ' 12000000000, "memory_total_bytes": 15843721216}]}'
)
_HEARTBEAT = (
    '{"sent_at": "%s", "events": [{"seq": %d, "kind": "heartbeat", "at": "%s", "run": 1, "is_running": true,'
    ' "step": %d, "step_at": "%s", "machine": '
    + _MACHINE
    + ', "output": '
    + json.dumps(_OUTPUT).replace("%", "%%")
    + ', "progress": {"read_at": "%s", "phase": "train", "step": %d, "total": 900000, "epoch": 3, "epoch_total": 10,'
    ' "loss": "0.0123", "unit": "step", "done": %d, "of": 900000, "steps_per_s": 1.2345}}'
)
_MINUTE = (
    ', {"seq": %d, "kind": "activity", "at": "%s", "run": 1, "minute": {"seconds": 60.01, "looks": 60, "gpus":'
    ' [{"number": 0, "uuid": "GPU-1d2c3b4a-0000-1111-2222-333344445555", "name": "Tesla T4", "kernel_active": 0.95,'
    ' "samples": 350, "off": 0.01, "longest_off_s": 0.4, "off_stretches": 3, "memory_used_bytes": 12000000000,'
    ' "memory_total_bytes": 15843721216, "copy_active": 0.4, "power_w": 66.5, "power_limit_w": 70, "temperature_c": 61,'
    ' "sm_clock_mhz": 1200, "sm_clock_most_mhz": 1590, "clock_reasons": {"sw_power_cap": 0.5}, "processes": 1}],'
    ' "command": {"processes": 9, "threads": 61, "cpu": 3.2, "ranks": 1, "main_cpu": 0.9, "main_queue": 0.01,'
    ' "main_running": 0.9, "main_asleep": 0.1, "main_in_d": 0.0, "other_cpu": 0.2, "workers": 8, "workers_cpu": 2.2,'
    ' "workers_busiest": 0.4, "workers_in_d": 0.0, "queue": 0.1, "in_d": 0.0, "read_bytes_per_s": 12345678,'
    ' "disk_read_bytes_per_s": 0, "written_bytes_per_s": 2345, "memory_bytes": 9000000000}, "host": {"cpus": 8,'
    ' "cpu": 3.6, "io_wait": 0.0, "steal": 0.0, "memory_used_bytes": 9800000000, "memory_total_bytes": 31000000000,'
    ' "cpu_some": 0.02, "io_some": 0.0, "io_full": 0.0, "memory_some": 0.0, "memory_full": 0.0}, "agent_cpu": 0.004,'
    ' "agent_memory_bytes": 24000000}}, {"seq": %d, "kind": "progress", "at": "%s", "run": 1, "points": [{"at": "%s",'
    ' "unit": "step", "done": %d, "phase": "train", "loss": 0.0123}]}'
)


class _Dashboard(_Call):
    def __init__(self, who: str, address: str, every_s: float) -> None:
        super().__init__(every_s)
        lines = [f"GET {address} HTTP/1.1", "Host: guard", who, "Accept: text/html", "Accept-Encoding: gzip"]
        self._request = "\r\n".join([*lines, "HX-Request: true", "", ""]).encode()

    def request(self) -> bytes:
        return self._request


class _Health(_Call):
    kind = "health"

    def request(self) -> bytes:
        return b"GET /healthz HTTP/1.1\r\nHost: guard\r\nConnection: close\r\n\r\n"


class _Crowd:
    def __init__(self, load: Load, seen: Seen) -> None:
        self._load, self._seen = load, seen
        self._poll = select.epoll()
        self._open: dict[int, _Call] = {}
        self._begun = 0.0

    def run(self) -> None:
        begun = self._begun = time.monotonic()
        calls = self._callers()
        plan = []
        for number, call in enumerate(calls):
            # Spread over their time, and in another order than their names'.
            plan.append((begun + 1 + number * 0.6180339887 % 1 * call.every_s, number))
        heapify(plan)
        ends = begun + 1 + self._load["seconds"]
        checked = begun
        while True:
            now = time.monotonic()
            if now >= ends and (not self._waiting() or now >= ends + _LONGEST_S):
                break
            while plan[0][0] <= now < ends:
                due, number = plan[0]
                heapreplace(plan, (due + calls[number].every_s, number))
                self._seen["late"] = max(self._seen["late"], now - due)
                self._begin(calls[number], due)
            wait = min(0.05, max(0.0, plan[0][0] - now)) if now < ends else 0.05
            for descriptor, event in self._poll.poll(wait, 4096):
                if (ready := self._open.get(descriptor)) is not None:
                    self._go_on(ready, event)
            if now - checked > 1:
                checked = now
                for call in [call for call in self._open.values() if call.is_waiting and now - call.due > _LONGEST_S]:
                    self._over(call, "no answer in time")
        self._seen["took"] = time.monotonic() - begun - 1
        for call in self._open.values():
            if call.is_waiting:
                self._error(f"{call.kind}: no answer by the end")

    def _callers(self) -> list[_Call]:
        load = self._load
        agents = [_Agent(*agent, load["every_s"], number) for number, agent in enumerate(load["agents"])]
        return [*agents, *(_Dashboard(*dashboard) for dashboard in load["dashboards"]), _Health(1.0)]

    def _waiting(self) -> bool:
        return any(call.is_waiting for call in self._open.values())

    def _begin(self, call: _Call, due: float) -> None:
        if call.is_waiting:  # a page drops a refresh while the last is under way; an agent sends the next afterwards
            if call.kind == "reports":
                self._error("report behind the one before")
            return
        call.due, call.is_waiting, call.left, call.length = due, True, call.request(), -1
        call.got.clear()
        if call.socket is None:
            self._connect(call)
        self._write(call)

    def _connect(self, call: _Call) -> None:
        call.socket = socket.socket()
        call.socket.setblocking(False)
        call.socket.connect_ex(("127.0.0.1", self._load["port"]))
        self._open[call.socket.fileno()] = call
        self._poll.register(call.socket, select.EPOLLIN)

    def _write(self, call: _Call) -> None:
        assert call.socket is not None
        try:
            sent = call.socket.send(call.left)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._over(call, f"not sent: {error.strerror}")
            return
        call.left = call.left[sent:]
        self._poll.modify(call.socket, select.EPOLLIN | (select.EPOLLOUT if call.left else 0))

    def _go_on(self, call: _Call, event: int) -> None:
        assert call.socket is not None
        if event & select.EPOLLOUT and call.left:
            self._write(call)
        if not event & (select.EPOLLIN | _SHUT):
            return
        try:
            data = call.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            self._over(call, f"lost: {error.strerror}")
            return
        if not data:
            self._over(call, "closed without a whole answer" if call.is_waiting else "")
            return
        call.got += data
        if call.length < 0 and (end := call.got.find(b"\r\n\r\n")) >= 0:
            head = bytes(call.got[:end]).lower()
            size = head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0]
            call.length = end + 4 + int(size or 0)
        if 0 <= call.length <= len(call.got):
            body = bytes(call.got[call.got.index(b"\r\n\r\n") + 4 :])
            wrong = call.wrong(int(call.got[9:12]), body)
            self._seen[call.kind].append(time.monotonic() - call.due)
            call.is_waiting, call.is_kept = False, True
            if wrong or call.kind != "pages":
                self._over(call, wrong)

    def _over(self, call: _Call, wrong: str) -> None:
        again = bool(wrong) and call.is_kept and call.is_waiting and not call.got
        if wrong and not again:
            self._error(f"{call.kind}: {wrong}")
        call.is_waiting = call.is_kept = False
        if call.socket is not None:
            del self._open[call.socket.fileno()]
            call.socket.close()
            call.socket = None
        if again:  # the server had closed an idle connection: a browser opens another
            self._begin(call, call.due)

    def _error(self, what: str) -> None:
        self._seen["errors"][what] = self._seen["errors"].get(what, 0) + 1
        since = f"{(time.monotonic() - self._begun) // 10 * 10:.0f} s"
        self._seen["failed_in"][since] = self._seen["failed_in"].get(since, 0) + 1


def main(load: Load) -> Seen:
    seen = Seen(reports=[], pages=[], health=[], errors={}, failed_in={}, late=0.0, cpu=0.0, took=0.0)
    begun = time.process_time()
    _Crowd(load, seen).run()
    seen["cpu"] = time.process_time() - begun
    return seen


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
