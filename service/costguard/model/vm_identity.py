"""The identity of a VM, as Google proves it, and for whom such a proof is made."""

from __future__ import annotations

from typing import NamedTuple


class ProvenVm(NamedTuple):
    """A VM that Google says a document was made on. `gce_id` is its numeric id, as text."""

    project: str
    zone: str
    name: str
    gce_id: str


def audience_of(guard_url: str, job_id: str) -> str:
    """Returns the audience of the documents by which the VMs of this job prove to this guard which they are."""
    return f"{guard_url.rstrip('/')}/jobs/{job_id}"
