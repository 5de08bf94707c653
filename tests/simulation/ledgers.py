"""Fresh databases for simulated lives: migrated once, with prices, and copied for each."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from tests.scenario.fleet import price_list
from tests.simulation.crashing import FragileDatabase
from tests.simulation.plan import START
from tests.simulation.wire import URL, RequestsAdapter, Wire

from costguard.db.mark_file import MarkFile
from costguard.db.migrate import upgrade
from costguard.db.transaction import Database
from costguard.gce.prices import CatalogPrices
from costguard.ledger import price_refresh
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.world import World


class Ledgers:
    """Makes one SQLite file in a folder, new for each life."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "life.db"
        self._template = folder / "template.db"
        self._database = opened(f"sqlite:///{self._path}")

    def close(self) -> None:
        self._database.let_go()

    def fresh(self) -> FragileDatabase:
        """Nothing was written to it but prices. The one before it is gone."""
        if not self._template.exists():
            url = f"sqlite:///{self._template}"
            upgrade(url)
            price(url)
        self._database.let_go()
        for path in (*(self._path.with_name(self._path.name + suffix) for suffix in ("", "-wal", "-shm")),
                     MarkFile(self._path).path):  # fmt: skip
            path.unlink(missing_ok=True)
        shutil.copy(self._template, self._path)
        return self._database


def opened(url: str) -> FragileDatabase:
    database = FragileDatabase.open(url)
    assert isinstance(database, FragileDatabase)
    return database


def price(url: str) -> None:
    """Stores the catalogue's prices, as a guard had read them before the first life begins."""
    world = World(ManualClock(START), projects=[])
    world.prices = price_list()
    adapter = RequestsAdapter(Wire(world, lambda _: None))
    with closing(Database.open(url)) as database:
        price_refresh.refresh(database, CatalogPrices(URL, adapter=adapter), START)
