"""The tables. Times are microseconds since 1970 UTC, money is whole nano-dollars, both in BIGINT.

Attribution columns (`preset`, `owner`, `job`) are never null: an empty string groups, NULL does not.
"""

from costguard.store.tables.base import Id, Json, metadata
from costguard.store.tables.ledger import (
    UNCHARGED,
    charges,
    daily_spend,
    daily_totals,
    facts,
    instances,
    leases,
    lifetimes,
    operations,
    price_refusals,
    prices,
    projects,
    storage_spans,
    utilisation,
)
from costguard.store.tables.people import WAITING, claims, keeps, messages, people, requests, stops

__all__ = [
    "UNCHARGED",
    "WAITING",
    "Id",
    "Json",
    "charges",
    "claims",
    "daily_spend",
    "daily_totals",
    "facts",
    "instances",
    "keeps",
    "leases",
    "lifetimes",
    "messages",
    "metadata",
    "operations",
    "people",
    "price_refusals",
    "prices",
    "projects",
    "requests",
    "stops",
    "storage_spans",
    "utilisation",
]
