"""The composition root: builds everything from settings, and passes it in."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog
import uvicorn

from costguard import __version__
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.clock import SystemClock
from costguard.dashboard.app import add_dashboard
from costguard.engine import price_refresh
from costguard.engine.budgets import BudgetWatch
from costguard.engine.idle import IdleWatch
from costguard.engine.ports import Clock
from costguard.engine.reconcile import PassReport, Reconciler
from costguard.engine.schedule import LEASE, LEASE_TTL, Daemon
from costguard.errors import CostguardError, LeaseLost, PriceSourceError
from costguard.gce.client import ComputeCloud
from costguard.gce.price_snapshot import snapshot_prices
from costguard.gce.prices import CatalogPrices
from costguard.model.price import Price
from costguard.policy.ledger import Belonging
from costguard.settings import Settings
from costguard.store import lease as leases
from costguard.store.health import catalogue_read_at
from costguard.store.lease import Lease
from costguard.store.transaction import Database
from costguard.store.version import bring_up_to_date

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Guard:
    """Everything that one process needs to watch, built and ready."""

    settings: Settings
    clock: Clock
    database: Database
    cloud: ComputeCloud
    reconciler: Reconciler
    budgets: BudgetWatch
    idle_watch: IdleWatch | None  # None: idleness is not asked about
    holder: str
    speed: float  # the clock's seconds in one of the machine's

    def fetch_prices(self) -> Sequence[Price]:
        """What the catalogue says. Raises PriceSourceError."""
        return CatalogPrices(self.settings.prices.endpoint).fetch()

    def store_prices(self, fetched: Sequence[Price], fence: Lease | None) -> None:
        price_refresh.record(self.database, fetched, self.clock.now(), fence)

    def refresh_prices(self, fence: Lease | None) -> None:
        """Read the catalogue, where the settings allow it. Raises PriceSourceError."""
        if self.settings.prices.enabled:
            self.store_prices(self.fetch_prices(), fence)

    def run_pass(self) -> PassReport:
        """The catalogue where it is due, one pass, and what was measured. Raises LeaseLost while a daemon acts."""
        lease = leases.acquire(self.database, LEASE, self.holder, LEASE_TTL)
        if lease is None:
            raise LeaseLost(
                "A Costguard daemon holds the lease and runs the passes.",
                "Look at what it does with `costguard ps` and `costguard facts`, or stop it first.",
            )
        try:
            self._refresh_old_prices(lease)
            report = self.reconciler.run(lease)
            self.budgets.look(lease)
            if self.idle_watch is not None:
                self.idle_watch.record(self.idle_watch.read(), lease)
            return report
        finally:
            leases.release(self.database, lease)

    def _refresh_old_prices(self, lease: Lease) -> None:
        with self.database.read() as connection:
            read_at = catalogue_read_at(connection)
        if read_at is not None and self.clock.now() - read_at < self.settings.prices.refresh_every:
            return
        try:
            self.refresh_prices(lease)
        except PriceSourceError as error:  # the last good prices stay in force
            log.error("prices_not_refreshed", error=str(error))


@contextmanager
def opened(settings: Settings, clock: Clock | None = None, speed: float = 1.0) -> Iterator[Guard]:
    """A guard on a database that is brought to this version and holds at least the shipped prices."""
    clock = clock or SystemClock()
    url = settings.database.url.get_secret_value()
    bring_up_to_date(url)
    database = Database.open(url)
    cloud = ComputeCloud(settings.compute.endpoint, clock)
    presets = settings.preset_list()
    by_name = {preset.name: preset for preset in presets}
    reconciler = Reconciler(
        database,
        cloud,
        clock,
        settings.watch.projects,
        by_name,
        Belonging(presets, settings.owners.rules, gpu_only=settings.watch.vms_without_gpu == "ignore"),
        settings.watch.parallel,
    )
    idle_watch = None
    if settings.idle.enabled:
        watch, every = settings.watch, settings.idle.every * speed
        idle_watch = IdleWatch(database, cloud, clock, watch.projects, by_name, every, watch.parallel)
    # Distinguishes two daemons on one machine, and a restarted one from the one that it replaces.
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
    try:
        price_refresh.seed_snapshot(database, snapshot_prices(), clock.now())
        budgets = BudgetWatch(database, clock, settings.budget_list())
        yield Guard(settings, clock, database, cloud, reconciler, budgets, idle_watch, holder, speed)
    finally:
        cloud.close()
        database.close()


def daemon_of(guard: Guard) -> Daemon:
    refresh_every = guard.settings.prices.refresh_every if guard.settings.prices.enabled else None
    return Daemon(
        guard.database,
        guard.reconciler,
        guard.fetch_prices,
        guard.store_prices,
        guard.holder,
        guard.settings.watch.every,
        refresh_every,
        guard.budgets.look,
        guard.idle_watch,
        guard.settings.idle.every,
    )


def serve(guard: Guard, ready: Callable[[str, uvicorn.Server], None]) -> None:
    """Watch and answer until SIGTERM or Ctrl-C; then finish what is being written and hand the lease on.

    `ready` is told the address once it is listened at, before the first request is answered.
    """
    daemon = daemon_of(guard)
    deps = _deps(guard, daemon)
    app = create_app(deps)
    add_dashboard(app, deps, guard.speed)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        )
    )
    listen = guard.settings.server
    with _listening(listen.host, listen.port) as listener, _ended_by_sigterm(server):
        daemon.start()
        try:
            ready(f"http://{_shown(listen.host)}:{listener.getsockname()[1]}", server)
            server.run(sockets=[listener])
        finally:
            daemon.stop()


def _deps(guard: Guard, daemon: Daemon) -> Deps:
    settings = guard.settings

    def status() -> DaemonStatus:
        state = daemon.state
        trouble = "; ".join(part for part in (state.last_error, state.prices_error) if part)
        return DaemonStatus(state.acting, state.last_pass_at, trouble)

    return Deps(
        database=guard.database,
        clock=guard.clock,
        presets=settings.preset_list(),
        budgets=settings.budget_list(),
        token=settings.token.get_secret_value() if settings.token is not None else None,
        version=__version__,
        # The intervals between passes are the machine's, ages are the clock's.
        stale_after=max(3 * settings.watch.every, timedelta(minutes=5)) * guard.speed,
        status=status,
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
