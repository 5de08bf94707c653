"""The daemon and the server, from start to end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import uvicorn

from costguard import __version__
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.dashboard.app import add_dashboard
from costguard.dashboard.sign_in import add_sign_in
from costguard.engine.access.gate import Gate
from costguard.engine.schedule import JOBS, Beside, Daemon
from costguard.errors import CostguardError
from costguard.main.access import gate, sign_in_pages
from costguard.main.guard import Guard
from costguard.main.jobs import JobDoors, doors
from costguard.main.messaging import Entrance, entrance
from costguard.main.supervisor import Supervisor
from costguard.store.state import state
from costguard.web.limits import TokenBucket
from costguard.web.server import make_server
from costguard.web.sharing import Sharing

_JOBS_EVERY = timedelta(seconds=5)  # of the guard's clock...
_JOBS_AT_MOST_EVERY = timedelta(seconds=1)  # ...where that is not too often for the machine
_FACTS_EVERY = timedelta(seconds=1)  # how often it is asked whether there are any to send
_LOOKS_EVERY = timedelta(seconds=15)  # how often it is asked whether one is due


def daemon_of(guard: Guard, alive: Callable[[], None] = lambda: None) -> Daemon:
    refresh_every = guard.settings.prices.refresh_every if guard.settings.prices.enabled else None
    jobs_every = max(_JOBS_EVERY / guard.speed, _JOBS_AT_MOST_EVERY)
    return Daemon(
        guard.database,
        guard.reconciler,
        guard.fetch_prices,
        guard.store_prices,
        guard.holder,
        guard.settings.watch.every,
        refresh_every,
        guard.after_pass,
        guard.idle_watch,
        guard.settings.idle.every,
        guard.messaging.outbox.deliver if guard.messaging is not None else None,
        {
            JOBS: Beside(jobs_every, guard.advance_jobs),
            "checkpoints": Beside(_LOOKS_EVERY, guard.jobs.watch.run),
            # Without receivers, once at the start: those that were taken out of the settings are forgotten.
            "webhooks": Beside(_FACTS_EVERY if guard.webhooks.names else timedelta(days=1), guard.webhooks.run),
        },
        guard.messaging.acquainting.look_up if guard.messaging is not None else None,
        guard.meters.passed,
        alive,
    )


def serve(guard: Guard, ready: Callable[[str, uvicorn.Server], None]) -> None:
    """Watch and answer until SIGTERM or Ctrl-C; then finish what is being written and hand the lease on.

    `ready` is told the address once it is listened at, before the first request is answered.
    """
    supervisor = Supervisor(os.environ, os.getpid())
    daemon = daemon_of(guard, supervisor.alive)
    way_in = None
    if guard.messaging is not None:
        parts = guard.messaging
        way_in = entrance(guard.settings, guard.rules, guard.database, guard.clock, parts, daemon.ask_for_pass)

    def news() -> None:
        daemon.ask_for_jobs()
        daemon.ask_for_look()

    jobs = doors(guard.jobs, guard.rules, guard.database, guard.clock, daemon.ask_for_jobs, news)
    door = gate(guard.settings, guard.database, guard.clock, guard.speed)

    def is_stopping() -> bool:
        return server.should_exit

    deps = replace(_deps(guard, daemon, way_in, jobs, door), is_stopping=is_stopping)
    app = create_app(deps)
    add_dashboard(app, deps, guard.speed)
    add_sign_in(app, sign_in_pages(guard))
    server = make_server(app)
    listen = guard.settings.server
    with _listening(listen.host, listen.port) as listener, _ended_by_sigterm(server):
        # What is there by now stays to the end. Looking through it for garbage would hold up a request by a fifth of a
        # second now and then.
        gc.freeze()
        daemon.start()
        try:
            if way_in is not None:
                way_in.open()
            ready(f"http://{_shown(listen.host)}:{listener.getsockname()[1]}", server)
            supervisor.ready()
            server.run(sockets=[listener])
        finally:
            supervisor.stopping()
            if way_in is not None:
                way_in.close()
            daemon.stop()
            door.close()


def _deps(guard: Guard, daemon: Daemon, way_in: Entrance | None, jobs: JobDoors, door: Gate) -> Deps:
    settings = guard.settings

    def status() -> DaemonStatus:
        state = daemon.state
        trouble = "; ".join(part for part in (state.last_error, state.prices_error, state.beside_error) if part)
        return DaemonStatus(state.last_pass_at, trouble)

    return Deps(
        database=guard.database,
        clock=guard.clock,
        rules=guard.rules,
        door=door,
        version=__version__,
        # The intervals between passes are the machine's, ages are the clock's.
        stale_after=max(3 * settings.watch.every, timedelta(minutes=5)) * guard.speed,
        status=status,
        holder=guard.holder,
        slack=way_in.door if way_in is not None else None,
        slack_refused=lambda: way_in.reception.refused if way_in is not None else {},
        outbox_trouble=lambda: guard.slack_trouble,
        socket_trouble=lambda: way_in.trouble if way_in is not None else "",
        hearing=jobs.hearing,
        jobs=jobs.office,
        wake=daemon.ask_for_pass,
        is_https=(settings.sign_in.url or "").startswith("https://"),
        limits=TokenBucket(settings.server.requests_per_minute),
        webhook_states=guard.webhooks.states,
        meters=guard.meters,
        sharing=Sharing(lambda: state(guard.database)),
    )


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; it would hold answers for 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind((host, port))
            listener.listen(128)
        except OSError as error:
            raise CostguardError(
                f"Costguard cannot listen at {host}:{port}: {error.strerror}.",
                "Choose another port under [server] listen, or with --listen.",
            ) from error
        yield listener


@contextmanager
def _ended_by_sigterm(server: uvicorn.Server) -> Iterator[None]:
    """SIGTERM ends the server, and then lets this process finish what it does.

    uvicorn sends itself the signal again after its own shutdown; by default that would end us on the spot,
    in mid-pass and with the lease in hand.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
