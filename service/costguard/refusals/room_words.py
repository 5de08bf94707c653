"""Words about what is used up: a quota, room in a zone, a reservation, the rate of requests."""

from __future__ import annotations

import re

from costguard.model.words import list_text
from costguard.refusals.case import Case, Words
from costguard.refusals.explanation import QuotaLack

_PAGE = "https://console.cloud.google.com/iam-admin/quotas"


def quota(case: Case) -> Words:
    lack = case.missing.quota or QuotaLack("")
    used = [f"the limit is {lack.limit}"] if lack.limit else []
    used += [f"{lack.usage} are in use"] if lack.usage else []
    used += [f"{lack.requested} were requested"] if lack.requested else []
    used += [f"a limit of {lack.future_limit} is being rolled out"] if lack.future_limit else []
    name = f"The quota {lack.metric}" if lack.metric else "A quota"
    name += f" for {lack.family}" if lack.family else ""
    owner = f" of {case.name}" if case.service != "unknown" else ""
    figures = f": {list_text(used)}" if used else ""
    own = "" if lack.metric else f" {case.sentence}"
    return (
        f"{name}{owner}{_where(lack)} is used up{case.in_project}{figures}.{own}",
        f"{_more(case, lack)}{_elsewhere(case, lack)}",
    )


def _where(lack: QuotaLack) -> str:
    if lack.region == "global":
        return " over all regions"
    return f" in {lack.region}" if lack.region else ""


def _more(case: Case, lack: QuotaLack) -> str:
    page = f"{_PAGE}?project={case.missing.project}" if case.missing.project else _PAGE
    ask = f"Ask for more of {lack.metric or 'it'}{_where(lack)} in IAM & Admin > Quotas ({page})"
    limit = lack.name if re.fullmatch(r"[\w-]{3,120}", lack.name) else ""
    if not limit and case.service == "compute" and re.fullmatch(r"[A-Z][A-Z0-9_]+", lack.metric):
        # Compute Engine's ids of limits: NVIDIA-T4-GPUS-per-project-region, GPUS-ALL-REGIONS-per-project.
        limit = f"{lack.metric.replace('_', '-')}-per-project{'' if lack.region == 'global' else '-region'}"
    if not limit or case.service == "unknown":
        return f"{ask}."
    dimensions = [f"region={lack.region}"] if lack.region not in ("", "global") else []
    dimensions += [f"gpu_family={lack.family}"] if lack.family else []
    region = f" --dimensions={','.join(dimensions)}" if dimensions else ""
    return (
        f"{ask}, or run `gcloud beta quotas preferences create --service={case.service}.googleapis.com "
        f"--project={case.project} --quota-id={limit}{region} --preferred-value=NUMBER`."
    )


def _elsewhere(case: Case, lack: QuotaLack) -> str:
    if lack.region == "global":
        return " It counts all regions together: another zone or region does not help."
    if case.service == "aiplatform":
        return " Vertex AI has quotas of its own: those of Compute Engine do not count."
    return " Another region has a limit of its own." if lack.region else ""


def rate_limited(case: Case) -> Words:
    lack = case.missing.quota
    limit = f" ({lack.name or lack.metric})" if lack is not None and (lack.name or lack.metric) else ""
    return (
        f"Requests to {case.name} come faster than it allows{limit}{case.in_project}.",
        "Wait, and ask less often (a longer interval between passes); a higher quota can be asked for in "
        "IAM & Admin > Quotas.",
    )


_DISK = re.compile(r"resource type: ?(pd-[a-z]+|hyperdisk-[a-z]+|local-ssd)")
_VM = re.compile(r"\bAn? ([a-z][a-z0-9-]{2,40}) VM instance(?: with (\d+ [a-z0-9-]{3,40}))?")


def stockout(case: Case) -> Words:
    disk, vm = _DISK.search(case.text), _VM.search(case.text)
    what = "what was asked for"
    if disk is not None:
        what = f"disks of the type {disk[1]}"
    elif vm is not None:
        what = f"{vm[1]}{f' with {vm[2]}' if vm[2] else ''}"
    sentence = f"{case.name} has no room left in {case.missing.zone or 'the zone'} for {what}."
    if case.missing.zones_available:
        zones = list_text(case.missing.zones_available)
        return sentence, f"Use {zones}, where Google says there is room now. More quota does not help."
    other = "disk type" if disk is not None else "machine type"
    return (
        sentence,
        f"Use another zone or another {other}, or try again later; a reservation or flex-start waits for room. "
        "More quota does not help.",
    )


def reservation(case: Case) -> Words:
    name = case.missing.reservation
    zone = case.missing.zone or "ZONE"
    called = f"The reservation {name}" if name else "A reservation"
    show = f"`gcloud compute reservations describe {name or 'RESERVATION'} --zone={zone} --project={case.project}`"
    if case.has(r"does not exist|NOT_FOUND|not found"):
        return (
            f"{called} does not exist{case.in_project}.",
            f"Check its name, project and zone: `gcloud compute reservations list --project={case.project}`.",
        )
    if case.has(r"to a reservation with status|NOT_READY|READY state"):
        status = re.search(r"status: ?([A-Z]+)", case.text)
        now = f": it is {status[1]}" if status is not None else ""
        return f"{called} is not ready yet{now}.", f"Wait until it is READY: {show} shows it."
    if case.has(r"automatic reservation|AUTOMATIC_RESERVATIONS"):
        return (
            f"No reservation that VMs use by themselves fits this VM{case.in_project}.",
            "Make one of the same machine type, GPUs, local SSDs and zone, or share one from another project: "
            f"`gcloud compute reservations create RESERVATION --zone={zone} --machine-type=TYPE --vm-count=NUMBER`.",
        )
    if case.has(r"specificReservationRequired|can ?not be targeted"):
        return (
            f"{called} is used by every VM that fits it, so no VM can name it.",
            "Leave the reservation's name out of the request, or make it again with `--require-specific-reservation`.",
        )
    if case.has(r"Insufficient reserved capacity|increase your reservation"):
        return (
            f"No reserved capacity is left{case.in_project}: {case.sentence}",
            "Wait, use another zone, or ask Google for a larger reservation.",
        )
    return (
        f"{called} has no room for this VM: {case.sentence}",
        "Compare machine type, GPUs, local SSDs and CPU platform, which must be the same, and how much of it is in "
        f"use: {show}.",
    )
