"""A TCP proxy that can fall silent: it keeps its connections open, accepts bytes, and delivers none."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from sqlalchemy import make_url

_CHUNK = 1 << 16
_GOOD_BYE = b"X"  # Terminate, of https://www.postgresql.org/docs/current/protocol-message-formats.html


class SilentProxy:
    """Forwards to one address. The kernel acknowledges what a silent connection is sent, so TCP sees nothing wrong."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._new_ones_flow = True
        self.opened = 0  # connections accepted so far
        self._accepting = threading.Thread(target=self._accept, name="proxy")
        self._accepting.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def asked_in_silence(self) -> int:
        """Returns over how many silent connections something was asked."""
        with self._lock:
            return sum(link.was_asked_in_silence for link in self._links)

    def freeze_open(self) -> None:
        """The connections that are open fall silent; new ones work."""
        with self._lock:
            for link in self._links:
                link.flows.clear()

    def freeze_all(self) -> None:
        """Every connection is silent, new ones from the start."""
        with self._lock:
            self._new_ones_flow = False
            for link in self._links:
                link.flows.clear()

    def thaw(self) -> None:
        """Everything flows again, and what was held back is delivered."""
        with self._lock:
            self._new_ones_flow = True
            for link in self._links:
                link.flows.set()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it wakes accept()
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for link in self._links:
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            with self._lock:
                self._links.append(_Link(near, far, flows=self._new_ones_flow))
                self.opened += 1


class _Link:
    def __init__(self, near: socket.socket, far: socket.socket, *, flows: bool) -> None:
        self._sockets = near, far
        self.flows = threading.Event()
        if flows:
            self.flows.set()
        self._is_over = self.was_asked_in_silence = False
        self._pumps = [threading.Thread(target=self._pump, args=ends) for ends in ((near, far), (far, near))]
        for pump in self._pumps:
            pump.start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if source is self._sockets[0] and data[:1] != _GOOD_BYE and not self.flows.is_set():
                    self.was_asked_in_silence = True
                self.flows.wait()
                if self._is_over:
                    return
                sink.sendall(data)
            self.flows.wait()
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._is_over = True
        self.flows.set()
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for pump in self._pumps:
            pump.join()
        for connection in self._sockets:
            connection.close()


@contextlib.contextmanager
def silent_proxy(url: str) -> Iterator[tuple[SilentProxy, str]]:
    """A proxy in front of the PostgreSQL server at `url`, and the URL that leads through it."""
    target = make_url(url)
    assert target.host
    assert target.port
    proxy = SilentProxy(target.host, target.port)
    try:
        yield proxy, target.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
    finally:
        proxy.close()
