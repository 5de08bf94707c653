"""Reads what every page and answer of the API says of five years, to compare before and after archiving."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, zip_longest
from pathlib import Path
from typing import TypeAlias

from fastapi.testclient import TestClient
from tests.benchmarks import pages, year

from costguard.db.transaction import Database

_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)
_FIGURE = re.compile(r"-?\$[\d,.]+|\b\d[\d,.]*%?")
_DAY = timedelta(days=1)
Shown: TypeAlias = Mapping[str, str]  # figures by address, with spaces between them: there are millions
# What tells of the process, of the database's size, and of who is signed in.
_OF_OTHERS = {"/health", "/metrics", "/tokens", "/api/v1/sessions"}


@dataclass(frozen=True, slots=True)
class Compared:
    """`before` and `after` are the first figures that are not the same; () where all are."""

    address: str
    count: int  # of figures
    before: Sequence[str]
    after: Sequence[str]

    @property
    def differs(self) -> bool:
        return bool(self.before or self.after)


def asked(years: int) -> Iterator[str]:
    """Yields addresses of days that are archived, which no page shows by default."""
    for back in range(years):
        last = year.LAST - timedelta(days=back * year.DAYS + 200)
        month, whole = f"from={last - 30 * _DAY}&to={last}", f"from={last - 364 * _DAY}&to={last}"
        yield f"/api/v1/spend?from={last}&to={last}&group_by=vm"
        yield f"/api/v1/spend?{month}&group_by=vm&owner=owner-3%40example.com"
        yield f"/api/v1/spend?{whole}&group_by=preset&group_by=provisioning_model"
        yield f"/api/v1/spend/labels/experiment?from={last - 3 * _DAY}&to={last}"
        yield f"/api/v1/focus?from={last}&to={last}"
        yield f"/api/v1/savings?{whole}"
        yield f"/api/v1/goodput?{whole}"
        yield f"/api/v1/lifetimes?started_from={last}T00:00:00Z&started_before={last + _DAY}T00:00:00Z"
        yield f"/spend?{whole}&group_by=owner"
        yield f"/savings?{whole}"
    for gone in range(0, year.VMS, year.VMS // 20):
        yield f"/api/v1/instances/acme/{1_000_000 + gone}"
        yield f"/vm/acme/{1_000_000 + gone}"


def figures(database: Database, years: int, archive: Path) -> Shown:
    """Returns, by address, each number and amount of the answer, in its order."""
    app, cookies = pages.app_over(database, archive)
    client = TestClient(app, cookies=cookies)
    read = {}
    for address in [*pages.addresses(app), *asked(years)]:
        if address in _OF_OTHERS:
            continue
        answer = client.get(address)
        assert answer.status_code == 200, f"{address}: {answer.text[:500]}"
        is_page = answer.headers["content-type"].startswith("text/html")
        read[address] = " ".join(_FIGURE.findall(_TAG.sub(" ", answer.text) if is_page else answer.text))
    return read


def compare(before: Shown, after: Shown) -> list[Compared]:
    """Every address that was asked, whether its figures are the same or not."""
    assert before.keys() == after.keys()
    return [_compared(address, before[address], after[address]) for address in before]


def _compared(address: str, before: str, after: str) -> Compared:
    count = len(before.split())
    if _is_same(before, after):
        return Compared(address, count, (), ())
    pairs = zip_longest(before.split(), after.split(), fillvalue="nothing")
    first = islice((pair for pair in pairs if pair[0] != pair[1]), 5)
    different = list(first)
    return Compared(address, count, [one for one, _ in different], [other for _, other in different])


def _is_same(before: str, after: str) -> bool:
    """Compares figures in any order, as archives have their own.

    A page that lists events lacks archived ones: its amounts count.
    """
    if before == after or sorted(before.split()) == sorted(after.split()):
        return True
    amounts = [[one for one in text.split() if "$" in one] for text in (before, after)]
    return bool(amounts[0]) and amounts[0] == amounts[1]


def _main(database: str, archive: str, written: str) -> None:
    """Write the figures of a ledger to a file, or where it is there compare them with it."""
    with closing(Database.open(f"sqlite:///{database}")) as opened:
        read = figures(opened, 5, Path(archive))
    file = Path(written)
    if not file.exists():
        file.write_text(json.dumps(read), encoding="utf-8")
        print(f"{sum(len(text.split()) for text in read.values())} figures at {len(read)} addresses")
        return
    rows = compare(json.loads(file.read_text(encoding="utf-8")), read)
    for row in rows:
        if row.differs:
            print(f"{row.address}: {row.count} figures, {' '.join(row.before)} -> {' '.join(row.after)}")
    same = sum(not row.differs for row in rows)
    print(f"{same} of {len(rows)} answers are the same, {sum(row.count for row in rows)} figures in all")


if __name__ == "__main__":
    _main(*sys.argv[1:])
