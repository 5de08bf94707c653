"""The tables. Times are microseconds since 1970 UTC, money is whole nano-dollars, both in BIGINT.

Attribution columns (`preset`, `owner`, `job`) are never null: an empty string groups, NULL does not.
"""

from costguard.db.tables.access import api_tokens, sessions, sign_in_links, webhooks
from costguard.db.tables.archives import archives, charge_days
from costguard.db.tables.base import Id, Json, metadata
from costguard.db.tables.bill import (
    bill_commitment_hours,
    bill_costs,
    bill_days,
    bill_differences,
    bill_others,
    bill_partitions,
    bill_resources,
    bill_terms,
    bill_usage,
)
from costguard.db.tables.feed import feed_projects, feed_requests
from costguard.db.tables.installation import UNKNOWN_THERE, installation, unknown_vms
from costguard.db.tables.jobs import (
    LIVE_ATTEMPT,
    OPEN_JOB,
    OPEN_POLICY,
    OPEN_RUN,
    REPORTED,
    activity_minutes,
    attempts,
    drills,
    gang_rounds,
    interruptions,
    job_bounds,
    job_plans,
    jobs,
    limit_waits,
    placement_policies,
    progress_points,
    seen_checkpoints,
    signing_keys,
    tracked_runs,
    tracker_points,
)
from costguard.db.tables.ledger import (
    OF_JOB,
    UNCHARGED,
    UNPRICED_RANK,
    burn_rates,
    charges,
    events,
    gpu_use,
    instances,
    leases,
    lifetimes,
    operations,
    project_leases,
    projects,
    replicas,
    searched_places,
    storage_spans,
    utilisation,
    watched_projects,
)
from costguard.db.tables.lineage import job_labels, job_origins, job_places
from costguard.db.tables.people import WAITING, claims, keeps, messages, people, requests, stops
from costguard.db.tables.profiles import job_profiles
from costguard.db.tables.schedules import LIVE_SCHEDULE, PENDING_RUN, schedule_runs, schedules
from costguard.db.tables.spend import (
    changes,
    daily_label_values,
    daily_labels,
    daily_owners,
    daily_presets,
    daily_spend,
    daily_spot,
    daily_spot_totals,
    daily_totals,
    label_changes,
    label_days,
    price_refusals,
    prices,
    running_totals,
)
from costguard.db.tables.stages import STORED_STAGE, data_stages, stage_uses
from costguard.db.tables.sweeps import OPEN_SWEEP, sweep_jobs, sweep_members, sweep_stops, sweeps
from costguard.db.tables.traffic import feed_wire, hourly_counts
