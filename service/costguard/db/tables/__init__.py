"""The tables. Times are microseconds since 1970 UTC, money is whole nano-dollars, both in BIGINT.

Attribution columns (`preset`, `owner`, `job`) are never null: an empty string groups, NULL does not.
"""

from costguard.db.tables.access import api_tokens, sessions, sign_in_links, webhooks
from costguard.db.tables.activity import activity_minutes, job_bounds
from costguard.db.tables.base import Id, Json, metadata
from costguard.db.tables.installation import UNKNOWN_THERE, installation, unknown_vms
from costguard.db.tables.jobs import (
    LIVE_ATTEMPT,
    OPEN_JOB,
    attempts,
    interruptions,
    job_plans,
    jobs,
    seen_checkpoints,
    signing_keys,
)
from costguard.db.tables.ledger import (
    OF_JOB,
    UNCHARGED,
    UNPRICED_RANK,
    burn_rates,
    charges,
    events,
    instances,
    leases,
    lifetimes,
    operations,
    projects,
    storage_spans,
    utilisation,
)
from costguard.db.tables.people import WAITING, claims, keeps, messages, people, requests, stops
from costguard.db.tables.spend import (
    changes,
    daily_owners,
    daily_spend,
    daily_spot,
    daily_spot_totals,
    daily_totals,
    price_refusals,
    prices,
    running_totals,
)
from costguard.db.tables.sweeps import OPEN_SWEEP, sweep_jobs, sweep_members, sweeps

__all__ = [
    "LIVE_ATTEMPT",
    "OF_JOB",
    "OPEN_JOB",
    "OPEN_SWEEP",
    "UNCHARGED",
    "UNKNOWN_THERE",
    "UNPRICED_RANK",
    "WAITING",
    "Id",
    "Json",
    "activity_minutes",
    "api_tokens",
    "attempts",
    "burn_rates",
    "changes",
    "charges",
    "claims",
    "daily_owners",
    "daily_spend",
    "daily_spot",
    "daily_spot_totals",
    "daily_totals",
    "events",
    "installation",
    "instances",
    "interruptions",
    "job_bounds",
    "job_plans",
    "jobs",
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
    "running_totals",
    "seen_checkpoints",
    "sessions",
    "sign_in_links",
    "signing_keys",
    "stops",
    "storage_spans",
    "sweep_jobs",
    "sweep_members",
    "sweeps",
    "unknown_vms",
    "utilisation",
    "webhooks",
]
