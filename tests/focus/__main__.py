"""`make focus`: has FinOps' own validator read an export of a random ledger, and says which rules it breaks and why.

focus-validator needs Python 3.12, so it lives in an environment of its own: `python -m tests.focus .cache/focus/venv`.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.within import charge_due

from costguard.api.app import create_app
from costguard.db import migrate
from costguard.db.transaction import Database

DAYS = 20
VMS = 60
# What the validator calls broken, and why it stays: a pattern of the line that it prints, and the reason.
REASONS = (
    (
        re.compile("InvoiceId-C-005-C"),
        "It asks for an invoice's id in every row. The rule itself asks for it once there is an invoice, and charges "
        "of the ledger come before it.",
    ),
    (
        re.compile("PricingCurrency"),
        "It asks for columns of a price list in another currency than the bill's. Both are in dollars, and FOCUS wants "
        "these columns only where they differ.",
    ),
    (
        re.compile("ConsumedQuantity-C-00[46]-C"),
        "It looks into CommitmentDiscountStatus, a column that charges at list price do not have. With that column, "
        "and nothing in it, the rule passes.",
    ),
)
# What Google supports of what a ledger of Compute Engine charges shows; the rest of the validator's list is left out:
# commitments, reservations, contracts and other currencies are Google's bill's, not the ledger's.
APPLIES = (
    *("AVAILABILITY_ZONE_SUPPORTED", "MULTIPLE_PRICING_CATEGORIES_SUPPORTED", "PUBLIC_PRICE_LIST_SUPPORTED"),
    *("USAGE_MEASUREMENT_SUPPORTED", "UNIT_PRICING_SUPPORTED", "SUB_ACCOUNT_SUPPORTED", "REGION_SUPPORTED"),
    *("BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED", "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED", "TAGGING_SUPPORTED"),
    *("MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED", "MULTIPLE_BILLING_ACCOUNT_TYPES_SUPPORTED"),
)
_RESULT = re.compile(r"^(?:\S+ )?(?P<rule>[A-Za-z]+-[A-Z]-\d{3}-[A-Z]): (?P<state>PASS|FAIL|SKIP)\w*(?P<rest>.*)$")
_OF_CHILDREN = re.compile(r"(?:AND|OR) failed")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make focus", description=__doc__)
    parser.add_argument("environment", type=Path, help="where focus-validator is installed")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="costguard-focus-") as folder:
        url = f"sqlite:///{folder}/ledger.db"
        migrate.upgrade(url)
        broken = 0
        with closing(Database.open(url)) as database:
            _fill(database, random.Random(wanted.seed))
            client = TestClient(create_app(deps_of(database)))
            for kind in ("csv", "parquet"):
                path = Path(folder, f"charges.{kind}")
                query = f"from={(NOW - timedelta(days=DAYS)).date()}&to={NOW.date()}"
                path.write_bytes(client.get(f"/api/v1/focus?{query}&format={kind}").content)
                results = list(_validated(path, wanted.environment.resolve()))
                failed = [line for line, is_good in results if not is_good]
                print(f"{kind}: {len(results) - len(failed)} of {len(results)} rules pass, {len(failed)} do not.")
                for pattern, reason in REASONS:
                    if count := sum(bool(pattern.search(line)) for line in failed):
                        print(f"  {count} with {pattern.pattern}: {reason}")
                unexplained = [line for line in failed if not any(pattern.search(line) for pattern, _ in REASONS)]
                broken += len(unexplained)
                for line in unexplained:
                    print(f"  BROKEN, and no reason is written: {line}")
    return 1 if broken else 0


def _fill(database: Database, chance: random.Random) -> None:
    """VMs of several owners and jobs, on Spot and on demand, with disks, whose runs begin and end at odd moments."""
    with database.write() as connection:
        rows.prices(connection)
        for number in range(VMS):
            model = chance.choice(("standard", "spot"))
            owner = chance.choice(("ada@lab.example", "ben@lab.example", ""))
            given: dict[str, Any] = {"owner": owner, "job": chance.choice(("", "j1", "j2"))}
            labels = {"cost-center": str(chance.randrange(40, 43))} if chance.random() < 0.5 else {}
            vm = rows.instance(connection, f"vm-{number}", provisioning_model=model, labels=labels, **given)
            at = NOW - timedelta(days=DAYS) + timedelta(seconds=chance.randrange(DAYS * 86_400))
            rows.storage(connection, vm, at, size_mib=chance.randrange(10, 500) * 1024, **given)
            while at < NOW - timedelta(minutes=5):
                ended = at + timedelta(seconds=chance.randrange(20, 200_000), milliseconds=chance.randrange(1000))
                end = {} if ended >= NOW else {"ended_at": ended, "end_reason": "stopped"}
                rows.lifetime(connection, vm, at, provisioning_model=model, **end, **given)
                at = ended + timedelta(seconds=chance.randrange(60, 50_000))
        charge_due(connection, NOW)


def _validated(path: Path, environment: Path) -> Iterator[tuple[str, bool]]:
    """Yields the output of each rule, and whether it holds. Failures that only sum up those of others are left out."""
    command = [environment / "bin" / "focus-validator", "--data-file", path, "--validate-version", "1.2"]
    # The validator looks for its own files from the folder that it is installed in.
    (packages,) = environment.glob("lib/python*/site-packages")
    ran = subprocess.run(
        [*map(str, command), "--block-download", "--applicability-criteria", ",".join(APPLIES)],
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )
    results = [match for line in ran.stdout.splitlines() if (match := _RESULT.match(line.strip()))]
    if not results:
        raise SystemExit(f"focus-validator printed no results:\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")
    for result in results:
        if result["state"] == "FAIL" and _OF_CHILDREN.search(result["rest"]):
            continue
        if result["state"] != "SKIP":
            yield result[0], result["state"] == "PASS"


if __name__ == "__main__":
    raise SystemExit(main())
