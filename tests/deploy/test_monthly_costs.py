"""The tables of what each place costs a month: their arithmetic, and the prices that Costguard itself ships."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("run-on-a-vm", "run-on-cloud-run", "run-on-kubernetes")
SNAPSHOT: dict[str, Any] = tomllib.loads((ROOT / "service/costguard/gce/price_snapshot.toml").read_text())
_FACTOR = r"[\d.,]+|\([^)]+\)"
_PRODUCT = re.compile(rf"((?:{_FACTOR})(?: × (?:{_FACTOR}))+)$")


def table(page: str) -> list[tuple[str, str]]:
    """The rows of a page's table: what, and dollars a month."""
    text = (ROOT / f"service/docs/{page}.md").read_text("utf-8")
    section = text.split("## What it costs a month\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (.+) \| (.+) \|$", section, re.MULTILINE)


def reckoned(what: str) -> Decimal | None:
    """The product at the end of a row's text. None where it has none."""
    plain = re.sub(r"[$]| GiB(?= ×)|, at most.*", "", what)
    product = _PRODUCT.search(plain)
    return None if product is None else _value(product[1])


def _value(text: str) -> Decimal:
    if text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        return sum((_value(part) for part in text[1:-1].split(" + ")), Decimal())
    parts = re.findall(_FACTOR, text)
    result = Decimal(1)
    for part in parts:
        result *= _value(part) if part.startswith("(") else Decimal(part.replace(",", ""))
    return result


@pytest.mark.parametrize("page", PAGES)
def test_each_row_is_its_own_arithmetic(page: str) -> None:
    """A reader who works a row out gets its figure, to the cent."""
    worked = {what: (reckoned(what), said) for what, said in table(page) if re.fullmatch(r"\$[\d.]+", said)}
    products = {what: pair for what, pair in worked.items() if pair[0] is not None}
    assert products
    wrong = {what: pair for what, pair in products.items() if f"${pair[0]:.2f}" != pair[1]}
    assert wrong == {}


@pytest.mark.parametrize("page", ["run-on-a-vm", "run-on-cloud-run"])
def test_sum_is_that_of_the_rows(page: str) -> None:
    """The sum adds up every row above it."""
    rows = table(page)
    place = next(number for number, (what, _) in enumerate(rows) if what == "**Sum**")
    amounts = [reckoned(what) for what, _ in rows[:place]]
    assert None not in amounts
    total = sum((amount for amount in amounts if amount is not None), Decimal())
    assert rows[place][1] == f"**${total:.2f}**"


def test_prices_of_the_vm_are_those_that_costguard_ships() -> None:
    """The page's figures for core, memory, disk and address are the price list's for us-central1."""
    prices = {
        figure["resource"]: figure["standard"].get("us") or figure["standard"].get("global")
        for figure in SNAPSHOT["figures"]
        if "standard" in figure
    }
    text = " ".join(what for what, _ in table("run-on-a-vm"))
    for resource in ("e2:core", "e2:ram", "disk:pd-balanced", "external-ip"):
        assert re.search(rf"\${re.escape(prices[resource])}0?(?!\d)", text), resource


def test_overview_rounds_the_pages_sums() -> None:
    """operate.md says of each place what its page says."""
    overview = (ROOT / "service/docs/operate.md").read_text("utf-8")
    said = dict(re.findall(r"\]\((run-on-[a-z-]+)\.md\) \| .+ \| about \$(\d+)", overview))
    of_kubernetes = sum(
        Decimal(amount[1:]) for _, amount in table("run-on-kubernetes") if re.fullmatch(r"\$\d+\.\d\d", amount)
    )
    assert Decimal(said["run-on-kubernetes"]) == round(of_kubernetes)
    sums = {page: Decimal(dict(table(page))["**Sum**"].strip("*$")) for page in ("run-on-a-vm", "run-on-cloud-run")}
    assert Decimal(said["run-on-cloud-run"]) == round(sums["run-on-cloud-run"])
    assert 0 <= Decimal(said["run-on-a-vm"]) - sums["run-on-a-vm"] < 2  # traffic and snapshots, under a dollar each
