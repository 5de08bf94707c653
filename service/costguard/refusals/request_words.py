"""Words about requests that are wrong, and about things that do not exist."""

from __future__ import annotations

import re

from costguard.refusals.case import Case, Words
from costguard.refusals.kinds import SUSPENDED

_REQUESTS = (
    (r"fingerprint", "Read the resource again, and repeat the change with its present fingerprint."),
    (r"already ?exists", "Choose another name, or look whose it is."),
    (
        r"features are not compatible",
        "A100, H100, L4 and newer GPUs come only in machine types made for them (a2-*, a3-*, g2-*), and T4, V100, P100 "
        "and P4 only in n1-*. `gcloud compute machine-types list --zones=ZONE` lists what there is.",
    ),
    (r"auto ?zone placement", "Name a zone that has this machine type."),
    (r"not ?ready", "Wait until the resource is ready, and repeat the request."),
    (r"in ?use", "Wait until nothing else uses the resource, or release it."),
    (r"requester pays|UserProjectMissing", "Name the project that pays (`--billing-project=PROJECT`)."),
    (r"location \"?[\w-]+\"? does not exist", "Choose a zone that there is: `gcloud compute zones list`."),
)


def request(case: Case) -> Words:
    step = next((step for pattern, step in _REQUESTS if case.has(pattern)), "")
    refused = f"{case.name} refused the request: {case.sentence}"
    return refused, step or "Change what is asked for: it would be refused again."


# By the last but one part of a resource's name.
_THINGS = {
    "acceleratorTypes": "Choose a zone that has it: `gcloud compute accelerator-types list --filter=name={name}`.",
    "machineTypes": "Choose a zone that has it: `gcloud compute machine-types list --filter=name={name}`.",
    "diskTypes": "Choose a zone that has it: `gcloud compute disk-types list --filter=name={name}`.",
    "snapshots": "Name a snapshot that exists: `gcloud compute snapshots list --project={project}`.",
    "images": "Name an image that exists: `gcloud compute images list --project={project}`.",
    "zones": "Name a zone that exists: `gcloud compute zones list`.",
    "regions": "Name a region that exists: `gcloud compute regions list`.",
    "networks": "Name a network that exists: `gcloud compute networks list --project={project}`.",
    "subnetworks": "Name a subnetwork that exists: `gcloud compute networks subnets list --project={project}`.",
}


def not_found(case: Case) -> Words:
    resource = case.missing.resource
    if case.has(r"services? '?\[[^\]]{1,200}\]'? not found or permission denied"):
        return _unknown_service(case)
    if case.has(r"not found or permission denied"):
        which = f"The project {case.missing.project}" if case.missing.project else "The project"
        return (
            f"{which} does not exist, or the account that asked may not see it.",
            f"Check its id: `gcloud projects describe {case.project}`.",
        )
    if case.has(r"CONSUMER_INVALID|RESOURCE_PROJECT_INVALID|CONSUMER_NOT_FOUND|project .{0,80}deleted|unknown project"):
        which = f"The project {case.missing.project}" if case.missing.project else "The project"
        return f"{which} does not exist.", f"Check its id: `gcloud projects describe {case.project}`."
    kind, _, name = resource.rpartition("/")
    step = _THINGS.get(kind.rpartition("/")[2], "")
    if case.service == "storage":
        step = "Check the bucket's name: `gcloud storage buckets list`."
    what = (
        f"{resource} does not exist: {case.sentence}" if resource else f"{case.name} did not find it: {case.sentence}"
    )
    check = f"Check how {name or 'it'} is spelt, and in which project and zone it is."
    # What an answer names goes into a command only where it is a name.
    safe = name if re.fullmatch(r"[\w.-]{1,100}", name) else "NAME"
    return what, step.format(name=safe, project=case.project) or check


def _unknown_service(case: Case) -> Words:
    named = re.search(r"\[([\w., -]{1,200})\]", case.text)
    which = f" {named[1]}" if named is not None else ""
    renamed = ""
    if case.has(r"compute-component\.googleapis"):
        renamed = ": compute-component.googleapis.com is now compute.googleapis.com"
    return (
        f"Google knows no service of the name{which}, or the account that asked may not see it.",
        f"Check the name{renamed}. `gcloud services list --available` lists all.",
    )


def unknown(case: Case) -> Words:
    """The service's own words, and no guess."""
    if SUSPENDED.search(case.text):
        return case.sentence, "Google has suspended the project: ask Google's support why. No role helps."
    return case.sentence if case.said else "The answer says nothing that can be read.", ""
